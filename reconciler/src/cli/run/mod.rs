//! `stepgate run`: the loop with its endpoints, and what it says.

pub(in crate::cli) mod announce;
pub(in crate::cli) mod debounce;
pub(in crate::cli) mod endpoints;
pub(in crate::cli) mod serve;
pub(in crate::cli) mod verb;
