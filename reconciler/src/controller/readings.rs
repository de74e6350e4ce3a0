//! What was read of a cluster last, and what it is still good for.

use std::sync::Arc;

use rollout::Observation;

/// What was read of a cluster last. Losing it costs a reading, never correctness.
#[derive(Clone, Debug, Default)]
pub(super) enum Readings {
    /// Nothing that still says anything.
    #[default]
    Nothing,
    /// Everything.
    Whole(Arc<Observation>),
    /// Everything, and nothing is known to have changed since but what Flux says.
    BeforeFlux(Arc<Observation>),
    /// The same with what Flux says by now: the first of the reads in which a gate holds.
    First {
        /// It.
        read: Arc<Observation>,
        /// The whole reading that it is made of.
        whole: Arc<Observation>,
    },
    /// What the running gate expects, read anew.
    Confirming {
        /// It.
        read: Arc<Observation>,
        /// What the stages before are judged by.
        rest: Arc<Observation>,
    },
}

impl Readings {
    /// Everything was read.
    pub(super) fn whole(observation: Observation) -> Self {
        Self::Whole(Arc::new(observation))
    }

    /// Flux has said something since.
    pub(super) fn before_flux(self) -> Self {
        match self {
            Self::Whole(whole) | Self::BeforeFlux(whole) | Self::First { whole, .. } => Self::BeforeFlux(whole),
            Self::Nothing | Self::Confirming { .. } => Self::Nothing,
        }
    }

    /// What gates are asked about.
    pub(super) fn observation(&self) -> Option<&Observation> {
        match self {
            Self::Nothing | Self::BeforeFlux(_) => None,
            Self::Whole(read) | Self::First { read, .. } | Self::Confirming { read, .. } => Some(read),
        }
    }

    /// What the gates of the stages before are asked about, where that is something else.
    pub(super) fn rest(&self) -> Option<&Observation> {
        match self {
            Self::Confirming { rest, .. } => Some(rest),
            Self::Nothing | Self::Whole(_) | Self::BeforeFlux(_) | Self::First { .. } => None,
        }
    }

    /// A reading that speaks of everything, which one of the running gate alone may follow.
    pub(super) fn before_confirming(self) -> Option<Arc<Observation>> {
        match self {
            Self::Whole(read) | Self::First { read, .. } => Some(read),
            Self::Nothing | Self::BeforeFlux(_) | Self::Confirming { .. } => None,
        }
    }

    /// A reading of everything, from before Flux has said something.
    pub(super) fn as_before_flux(&self) -> Option<&Observation> {
        match self {
            Self::BeforeFlux(whole) => Some(whole),
            Self::Nothing | Self::Whole(_) | Self::First { .. } | Self::Confirming { .. } => None,
        }
    }
}
