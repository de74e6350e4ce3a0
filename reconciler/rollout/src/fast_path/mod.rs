//! The fast path: what a reading of a cluster is still good for after something has changed, so that
//! a stage goes on within milliseconds of Flux' word and a waiting cluster is not read for nothing.
//!
//! Architecture Invariant: the fast path lets no gate pass or fail. It tells that there is something
//! to wait for, or gives the first of the reads in which a gate holds; the read on which a gate
//! passes is fresh and looks at all that this gate expects. Losing it costs a reading.
//!
//! | state | what is known |
//! |---|---|
//! | [`Reading::None`] | nothing that still says anything: everything is read |
//! | [`Reading::Whole`] | everything, and nothing has changed since |
//! | [`Reading::BeforeFlux`] | everything, and only what Flux says has changed since |
//! | [`Reading::BeforeGate`] | everything, and only that and what the running gate looks at has |
//! | [`Reading::First`] | the first of the reads in which the running gate holds |
//! | [`Reading::Confirming`] | what the running gate expects, read anew after such a reading |
//!
//! | word | meaning |
//! |---|---|
//! | precheck | a look at Flux, then at the running gate, in the place of a whole reading |
//! | watch evidence | what watches tell; never evidence that a gate passes on |
//! | rest | the reading that the stages before the running one are judged by |
//! | until | when everything is read at the latest; none where a precheck is not enough |

mod confirming;
mod flux_precheck;
mod reading;
mod watch_evidence;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

pub use reading::Reading;
pub use watch_evidence::WatchEvidence;

pub(crate) use confirming::{is_enough, read_everything};

use crate::expectation::Expectation;
use crate::observation::{FluxObservation, Observation, WorkloadObservation};
use crate::stage::StageId;
use crate::verdict::Reason;
use crate::world::World;

/// How long prechecks may stand in for whole readings.
const LONGEST: SignedDuration = SignedDuration::from_secs(30);

/// When everything is read at the latest after a precheck that may give a gate's first read.
const BEFORE_FIRST: SignedDuration = SignedDuration::from_millis(500);

/// What was read of one cluster last, and for how long prechecks may be enough.
#[derive(Clone, Debug, Default)]
pub struct FastPath {
    reading: Reading,
    until: Option<Timestamp>,
}

/// What a stage waits for: the stage, the reason, and until when at the latest.
pub type Waiting = (StageId, Reason, Option<Timestamp>);

/// What a precheck of Flux comes to.
#[derive(Clone, Debug)]
pub enum Precheck {
    /// The stage waits. Everything is read at this time at the latest.
    Waits(Waiting, Timestamp),
    /// The running gate is to be looked at: what it expects, and what the stages before are judged by.
    Gate(Vec<Expectation>, Box<Observation>),
    /// With what was read of everything else before, the running gate may hold.
    First(FastPath),
    /// Everything is to be read.
    ReadEverything,
}

impl FastPath {
    /// The state after a reading of everything.
    #[must_use]
    pub fn whole(observation: Observation) -> Self {
        Self { reading: Reading::Whole(Arc::new(observation)), until: None }
    }

    /// The state after our own commit, or after a change that is not told in parts, where a precheck may
    /// be enough until then.
    #[must_use]
    pub fn nothing(until: Option<Timestamp>) -> Self {
        Self { reading: Reading::None, until }
    }

    /// Until when prechecks may be enough, from now on.
    #[must_use]
    pub fn until(now: Timestamp) -> Option<Timestamp> {
        now.checked_add(LONGEST).ok()
    }

    /// What was read, and in which state it is.
    #[must_use]
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Drops what was read, and keeps for how long prechecks may be enough.
    pub fn forget(&mut self) {
        self.reading = Reading::None;
    }

    /// Flux has said something since.
    pub fn flux_changed(&mut self, now: Timestamp) {
        self.reading = std::mem::take(&mut self.reading).before_flux();
        self.until = self.until.or_else(|| Self::until(now));
    }

    /// What the running gate looks at has changed since.
    pub fn gate_changed(&mut self, now: Timestamp) {
        self.reading = std::mem::take(&mut self.reading).before_gate();
        self.until = self.until.or_else(|| Self::until(now));
    }

    /// What a precheck asks of Flux at this time; none where everything is to be read.
    #[must_use]
    pub fn precheck(&self, world: &World, at: Timestamp) -> Option<Vec<Expectation>> {
        self.until.filter(|until| at < *until)?;
        Some(flux_precheck::expected_of_flux(world)).filter(|expectations| !expectations.is_empty())
    }

    /// What watches tell of Flux, as a reading of it; none where it is not known which cluster they are of.
    #[must_use]
    pub fn told_of_flux(world: &World, flux: FluxObservation, at: Timestamp) -> Option<Observation> {
        flux_precheck::told_of_flux(world, flux, at)
    }

