mod going_back;
mod skew;

use super::*;
use crate::change::ChangeClass;
use crate::ledger::{LedgerFormat, LedgerState, StageRecord, StageRecordKind};
use domain::GroupName;
use policy::OnFailure;

fn digest(text: &str) -> TreeDigest {
    TreeDigest::of([text.as_bytes()])
}

pub(super) fn stage(name: &str, deployed: &str, target: &str) -> StageInput {
    StageInput {
        stage: name.parse().unwrap(),
        deployed: digest(deployed),
        target: digest(target),
        changes: Vec::new(),
        reasons: Vec::new(),
        risks: Vec::new(),
        one_way: Vec::new(),
        expectations: vec![Expectation::Flux { namespace: "flux-system".into(), kustomizations: vec![name.into()] }],
        deployed_expectations: Vec::new(),
        policy: StagePolicy::default(),
        machines: 0,
        uncounted_machines: false,
        render_error: None,
        carried_by: None,
    }
}

fn change(component: &str, class: ChangeClass, old: &str, new: &str) -> ComponentChange {
    ComponentChange {
        component: component.into(),
        class,
        old_version: Some(old.into()),
        new_version: Some(new.into()),
        artifacts: Vec::new(),
    }
}

pub(super) fn input(stages: Vec<StageInput>) -> PlanInput {
    PlanInput {
        cluster: "mgmt".parse().unwrap(),
        role: ClusterRole::Management,
        source: "a".repeat(40).parse().unwrap(),
        deployed: digest("deployed"),
        target: digest("target"),
        stages,
        skew: SkewFacts::default(),
        policy: PlanPolicy::default(),
        checks: ChecksExpectation::default(),
        blocked: Vec::new(),
        warnings: Vec::new(),
        ledger: None,
        rollback: None,
        eksctl: None,
        tanzu: None,
    }
}

fn states(plan: &Plan) -> Vec<(String, StageState)> {
    plan.stages.iter().map(|stage| (stage.stage.to_string(), stage.state)).collect()
}

fn codes(plan: &Plan) -> Vec<&str> {
    plan.blocked.iter().map(|block| block.code.as_str()).collect()
}

fn step(deployed: &str, target: &str) -> VersionStep {
    VersionStep { deployed: Some(deployed.into()), target: target.into() }
}

fn group(name: &str, deployed: &str, target: &str) -> GroupVersions {
    GroupVersions { group: name.parse::<GroupName>().unwrap(), version: step(deployed, target) }
}

/// The ledger after the plan's next stage was committed, and what is deployed then.
pub(super) fn commit(plan: &Plan, ledger: Option<Ledger>) -> Ledger {
    let next = plan.next_stage().unwrap();
    let mut ledger = ledger.unwrap_or_else(|| Ledger {
        format: LedgerFormat::default(),
        cluster: plan.cluster.clone(),
        rollout: plan.rollout_id.clone(),
        plan: plan.digest.clone(),
        source: plan.source.clone(),
        base: plan.base.clone(),
        target: plan.target.clone(),
        tree: plan.deployed.clone(),
        state: LedgerState::Running,
        started_at: jiff::Timestamp::UNIX_EPOCH,
        finished_at: None,
        identity: None,
        before: None,
        stages: Vec::new(),
        approvals: Vec::new(),
        retries: Vec::new(),
        edits: Vec::new(),
        rollback: None,
        chain: None,
        as_declared: Vec::new(),
        way_back: None,
        durations: PastDurations::default(),
        verified: None,
        components: std::collections::BTreeMap::new(),
    });
    ledger.stages.push(StageRecord {
        stage: next.stage.clone(),
        kind: StageRecordKind::Commit,
        attempt: 1,
        committed_at: jiff::Timestamp::UNIX_EPOCH,
        before: next.before.clone().unwrap(),
        after: next.after.clone().unwrap(),
        opened_by: None,
        reasons: Vec::new(),
        carries: next.carries.clone(),
        one_way: next.one_way.clone(),
        etcd: None,
    });
    ledger
}

