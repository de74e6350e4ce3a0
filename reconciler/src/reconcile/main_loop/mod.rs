//! Passes over the fleet: what begins one, what it does for each cluster, what it came to.

pub mod advance;
pub mod clock;
pub mod reconcile_loop;
pub mod report;
pub mod single_pass;
pub mod visit;
