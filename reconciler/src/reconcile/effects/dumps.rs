//! Dumps before the first commit of a rollout and after its last, with what differs between them.
//!
//! A rollout goes on without them: what could not be taken is told, and its ledger names none.

use std::sync::Arc;

use rollout::dump::Comparison;
use rollout::{Fact, Ledger};

use crate::reconcile::Controller;
use crate::reconcile::clusters::cluster_timeout::ClusterTimeout;
use crate::reconcile::planner::{ClusterView, FleetReading};
use cluster::kubernetes::DumpMoment;
use cluster::{DumpRequest, KeptDump};

/// So many differences are named in a commit; the rest is counted.
const NAMED: usize = 20;

/// What the dumps are about, in evidence.
pub const DUMP: &str = "dump";

impl Controller {
    /// Keeps the dump from before a rollout, whose ledger this is to be.
    pub(super) async fn dump_before(
        &self,
        reading: &FleetReading,
        view: &Arc<ClusterView>,
        ledger: &mut Ledger,
        answering: &ClusterTimeout,
    ) {
        // What was not taken before the first commit is not taken later.
        let [_] = ledger.stages.as_slice() else { return };
        if ledger.before.as_ref().is_none_or(|before| before.dump.is_some()) {
            return;
        }
        let kept = self.keep_dump(reading, view, ledger, DumpMoment::Before, answering).await;
        if let (Some(kept), Some(before)) = (kept, ledger.before.as_mut()) {
            before.dump = Some(kept.digest);
        }
    }

    /// Keeps the dump from after a rollout, and says in its last evidence what differs.
    pub(super) async fn dump_after(
        &self,
        reading: &FleetReading,
        view: &Arc<ClusterView>,
        ledger: &mut Ledger,
        answering: &ClusterTimeout,
    ) {
        let Some(kept) = self.keep_dump(reading, view, ledger, DumpMoment::After, answering).await else { return };
        let Some(evidence) = ledger.verified.as_mut() else { return };
        evidence.facts.push(Fact::new(DUMP, format!("kept as {}", kept.digest)));
        evidence.facts.extend(kept.comparison.iter().flat_map(facts));
    }

    async fn keep_dump(
        &self,
        reading: &FleetReading,
        view: &Arc<ClusterView>,
        ledger: &Ledger,
        moment: DumpMoment,
        answering: &ClusterTimeout,
    ) -> Option<KeptDump> {
        let cluster = self.handle(reading, view);
        let request = DumpRequest {
            rollout: &ledger.rollout,
            moment,
            before: ledger.before.as_ref().and_then(|before| before.dump.as_deref()),
            rules: &reading.fleet.policy.injection,
            at: self.clock.now(),
        };
        match answering.wait(self.clock.as_ref(), cluster.keep_dump(&request)).await {
            Ok(kept) => Some(kept),
            Err(cluster::ClusterError::Simulated(_)) => None,
            Err(error) => {
                tracing::warn!(cluster.name = %view.name, %error, "no dump of `{}` was kept", view.name);
                None
            }
        }
    }
}

/// What differs, a fact each.
fn facts(comparison: &Comparison) -> Vec<Fact> {
    let differences = &comparison.differences;
    let told = differences.iter().take(NAMED).map(|it| {
        let help = it.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
        Fact::new(it.object.clone(), format!("{}: {}, before: {}{help}", it.kind, it.now, it.before))
    });
    let mut facts: Vec<Fact> = told.collect();
    let more = differences.len().saturating_sub(NAMED);
    let summary = match (differences.len(), more) {
        (0, _) => "nothing is worse than it was before the rollout".to_owned(),
        (count, 0) => format!("{count} differences from before the rollout"),
        (count, more) => format!("{count} differences from before the rollout, {more} of them not named here"),
    };
    facts.insert(0, Fact::new(DUMP, summary));
    facts
}

#[cfg(test)]
mod tests {
    use rollout::dump::{Difference, DifferenceKind};

    use super::*;

    #[test]
    fn what_differs_is_told_with_what_helps_and_bounded() {
        let difference = |number: usize| Difference {
            object: format!("Deployment shop/{number}"),
            kind: DifferenceKind::NotInjected,
            before: "with istio".to_owned(),
            now: "1 of 1 pods lack istio".to_owned(),
            help: Some("kubectl rollout restart".to_owned()),
        };
        let told = |count: usize| {
            let differences = (0..count).map(difference).collect();
            let facts = facts(&Comparison { differences, remarks: Vec::new() });
            facts.into_iter().map(|fact| format!("{}: {}", fact.object, fact.seen)).collect::<Vec<_>>()
        };
        assert_eq!(told(0), ["dump: nothing is worse than it was before the rollout"]);
        let one =
            "Deployment shop/0: not injected: 1 of 1 pods lack istio, before: with istio; kubectl rollout restart";
        assert_eq!(told(1), ["dump: 1 differences from before the rollout", one]);
        let many = told(25);
        assert_eq!((many.len(), many[0].contains("25 differences")), (21, true));
    }
}
