//! Verbs by which people answer or stop a rollout.

pub(in crate::cli) mod approve;
pub(in crate::cli) mod arguments;
pub(in crate::cli) mod hold;
pub(in crate::cli) mod reject;
pub(in crate::cli) mod resume;
pub(in crate::cli) mod retry;
pub(in crate::cli) mod rollback;
mod wave;
