//! The text of a proposal: sections of one cluster, and one text of several.

pub mod body;
pub mod combined;
pub mod notes;
pub mod objects;
pub mod sections;
pub mod truncate;
pub mod update;
