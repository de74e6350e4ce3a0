//! The reconciler: everything with input and output.

pub mod cli;
pub mod controller;
pub mod demo;
mod difference;
pub mod endpoint;
pub mod install;
pub mod report;
pub mod telemetry;
pub mod watch;
