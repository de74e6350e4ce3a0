//! A newer plan that repairs what the running one cannot bring about.
//!
//! Architecture Invariant: a running stage finishes before a newer plan takes over, unless it has failed, or Flux has refused its commit: then it never
//! finishes, and a plan that changes it (or something before it) takes over at once.
//!
//! It goes past preflight too, where that waits for nothing else.

use jiff::Timestamp;

use crate::effect::Effect;
use crate::expectation::Expectation;
use crate::ledger::Ledger;
use crate::observation::Observation;
use crate::plan::Plan;
use crate::stage::{StageId, StageName};
use crate::verdict::{GateVerdict, Reason};
use crate::world::World;

use super::gates::{self, OwnedGate};

/// Whether a plan's next stage is the failed one or comes before it.
pub(super) fn repairs(plan: &Plan, failed: &StageId) -> bool {
    let place = |wanted: &StageId| plan.stages.iter().position(|stage| stage.stage.name == wanted.name);
    match (plan.next_stage().and_then(|next| place(&next.stage)), place(failed)) {
        (Some(next), Some(failed)) => next <= failed,
        _ => false,
    }
}

/// Why Flux refuses the commit of the running stage, where the newest plan repairs it.
pub(super) fn of_refused(world: &World, gate: &OwnedGate, now: Timestamp) -> Option<Reason> {
    let observation = world.observation.as_deref().filter(|_| repairs(&world.plan, &gate.stage))?;
    gate.as_gate().refused(observation, now)
}

/// The running stage of this plan and why Flux refuses its commit, where it does.
pub(super) fn refused(world: &World, ledger: &Ledger, plan: &Plan, now: Timestamp) -> Option<(StageId, Vec<Reason>)> {
    let gate = gates::running(world, ledger, plan)?.ok()?;
    let reason = of_refused(world, &gate, now)?;
    Some((gate.stage, reason.into_lines()))
}

/// Whether Flux alone tells that its refusal is repaired: then the whole cluster is to be read.
pub(crate) fn may_take_over(world: &World, gate: &OwnedGate, flux: &Observation, now: Timestamp) -> bool {
    !world.plan.running && repairs(&world.plan, &gate.stage) && gate.as_gate().refused(flux, now).is_some()
}

/// What Flux refuses of a cluster on which no rollout runs, where the plan is about to change that stage, and nothing else is wrong with the cluster.
///
/// Preflight asks for a healthy cluster, and would wait for what only this plan brings about.
pub(super) fn of_what_was_refused(world: &World, now: Timestamp) -> Option<Reason> {
    let gate = gates::before_start(world, &world.plan, &StageName::Preflight)?;
    let observation = world.observation.as_deref()?;
    let mut others = observation.clone();
    let mut refused = Vec::new();
    for stage in &world.plan.stages {
        if stage.stage.is_without_commit() || stage.before == stage.after || !repairs(&world.plan, &stage.stage) {
            continue;
        }
        let expectations = stage.deployed_expectations.iter().chain(&stage.expectations).cloned().collect();
        let own = OwnedGate { stage: stage.stage.clone(), expectations, binding: None, ..gate.clone() };
        if let Some(reason) = own.as_gate().refused(observation, now) {
            refused.push(reason);
            let is_own = |namespace: &str, name: &String| {
                own.expectations.iter().any(|expectation| match expectation {
                    Expectation::Flux { namespace: known, kustomizations } => {
                        known == namespace && kustomizations.contains(name)
                    }
                    _ => false,
                })
            };
            others.flux.kustomizations.retain(|known| !is_own(&known.namespace, &known.name));
        }
    }
    let reason = refused.into_iter().reduce(Reason::and)?;
    // What only waits for it goes on once it does.
    others.flux.kustomizations.retain(|known| {
        known.ready.as_ref().is_none_or(|ready| ready.reason != "DependencyNotReady" || known.suspended)
    });
    let is_all = matches!(gate.as_gate().evaluate_once(&others, now), GateVerdict::Pass { .. });
    is_all.then_some(reason)
}

/// What is waited for before a repair begins.
pub(super) fn takes_over(effects: Vec<Effect>) -> Vec<Effect> {
    let told = |effect: Effect| match effect {
        Effect::Wait { stage, reason, until } => {
            Effect::Wait { stage, reason: Reason::new("a repair is pushed, it takes over now").and(reason), until }
        }
        other => other,
    };
    effects.into_iter().map(told).collect()
}

/// What the running stage waits for, and what becomes of the newer plan meanwhile.
pub(super) fn announce(
    world: &World,
    gate: &OwnedGate,
    reason: Reason,
    until: Option<Timestamp>,
    now: Timestamp,
) -> Reason {
    let holds = world.observation.as_deref().is_some_and(|read| gate.as_gate().held(read, now).is_some());
    if holds || !repairs(&world.plan, &gate.stage) {
        let message = format!("{} (then the new target is planned)", reason.message);
        return Reason { message, ..reason };
    }
    let stage = &gate.stage;
    reason.and(match until {
        Some(until) => Reason::new(format!(
            "a repair is pushed, it takes over at {until} unless {stage} has finished by then; a lower timeout of {stage} lets it take over earlier"
        )),
        None => Reason::new(format!("a repair is pushed, it takes over once {stage} has finished or failed")),
    })
}

