//! Objects of a repository: reading them within a budget, and writing new ones.

pub(crate) mod bases;
pub(crate) mod budget;
pub(crate) mod directories;
pub(crate) mod edit;
pub(crate) mod loose;
pub(crate) mod measure;
pub(crate) mod object;
pub(crate) mod pack;
pub(crate) mod packs;
pub(crate) mod tree;
pub(crate) mod units;
