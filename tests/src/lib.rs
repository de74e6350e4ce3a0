//! Harnesses for scenarios over several packages.

pub mod servers;
pub mod waiting;