/// The same of a rollout that has to end at its own target first.
pub(super) fn announced(
    world: &World,
    ledger: &Ledger,
    own_plan: Option<&Plan>,
    effects: Vec<Effect>,
    now: Timestamp,
) -> Vec<Effect> {
    let moves = world.plan.kubernetes.as_ref().is_some_and(|step| step.deployed.as_ref() != Some(&step.target));
    let gate = own_plan.filter(|_| !moves).and_then(|plan| gates::running(world, ledger, plan)?.ok());
    let Some(gate) = gate.filter(|gate| repairs(&world.plan, &gate.stage)) else { return effects };
    let told = |effect: Effect| match effect {
        Effect::Wait { stage, reason, until } if stage.as_ref() == Some(&gate.stage) => {
            Effect::Wait { stage, reason: announce(world, &gate, reason, until, now), until }
        }
        other => other,
    };
    effects.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use jiff::SignedDuration;

    use super::super::harness::RolloutHarness;
    use super::super::step;
    use super::*;
    use crate::observation::{Condition, ConditionStatus, conditions};

    const DRY_RUN: &str = "Deployment/system/capi dry-run failed (Invalid): spec.replicas: Invalid value: -1";

    /// The second stage is committed, and Flux says this of it.
    fn committed(reason: &'static str, message: &'static str) -> RolloutHarness {
        let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2), ("eks-a", 1, 2)]);
        laboratory.broken = vec![("capi", 2)];
        laboratory.refused = vec![("capi", 2, reason, message)];
        laboratory.until("commit capi 2");
        laboratory
    }

    fn reasons(effects: &[Effect]) -> String {
        let told = |effect: &Effect| match effect {
            Effect::Wait { reason, .. } => Some(reason.to_string()),
            Effect::Hold { reasons, .. } => Some(reasons.iter().map(ToString::to_string).collect()),
            _ => None,
        };
        effects.iter().find_map(told).unwrap_or_default()
    }

    #[test]
    fn what_flux_refuses_gives_way_to_its_repair_at_once() {
        for (reason, message) in [
            ("ReconciliationFailed", DRY_RUN),
            ("ReconciliationFailed", "admission webhook \"policy.example\" denied the request: no"),
            (
                "ReconciliationFailed",
                "ConfigMap/app namespace not specified: the server could not find the requested resource",
            ),
            (
                "ReconciliationFailed",
                "Deployment/a/b dry-run failed (Invalid): spec.timeout: Invalid value: \"timed out\": is none",
            ),
            ("ReconciliationFailed", "Deployment/a/b dry-run failed (NotFound): namespaces \"a\" not found"),
            (
                "ReconciliationFailed",
                "Widget/a/b dry-run failed: no matches for kind \"Widget\" in version \"example.com/v1\"",
            ),
            ("BuildFailed", "kustomization.yaml: no such file"),
            ("ApplyFailed", "could not apply Deployment system/capi: invalid"),
        ] {
            let mut laboratory = committed(reason, message);
            assert!(reasons(&laboratory.turns(5)).contains(message), "it waits as long as nobody repairs it");
            laboratory.push(&[("capi", 3)]);
            // One for the backup, and one for the commit.
            laboratory.turns(2);
            assert_eq!(laboratory.log().last(), Some(&"commit capi 3"), "{message}");
            let repaired = laboratory.ledger.as_ref().unwrap().stages.last().unwrap();
            assert!(repaired.opened_by.is_none() && repaired.reasons[0].to_string().contains(message), "{repaired:?}");
            laboratory.until("close");
        }
    }

    #[test]
    fn what_may_pass_by_itself_is_waited_for_and_the_repair_is_announced() {
        for (reason, message) in [
            (
                "ReconciliationFailed",
                "failed calling webhook \"a\": Post \"https://b\": dial tcp 10.0.0.1:443: connect: connection refused",
            ),
            ("ReconciliationFailed", "client rate limiter Wait returned an error: context deadline exceeded"),
            (
                "ReconciliationFailed",
                "Deployment/a/b dry-run failed (InternalError): Internal error occurred: failed calling webhook \"c\": EOF",
            ),
            ("ReconciliationFailed", "Deployment/a/b dry-run failed (ServerTimeout): the server is busy"),
            ("HealthCheckFailed", "timeout waiting for: [Deployment/system/capi status: 'InProgress']"),
            ("DependencyNotReady", "dependency 'flux-system/cert-manager' is not ready"),
        ] {
            let mut laboratory = committed(reason, message);
            laboratory.push(&[("capi", 3)]);
            let said = reasons(&laboratory.turns(3));
            let takes_over = laboratory.deploy.commits().last().unwrap().committed_at + SignedDuration::from_secs(600);
            assert!(said.contains(&format!("a repair is pushed, it takes over at {takes_over}")), "{said}");
            assert_eq!(laboratory.log().last(), Some(&"commit capi 2"));
        }
        // Once the stage holds, it finishes.
        let mut laboratory = committed("HealthCheckFailed", "timeout");
        laboratory.push(&[("capi", 3)]);
        (laboratory.broken, laboratory.refused) = (Vec::new(), Vec::new());
        let said = reasons(&laboratory.turn());
        assert!(said.contains("then the new target is planned") && !said.contains("repair"), "{said}");
    }

    #[test]
    fn a_plan_that_leaves_the_refused_stage_alone_takes_nothing_over() {
        let mut laboratory = committed("ReconciliationFailed", DRY_RUN);
        laboratory.push(&[("eks-a", 3)]);
        let said = reasons(&laboratory.turns(3));
        assert!(said.contains("then the new target is planned") && !said.contains("repair"), "{said}");
        assert_eq!(laboratory.log().last(), Some(&"commit capi 2"));
    }

    #[test]
    fn preflight_lets_the_repair_of_what_flux_refuses_through_and_nothing_else() {
        let refused = |stages| {
            let mut laboratory = RolloutHarness::new(stages);
            laboratory.append(None);
            laboratory.refused = vec![("capi", 1, "ReconciliationFailed", DRY_RUN)];
            laboratory
        };
        let mut laboratory = refused(&[("cert-manager", 1, 1), ("capi", 1, 2)]);
        laboratory.turns(3);
        assert_eq!(laboratory.log(), ["commit capi 2"]);
        laboratory.until("close");
        // The plan changes something else.
        let mut laboratory = refused(&[("cert-manager", 1, 2), ("capi", 1, 1)]);
        assert!(reasons(&laboratory.turns(5)).contains(DRY_RUN));
        // Something else is wrong as well.
        let mut laboratory = refused(&[("capi", 1, 2), ("eks-a", 1, 1)]);
        laboratory.refused.push(("eks-a", 1, "HealthCheckFailed", "timeout waiting for it"));
        assert!(reasons(&laboratory.turns(5)).contains(DRY_RUN));
        assert_eq!(laboratory.log(), [""; 0]);
        // What only waits for what is repaired stands in nobody's way.
        laboratory.refused[1].2 = "DependencyNotReady";
        laboratory.turns(3);
        assert_eq!(laboratory.log(), ["commit capi 2"]);
    }

    #[test]
    fn a_rollout_that_has_to_end_first_gives_way_to_the_repair_of_what_flux_refuses() {
        let mut laboratory = RolloutHarness::new(&[("control-plane", 1, 2), ("workers/a", 1, 2)]);
        laboratory.refused = vec![("workers/a", 2, "ReconciliationFailed", DRY_RUN)];
        laboratory.until("commit workers/a 2");
        laboratory.turns(3);
        laboratory.push(&[("workers/a", 3)]);
        laboratory.turns(2);
        assert_eq!(laboratory.log().last(), Some(&"commit workers/a 3"));
    }

    #[test]
    fn a_timeout_that_was_lowered_meanwhile_counts() {
        let mut laboratory = committed("HealthCheckFailed", "timeout");
        laboratory.push(&[("capi", 3)]);
        laboratory.turns(3);
        let mut world = laboratory.world();
        let said = reasons(&step(&world, laboratory.now));
        for stage in &mut Arc::make_mut(&mut world.plan).stages {
            stage.policy.timeout = Duration::from_secs(20);
        }
        let earlier = laboratory.deploy.commits().last().unwrap().committed_at + SignedDuration::from_secs(20);
        let said_now = reasons(&step(&world, laboratory.now));
        assert!(said != said_now && said_now.contains(&format!("takes over at {earlier}")), "{said_now}");
        laboratory.now = earlier;
        world.observation = Some(Arc::new(laboratory.read()));
        let effects = step(&world, laboratory.now);
        assert!(matches!(effects.first(), Some(Effect::Backup { .. })), "the repair begins: {effects:?}");
    }

    #[test]
    fn a_refusal_of_another_commit_or_another_generation_is_none() {
        let laboratory = committed("ReconciliationFailed", DRY_RUN);
        let world = laboratory.world();
        let gate = gates::running(&world, world.ledger.as_deref().unwrap(), &world.plan).unwrap().unwrap();
        let now = laboratory.now + SignedDuration::from_secs(6);
        let refused = |change: fn(&mut crate::observation::FluxKustomization)| {
            let mut read = laboratory.read();
            read.read_at = now;
            read.flux.kustomizations.iter_mut().for_each(change);
            gate.as_gate().refused(&read, now).is_some()
        };
        assert!(refused(|_| ()));
        assert!(!refused(|known| known.last_attempted_revision = Some(RolloutHarness::source_commit(7))));
        assert!(!refused(|known| known.last_attempted_revision = None));
        assert!(!refused(|known| known.observed_generation = Some(0)));
        assert!(!refused(|known| known.suspended = true));
        assert!(!refused(|known| known.ready = None));
        assert!(!refused(|known| {
            let ready = conditions([("Ready", ConditionStatus::Unknown)]).remove("Ready");
            known.ready = ready.map(|ready| Condition { reason: "Progressing".into(), ..ready });
        }));
    }
}
