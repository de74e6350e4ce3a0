//! Carrying out effects: commits, pushes, applies.

pub mod adopt;
pub mod commit;
pub mod direct;
pub mod perform;
pub mod rollback;
