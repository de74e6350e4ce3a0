//! Patches: strategic merge and JSON patch.

pub(crate) mod json6902;
mod merge_keys;
pub(crate) mod strategic;
