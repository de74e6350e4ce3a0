//! The reconciler: everything with input and output.

pub mod cli;
pub mod dashboard;
pub mod demo;
pub mod endpoint;
pub mod in_place;
pub mod install;
pub mod reconcile;
pub mod rehearsal;
pub mod report;
pub mod simulation;
pub mod telemetry;
pub mod watch;
