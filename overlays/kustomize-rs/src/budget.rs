//! What one build may still spend: steps of work, and bytes that it adds to what it holds.
//!
//! Limits on single files do not bound a build that reads a file a thousand times, or lets a patch double a text forty
//! times. Whatever repeats or adds asks here first. Steps are counted instead of time: this crate has no clock, and the
//! same input is accepted or refused on every machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use yaml::Node;

use crate::error::{BuildError, BuildErrorKind};

/// Shared by all parts of one build.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Left>);

#[derive(Debug)]
struct Left {
    steps: AtomicU64,
    growth: AtomicU64,
}

impl Default for Budget {
    /// Without bounds, for what belongs to no build.
    fn default() -> Self {
        Self::new(u64::MAX, u64::MAX)
    }
}

impl Budget {
    pub(crate) fn new(steps: u64, growth: u64) -> Self {
        Self(Arc::new(Left { steps: AtomicU64::new(steps), growth: AtomicU64::new(growth) }))
    }

    /// Takes steps, each about as much work as looking at one node.
    pub(crate) fn spend(&self, steps: usize) -> Result<(), BuildError> {
        take(&self.0.steps, steps, "more work than the limit `steps` allows")
    }

    /// Takes bytes that the build will hold from now on.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), BuildError> {
        take(&self.0.growth, bytes, "more bytes read and made than the limit `growth` allows")
    }

    /// Steps and bytes that are left.
    pub(crate) fn left(&self) -> (u64, u64) {
        (self.0.steps.load(Ordering::Relaxed), self.0.growth.load(Ordering::Relaxed))
    }

    /// Says whether so much is left.
    pub(crate) fn has(&self, steps: u64, growth: u64) -> bool {
        let (steps_left, growth_left) = self.left();
        steps <= steps_left && growth <= growth_left
    }

    /// Takes both at once: what work costs whose result is there already.
    pub(crate) fn take(&self, steps: u64, growth: u64) -> Result<(), BuildError> {
        self.spend(usize::try_from(steps).unwrap_or(usize::MAX))?;
        self.grow(usize::try_from(growth).unwrap_or(usize::MAX))
    }

    /// Takes what a file costs: opening it, and its bytes.
    pub(crate) fn read(&self, content: &[u8]) -> Result<(), BuildError> {
        const OPENING: usize = 5_000;
        self.spend(OPENING + content.len() / 8)?;
        self.grow(content.len())
    }

    /// Takes what one more copy of a node costs.
    pub(crate) fn copy(&self, node: &Node) -> Result<(), BuildError> {
        let (count, size) = node.weight();
        self.spend(count)?;
        self.grow(size)
    }

    /// Asks whether `places` texts of `bytes` could be had, without taking them: for text that goes to few of them.
    pub(crate) fn fits(&self, bytes: usize, places: usize) -> Result<(), BuildError> {
        if (bytes as u64).saturating_mul(places as u64) > self.0.growth.load(Ordering::Relaxed) {
            return Err(limit("a text this long, in this many places, is more than the limit `growth` allows"));
        }
        Ok(())
    }
}

fn take(left: &AtomicU64, amount: usize, message: &str) -> Result<(), BuildError> {
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(amount as u64));
    taken.map(|_| ()).map_err(|_| limit(message))
}

fn limit(message: &str) -> BuildError {
    BuildError::new(BuildErrorKind::Limit, message).hint("build fewer objects at once, or raise the limit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_gone_and_what_is_refused_is_not() {
        let budget = Budget::new(10, 100);
        let shared = budget.clone();
        shared.spend(6).unwrap();
        assert_eq!(budget.spend(5).unwrap_err().kind, BuildErrorKind::Limit);
        budget.spend(4).unwrap();
        budget.fits(10, 10).unwrap();
        assert!(budget.fits(10, 11).is_err());
        budget.grow(100).unwrap();
        assert!(budget.grow(1).is_err());
        assert!(Budget::default().fits(usize::MAX, usize::MAX).is_ok());
    }
}
