//! What was read of a cluster last, and what it is still good for.

use std::sync::Arc;

use domain::ClusterName;
use host::memory::{Charge, bytes_of};
use rollout::Observation;

use crate::reconcile::{Controller, Memory};

/// What was read of a cluster last. Losing it costs a reading, never correctness.
#[derive(Clone, Debug, Default)]
pub(in crate::reconcile) enum ObservationCache {
    /// Nothing that still says anything.
    #[default]
    Nothing,
    /// Everything.
    Whole(Arc<Observation>),
    /// Everything, and nothing is known to have changed since but what Flux says.
    BeforeFlux(Arc<Observation>),
    /// Everything, and nothing is known to have changed since but that and what the running gate alone looks at.
    BeforeGate(Arc<Observation>),
    /// The first of the reads in which a gate holds.
    First {
        /// Everything, with what Flux says by now, and what was told of the running gate's workloads; or what that gate expects, read anew.
        read: Arc<Observation>,
        /// What the stages before are judged by, where that is something else.
        rest: Option<Arc<Observation>>,
        /// The whole reading that either is made of.
        whole: Arc<Observation>,
    },
    /// What the running gate expects, read anew after such a first read or a whole one.
    Confirming {
        /// It.
        read: Arc<Observation>,
        /// What the stages before are judged by.
        rest: Arc<Observation>,
    },
}

/// What was read of a cluster, and the memory that it takes together with how long its gates have held.
#[derive(Clone, Debug)]
pub(in crate::reconcile) struct Weighed {
    readings: ObservationCache,
    bytes: usize,
    _charge: Arc<Charge>,
}

impl ObservationCache {
    /// Everything was read.
    pub(in crate::reconcile) fn whole(observation: Observation) -> Self {
        Self::Whole(Arc::new(observation))
    }

    /// Flux has said something since.
    pub(in crate::reconcile) fn before_flux(self) -> Self {
        match self {
            Self::Whole(whole) | Self::BeforeFlux(whole) | Self::First { whole, rest: None, .. } => {
                Self::BeforeFlux(whole)
            }
            Self::BeforeGate(whole) | Self::First { whole, rest: Some(_), .. } => Self::BeforeGate(whole),
            Self::Nothing | Self::Confirming { .. } => Self::Nothing,
        }
    }

    /// What the running gate looks at has changed since.
    pub(in crate::reconcile) fn before_gate(self) -> Self {
        match self {
            Self::Whole(whole) | Self::BeforeFlux(whole) | Self::BeforeGate(whole) | Self::First { whole, .. } => {
                Self::BeforeGate(whole)
            }
            Self::Nothing | Self::Confirming { .. } => Self::Nothing,
        }
    }

    /// What gates are asked about.
    pub(in crate::reconcile) fn observation(&self) -> Option<&Arc<Observation>> {
        match self {
            Self::Nothing | Self::BeforeFlux(_) | Self::BeforeGate(_) => None,
            Self::Whole(read) | Self::First { read, .. } | Self::Confirming { read, .. } => Some(read),
        }
    }

    /// What the gates of the stages before are asked about, where that is something else.
    pub(in crate::reconcile) fn rest(&self) -> Option<&Arc<Observation>> {
        match self {
            Self::First { rest, .. } => rest.as_ref(),
            Self::Confirming { rest, .. } => Some(rest),
            Self::Nothing | Self::Whole(_) | Self::BeforeFlux(_) | Self::BeforeGate(_) => None,
        }
    }

    /// What the stages before are judged by while the running gate alone is read.
    pub(in crate::reconcile) fn before_confirming(self) -> Option<Arc<Observation>> {
        match self {
            Self::First { rest: Some(rest), .. } => Some(rest),
            Self::Whole(read) | Self::First { read, .. } => Some(read),
            Self::Nothing | Self::BeforeFlux(_) | Self::BeforeGate(_) | Self::Confirming { .. } => None,
        }
    }

    /// About how many bytes of memory it takes.
    pub(in crate::reconcile) fn bytes(&self) -> usize {
        self.kept().map(|read| bytes_of(read.as_ref())).sum()
    }

    /// Whether the same is kept as there.
    pub(in crate::reconcile) fn is_same(&self, other: &Self) -> bool {
        let address = |read: &Arc<Observation>| Arc::as_ptr(read);
        self.kept().map(address).eq(other.kept().map(address))
    }

    /// What is kept, each once.
    fn kept(&self) -> impl Iterator<Item = &Arc<Observation>> {
        let all = match self {
            Self::Nothing => [None, None, None],
            Self::Whole(whole) | Self::BeforeFlux(whole) | Self::BeforeGate(whole) => [Some(whole), None, None],
            Self::First { read, rest, whole } => [Some(read), rest.as_ref(), Some(whole)],
            Self::Confirming { read, rest } => [Some(read), Some(rest), None],
        };
        all.into_iter().flatten()
    }

    /// Whether it is a reading of everything, from before something has changed of which that can be told apart.
    pub(in crate::reconcile) fn is_from_before(&self) -> bool {
        match self {
            Self::BeforeFlux(_) | Self::BeforeGate(_) => true,
            Self::Nothing | Self::Whole(_) | Self::First { .. } | Self::Confirming { .. } => false,
        }
    }
}

impl Controller {
    /// Keeps what was read of a cluster, and the texts that it was compared with, if there is room for it; else everything is read again when it is asked for next. How long its gates have held
    /// is kept in any case, since it could not be had again.
    pub(in crate::reconcile) fn keep_readings(&self, cluster: &ClusterName) {
        let Memory { readings, weighed, history, view, .. } = self.memory(cluster);
        let known = weighed.filter(|known| known.readings.is_same(&readings));
        let read = known.map_or_else(|| readings.bytes(), |known| known.bytes);
        let (held, texts) = (bytes_of(&history), view.as_ref().map_or(0, |known| known.view.deployed.bytes()));
        self.remember(cluster, |memory| {
            // First what was there is let go.
            memory.weighed = None;
            let charge = self.readings.take(read + held + texts);
            if charge.is_none() {
                memory.forget_reading(memory.glances);
                view.iter().for_each(|known| known.view.deployed.forget());
            }
            let charge = Arc::new(charge.unwrap_or_else(|| self.readings.claim(held)));
            let readings = memory.readings.clone();
            memory.weighed = Some(Weighed { readings, bytes: read, _charge: charge });
        });
    }
}
