use super::*;
use crate::observation::{EksAddon, EksControlPlane, EksNodeGroup};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn commit(number: u8) -> CommitId {
    format!("{number:040x}").parse().unwrap()
}

fn step(part: EksPart) -> EksctlStep {
    EksctlStep { rollout: "aaaaaaaaaaaa".parse().unwrap(), commit: commit(1), part, has_addon: true }
}

fn group() -> GroupName {
    "ng-1-32".parse().unwrap()
}

fn new_group() -> EksPart {
    EksPart::NodeGroup { name: group(), version: Some("1.32".to_owned()), nodes: 2 }
}

fn run(step: &EksctlStep, verb: EksctlVerb, outcome: EksctlOutcome) -> EksctlRun {
    EksctlRun {
        rollout: step.rollout.clone(),
        commit: step.commit.clone(),
        part: step.part.clone(),
        verb,
        command: "eksctl".to_owned(),
        attempt: 1,
        started_at: at(0),
        outcome,
        output: Vec::new(),
    }
}

fn reading(status: &str) -> EksReading {
    let cluster = EksControlPlane { version: "1.31".to_owned(), status: status.to_owned(), issues: Vec::new() };
    EksReading {
        cluster: Some(cluster),
        node_groups: Some(Vec::new()),
        addons: Some(Vec::new()),
        ..EksReading::default()
    }
}

fn groups(status: &str) -> EksReading {
    let group = EksNodeGroup { name: "ng-1-32".to_owned(), status: status.to_owned(), issues: Vec::new() };
    EksReading { node_groups: Some(vec![group]), ..reading("ACTIVE") }
}

fn begun(verb: EksctlVerb) -> EksctlAct {
    EksctlAct::Run { verb, attempt: 1 }
}

#[track_caller]
fn waits(act: &EksctlAct, text: &str) {
    assert!(matches!(act, EksctlAct::Wait { reason, .. } if reason.contains(text)), "{act:?}");
}

#[test]
fn what_is_there_already_is_not_begun() {
    let upgrade = step(EksPart::ControlPlane { version: "1.31".to_owned() });
    assert_eq!(next_act(&upgrade, &reading("ACTIVE"), at(9)), EksctlAct::Nothing);
    assert_eq!(next_act(&step(new_group()), &groups("ACTIVE"), at(9)), EksctlAct::Nothing);
    assert_eq!(next_act(&step(new_group()), &groups("CREATING"), at(9)), EksctlAct::Nothing);
    let gone = step(EksPart::NodeGroupGone { name: group() });
    assert_eq!(next_act(&gone, &reading("ACTIVE"), at(9)), EksctlAct::Nothing);
}

#[test]
fn each_part_is_begun_by_its_own_verb() {
    let upgrade = step(EksPart::ControlPlane { version: "1.32".to_owned() });
    assert_eq!(next_act(&upgrade, &reading("ACTIVE"), at(9)), begun(EksctlVerb::UpgradeCluster));
    let act = next_act(&step(new_group()), &reading("ACTIVE"), at(9));
    assert_eq!(act, begun(EksctlVerb::CreateNodeGroup { name: group() }));
    let gone = step(EksPart::NodeGroupGone { name: group() });
    let act = next_act(&gone, &groups("ACTIVE"), at(9));
    assert_eq!(act, begun(EksctlVerb::DeleteNodeGroup { name: group() }));
}

#[test]
fn an_addon_is_made_updated_or_removed_by_the_file() {
    let name: GroupName = "coredns".parse().unwrap();
    let part = EksPart::Addon { name: name.clone(), version: Some("v1.1.0-eksbuild.1".to_owned()) };
    let with = |version: &str, status: &str| {
        let (version, status) = (version.to_owned(), status.to_owned());
        let addon = EksAddon { name: "coredns".to_owned(), version, status, issues: Vec::new() };
        EksReading { addons: Some(vec![addon]), ..reading("ACTIVE") }
    };
    let wanted = step(part);
    let act = next_act(&wanted, &reading("ACTIVE"), at(9));
    assert_eq!(act, begun(EksctlVerb::CreateAddon { name: name.clone() }));
    // Its configuration may have changed under the same version.
    let same = with("v1.1.0-eksbuild.1", "ACTIVE");
    assert_eq!(next_act(&wanted, &same, at(9)), begun(EksctlVerb::UpdateAddon { name: name.clone() }));
    waits(&next_act(&wanted, &with("v1.0.0", "UPDATING"), at(9)), "is UPDATING");
    let update = EksctlVerb::UpdateAddon { name: name.clone() };
    for outcome in [EksctlOutcome::Succeeded { ended_at: at(5) }, EksctlOutcome::Unwatched] {
        let seen = EksReading { run: Some(run(&wanted, update.clone(), outcome)), ..same.clone() };
        assert_eq!(next_act(&wanted, &seen, at(9)), EksctlAct::Nothing);
    }
    let removed = EksctlStep { has_addon: false, ..wanted };
    assert_eq!(next_act(&removed, &same, at(9)), begun(EksctlVerb::DeleteAddon { name }));
    assert_eq!(next_act(&removed, &reading("ACTIVE"), at(9)), EksctlAct::Nothing);
}

