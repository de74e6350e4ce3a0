//! What a kustomization does to its objects; one file per transformer.

pub(crate) mod field;
mod hash;
pub(crate) mod images;
pub(crate) mod labels;
pub(crate) mod names;
pub(crate) mod namespace;
pub(crate) mod order;
pub(crate) mod patches;
pub(crate) mod path;
pub(crate) mod replacements;
pub(crate) mod replicas;
pub(crate) mod value_add;
pub(crate) mod variables;
