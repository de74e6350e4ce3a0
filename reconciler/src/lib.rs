//! The reconciler: everything with input and output.

pub mod git;
