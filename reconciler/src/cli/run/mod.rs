//! `stepgate run`: the loop with its endpoints, and what it says.

pub(in crate::cli) mod announce;
mod announcing;
pub(in crate::cli) mod dashboard;
pub(in crate::cli) mod debounce;
pub(in crate::cli) mod endpoints;
mod on_terminal;
pub(in crate::cli) mod serve;
pub(in crate::cli) mod updates;
pub(in crate::cli) mod verb;
