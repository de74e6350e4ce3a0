//! Patches: strategic merge and JSON patch.

mod graph;
pub(crate) mod json6902;
mod merge_keys;
mod odd;
pub(crate) mod strategic;