#[test]
fn every_stage_of_the_design_is_shown_in_its_order_and_skipped_ones_say_why() {
    let plan = plan(input(vec![
        stage("cert-manager", "1", "2"),
        stage("capi", "1", "1"),
        stage("workers/b", "1", "2"),
        stage("workers/a", "1", "2"),
    ]));
    let expected = [
        ("preflight", StageState::Pending),
        ("backup", StageState::Pending),
        ("cert-manager", StageState::Pending),
        ("capi", StageState::Skipped),
        ("eks-a", StageState::Skipped),
        ("bundle", StageState::Skipped),
        ("cilium-preflight", StageState::Skipped),
        ("cilium", StageState::Skipped),
        ("flux", StageState::Skipped),
        ("etcd", StageState::Skipped),
        ("control-plane", StageState::Skipped),
        // Groups keep the order of the policy.
        ("workers/b", StageState::Pending),
        ("workers/a", StageState::Pending),
        ("verify", StageState::Pending),
    ];
    assert_eq!(states(&plan), expected.map(|(name, state)| (name.to_owned(), state)));
    for stage in plan.stages.iter().filter(|stage| stage.state == StageState::Skipped) {
        assert!(!stage.reasons.is_empty(), "{}", stage.stage);
    }
    assert_eq!(plan.estimate.commits, 3);
}

#[test]
fn a_workload_cluster_has_no_stages_of_the_management_cluster() {
    let plan = plan(PlanInput { role: ClusterRole::Workload, ..input(vec![stage("cilium", "1", "2")]) });
    let names: Vec<String> = plan.stages.iter().map(|stage| stage.stage.to_string()).collect();
    assert_eq!(names, ["preflight", "backup", "cilium-preflight", "cilium", "etcd", "control-plane", "verify"]);
    let wrong = super::plan(PlanInput { role: ClusterRole::Workload, ..input(vec![stage("capi", "1", "2")]) });
    assert_eq!(codes(&wrong), ["stage-of-management"]);
}

#[test]
fn without_a_difference_nothing_is_pending_and_nothing_is_forbidden() {
    let mut input = input(vec![stage("capi", "1", "1")]);
    input.skew.control_plane = Some(step("1.30", "1.33"));
    let plan = plan(input);
    assert!(!plan.has_differences());
    assert!(plan.stages.iter().all(|stage| stage.state == StageState::Skipped));
    assert_eq!(codes(&plan), Vec::<&str>::new());
}

#[test]
fn the_digest_stays_the_same_from_the_first_commit_to_the_last() {
    let at = |cert_manager: &str, capi: &str, deployed: &str, source: char, ledger: Option<Ledger>| {
        plan(PlanInput {
            deployed: digest(deployed),
            source: source.to_string().repeat(40).parse().unwrap(),
            ledger,
            ..input(vec![stage("cert-manager", cert_manager, "2"), stage("capi", capi, "2")])
        })
    };
    let first = at("1", "1", "deployed", 'a', None);
    assert!(!first.running);
    let ledger = commit(&first, None);
    // A later source with the same target is the same plan.
    let second = at("2", "1", "half", 'b', Some(ledger.clone()));
    assert!(second.running);
    assert_eq!((second.digest.clone(), second.base.clone()), (first.digest.clone(), first.base.clone()));
    assert_eq!(second.stage(&"cert-manager".parse().unwrap()).unwrap().state, StageState::Committed);
    let ledger = commit(&second, Some(ledger));
    let third = at("2", "2", "target", 'b', Some(ledger.clone()));
    assert!(third.running && !third.has_differences());
    assert_eq!(third.digest, first.digest);
    assert_eq!(third.rollout_id, third.digest.rollout_id());
    // A reverted stage is pending again, in the same plan.
    let mut reverted = ledger.clone();
    let record = StageRecord {
        kind: StageRecordKind::Revert,
        before: digest("2"),
        after: digest("1"),
        ..ledger.stages[1].clone()
    };
    reverted.stages.push(record);
    let fourth = at("2", "1", "half", 'b', Some(reverted));
    assert!(fourth.running && fourth.digest == first.digest);
    assert_eq!(fourth.next_stage().unwrap().stage.to_string(), "capi");
}

