//! Upgrades on the machines that are there: what answers Cluster API's hooks, and what upgrades nodes.

pub mod certificate;
pub mod controller;
pub mod extension;
pub mod updates;