    /// What follows from a reading of Flux that was asked for at `at`.
    #[must_use]
    pub fn after_flux(&self, world: &World, flux: &Observation, at: Timestamp, now: Timestamp) -> Precheck {
        let Some(until) = self.until else { return Precheck::ReadEverything };
        if let Some(waiting) = flux_precheck::waits_for_flux(world, flux, now) {
            let early = !self.reading.is_from_before() && Self::may_read_first(world);
            let soon = now.checked_add(BEFORE_FIRST).unwrap_or(until);
            return Precheck::Waits(waiting, if early { until.min(soon) } else { until });
        }
        match &self.reading {
            Reading::BeforeFlux(whole) => match flux_precheck::first_read(world, whole, &flux.flux, now) {
                Some(read) => {
                    let (read, whole) = (Arc::new(read), Arc::clone(whole));
                    Precheck::First(Self { reading: Reading::First { read, rest: None, whole }, until: None })
                }
                None => Precheck::ReadEverything,
            },
            Reading::BeforeGate(whole) if at.duration_since(whole.read_at) <= LONGEST => {
                match Self::running_gate(world, whole, &flux.flux, now) {
                    Some((expectations, rest)) => Precheck::Gate(expectations, Box::new(rest)),
                    None => Precheck::ReadEverything,
                }
            }
            Reading::BeforeGate(_)
            | Reading::None
            | Reading::Whole(_)
            | Reading::First { .. }
            | Reading::Confirming { .. } => Precheck::ReadEverything,
        }
    }

    /// What the running gate expects, and the whole reading with what Flux says by now, by which the
    /// stages before it are judged; none where everything is to be read.
    #[must_use]
    pub fn running_gate(
        world: &World,
        whole: &Observation,
        flux: &FluxObservation,
        now: Timestamp,
    ) -> Option<(Vec<Expectation>, Observation)> {
        confirming::running_gate(world, whole, flux, now)
    }

    /// What a reading looks at that confirms the running gate, which holds in the world's reading.
    #[must_use]
    pub fn expected_to_confirm(world: &World, now: Timestamp) -> Option<Vec<Expectation>> {
        confirming::confirming(world, now)
    }

    /// What watches tell of the running gate's workloads; none where that does not say what it is at.
    #[must_use]
    pub fn told_of_gate(
        world: &World,
        rest: &Observation,
        told: &WorkloadObservation,
        now: Timestamp,
    ) -> Option<WatchEvidence> {
        watch_evidence::told_of_gate(world, rest, told, now)
    }

    /// What a reading of the running gate tells. It may have failed where it is said to hold.
    #[must_use]
    pub fn read_of_gate(world: &World, read: Observation, now: Timestamp) -> WatchEvidence {
        match confirming::waits_for_gate(world, &read, now) {
            Some((stage, reason, deadline)) => WatchEvidence::Waits(stage, reason, deadline),
            None => WatchEvidence::Holds(Box::new(read)),
        }
    }

    /// The state after the running gate was seen to hold, with what the stages before are judged by.
    #[must_use]
    pub fn first(self, read: Observation, rest: Observation) -> Self {
        match self.reading {
            Reading::BeforeGate(whole) => {
                let (read, rest) = (Arc::new(read), Some(Arc::new(rest)));
                Self { reading: Reading::First { read, rest, whole }, until: None }
            }
            reading => Self { reading, until: self.until },
        }
    }

    /// The stage was seen to wait: prechecks may be enough until then.
    pub fn wait(&mut self, until: Timestamp) {
        self.until = Some(until);
    }

    /// When everything is read at the latest where the running gate waits.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.until
    }

    /// What the reading that confirms the running gate looks at, and what the stages before are judged
    /// by; none where everything is to be read.
    #[must_use]
    pub fn confirming(&self, world: &World, at: Timestamp) -> Option<(Vec<Expectation>, Arc<Observation>)> {
        let rest = self.reading.before_confirming().filter(|rest| at.duration_since(rest.read_at) <= LONGEST)?;
        Some((Self::expected_to_confirm(world, at)?, Arc::clone(rest)))
    }

    /// The state after the reading that confirms the running gate.
    #[must_use]
    pub fn confirmed(read: Observation, rest: Arc<Observation>) -> Self {
        Self { reading: Reading::Confirming { read: Arc::new(read), rest }, until: None }
    }

    /// Whether a reading from while Flux is at work may become the first read of the running gate.
    #[must_use]
    pub fn may_read_first(world: &World) -> bool {
        flux_precheck::may_read_first(world)
    }

    /// What the running gate looks at, now and where its stage is reverted: a change of anything else
    /// is a reason to read everything.
    #[must_use]
    pub fn concerning_running_gate(world: &World) -> Vec<Expectation> {
        confirming::concerning_running_gate(world)
    }
}
