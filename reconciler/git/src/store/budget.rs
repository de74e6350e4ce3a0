//! What one walk through a repository may cost, charged before anything is read or kept.

use super::packs::Cost;
use crate::error::GitError;
use crate::limits::{Limit, Limits};

/// Bases and deltas of one object that are not counted, in bytes. Small objects lie on chains of fifty others, which the library keeps
/// at hand, and whether they do is git's choice.
const FREE: u64 = 64 << 10;

/// That something costs more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub limit: Limit,
    pub allowed: u64,
}

impl Exceeded {
    /// The error that names what costs too much.
    pub(crate) fn of(self, what: impl Into<String>) -> GitError {
        GitError::OverBudget { what: what.into(), limit: self.limit, allowed: self.allowed }
    }
}

/// What is left for one walk.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limits: Limits,
    used: Usage,
}

/// What something costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub entries: u64,
    pub path_bytes: u64,
    pub link_bytes: u64,
    pub object_bytes: u64,
    pub delta_bytes: u64,
    pub depth: u64,
}

impl Usage {
    /// The first limit, `factor` times as high, that this is above.
    pub(crate) fn check(&self, limits: &Limits, factor: u64) -> Result<(), Exceeded> {
        self.check_by(limits, |limit| if limit == Limit::Depth { 1 } else { factor })
    }

    /// The first limit of what all folders together may come to that this is above. A large fleet has 10,000 clusters of 50 files and 20 KB.
    pub(crate) fn check_all(&self, limits: &Limits) -> Result<(), Exceeded> {
        self.check_by(limits, |limit| match limit {
            Limit::Depth => 1,
            Limit::Entries => 25,
            Limit::PathBytes | Limit::LinkBytes => 16,
            _ => 8,
        })
    }

    fn check_by(&self, limits: &Limits, factor: impl Fn(Limit) -> u64) -> Result<(), Exceeded> {
        for limit in Self::LIMITS {
            let allowed = limits.get(limit).saturating_mul(factor(limit));
            if self.of(limit) > allowed {
                return Err(Exceeded { limit, allowed });
            }
        }
        Ok(())
    }

    /// What is limited of it.
    pub(crate) const LIMITS: [Limit; 6] =
        [Limit::Depth, Limit::Entries, Limit::PathBytes, Limit::LinkBytes, Limit::ObjectBytes, Limit::DeltaBytes];

    /// How much of this it takes.
    pub(crate) fn of(&self, limit: Limit) -> u64 {
        match limit {
            Limit::PathBytes => self.path_bytes,
            Limit::LinkBytes => self.link_bytes,
            Limit::ObjectBytes => self.object_bytes,
            Limit::DeltaBytes => self.delta_bytes,
            Limit::Depth => self.depth,
            _ => self.entries,
        }
    }

    /// Adds what something else costs beside it.
    pub(crate) fn add(&mut self, other: &Self) {
        self.entries = self.entries.saturating_add(other.entries);
        self.path_bytes = self.path_bytes.saturating_add(other.path_bytes);
        self.link_bytes = self.link_bytes.saturating_add(other.link_bytes);
        self.object_bytes = self.object_bytes.saturating_add(other.object_bytes);
        self.delta_bytes = self.delta_bytes.saturating_add(other.delta_bytes);
        self.depth = self.depth.max(other.depth);
    }

    /// Adds what reading an object costs.
    pub(crate) fn add_object(&mut self, cost: Cost) {
        self.object_bytes = self.object_bytes.saturating_add(cost.size);
        self.delta_bytes = self.delta_bytes.saturating_add(cost.bases.saturating_sub(FREE));
    }
}

impl Budget {
    /// A budget of which nothing is used.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { limits: limits.clone(), used: Usage::default() }
    }

    /// One more path of so many bytes, so many folders deep.
    pub(crate) fn entry(&mut self, path_bytes: usize, depth: usize) -> Result<(), Exceeded> {
        let depth = depth as u64;
        self.charge(&Usage { entries: 1, path_bytes: path_bytes as u64, depth, ..Usage::default() })
    }

    /// One more object that is read.
    pub(crate) fn object(&mut self, cost: Cost) -> Result<(), Exceeded> {
        let mut used = Usage::default();
        used.add_object(cost);
        self.charge(&used)
    }

    fn charge(&mut self, more: &Usage) -> Result<(), Exceeded> {
        self.used.add(more);
        self.used.check(&self.limits, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_names_the_limit_that_is_exceeded_first() {
        let limits = Limits::default().with(Limit::Entries, 2).with(Limit::DeltaBytes, 10).with(Limit::Depth, 3);
        let mut budget = Budget::new(&limits);
        assert_eq!(budget.object(Cost { size: 1, bases: FREE + 10, ..Cost::default() }), Ok(()));
        assert_eq!(budget.entry(5, 1), Ok(()));
        assert_eq!(budget.clone().entry(5, 4), Err(Exceeded { limit: Limit::Depth, allowed: 3 }));
        assert_eq!(budget.entry(5, 1), Ok(()));
        assert_eq!(budget.clone().entry(5, 1), Err(Exceeded { limit: Limit::Entries, allowed: 2 }));
        let error = budget.object(Cost { bases: FREE + 1, ..Cost::default() }).unwrap_err();
        assert_eq!(error, Exceeded { limit: Limit::DeltaBytes, allowed: 10 });
        let error = error.of("clusters/x");
        assert_eq!(
            error.to_string(),
            "clusters/x has more than 10 bytes of bases and deltas to inflate, the limit that --repo-limit delta-bytes=NUMBER raises"
        );
        assert!(error.hint().unwrap().contains("--repo-limit delta-bytes=NUMBER"));
    }
}
