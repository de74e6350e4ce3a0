//! Going back to a state of before: a forward plan with an older tree as its target, kept there afterwards.

use domain::CommitId;
use rollout::{Plan, Rollback};
use simulator::Fault;
use stepgate::reconcile::effects::rollback::{end, go_back};
use stepgate::reconcile::planner::{ClusterView, FleetReading, Outlook, Planner, RollbackError};
use stepgate::reconcile::{ClusterOutcome, Controller, proposal};

use crate::fleet::{Files, Fleet, outcome, told};

const OVERLAY: &str = "overlays/cert-manager/kustomization.yaml";
const BUNDLE: &str = "bundles/bundles-81.yaml";

/// The bundle of the demo's bump, without its minor of Kubernetes.
fn push_bundle(fleet: &Fleet) -> CommitId {
    fleet.push(&Files::from([(BUNDLE.to_owned(), fleet.files.bump[BUNDLE].clone())]))
}

fn view(fleet: &Fleet, cluster: &str) -> (Planner, FleetReading, ClusterView) {
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, cluster).unwrap();
    (planner, reading, view)
}

fn wanted(fleet: &Fleet, cluster: &str, to: Option<&str>) -> Result<(Rollback, std::sync::Arc<Plan>), RollbackError> {
    let (planner, reading, view) = view(fleet, cluster);
    let who = ("Ann <ann@example.com>", fleet.clock_now(), Some("alerts"));
    let rollback = planner.state_before(&reading, &view, to, who)?;
    let plan = planner.going_back(&reading, &view, &rollback)?;
    Ok((rollback, plan))
}

#[track_caller]
fn roll_back(fleet: &Fleet, cluster: &str, to: Option<&str>) {
    let (rollback, plan) = wanted(fleet, cluster, to).unwrap();
    assert_eq!(plan.blocked, []);
    let (planner, reading, view) = view(fleet, cluster);
    go_back(&planner, &reading, &view, rollback).unwrap();
}

fn codes(plan: &Plan) -> Vec<(String, String)> {
    let stage = |block: &rollout::Block| block.stage.as_ref().map(ToString::to_string).unwrap_or_default();
    plan.blocked.iter().map(|block| (block.code.clone(), stage(block))).collect()
}

fn outlook(fleet: &Fleet) -> Outlook {
    let (planner, reading, view) = view(fleet, "mgmt");
    planner.outlook(&reading, &view, fleet.clock_now()).unwrap()
}

#[test]
fn stages_go_back_in_reverse_order_and_the_cluster_is_kept_there() {
    let fleet = Fleet::new();
    let before = fleet.folder("clusters/mgmt");
    push_bundle(&fleet);
    fleet.run_to_the_end(&fleet.controller());
    let forwards = fleet.stages("mgmt");
    let after = fleet.folder("clusters/mgmt");
    assert_ne!(before, after);
    assert!(matches!(outlook(&fleet), Outlook::Possible { until: None, .. }));

    roll_back(&fleet, "mgmt", None);
    // A new process takes over at each stage.
    fleet.run_until(&fleet.controller(), |pass| outcome(pass, "mgmt").word() != "done");
    fleet.run_to_the_end(&fleet.controller());
    assert_eq!(fleet.folder("clusters/mgmt"), before);
    let mut back: Vec<String> = fleet.stages("mgmt").split_off(forwards.len() + 1);
    assert_eq!(back.pop().as_deref(), Some("verify"));
    back.reverse();
    let without_pull: Vec<&String> =
        forwards.iter().filter(|stage| !matches!(stage.as_str(), "cilium-preflight" | "verify")).collect();
    assert_eq!(back.iter().collect::<Vec<_>>(), without_pull);
    assert!(matches!(outlook(&fleet), Outlook::Back(_)));

    // What is pushed for others, and other rules, do not let it go on.
    fleet.edit("stepgate.yaml", |policy| format!("{policy}\n# Looked at.\n"));
    fleet.run_to_the_end(&fleet.controller());
    assert_eq!(fleet.folder("clusters/mgmt"), before);

    let (planner, reading, view) = view(&fleet, "mgmt");
    end(&planner, &reading, &view, "Ann <ann@example.com>", fleet.clock_now()).unwrap();
    fleet.run_to_the_end(&fleet.controller());
    assert_eq!(fleet.folder("clusters/mgmt"), after);
}

#[test]
fn a_new_target_ends_what_was_kept_back() {
    let fleet = Fleet::new();
    push_bundle(&fleet);
    fleet.run_to_the_end(&fleet.controller());
    roll_back(&fleet, "mgmt", None);
    fleet.run_to_the_end(&fleet.controller());
    fleet.edit(OVERLAY, |overlay| overlay.replace("system-cluster-critical", "system-node-critical"));
    fleet.run_to_the_end(&fleet.controller());
    let text = fleet.folder("clusters/mgmt/cert-manager");
    let text: String = text.files.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert!(text.contains("system-node-critical"));
    assert!(!fleet.deployed("clusters/mgmt/rollout.yaml").unwrap().contains("heldBack"));
    assert!(matches!(outlook(&fleet), Outlook::Possible { .. }));
}

#[test]
fn a_stage_can_be_the_last_that_stays() {
    let fleet = Fleet::new();
    push_bundle(&fleet);
    fleet.run_to_the_end(&fleet.controller());
    let stays = fleet.folder("clusters/mgmt/capi");
    roll_back(&fleet, "mgmt", Some("capi"));
    fleet.run_to_the_end(&fleet.controller());
    let stages = fleet.stages("mgmt");
    let request = stages.iter().position(|stage| stage == "verify").unwrap() + 1;
    let back = &stages[request + 1..];
    assert!(back.contains(&"cilium".to_owned()) && !back.contains(&"capi".to_owned()), "{back:?}");
    assert!(!back.contains(&"cert-manager".to_owned()), "{back:?}");
    assert_eq!(fleet.folder("clusters/mgmt/capi"), stays);
}

