//! A broken invariant, as it is reported.

use std::fmt;

use domain::{ClusterName, TreeDigest};
use rollout::StageId;

/// An invariant that was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// `I1` to `I12`, or `gate` where a gate passed on what was not so, or `end` where a rollout did not end as it should.
    pub invariant: &'static str,
    /// What was seen.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.invariant, self.message)
    }
}

impl Violation {
    pub(super) fn new(invariant: &'static str, message: String) -> Self {
        Self { invariant, message }
    }

    /// I6: a tree is not what its inputs say.
    pub(super) fn digest(
        cluster: &ClusterName,
        stage: &StageId,
        which: &str,
        expected: &TreeDigest,
        found: &TreeDigest,
    ) -> Self {
        Self::new("I6", format!("{cluster} {stage}: the digest {which} is {found}, the commit says {expected}"))
    }
}
