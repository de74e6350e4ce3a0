//! Carrying out effects: commits, pushes, applies.

pub mod adopt;
pub mod commit;
pub mod direct;
pub mod dumps;
mod fargate;
pub(in crate::reconcile) mod forcing;
pub mod perform;
pub mod records;
pub mod rollback;
