//! Upgrades that run day and night: which ones there are, what becomes of each, and what is told of all of them.
//!
//! `tests/continuous/run` runs them; each is the test `continuous::one_upgrade` of the suite on real servers, which is told its cell and its
//! seed by the environment and writes down how far it has come.

pub mod cell;
pub mod comparison;
pub mod fault;
pub mod matrix;
pub mod page;
pub mod progress;
pub mod record;
pub mod statistics;

/// The variable that names the cell of a run.
pub const CELL: &str = "STEPGATE_CONTINUOUS_CELL";

/// The variable with the seed of a run.
pub const SEED: &str = "STEPGATE_CONTINUOUS_SEED";

/// The variable that names the file to which a run writes how far it has come.
pub const PROGRESS: &str = "STEPGATE_CONTINUOUS_PROGRESS";