#[test]
fn another_target_is_another_plan() {
    let first = plan(input(vec![stage("cert-manager", "1", "2"), stage("capi", "1", "2")]));
    let ledger = Some(commit(&first, None));
    let other = plan(PlanInput {
        deployed: digest("half"),
        target: digest("another"),
        ledger,
        ..input(vec![stage("cert-manager", "2", "2"), stage("capi", "1", "3")])
    });
    assert!(!other.running);
    assert_ne!(other.digest, first.digest);
    assert_eq!(other.base, digest("half"));
    let done = Ledger { state: LedgerState::Done, ..commit(&first, None) };
    let again =
        plan(PlanInput { ledger: Some(done), ..input(vec![stage("cert-manager", "1", "2"), stage("capi", "1", "2")]) });
    assert!(!again.running, "a closed rollout is not gone on with");
}

#[test]
fn intermediate_versions_keep_the_digest_and_are_watched_through_the_next_hop() {
    let first = plan(input(vec![stage("cilium@v1.18.2-0", "1", "2"), stage("cilium", "2", "3")]));
    assert_eq!(first.estimate.commits, 2);
    let ledger = commit(&first, None);
    let mut last = stage("cilium", "2", "3");
    last.deployed_expectations =
        vec![Expectation::BackupTaken { maximum_age: std::time::Duration::from_secs(24 * 60 * 60) }];
    let second = plan(PlanInput { deployed: digest("half"), ledger: Some(ledger.clone()), ..input(vec![last]) });
    assert!(second.running);
    let hop = second.stage(&"cilium@v1.18.2-0".parse().unwrap()).unwrap();
    assert_eq!(
        (hop.state, hop.expectations.as_slice()),
        (
            StageState::Committed,
            [Expectation::BackupTaken { maximum_age: std::time::Duration::from_secs(24 * 60 * 60) }].as_slice()
        )
    );
    let third = plan(PlanInput {
        deployed: digest("target"),
        ledger: Some(commit(&second, Some(ledger))),
        ..input(vec![stage("cilium", "3", "3")])
    });
    assert!(third.running && !third.has_differences());
    assert_eq!(third.stage(&"cilium@v1.18.2-0".parse().unwrap()).unwrap().expectations, []);
}

#[test]
fn classes_block_or_warn() {
    use ChangeClass::{DigestDrift, Downgrade, Major, Minor, Opaque, Patch, Rebuild, Removed, Retag, SkipMinor};
    for (component, class, allow_downgrade, expected, risky) in [
        ("capi", Patch, false, vec![], false),
        ("capi", Rebuild, false, vec![], false),
        ("capi", Retag, false, vec![], false),
        ("capi", Minor, false, vec![], false),
        ("capi", Major, false, vec![], true),
        ("capi", Opaque, false, vec![], true),
        ("capi", Removed, false, vec![], true),
        ("capi", SkipMinor, false, vec![], true),
        ("certManager", SkipMinor, false, vec!["skip-minor"], true),
        ("cilium", SkipMinor, true, vec!["skip-minor"], true),
        ("capi", Downgrade, false, vec!["downgrade"], true),
        ("capi", Downgrade, true, vec![], true),
        ("capi", DigestDrift, true, vec!["digest-drift"], false),
    ] {
        let mut changed = stage("capi", "1", "2");
        changed.changes = vec![change(component, class, "v1.15.3", "v1.17.8")];
        let plan =
            plan(PlanInput { policy: PlanPolicy { allow_downgrade, ..PlanPolicy::default() }, ..input(vec![changed]) });
        assert_eq!(codes(&plan), expected, "{component} {class:?}");
        assert_eq!(!plan.stage(&"capi".parse().unwrap()).unwrap().risks.is_empty(), risky, "{component} {class:?}");
    }
}

