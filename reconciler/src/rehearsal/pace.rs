//! How long machines of a rehearsal take to start: by what stages took in past rollouts, by what the team says, or else by assumption.

use std::collections::BTreeMap;
use std::time::Duration;

use overlays::{ClusterSpec, Provider};
use rollout::{Ledger, PastDurations, Plan, StageName, StagePlan};
use serde::Serialize;
use simulator::{MachineKind, Pace};

use crate::simulation::MachineCounts;

/// What Flux and the last look at the cluster take of a stage, besides its machines and its soak.
const AROUND: Duration = Duration::from_secs(60);

/// What is simulated of a machine besides its start: it is made, joins, and an old one goes.
const BESIDES: Duration = Duration::from_secs(16);

/// Nothing starts faster.
const FASTEST: Duration = Duration::from_secs(5);

/// How many per cent less, and more, one number alone stands for.
const AROUND_ONE: (u32, u32) = (85, 125);

/// How long machines of a stage take to start, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaceReport {
    /// The stage.
    pub stage: String,
    /// The shortest start of a machine, in seconds.
    pub shortest: u64,
    /// The longest one, in seconds.
    pub longest: u64,
    /// How that is known.
    pub known_by: PaceSource,
    /// How many past rollouts tell.
    pub rollouts: usize,
}

/// How it is known how long machines take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PaceSource {
    /// By the ledger: what the stage took in rollouts that have ended.
    Past,
    /// By `estimate` in `stepgate.yaml`.
    Estimate,
    /// Nobody knows: it is assumed, by the kind of infrastructure.
    Assumed,
}

/// The paces of the stages of a plan that replace machines.
pub(super) fn of_plan(
    plan: &Plan,
    ledger: Option<&Ledger>,
    cluster: &ClusterSpec,
    counts: &MachineCounts,
) -> (BTreeMap<MachineKind, Pace>, Vec<PaceReport>) {
    let past = ledger.map(PastDurations::after).unwrap_or_default();
    let (mut paces, mut reports) = (BTreeMap::new(), Vec::new());
    for stage in plan.stages.iter().filter(|stage| stage.machines > 0 || stage.uncounted_machines) {
        let Some(kind) = kind(&stage.stage.name) else { continue };
        let machines = if stage.machines > 0 { stage.machines } else { counted(&kind, counts) };
        // Worker groups that roll with the control plane do so beside it: what takes long is one machine after the other.
        let own = cluster.control_plane_count.filter(|_| kind == MachineKind::ControlPlane);
        let machines = own.map_or(machines, |own| own.min(machines));
        let (pace, known_by, rollouts) = of_stage(stage, machines, &past.of(&stage.stage.name), &cluster.provider);
        if paces.insert(kind, pace).is_none() {
            reports.push(PaceReport {
                stage: stage.stage.to_string(),
                shortest: pace.shortest.as_secs(),
                longest: pace.longest.as_secs(),
                known_by,
                rollouts,
            });
        }
    }
    // Groups without a stage of their own roll with the control plane, if at all.
    if let Some(pace) = paces.get(&MachineKind::ControlPlane).copied() {
        for group in &cluster.worker_groups {
            if let Ok(name) = group.name.parse() {
                paces.entry(MachineKind::Workers(name)).or_insert(pace);
            }
        }
    }
    (paces, reports)
}

fn kind(stage: &StageName) -> Option<MachineKind> {
    match stage {
        StageName::ControlPlane => Some(MachineKind::ControlPlane),
        StageName::Workers(group) => Some(MachineKind::Workers(group.clone())),
        StageName::Etcd => Some(MachineKind::Etcd),
        _ => None,
    }
}

/// How many machines there are of a kind, where the specification does not tell.
fn counted(kind: &MachineKind, counts: &MachineCounts) -> u32 {
    let known = match kind {
        MachineKind::ControlPlane => counts.control_plane,
        MachineKind::Workers(group) => counts.workers.get(group).copied(),
        MachineKind::Etcd => None,
    };
    known.unwrap_or(1)
}

