//! Verbs that only read.

pub(in crate::cli) mod apis;
pub(in crate::cli) mod changes;
pub(in crate::cli) mod check;
pub(in crate::cli) mod cluster_checks;
pub(in crate::cli) mod compare;
pub(in crate::cli) mod dump;
pub(in crate::cli) mod events;
pub(in crate::cli) mod gate;
pub(in crate::cli) mod history;
mod overlay_conflicts;
pub(in crate::cli) mod render;
pub(in crate::cli) mod show;
pub(in crate::cli) mod status;
pub(in crate::cli) mod wait;
pub(in crate::cli) mod why;
