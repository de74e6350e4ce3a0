//! Each cluster of the fleet: where it is, what is known of it, whether its record is there.

pub mod access;
pub mod backup_registry;
pub mod cluster_timeout;
pub mod comparison;
pub mod directory;
pub mod missing;
pub mod recorded_commits;
pub mod reference;
pub mod views;
pub mod world;
