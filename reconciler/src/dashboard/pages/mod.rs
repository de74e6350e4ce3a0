//! The pages: one file a page, one layout for all of them.

mod actions;
mod cluster;
mod fleet;
mod graph;
mod layout;
mod lists;
#[cfg(test)]
mod measured;
mod plan;
mod rehearsal;
mod windows;

pub(super) use actions::{acted, actions};
pub(super) use cluster::{cluster, commits, rollout};
pub(super) use fleet::{FleetQuery, fleet};
pub(super) use layout::{logged_in, login, login_elsewhere, missing};
pub(super) use lists::{about, approvals, history, problems};
pub(super) use plan::{diff, plan};
pub(super) use rehearsal::rehearsal;
pub(super) use windows::windows;
