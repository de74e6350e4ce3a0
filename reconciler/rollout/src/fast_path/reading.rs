//! What was read of a cluster last, and what it is still good for.

use std::sync::Arc;

use crate::observation::Observation;

/// What was read of a cluster last. Losing it costs a reading, never correctness.
#[derive(Clone, Debug, Default)]
pub enum Reading {
    /// Nothing that still says anything.
    #[default]
    None,
    /// Everything.
    Whole(Arc<Observation>),
    /// Everything, and nothing is known to have changed since but what Flux says.
    BeforeFlux(Arc<Observation>),
    /// Everything, and nothing is known to have changed since but that and what the running gate looks at.
    BeforeGate(Arc<Observation>),
    /// The first of the reads in which a gate holds.
    First {
        /// Everything with what was told since, or what the running gate expects, read anew.
        read: Arc<Observation>,
        /// What the stages before are judged by, where that is something else.
        rest: Option<Arc<Observation>>,
        /// The whole reading that either is made of.
        whole: Arc<Observation>,
    },
    /// What the running gate expects, read anew after such a first read or a whole one.
    Confirming {
        /// That reading.
        read: Arc<Observation>,
        /// What the stages before are judged by.
        rest: Arc<Observation>,
    },
}

impl Reading {
    pub(super) fn before_flux(self) -> Self {
        match self {
            Self::Whole(whole) | Self::BeforeFlux(whole) | Self::First { whole, rest: None, .. } => {
                Self::BeforeFlux(whole)
            }
            Self::BeforeGate(whole) | Self::First { whole, rest: Some(_), .. } => Self::BeforeGate(whole),
            Self::None | Self::Confirming { .. } => Self::None,
        }
    }

    pub(super) fn before_gate(self) -> Self {
        match self {
            Self::Whole(whole) | Self::BeforeFlux(whole) | Self::BeforeGate(whole) | Self::First { whole, .. } => {
                Self::BeforeGate(whole)
            }
            Self::None | Self::Confirming { .. } => Self::None,
        }
    }

    /// What gates are asked about.
    #[must_use]
    pub fn observation(&self) -> Option<&Arc<Observation>> {
        match self {
            Self::None | Self::BeforeFlux(_) | Self::BeforeGate(_) => None,
            Self::Whole(read) | Self::First { read, .. } | Self::Confirming { read, .. } => Some(read),
        }
    }

    /// What the gates of the stages before are asked about, where that is something else.
    #[must_use]
    pub fn rest(&self) -> Option<&Arc<Observation>> {
        match self {
            Self::First { rest, .. } => rest.as_ref(),
            Self::Confirming { rest, .. } => Some(rest),
            Self::None | Self::Whole(_) | Self::BeforeFlux(_) | Self::BeforeGate(_) => None,
        }
    }

    /// What the stages before are judged by while the running gate alone is read.
    pub(super) fn before_confirming(&self) -> Option<&Arc<Observation>> {
        match self {
            Self::First { rest: Some(rest), .. } => Some(rest),
            Self::Whole(read) | Self::First { read, .. } => Some(read),
            Self::None | Self::BeforeFlux(_) | Self::BeforeGate(_) | Self::Confirming { .. } => None,
        }
    }

    /// Whether it is a whole reading from before a change that is told in parts.
    pub(super) fn is_from_before(&self) -> bool {
        match self {
            Self::BeforeFlux(_) | Self::BeforeGate(_) => true,
            Self::None | Self::Whole(_) | Self::First { .. } | Self::Confirming { .. } => false,
        }
    }

    /// What is kept, each observation once.
    pub fn kept(&self) -> impl Iterator<Item = &Arc<Observation>> {
        let all = match self {
            Self::None => [None, None, None],
            Self::Whole(whole) | Self::BeforeFlux(whole) | Self::BeforeGate(whole) => [Some(whole), None, None],
            Self::First { read, rest, whole } => [Some(read), rest.as_ref(), Some(whole)],
            Self::Confirming { read, rest } => [Some(read), Some(rest), None],
        };
        all.into_iter().flatten()
    }

    /// Whether both keep the same observations.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let address = |read: &Arc<Observation>| Arc::as_ptr(read);
        self.kept().map(address).eq(other.kept().map(address))
    }
}
