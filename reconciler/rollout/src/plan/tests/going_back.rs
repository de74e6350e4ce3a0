//! Plans that go back.

use super::*;

fn rollback() -> Rollback {
    Rollback {
        to: "b".repeat(40).parse().unwrap(),
        tree: digest("target"),
        rollout: "e6338d741bec".parse().unwrap(),
        stage: None,
        source: "c".repeat(40).parse().unwrap(),
        held_back: "a".repeat(40).parse().unwrap(),
        by: "Ann".into(),
        at: jiff::Timestamp::UNIX_EPOCH,
        reason: None,
    }
}

#[test]
fn a_plan_that_goes_back_has_its_stages_the_other_way_round() {
    let names = ["workers/a", "control-plane", "flux", "cilium", "capi", "cert-manager"];
    let stages: Vec<StageInput> = names.iter().map(|name| stage(name, "2", "1")).collect();
    let forwards = plan(input(stages.iter().rev().cloned().collect()));
    let back = plan(PlanInput { rollback: Some(rollback()), ..input(stages) });
    assert_eq!(codes(&back), [""; 0]);
    let pending = back.stages.iter().filter(|stage| stage.before != stage.after);
    assert_eq!(pending.map(|stage| stage.stage.to_string()).collect::<Vec<_>>(), names);
    assert_eq!(back.stages.first().unwrap().stage.to_string(), "preflight");
    assert_eq!(back.stages.last().unwrap().stage.to_string(), "verify");
    assert_ne!(back.digest, forwards.digest, "it is another rollout than one to the same files");
    let wrong =
        plan(PlanInput { rollback: Some(rollback()), ..input(vec![stage("capi", "2", "1"), stage("flux", "2", "1")]) });
    assert_eq!(codes(&wrong), ["stage-order"]);
}

#[test]
fn going_back_allows_lower_components_and_patches_and_no_lower_minor() {
    let skew = |deployed: &str, target: &str| SkewFacts {
        control_plane: Some(step(deployed, target)),
        cluster_api: Some(step("v1.12.2", "v1.11.1")),
        ..SkewFacts::default()
    };
    let lower = || {
        let changes = vec![change("cilium", ChangeClass::Downgrade, "v1.18.4", "v1.17.8")];
        vec![StageInput { changes, ..stage("cilium", "2", "1") }]
    };
    let back = |skew| plan(PlanInput { rollback: Some(rollback()), skew, ..input(lower()) });
    assert_eq!(codes(&back(skew("v1.33.2", "v1.33.1"))), [""; 0]);
    let minor = back(skew("v1.34.1", "v1.33.1"));
    assert_eq!(codes(&minor), ["kubernetes-never-down"]);
    assert!(minor.blocked[0].help.contains("one-way door"), "{}", minor.blocked[0].help);
    // But for EKS, while it takes a control plane back.
    let of_eks = |minor_back| back(SkewFacts { minor_back, ..skew("1.34", "1.33") });
    assert_eq!(codes(&of_eks(MinorBack::Open)), [""; 0]);
    let closed = of_eks(MinorBack::Closed { reason: "seven days are over".into(), help: "stay".into() });
    assert_eq!(codes(&closed), ["kubernetes-never-down"]);
    assert!(closed.blocked[0].message.ends_with("from 1.34 down to 1.33: seven days are over"), "{:?}", closed.blocked);
    let forwards = plan(PlanInput { skew: skew("v1.33.2", "v1.33.1"), ..input(lower()) });
    assert_eq!(codes(&forwards), ["cluster-api-minor-step", "downgrade", "kubernetes-never-down"]);
}

#[test]
fn a_push_that_goes_back_a_minor_of_eks_is_told_what_keeps_it_and_nothing_else() {
    let pushed = |minor_back| {
        let changes = vec![change("kubernetes", ChangeClass::Downgrade, "1.32", "1.31")];
        let control_plane = StageInput { changes, ..stage("control-plane", "2", "1") };
        let skew = SkewFacts { control_plane: Some(step("1.32", "1.31")), minor_back, ..SkewFacts::default() };
        plan(PlanInput { skew, ..input(vec![control_plane]) })
    };
    assert_eq!(codes(&pushed(MinorBack::Open)), [""; 0]);
    let closed = MinorBack::Closed { reason: "seven days are over".into(), help: "stay at 1.32".into() };
    assert_eq!(codes(&pushed(closed)), ["kubernetes-never-down"]);
    assert_eq!(codes(&pushed(MinorBack::Never)), ["downgrade", "kubernetes-never-down"]);
}
