//! Drawing from a seed.

/// A source of choices; equal seeds draw equally.
pub struct Draw(fastrand::Rng);

impl Draw {
    /// A source for a seed.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// True in `percent` of a hundred draws.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.0.u32(0..100) < percent
    }

    /// A number from `low` to `high`, both included.
    pub fn number(&mut self, low: usize, high: usize) -> usize {
        self.0.usize(low..=high)
    }

    /// One of the choices.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.0.usize(0..choices.len())].clone()
    }

    /// Some of the choices, in their order, each with this chance.
    pub fn some<T: Clone>(&mut self, choices: &[T], percent: u32) -> Vec<T> {
        choices.iter().filter(|_| self.0.u32(0..100) < percent).cloned().collect()
    }

    /// Shuffles in place.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        self.0.shuffle(items);
    }
}