#[test]
fn a_failed_rollout_turns_round_where_it_stands() {
    let fleet = Fleet::new();
    let before = fleet.folder("clusters/mgmt");
    let controller = fleet.controller();
    fleet.break_at("mgmt", "eks-a".parse().unwrap(), Fault::FailingPod);
    push_bundle(&fleet);
    fleet.run_until(&controller, |pass| matches!(outcome(pass, "mgmt"), ClusterOutcome::Held { .. }));
    roll_back(&fleet, "mgmt", None);
    fleet.run_until(&controller, |pass| !matches!(outcome(pass, "mgmt"), ClusterOutcome::Held { .. }));
    fleet.heal("mgmt");
    fleet.run_to_the_end(&controller);
    assert_eq!(fleet.folder("clusters/mgmt"), before);
    assert!(!fleet.stages("mgmt").contains(&"cilium".to_owned()));
}

#[test]
fn a_minor_of_kubernetes_is_a_door_that_is_named() {
    let fleet = Fleet::new();
    let controller = fleet.controller();
    fleet.bump();
    fleet.run_until_committed(&controller, "mgmt", "cert-manager");
    let Outlook::Possible { until: Some((stage, why)), .. } = outlook(&fleet) else { panic!("{:?}", outlook(&fleet)) };
    assert_eq!(stage.to_string(), "control-plane");
    assert!(why.contains("1.33 to 1.34"), "{why}");
    fleet.run_to_the_end(&controller);
    let (_, plan) = wanted(&fleet, "mgmt", None).unwrap();
    let found = codes(&plan);
    assert!(found.contains(&("kubernetes-never-down".to_owned(), "control-plane".to_owned())), "{found:?}");
    let block = plan.blocked.iter().find(|block| block.code == "kubernetes-never-down").unwrap();
    assert!(block.help.contains("a minor is a one-way door"), "{}", block.help);
    assert!(matches!(outlook(&fleet), Outlook::Barred(_)));
    let Err(error) = wanted(&fleet, "mgmt", Some("nowhere")) else { panic!("it is no state") };
    assert!(error.hint().unwrap().contains("control-plane"), "{:?}", error.hint());
}

#[test]
fn going_back_asks_the_same_people() {
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\n");
    let controller = fleet.controller();
    let before = fleet.folder("clusters/mgmt");
    fleet.edit(OVERLAY, |overlay| overlay.replace("system-cluster-critical", "system-node-critical"));
    approve(&fleet, &controller);
    fleet.run_until(&controller, |pass| matches!(outcome(pass, "mgmt"), ClusterOutcome::Done));
    let after = fleet.folder("clusters/mgmt");
    roll_back(&fleet, "mgmt", None);
    fleet.run_until(&controller, |pass| told(pass).contains("mgmt waiting cert-manager"));
    assert_eq!(fleet.folder("clusters/mgmt"), after);
    approve(&fleet, &controller);
    fleet.run_until(&controller, |pass| matches!(outcome(pass, "mgmt"), ClusterOutcome::Done));
    assert_eq!(fleet.folder("clusters/mgmt"), before);
}

/// Somebody approves what is proposed for the management cluster, once it is.
fn approve(fleet: &Fleet, controller: &Controller) {
    let by = "Bob <bob@example.com>".parse().unwrap();
    fleet.run_until(controller, |_| {
        let (planner, reading, view) = view(fleet, "mgmt");
        proposal::approve(&planner, &reading, &view, Some(&by), fleet.clock_now()).is_ok()
    });
}

#[test]
fn a_state_that_was_never_deployed_is_not_gone_back_to() {
    let fleet = Fleet::new();
    let controller = fleet.controller();
    push_bundle(&fleet);
    fleet.run_to_the_end(&controller);
    let after = fleet.folder("clusters/mgmt");
    roll_back(&fleet, "mgmt", None);
    let path = "clusters/mgmt/rollout.yaml";
    let ledger = fleet.deployed(path).unwrap();
    let to = ledger.lines().find_map(|line| line.strip_prefix("  to: ")).unwrap().to_owned();
    // A stage on the way, whose gate is not the one that was recorded.
    let entries = fleet.history("mgmt");
    let on_the_way = entries.iter().find(|entry| entry.stage.as_ref().unwrap().stage.to_string() == "capi").unwrap();
    fleet.meddle(path, Some(&ledger.replace(&to, on_the_way.commit.as_str())));
    let pass = fleet.run_until(&controller, |pass| outcome(pass, "mgmt").word() == "blocked");
    assert!(outcome(&pass, "mgmt").message().contains("does not hold the state that was recorded"), "{}", told(&pass));
    // A commit of a branch that nobody merged.
    let elsewhere = fleet.write(&"main".parse().unwrap(), "clusters/mgmt/other.txt", "x");
    fleet.meddle(path, Some(&ledger.replace(&to, elsewhere.as_str())));
    let pass = fleet.run_until(&controller, |pass| outcome(pass, "mgmt").word() != "done");
    assert_eq!(outcome(&pass, "mgmt").word(), "blocked");
    assert!(outcome(&pass, "mgmt").message().contains("does not hold the state that was recorded"), "{}", told(&pass));
    assert_eq!(fleet.folder("clusters/mgmt"), after);
    // Whoever ends it needs nothing of that commit.
    let (planner, reading, view) = view(&fleet, "mgmt");
    end(&planner, &reading, &view, "Ann <ann@example.com>", fleet.clock_now()).unwrap();
    fleet.run_to_the_end(&controller);
    assert_eq!(fleet.folder("clusters/mgmt"), after);
}
