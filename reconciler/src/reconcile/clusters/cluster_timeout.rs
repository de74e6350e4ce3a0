//! How long a pass waits for one cluster.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{Either, select};
use jiff::SignedDuration;

use crate::reconcile::main_loop::clock::Clock;

/// What a pass knows of the work on one cluster: whether the cluster keeps it waiting.
#[derive(Debug, Default)]
pub(in crate::reconcile) struct ClusterTimeout {
    /// How long it may take to answer; without a bound it is waited for.
    patience: Option<SignedDuration>,
    late: AtomicBool,
}

impl ClusterTimeout {
    /// A cluster that has so long to answer each time; without a bound it has all the time that it takes.
    pub(in crate::reconcile) fn within(patience: Option<SignedDuration>) -> Self {
        Self { patience, late: AtomicBool::new(false) }
    }

    /// Waits for an answer of the cluster, however long that takes. If it is too long for the pass, the cluster is late from then on.
    pub(in crate::reconcile) async fn wait<T>(&self, clock: &dyn Clock, answer: impl Future<Output = T>) -> T {
        let Some(patience) = self.patience else { return answer.await };
        let end = clock.now().saturating_add(patience).unwrap_or(jiff::Timestamp::MAX);
        // A clock may jump as soon as somebody wants to wait for it: nobody does before the answer has been asked for.
        let end = async { clock.sleep_until(end).await };
        match select(pin!(answer), pin!(end)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(((), answer)) => {
                self.late.store(true, Ordering::Relaxed);
                answer.await
            }
        }
    }

    /// Whether it is waited for so long, and no longer.
    pub(in crate::reconcile) fn has_an_end(&self) -> bool {
        self.patience.is_some()
    }

    /// Whether the pass goes on without it: nothing is decided about the cluster before the next one.
    pub(in crate::reconcile) fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }
}
