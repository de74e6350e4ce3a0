//! What the expansion of templates may cost.

use crate::budget::Budget;

/// The rest of a build's budget, and the size that no single text may pass.
#[derive(Debug, Clone)]
pub(crate) struct Allowance {
    budget: Budget,
    bytes: usize,
}

/// It is used up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

impl Default for Allowance {
    /// That of a build with default options.
    fn default() -> Self {
        let options = crate::Options::default();
        Self::new(Budget::new(options.steps, options.growth), options.limits.bytes)
    }
}

impl Allowance {
    pub(crate) fn new(budget: Budget, bytes: usize) -> Self {
        Self { budget, bytes }
    }

    /// Takes steps, each the comparison of one character.
    pub(super) fn spend(&self, steps: usize) -> Result<(), Exhausted> {
        self.budget.spend(steps).map_err(|_| Exhausted)
    }

    /// Takes what reading or copying bytes costs.
    pub(super) fn copy(&self, bytes: usize) -> Result<(), Exhausted> {
        self.spend(1 + bytes / 8)
    }

    /// Takes the bytes that are added to a text, which then has `size`.
    pub(super) fn grow(&self, added: usize, size: usize) -> Result<(), Exhausted> {
        if size > self.bytes {
            return Err(Exhausted);
        }
        self.budget.grow(added).map_err(|_| Exhausted)
    }
}
