//! The memory that readings of clusters take.

use std::sync::Arc;

use domain::ClusterName;
use host::memory::{Charge, bytes_of};
use rollout::Reading;

use crate::reconcile::{Controller, Memory};

/// What was read of a cluster, and the memory that it takes together with how long its gates have held.
#[derive(Clone, Debug)]
pub(in crate::reconcile) struct Weighed {
    reading: Reading,
    bytes: usize,
    _charge: Arc<Charge>,
}

impl Controller {
    /// Keeps what was read of a cluster, and the texts that it was compared with, if there is room for it; else everything is read again when it is asked for next. How long its gates have held
    /// is kept in any case, since it could not be had again.
    pub(in crate::reconcile) fn keep_readings(&self, cluster: &ClusterName) {
        let Memory { fast_path, weighed, history, view, .. } = self.memory(cluster);
        let known = weighed.filter(|known| known.reading.is_same(fast_path.reading()));
        let read = known.map_or_else(|| bytes(fast_path.reading()), |known| known.bytes);
        let (held, texts) = (bytes_of(&history), view.as_ref().map_or(0, |known| known.view.deployed.bytes()));
        self.remember(cluster, |memory| {
            // First what was there is let go.
            memory.weighed = None;
            let charge = self.readings.take(read + held + texts);
            if charge.is_none() {
                memory.fast_path.forget();
                view.iter().for_each(|known| known.view.deployed.forget());
            }
            let charge = Arc::new(charge.unwrap_or_else(|| self.readings.claim(held)));
            let reading = memory.fast_path.reading().clone();
            memory.weighed = Some(Weighed { reading, bytes: read, _charge: charge });
        });
    }
}

/// About how many bytes of memory a reading takes.
fn bytes(reading: &Reading) -> usize {
    reading.kept().map(|read| bytes_of(read.as_ref())).sum()
}
