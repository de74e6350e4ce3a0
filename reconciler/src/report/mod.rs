//! What is told of a fleet, as documents with a stable shape: verbs print them, the dashboard shows them, `reconciler/schemas` describes them.
//!
//! How they look is elsewhere: tables are the command line's, pages are the dashboard's.

mod diff;
mod events;
mod history;
mod objects;
mod plan;
mod policy_changes;
mod problems;
mod status;
mod tanzu;
mod waves;
mod why;

pub use diff::{DiffReport, FileReport, changed_files};
pub use events::{EventReport, EventsReport, by_time, events_of, pushes_since};
pub use history::{CommitReport, HistoryReport, commits_of};
pub use objects::{ObjectChange, changed_objects};
pub use plan::{
    BlockReport, ChainReport, ChainTargetReport, ChangeReport, ClusterPlan, ExpectedTimeReport, RiskGroupReport,
    StageReport,
};
pub use problems::{ProblemReport, found, of_repository};
pub use status::{ClusterStatus, MachineStatus, StageStatus};
pub use tanzu::{AddonStatus, TanzuStatus};
pub use waves::{FailedInWave, SkippedInWave, WaveReport, wave_told};
pub use why::{WhyReport, way_back};
