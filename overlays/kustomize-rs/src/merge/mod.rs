//! Patches: strategic merge and JSON patch.

mod add;
mod directive;
mod graph;
pub(crate) mod json6902;
mod merge_keys;
mod merger;
mod missing_merge_keys;
mod schema_comment;
pub(crate) mod strategic;
