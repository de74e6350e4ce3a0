//! The views of many clusters.

use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use super::{ClusterView, FleetReading, PlanError, Planner};

/// Clusters whose views are made together: enough to keep every processor at work. Each view holds what its cluster renders to, and clusters that
/// are asked meanwhile must not seem late.
pub const VIEWS: usize = 64;

impl Planner {
    /// The views of several clusters, in their order, made on all processors: rendering is all that takes long. Of a whole fleet [`VIEWS`] are asked
    /// for at a time.
    pub fn views(&self, reading: &FleetReading, names: &[&str]) -> Vec<Result<ClusterView, PlanError>> {
        names.par_iter().map(|name| self.view(reading, name)).collect()
    }
}
