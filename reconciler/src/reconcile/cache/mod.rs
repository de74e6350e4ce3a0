//! What is remembered between passes. Losing any of it costs time only.

pub mod cached_decision;
pub mod deploy;
pub mod deployed;
pub mod inputs;
pub mod sources;
pub mod tracked_files;
