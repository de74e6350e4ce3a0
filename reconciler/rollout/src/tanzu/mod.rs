//! Where a cluster of Tanzu stands.

pub(crate) mod phase;
pub(crate) mod standing;
