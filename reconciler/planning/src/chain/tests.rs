//! Courses of one cluster, with what is deployed, recorded and asked for as files.

use std::collections::BTreeMap;

use overlays::{ClusterSpec, Fleet, MemoryFiles};
use rollout::{Chain, ChainTarget, Ledger, LedgerState};

use super::{Asked, Course, course, fleet_at};
use crate::DeployedLedger;

const POLICY: &str = "chainedUpgrades: true\n";

/// A cluster of EKS Anywhere with a group that has a version of its own.
fn cluster(kubernetes: &str, reference: &str, group: &str) -> String {
    format!(
        "# Of the team.\napiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {{name: pay}}\nspec:\n  \
         {reference}\n  controlPlaneConfiguration: {{count: 3}}\n  kubernetesVersion: \"{kubernetes}\" # by hand\n  \
         managementCluster: {{name: hub}}\n  workerNodeGroupConfigurations:\n  - {{name: md-0, count: 2}}\n  \
         - {{name: gpu, count: 1, kubernetesVersion: '{group}'}}\n"
    )
}

fn fleet(policy: &str, numbers: &[u32], cluster: &str) -> Fleet {
    let mut files = MemoryFiles::new();
    let mut add = |path: String, text: String| files.insert(path.parse().unwrap(), text.into_bytes());
    add("stepgate.yaml".to_owned(), policy.to_owned());
    add("clusters/pay.yaml".to_owned(), cluster.to_owned());
    for number in numbers {
        let section = |minor: &u32| {
            format!(
                "  - {{kubeVersion: '1.{minor}', eksD: {{name: kubernetes-1-{minor}-eks-{number}, channel: 1-{minor}, kubeVersion: \
                 v1.{minor}.2}}}}\n"
            )
        };
        let sections: String = [31, 32, 33, 34].iter().map(section).collect();
        add(
            format!("bundles/{number}.yaml"),
            format!(
                "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nmetadata: {{name: bundles-{number}}}\nspec:\n  \
                 number: {number}\n  cliMaxVersion: v0.{number}.0\n  versionsBundles:\n{sections}"
            ),
        );
        add(
            format!("bundles/eksa-{number}.yaml"),
            format!(
                "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: EKSARelease\nmetadata: {{name: eksa-v0-{number}-0}}\nspec:\n  \
                 version: v0.{number}.0\n  bundlesRef: {{name: bundles-{number}}}\n"
            ),
        );
    }
    overlays::read_fleet(&files)
}

fn at(kubernetes: &str, number: u32, group: &str) -> Fleet {
    fleet(POLICY, &[24, 25, 26], &cluster(kubernetes, &format!("eksaVersion: v0.{number}.0"), group))
}

fn ledger(state: LedgerState, chain: Option<&Chain>) -> Ledger {
    let digest = format!("sha256:{}", "0".repeat(64));
    let text = format!(
        "{{cluster: pay, rollout: '000000000000', plan: '{digest}', source: {source}, base: '{digest}', target: '{digest}', tree: \
         '{digest}', state: {state}, startedAt: 2026-01-05T09:00:00Z, stages: []}}",
        source = "1".repeat(40),
        state = if state == LedgerState::Done { "done" } else { "running" },
    );
    let ledger = match DeployedLedger::of(text.as_bytes()) {
        DeployedLedger::Read(ledger) => ledger.as_ref().clone(),
        other => panic!("{other:?}"),
    };
    Ledger { chain: chain.cloned(), ..ledger }
}

fn pay(fleet: &Fleet) -> &ClusterSpec {
    fleet.cluster("pay").unwrap()
}

/// The course from one fleet to another, with this record.
fn between(from: &Fleet, to: &Fleet, ledger: Option<&Ledger>) -> Course {
    let before = ledger.filter(|ledger| ledger.state == LedgerState::Running).map(|_| pay(to));
    course(&Asked { fleet: to, cluster: pay(to), deployed: Some(pay(from)), base: Some(from), ledger, before })
}

#[track_caller]
fn check(course: &Course, rollout: usize, targets: &[&str]) -> Chain {
    let Course::Chain(chain) = course else { panic!("{course:?}") };
    let told = |target: &ChainTarget| {
        let groups: String = target.workers.iter().map(|(name, version)| format!(", {name} {version}")).collect();
        format!("{} {}{groups}", target.kubernetes, target.bundle)
    };
    assert_eq!(
        (chain.rollout, chain.targets.iter().map(told).collect::<Vec<_>>()),
        (rollout, targets.iter().map(ToString::to_string).collect())
    );
    chain.clone()
}

const WAY: [&str; 2] = ["1.32 bundles-25, gpu 1.32", "1.33 bundles-26, gpu 1.32"];

