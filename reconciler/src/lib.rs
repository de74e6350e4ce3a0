//! The reconciler: everything with input and output.

mod answer;
pub mod cli;
pub mod cluster;
mod confine;
pub mod controller;
pub mod demo;
mod difference;
mod disk;
pub mod endpoint;
pub mod fetch;
pub mod forge;
pub mod git;
pub mod install;
pub mod memory;
mod once;
pub mod report;
pub mod telemetry;
#[cfg(test)]
mod waiting;
pub mod watch;
