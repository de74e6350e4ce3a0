//! The reconciler: everything with input and output.

pub mod cluster;
pub mod fetch;
pub mod git;
pub mod watch;
