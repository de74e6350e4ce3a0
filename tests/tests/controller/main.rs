//! The real controller on real bare repositories and simulated clusters: stopped at every point, run twice at once, and met by
//! people who change both branches meanwhile.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod adopted;
mod announced;
mod approvals;
mod approved_waves;
mod chained;
mod chats;
mod edits;
mod explained;
mod fleet;
mod forge;
mod forged;
mod glancing;
mod hooked;
mod lost_branch;
mod lowered;
mod people;
mod remembering;
mod rollback;
mod rules;
mod signed;
mod slow;
mod ssh;
mod stopped;
mod targets;
mod together;
mod traced;
mod waves;
mod way_back;
