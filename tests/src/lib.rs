//! Harnesses for scenarios over several packages.

pub mod node;
pub mod servers;
pub mod waiting;
