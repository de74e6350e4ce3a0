//! Harnesses for scenarios over several packages.

pub mod continuous;
pub mod node;
pub mod servers;
pub mod waiting;