#[test]
fn a_chain_goes_on_where_the_rollout_before_it_ended() {
    let (from, to) = (at("1.31", 24, "1.31"), at("1.33", 26, "1.32"));
    let chain = check(&between(&from, &to, None), 1, &WAY);
    // Half-way, the deployed state says less than the record.
    let half = at("1.32", 25, "1.31");
    check(&between(&half, &to, Some(&ledger(LedgerState::Running, Some(&chain)))), 1, &WAY);
    let reached = at("1.32", 25, "1.32");
    let last = check(&between(&reached, &to, Some(&ledger(LedgerState::Done, Some(&chain)))), 2, &WAY);
    check(&between(&at("1.33", 26, "1.32"), &to, Some(&ledger(LedgerState::Running, Some(&last)))), 2, &WAY);
    assert_eq!(between(&to, &to, Some(&ledger(LedgerState::Done, Some(&last)))), Course::Direct);
}

#[test]
fn a_new_target_keeps_the_rollout_that_runs_as_long_as_it_is_on_the_way() {
    let (from, to) = (at("1.31", 24, "1.31"), at("1.33", 26, "1.32"));
    let chain = check(&between(&from, &to, None), 1, &WAY);
    let running = ledger(LedgerState::Running, Some(&chain));
    let further = at("1.34", 26, "1.33");
    let expected = [WAY[0], "1.33 bundles-26, gpu 1.33", "1.34 bundles-26, gpu 1.33"];
    check(&between(&from, &further, Some(&running)), 1, &expected);
    // As far as it has come, and no further.
    check(&between(&from, &at("1.32", 25, "1.32"), Some(&running)), 1, &WAY[..1]);
    // Back: what runs is on no way there.
    assert_eq!(between(&from, &from, Some(&running)), Course::Direct);
}

#[test]
fn a_single_rollout_stays_one_and_nothing_is_chained_unasked() {
    let (from, to) = (at("1.31", 24, "1.31"), at("1.33", 26, "1.32"));
    assert_eq!(between(&from, &at("1.32", 25, "1.31"), None), Course::Direct);
    assert_eq!(between(&from, &to, Some(&ledger(LedgerState::Running, None))), Course::Direct);
    let unasked = fleet("{}\n", &[24, 25, 26], &cluster("1.33", "eksaVersion: v0.26.0", "1.32"));
    assert_eq!(between(&from, &unasked, None), Course::Direct);
    // Down is refused by the rules about versions.
    assert_eq!(between(&to, &from, None), Course::Direct);
}

#[test]
fn a_missing_bundle_is_named_with_what_to_add() {
    let from = at("1.31", 24, "1.31");
    let to = fleet(POLICY, &[24, 26], &cluster("1.33", "eksaVersion: v0.26.0", "1.32"));
    let Course::Nowhere(block) = between(&from, &to, None) else { panic!() };
    assert_eq!(
        block.message,
        "no rollouts lead from Kubernetes 1.31 with bundles-24 (v0.24.0) to Kubernetes 1.33 with bundles-26 (v0.26.0): no bundle \
         of EKS Anywhere v0.25 is in the repository"
    );
    assert!(block.help.contains("EKSARelease") && block.help.contains("stepgate bundle fetch"), "{}", block.help);
}

#[test]
fn a_target_is_written_by_byte_span_whatever_names_the_bundle() {
    let target = ChainTarget {
        kubernetes: "1.32".to_owned(),
        workers: BTreeMap::from([("gpu".parse().unwrap(), "1.31".to_owned())]),
        bundle: "bundles-25".to_owned(),
        eksa: Some("v0.25.0".to_owned()),
        rolls: Vec::new(),
    };
    for (wanted, reached) in [
        ("eksaVersion: v0.26.0", "eksaVersion: v0.25.0"),
        ("bundlesRef: {name: bundles-26}", "bundlesRef: {name: bundles-25}"),
        (
            "datacenterRef: {kind: DockerDatacenterConfig, name: pay}",
            "datacenterRef: {kind: DockerDatacenterConfig, name: pay}",
        ),
    ] {
        let text = cluster("1.33", wanted, "1.32");
        let source = fleet(POLICY, &[24, 25, 26], &text);
        let written = fleet_at(&source, pay(&source), &target).unwrap();
        let (spec, expected) = (pay(&written), cluster("1.32", reached, "1.31"));
        assert_eq!(std::str::from_utf8(&spec.files[0].bytes).unwrap(), expected);
        // As if people had written it.
        let read = fleet(POLICY, &[24, 25, 26], &expected);
        let versions = |spec: &ClusterSpec| {
            (spec.kubernetes_version.clone(), spec.worker_groups.clone(), spec.bundle_reference.clone())
        };
        assert_eq!((versions(spec), &spec.node), (versions(pay(&read)), &pay(&read).node));
        assert_eq!(overlays::bundle_for(&written, spec).unwrap().bundles.name, "bundles-25");
    }
    let aliased = cluster("1.33", "eksaVersion: &version v0.26.0", "1.32");
    let source = fleet(POLICY, &[24, 25, 26], &aliased);
    let error = fleet_at(&source, pay(&source), &target).unwrap_err();
    assert!(
        error.to_string().starts_with("spec.eksaVersion v0.25.0 cannot be written into clusters/pay.yaml"),
        "{error}"
    );
}
