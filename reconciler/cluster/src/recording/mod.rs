//! Recordings of rollouts and folders of dumped objects, as observations: what `stepgate gate replay` reads.

mod dump;
#[cfg(test)]
mod gate_fixtures_tests;
mod observation;
mod read;
mod replay;
mod sample;

pub use dump::{DumpError, read_dump};
pub use observation::{RECORDED_NAMESPACE, RecordedClusters};
pub use read::{RecordingError, Samples};
pub use replay::{GateReplay, GateState, ReplayedGate, SampleVerdicts};
pub use sample::{RecordedCluster, RecordedMachine, RecordedOwner, Sample};
