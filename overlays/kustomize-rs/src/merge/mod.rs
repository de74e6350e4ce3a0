//! Patches: strategic merge and JSON patch.

pub(crate) mod json6902;
pub(crate) mod strategic;