#[test]
fn what_is_unknown_or_under_way_is_waited_for() {
    let wanted = step(new_group());
    waits(&next_act(&wanted, &EksReading::default(), at(9)), "before EKS has said");
    let unread = EksReading { node_groups: None, ..reading("ACTIVE") };
    waits(&next_act(&wanted, &unread, at(9)), "which node groups there are");
    waits(&next_act(&wanted, &reading("UPDATING"), at(9)), "the cluster is UPDATING");
    let gone = step(EksPart::NodeGroupGone { name: group() });
    waits(&next_act(&gone, &groups("DELETING"), at(9)), "is DELETING");
}

#[test]
fn a_run_that_ended_unseen_goes_on_and_a_failed_one_after_a_pause() {
    let wanted = step(new_group());
    let verb = EksctlVerb::CreateNodeGroup { name: group() };
    let seen =
        |outcome: EksctlOutcome| EksReading { run: Some(run(&wanted, verb.clone(), outcome)), ..reading("ACTIVE") };
    let again = EksctlAct::Run { verb: verb.clone(), attempt: 2 };
    assert_eq!(next_act(&wanted, &seen(EksctlOutcome::Running), at(9)), EksctlAct::Nothing);
    assert_eq!(next_act(&wanted, &seen(EksctlOutcome::Unwatched), at(9)), again);
    let failed = seen(EksctlOutcome::Failed { ended_at: at(100), status: "exit status: 1".to_owned() });
    assert_eq!(next_act(&wanted, &failed, at(159)), EksctlAct::Nothing);
    assert_eq!(next_act(&wanted, &failed, at(160)), again);
    let well = seen(EksctlOutcome::Succeeded { ended_at: at(100) });
    waits(&next_act(&wanted, &well, at(9_999)), "there is no node group ng-1-32");
}

#[test]
fn another_commit_than_the_newest_is_refused() {
    let wanted = step(new_group());
    let newer = EksctlRun {
        commit: commit(2),
        ..run(&wanted, EksctlVerb::UpgradeCluster, EksctlOutcome::Succeeded { ended_at: at(5) })
    };
    let refused = refuses(&wanted, Some(&newer), |_| false).unwrap();
    waits(&refused, "is refused");
    // An older one is contained in the branch, and one of another rollout says nothing.
    assert_eq!(refuses(&wanted, Some(&newer), |_| true), None);
    let other = EksctlRun { rollout: "bbbbbbbbbbbb".parse().unwrap(), ..newer };
    assert_eq!(refuses(&wanted, Some(&other), |_| false), None);
    let running = EksctlRun { outcome: EksctlOutcome::Running, ..other };
    waits(&refuses(&wanted, Some(&running), |_| true).unwrap(), "eksctl still carries out");
}

#[test]
fn pauses_double_up_to_an_hour() {
    let seconds: Vec<i64> = [1, 2, 3, 6, 7, 99].map(|attempts| pause_after(attempts).as_secs()).to_vec();
    assert_eq!(seconds, [60, 120, 240, 1920, 3600, 3600]);
}

#[test]
fn errors_that_people_meet_are_known() {
    for (line, meaning) in [
        ("Error: operation error EKS: UpdateClusterVersion, api error ResourceInUseException: …", "somebody else"),
        ("Kubelet version of Fargate pods must be updated to match cluster version 1.31", "pods on Fargate"),
        ("3 pods are unevictable from node ip-10-0-0-1", "a budget keeps pods"),
        ("operation error STS: GetCallerIdentity, api error ExpiredToken: The security token …", "expired"),
        ("Error: loading config file \"shop.yaml\": unknown field \"nodeGroup\"", "does not know a field"),
    ] {
        let known = known_error(&[String::from("2026-01-01 starting"), line.to_owned()]).unwrap();
        assert!(known.meaning.contains(meaning), "{line}: {known:?}");
    }
    assert_eq!(known_error(&[String::from("all well")]), None);
}