fn of_stage(stage: &StagePlan, count: u32, past: &[u64], provider: &Provider) -> (Pace, PaceSource, usize) {
    let start = |whole: Duration| {
        let machines = whole.saturating_sub(stage.policy.soak).saturating_sub(AROUND);
        let one = machines.checked_div(count.max(1)).unwrap_or(machines);
        one.saturating_sub(BESIDES).max(FASTEST)
    };
    let around = |one: Duration| {
        let (less, more) = AROUND_ONE;
        Pace { shortest: start(one * less / 100), longest: start(one * more / 100) }
    };
    match (past, stage.policy.estimate) {
        ([], Some(estimate)) => (around(estimate), PaceSource::Estimate, 0),
        ([], None) => (assumed(provider), PaceSource::Assumed, 0),
        ([one], _) => (around(Duration::from_secs(*one)), PaceSource::Past, 1),
        (many, _) => {
            let seconds = |found: Option<&u64>| start(Duration::from_secs(found.copied().unwrap_or_default()));
            let pace = Pace { shortest: seconds(many.iter().min()), longest: seconds(many.iter().max()) };
            (pace, PaceSource::Past, many.len())
        }
    }
}

/// What machines of an infrastructure take more often than not.
fn assumed(provider: &Provider) -> Pace {
    let (shortest, longest) = match provider {
        Provider::Docker => (20, 60),
        // Hardware starts slowly, and writes its disk first.
        Provider::Tinkerbell => (8 * 60, 20 * 60),
        Provider::VSphere | Provider::Nutanix | Provider::Snow | Provider::CloudStack | Provider::Other(_) => {
            (3 * 60, 8 * 60)
        }
    };
    Pace { shortest: Duration::from_secs(shortest), longest: Duration::from_secs(longest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(estimate: Option<u64>) -> StagePlan {
        let text = serde_json::json!({
            "name": "control-plane", "state": "pending", "machines": 3,
            "before": domain::TreeDigest::of([b"a".as_slice()]), "after": domain::TreeDigest::of([b"b".as_slice()]),
            "changes": [], "reasons": [], "risks": [], "oneWay": [], "expectations": [],
            "policy": policy::StagePolicy {
                soak: Duration::from_secs(60),
                estimate: estimate.map(Duration::from_secs),
                ..policy::StagePolicy::default()
            },
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn past_rollouts_tell_first_then_the_team_then_the_infrastructure() {
        // A minute of soak, one around it, three machines of 76 seconds each.
        let took = 60 + 60 + 3 * 76;
        let (pace, by, rollouts) = of_stage(&stage(Some(9_000)), 3, &[took, took + 30], &Provider::Docker);
        assert_eq!((pace.shortest.as_secs(), pace.longest.as_secs()), (60, 70));
        assert_eq!((by, rollouts), (PaceSource::Past, 2));
        let (pace, by, _) = of_stage(&stage(Some(1_000)), 3, &[], &Provider::Docker);
        assert_eq!((pace.shortest.as_secs(), pace.longest.as_secs(), by), (227, 360, PaceSource::Estimate));
        let (pace, by, _) = of_stage(&stage(None), 3, &[], &Provider::Tinkerbell);
        assert_eq!((pace.shortest.as_secs(), by), (480, PaceSource::Assumed));
    }

    #[test]
    fn one_past_rollout_stands_for_some_around_it_and_nothing_starts_at_once() {
        let (pace, by, _) = of_stage(&stage(None), 1, &[1_000], &Provider::Docker);
        assert_eq!((pace.shortest.as_secs(), pace.longest.as_secs(), by), (714, 1_114, PaceSource::Past));
        assert_eq!(of_stage(&stage(None), 5, &[1], &Provider::Docker).0.shortest, FASTEST);
    }
}
