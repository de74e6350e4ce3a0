//! Which objects and texts are meant: expressions of Go's dialect, label selectors, selectors of a kustomization.

pub(crate) mod expression;
pub(crate) mod pattern;
mod requirement;
mod selector;

pub(crate) use selector::CompiledSelector;
