//! Patches: strategic merge and JSON patch.

mod add;
mod directive;
mod graph;
pub(crate) mod json6902;
mod merge_keys;
mod odd;
mod remarks;
pub(crate) mod strategic;
