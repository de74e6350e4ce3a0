//! Sections of `stepgate.yaml`: each with its type, its defaults and how it is read.

pub(in crate::document) mod addresses;
pub(in crate::document) mod approvers;
pub(in crate::document) mod drift;
pub(in crate::document) mod force_drain;
pub(in crate::document) mod forge;
pub(in crate::document) mod in_place;
pub(in crate::document) mod injection;
pub(in crate::document) mod lease;
pub(in crate::document) mod notes;
pub(in crate::document) mod settings;
pub(in crate::document) mod sources;
pub(in crate::document) mod tanzu;
pub(in crate::document) mod updates;
pub(in crate::document) mod waivers;
pub(in crate::document) mod window;