#[test]
fn stages_without_a_part_in_git_have_the_fleets_policy() {
    let soak = |seconds| StagePolicy { soak: std::time::Duration::from_secs(seconds), ..StagePolicy::default() };
    let policy = PlanPolicy { preflight: soak(1), backup: soak(2), verify: soak(3), ..PlanPolicy::default() };
    let plan = plan(PlanInput { policy, ..input(vec![stage("capi", "1", "2")]) });
    for (name, seconds) in [("preflight", 1), ("backup", 2), ("verify", 3)] {
        assert_eq!(plan.stage(&name.parse().unwrap()).unwrap().policy, soak(seconds), "{name}");
    }
}

#[test]
fn a_left_out_minor_is_named() {
    let mut changed = stage("cilium", "1", "2");
    changed.changes = vec![change("cilium", ChangeClass::SkipMinor, "v1.15.16-eksa.1", "v1.18.0-0")];
    let plan = plan(input(vec![changed]));
    assert!(plan.blocked[0].message.contains("leaves out 1.16, 1.17"), "{:?}", plan.blocked);
}

#[test]
fn what_cannot_be_rendered_or_bound_blocks() {
    let mut broken = stage("capi", "1", "1");
    let (message, help) = ("capi/core.yaml:3:1: no such field".to_owned(), "correct it".to_owned());
    broken.render_error = Some(RenderFailure { message: message.clone(), help: help.clone() });
    let blocked = plan(input(vec![broken])).blocked;
    assert_eq!(blocked.iter().map(|block| (&block.message, &block.help)).collect::<Vec<_>>(), [(&message, &help)]);
    let mut unbound = stage("capi", "1", "2");
    unbound.expectations.clear();
    assert_eq!(codes(&plan(input(vec![unbound]))), ["unbound-gate"]);
    let given =
        Block { code: "lock".into(), stage: None, message: "not locked".into(), help: "stepgate bundle fetch".into() };
    assert_eq!(codes(&plan(PlanInput { blocked: vec![given], ..input(vec![stage("capi", "1", "2")]) })), ["lock"]);
}

#[test]
fn stages_out_of_order_are_refused_and_downwards_workers_come_first() {
    let up = vec![stage("control-plane", "1", "2"), stage("workers/a", "1", "2")];
    let down = vec![stage("workers/a", "1", "2"), stage("control-plane", "1", "2")];
    for (stages, from, to, expected) in [
        (up.clone(), "v1.30.2", "v1.30.3", vec![]),
        (down.clone(), "v1.30.2", "v1.30.3", vec!["stage-order"]),
        (down, "v1.30.3", "v1.30.2", vec![]),
        (up, "v1.30.3", "v1.30.2", vec!["stage-order"]),
    ] {
        let mut input = input(stages);
        input.policy.allow_downgrade = true;
        input.skew.control_plane = Some(step(from, to));
        assert_eq!(codes(&plan(input)), expected, "{from} {to}");
    }
}

#[test]
fn one_way_doors_are_named_before_the_start() {
    let mut input = input(vec![stage("etcd", "1", "2"), stage("control-plane", "2", "3")]);
    input.skew.control_plane = Some(step("1.30", "1.31"));
    let plan = plan(input);
    let one_way = |name: &str| plan.stage(&name.parse().unwrap()).unwrap().one_way.join(" ");
    assert!(one_way("control-plane").contains("1.30 to 1.31"));
    assert!(one_way("control-plane").contains("old members go"));
    assert_eq!(one_way("etcd"), "");
}

#[test]
fn a_revert_without_a_gate_for_the_previous_state_is_warned_about() {
    let mut revertible = stage("capi", "1", "2");
    revertible.policy.on_failure = OnFailure::Revert;
    let plan = plan(input(vec![revertible]));
    assert!(plan.warnings.iter().any(|warning| warning.contains("holds instead")), "{:?}", plan.warnings);
}
