//! What a rehearsal tells, as a document.

use serde::Serialize;

use super::found::FoundReport;
use super::machines::MachineReport;
use super::pace::PaceReport;
use super::spread::Spread;
use super::stages::WaitReport;
use super::way_back::WayBackReport;
use crate::report::BlockReport;

/// How a rollout would go.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RehearsalReport {
    /// The cluster.
    pub cluster: String,
    /// `done`, `held`, `waiting`, `blocked`, or `nothing-to-do`.
    pub state: String,
    /// Why it stands there, where it is not done, and what helps.
    pub message: Option<String>,
    /// What helps, where it is not done.
    pub help: Option<String>,
    /// What forbids the rollout; empty where nothing does.
    pub blocked: Vec<BlockReport>,
    /// The rollout; null where there is none.
    pub rollout: Option<String>,
    /// When it was rehearsed to begin, RFC 3339.
    pub begins: String,
    /// What everything random follows from.
    pub seed: u64,
    /// What the simulated cluster was filled with; null where nothing was rehearsed.
    pub found: Option<FoundReport>,
    /// How long machines take to start.
    pub paces: Vec<PaceReport>,
    /// How long the rehearsal of `seed` took, in seconds.
    pub seconds: i64,
    /// How far apart rehearsals are that came to their end; null where none did.
    pub estimate: Option<Spread>,
    /// How many rehearsals did not come to their end.
    pub unfinished: usize,
    /// The stages, in the order in which they began.
    pub stages: Vec<StageRehearsed>,
    /// Machines that were made, in that order.
    pub machines: Vec<MachineReport>,
    /// What going back would be after each commit.
    pub ways_back: Vec<WayBackReport>,
    /// What faults would do, in the order asked for.
    pub faults: Vec<FaultRehearsed>,
    /// What the simulation cannot know, the most telling first.
    pub unknown: Vec<String>,
}

/// One stage.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageRehearsed {
    /// The stage.
    pub stage: String,
    /// Who would be asked before its commit, in words; null where nobody is. The rehearsal approves at once.
    pub asks: Option<String>,
    /// When it began, in seconds from the beginning.
    pub begun: i64,
    /// When it was committed, in seconds from the beginning; null where it puts nothing into git.
    pub committed: Option<i64>,
    /// Whether it was taken back.
    pub reverted: bool,
    /// How long it took, waits for windows included, in seconds.
    pub seconds: i64,
    /// How far apart rehearsals are.
    pub estimate: Option<Spread>,
    /// What it took in past rollouts, in seconds, the newest last.
    pub past: Vec<u64>,
    /// Machines that it replaces.
    pub machines: u32,
    /// How many facts opened it.
    pub facts: usize,
    /// What it waited for longest.
    pub waits: Vec<WaitReport>,
}

/// What a fault would do.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FaultRehearsed {
    /// The stage that it begins with.
    pub stage: String,
    /// The fault.
    pub fault: String,
    /// What goes wrong, in one line.
    pub summary: String,
    /// `held`, `waiting`, or `done` where the rollout came to its end all the same.
    pub state: String,
    /// The stage whose gate held first; null where none did.
    pub held_at: Option<String>,
    /// How long that was after the beginning, in seconds.
    pub after: Option<i64>,
    /// How long after the last commit, in seconds; null where nothing was committed before.
    pub after_commit: Option<i64>,
    /// How much longer the rollout took, in seconds; null where it did not come to its end.
    pub longer: Option<i64>,
    /// What `stepgate why` would say.
    pub why: Vec<String>,
    /// What helps, as it would say.
    pub advice: Vec<String>,
    /// What going back would be from there; null where nothing was committed.
    pub way_back: Option<WayBackReport>,
}
