//! What checks say of readings, and what waivers make of it.

use jiff::{SignedDuration, Timestamp};

use super::waiver as waiver_that_counts;
use super::*;
use crate::observation::{
    AdmissionWebhook, ApiUse, ApiUseKind, Certificate, ConditionStatus, CustomResourceDefinition, Machine, Node,
    ObjectReference, SystemRequest, UnfitObject,
};

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn node(name: &str) -> Node {
    Node {
        name: name.to_owned(),
        ready: ConditionStatus::True,
        unschedulable: false,
        pressures: Vec::new(),
        control_plane: false,
        kubelet_version: None,
        release: None,
        origin: None,
        unschedulable_since: None,
    }
}

fn observation() -> Observation {
    Observation { nodes: vec![node("a")], inspection: Some(Inspection::default()), ..Observation::empty(now()) }
}

fn expectation(waivers: Vec<Waiver>) -> ChecksExpectation {
    ChecksExpectation {
        cluster: Some(("eksa-system".to_owned(), "prod".to_owned())),
        waivers,
        ..ChecksExpectation::default()
    }
}

fn of(check: CheckName, observation: &Observation, waivers: Vec<Waiver>) -> CheckOutcome {
    outcomes(&expectation(waivers), observation).into_iter().find(|outcome| outcome.check == check).unwrap()
}

fn reference(kind: &str, name: &str) -> ObjectReference {
    ObjectReference { api_version: "v1".to_owned(), kind: kind.to_owned(), namespace: None, name: name.to_owned() }
}

fn waiver(check: CheckName, object: Option<&str>, expires: &str) -> Waiver {
    Waiver {
        check,
        object: object.map(|object| object.parse().unwrap()),
        reason: "its disk is replaced".to_owned(),
        owner: Some("storage".to_owned()),
        expires: expires.parse().unwrap(),
    }
}

#[test]
fn each_check_is_named_once_and_says_what_it_looks_at() {
    let names: Vec<CheckName> = CHECKS.iter().map(|check| check.name).collect();
    assert_eq!(names, CheckName::ALL);
    assert!(CHECKS.iter().all(|check| !check.looks_at.is_empty() && !check.remedy.is_empty()));
}

#[test]
fn a_cluster_in_which_nothing_is_found_passes_every_check() {
    for outcome in outcomes(&expectation(Vec::new()), &observation()) {
        assert_eq!((outcome.status, outcome.line()), (CheckStatus::Pass, "pass".to_owned()), "{outcome:?}");
    }
}

#[test]
fn what_was_not_read_is_unknown_to_every_check() {
    let unseen = Observation { inspection: None, ..observation() };
    let outcomes_of_unseen = outcomes(&expectation(Vec::new()), &unseen);
    assert!(outcomes_of_unseen.iter().all(|outcome| outcome.status == CheckStatus::Unknown));
    assert!(outcomes_of_unseen.iter().all(|outcome| outcome.waits() || outcome.severity == CheckSeverity::Advisory));
    let mut partly = observation();
    partly.inspection.as_mut().unwrap().unread.insert(CheckName::Webhooks, "forbidden".to_owned());
    assert!(of(CheckName::Webhooks, &partly, Vec::new()).waits());
    assert_eq!(of(CheckName::Nodes, &partly, Vec::new()).status, CheckStatus::Pass);
    let mut without_nodes = observation();
    without_nodes.unread.insert("Node".to_owned(), "forbidden".to_owned());
    assert!(of(CheckName::Nodes, &without_nodes, Vec::new()).waits());
}

#[test]
fn a_finding_whose_waiver_does_not_count_yet_says_when_it_will() {
    let mut seen = observation();
    seen.nodes[0].unschedulable = true;
    let of_nodes = |to_come: Vec<Waiver>| {
        let expectation = ChecksExpectation { waivers_to_come: to_come, ..expectation(Vec::new()) };
        let outcome = outcomes(&expectation, &seen).into_iter().find(|outcome| outcome.check == CheckName::Nodes);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.status, outcome.waived.len()), (CheckStatus::Warn, 0));
        outcome.findings[0].remedy.clone().unwrap()
    };
    let pushed = of_nodes(vec![waiver(CheckName::Nodes, Some("Node/a"), "2026-12-31")]);
    assert!(pushed.contains("its disk is replaced") && pushed.contains("--trust-policy COMMIT"), "{pushed}");
    for other in [waiver(CheckName::Drains, None, "2026-12-31"), waiver(CheckName::Nodes, None, "2026-02-28")] {
        assert!(of_nodes(vec![other]).starts_with("kubectl uncordon a"));
    }
}

#[test]
fn every_check_but_signatures_can_be_waived_with_reason_owner_and_last_day() {
    let problem = |message: &str| CheckFinding::fail(message).on(FoundObject::from(&reference("Node", "a")));
    for check in CHECKS {
        let text = format!(
            "waivers: [{{check: {}, object: Node/a, reason: r, owner: team, expires: 2026-12-31}}]\n",
            check.name
        );
        let path = domain::RepoPath::new("stepgate.yaml").unwrap();
        let (policy, problems) = policy::read_policy(&path, text.as_bytes());
        let given = policy.waivers("mgmt");
        let found = waiver_of(check.name, &problem("is broken"), &given);
        if check.name == CheckName::Signatures {
            assert!(problems[0].message.contains("signatures cannot be waived"), "{problems:?}");
            assert_eq!(found, None);
            continue;
        }
        assert_eq!(problems, [], "{}", check.name);
        assert_eq!(found.unwrap().to_string(), "waived until 2026-12-31 by team: r", "{}", check.name);
        let unknown = CheckFinding { status: CheckStatus::Unknown, ..problem("was not read") };
        assert_eq!(waiver_of(check.name, &unknown, &given), None, "{}", check.name);

        // What is not whole waives nothing, and says what is missing; what has ended says so.
        for (change, expected) in [
            (("reason: r, ", ""), "a waiver has no reason"),
            ((", expires: 2026-12-31", ""), "a waiver has no expires"),
            ((check.name.as_str(), "chekc"), "\"chekc\" is not the name of a check"),
        ] {
            let broken = text.replace(change.0, change.1);
            let (policy, problems) = policy::read_policy(&path, broken.as_bytes());
            assert_eq!(policy.waivers("mgmt"), []);
            let is_told = problems.iter().any(|problem| problem.message.contains(expected) && problem.line == Some(1));
            assert!(is_told, "{}: {problems:?}", check.name);
        }
        let ended = Waiver { expires: "2026-02-28".parse().unwrap(), ..given[0].clone() };
        let outcome = of(check.name, &observation(), vec![ended]);
        assert_eq!(outcome.status, CheckStatus::Warn);
        let line = outcome.line();
        assert!(line.contains("the waiver of Node/a ended on 2026-02-28 and counts for nothing"), "{line}");
    }
}

fn waiver_of(check: CheckName, finding: &CheckFinding, waivers: &[Waiver]) -> Option<Waiver> {
    waiver_that_counts(check, finding, waivers, now().to_zoned(TimeZone::UTC).date())
}

#[test]
fn nodes_fail_when_not_ready_or_under_pressure_and_warn_when_cordoned() {
    for (change, status, message) in [
        (
            (|node: &mut Node| node.ready = ConditionStatus::Unknown) as fn(&mut Node),
            CheckStatus::Fail,
            "Ready is Unknown",
        ),
        (|node| node.pressures.push("DiskPressure".to_owned()), CheckStatus::Fail, "DiskPressure is True"),
        (|node| node.unschedulable = true, CheckStatus::Warn, "is cordoned"),
    ] {
        let mut observation = observation();
        change(&mut observation.nodes[0]);
        let outcome = of(CheckName::Nodes, &observation, Vec::new());
        assert_eq!((outcome.status, outcome.findings.len()), (status, 1));
        assert!(outcome.line().contains(&format!("Node a: {message}")), "{}", outcome.line());
    }
}

#[test]
fn certificates_warn_a_month_and_fail_a_week_before_their_end() {
    let hours = |count: i64| now() + SignedDuration::from_hours(count);
    for (ends, status) in [
        (hours(30 * 24), CheckStatus::Pass),
        (hours(30 * 24 - 1), CheckStatus::Warn),
        (hours(7 * 24), CheckStatus::Warn),
        (hours(7 * 24 - 1), CheckStatus::Fail),
        (hours(-1), CheckStatus::Fail),
    ] {
        let mut held = observation();
        held.inspection.as_mut().unwrap().certificates.push(Certificate {
            object: reference("Secret", "prod-ca"),
            field: "data[tls.crt]".to_owned(),
            purpose: "certificate authority".to_owned(),
            ends,
        });
        assert_eq!(of(CheckName::Certificates, &held, Vec::new()).status, status, "{ends}");
        let mut machines = observation();
        let machine = |cluster: &str| Machine {
            namespace: "eksa-system".to_owned(),
            name: "cp-1".to_owned(),
            cluster: cluster.to_owned(),
            certificates_end: Some(ends),
            ..Machine::default()
        };
        machines.machines.push(machine("prod"));
        assert_eq!(of(CheckName::Certificates, &machines, Vec::new()).status, status, "{ends}");
        machines.machines = vec![machine("other")];
        assert_eq!(of(CheckName::Certificates, &machines, Vec::new()).status, CheckStatus::Pass);
    }
}

#[test]
fn a_webhook_that_nothing_answers_fails_and_one_that_answers_warns() {
    let webhook = |unserved: Option<&str>, conditional| AdmissionWebhook {
        configuration: reference("ValidatingWebhookConfiguration", "policy"),
        name: "all.example.com".to_owned(),
        called_for: vec![SystemRequest::Node, SystemRequest::SystemPod],
        conditional,
        backend: "Service policy/hook".to_owned(),
        unserved: unserved.map(str::to_owned),
    };
    for (webhook, status, message) in [
        (webhook(Some("no endpoint"), false), CheckStatus::Fail, "nothing answers now: no endpoint"),
        (webhook(Some("no endpoint"), true), CheckStatus::Warn, "matchConditions"),
        (webhook(None, false), CheckStatus::Warn, "has to answer all through the rollout"),
    ] {
        let mut observation = observation();
        observation.inspection.as_mut().unwrap().webhooks.push(webhook);
        let outcome = of(CheckName::Webhooks, &observation, Vec::new());
        assert_eq!(outcome.status, status);
        assert!(outcome.line().contains("nodes, pods in kube-system"), "{}", outcome.line());
        assert!(outcome.line().contains(message), "{}", outcome.line());
    }
}

#[test]
fn a_waiver_counts_for_its_check_and_object_until_its_last_day() {
    let mut observation = observation();
    observation.nodes[0].pressures.push("DiskPressure".to_owned());
    observation.nodes.push(Node { unschedulable: true, ..node("b") });
    for (waivers, status, waived) in [
        (vec![], CheckStatus::Fail, 0),
        (vec![waiver(CheckName::Nodes, Some("Node/a"), "2026-03-01")], CheckStatus::Warn, 1),
        (vec![waiver(CheckName::Nodes, None, "2026-03-01")], CheckStatus::Pass, 2),
        (vec![waiver(CheckName::Nodes, Some("Node/b"), "2026-03-01")], CheckStatus::Fail, 1),
        (vec![waiver(CheckName::Webhooks, None, "2026-03-01")], CheckStatus::Fail, 0),
        (vec![waiver(CheckName::Nodes, Some("Node/a"), "2026-02-28")], CheckStatus::Fail, 0),
    ] {
        let outcome = of(CheckName::Nodes, &observation, waivers.clone());
        assert_eq!((outcome.status, outcome.waived.len()), (status, waived), "{waivers:?}");
    }
    let outcome = of(CheckName::Nodes, &observation, vec![waiver(CheckName::Nodes, None, "2026-03-01")]);
    assert!(outcome.line().contains("waived until 2026-03-01 by storage: its disk is replaced"), "{}", outcome.line());
}

#[test]
fn a_waiver_that_has_ended_is_named() {
    let outcome = of(CheckName::Nodes, &observation(), vec![waiver(CheckName::Nodes, Some("Node/a"), "2026-02-28")]);
    assert_eq!(outcome.status, CheckStatus::Warn);
    let expected = "warn: the waiver of Node/a ended on 2026-02-28 and counts for nothing";
    assert_eq!(outcome.line(), expected);
}

#[test]
fn nobody_waives_what_is_not_known() {
    let mut observation = observation();
    observation.inspection.as_mut().unwrap().unread.insert(CheckName::Webhooks, "forbidden".to_owned());
    assert!(of(CheckName::Webhooks, &observation, vec![waiver(CheckName::Webhooks, None, "2026-03-01")]).waits());
}

#[test]
fn a_stored_version_that_the_new_definition_lacks_fails() {
    let mut asked = expectation(Vec::new());
    asked.definitions = vec![DefinitionChange {
        name: "as.example.com".to_owned(),
        group: "example.com".to_owned(),
        kind: "A".to_owned(),
        plural: "as".to_owned(),
        versions: vec!["v1".to_owned()],
        storage: "v1".to_owned(),
        narrowed: Vec::new(),
    }];
    let with = |stored: &[&str]| {
        let mut observation = observation();
        observation.custom_resource_definitions.push(CustomResourceDefinition {
            name: "as.example.com".to_owned(),
            established: true,
            names_accepted: true,
            deleting: false,
            versions: Vec::new(),
            served_versions: Vec::new(),
            storage_version: None,
            stored_versions: stored.iter().map(|version| (*version).to_owned()).collect(),
            conversion_authority_injected: None,
        });
        let all = outcomes(&asked, &observation);
        all.into_iter().find(|outcome| outcome.check == CheckName::Definitions).unwrap()
    };
    assert_eq!(with(&["v1"]).status, CheckStatus::Pass);
    let failed = with(&["v1alpha3", "v1"]);
    assert!(failed.holds(), "{failed:?}");
    let expected = "CustomResourceDefinition as.example.com: status.storedVersions lists v1alpha3";
    assert!(failed.line().contains(expected), "{}", failed.line());
    // What the cluster does not have yet stores nothing.
    assert_eq!(outcomes(&asked, &observation())[3].status, CheckStatus::Pass);
}

#[test]
fn objects_that_do_not_fit_fail_and_those_that_may_not_warn() {
    for (is_certain, status) in [(true, CheckStatus::Fail), (false, CheckStatus::Warn)] {
        let mut asked = expectation(Vec::new());
        asked.definitions = vec![DefinitionChange {
            name: "as.example.com".to_owned(),
            group: "example.com".to_owned(),
            kind: "A".to_owned(),
            plural: "as".to_owned(),
            versions: vec!["v1".to_owned()],
            storage: "v1".to_owned(),
            narrowed: Vec::new(),
        }];
        let mut observation = observation();
        observation.inspection.as_mut().unwrap().unfit.push(UnfitObject {
            object: reference("A", "one"),
            field: "spec".to_owned(),
            message: "has no b, which the new schema requires".to_owned(),
            is_certain,
            others: 2,
        });
        let all = outcomes(&asked, &observation);
        let outcome = all.iter().find(|outcome| outcome.check == CheckName::Definitions).unwrap();
        assert_eq!(outcome.status, status);
        let expected = "A one: v1 spec: has no b, which the new schema requires (and 2 more objects)";
        assert!(outcome.line().contains(expected), "{}", outcome.line());
    }
}

#[test]
fn uses_of_removed_apis_fail_and_suspicions_warn() {
    let used = |kind: ApiUseKind| ApiUse {
        object: Some(reference("X", "x")),
        api_version: "policy/v1beta1".to_owned(),
        removed: 25,
        advice: "use policy/v1".to_owned(),
        kind,
    };
    for (kind, status) in [
        (ApiUseKind::ScaleTarget, CheckStatus::Fail),
        (ApiUseKind::HelmRelease, CheckStatus::Fail),
        (ApiUseKind::WebhookRule, CheckStatus::Warn),
        (ApiUseKind::LastWritten { by: "kubectl".to_owned() }, CheckStatus::Warn),
        (ApiUseKind::Requested, CheckStatus::Warn),
        (ApiUseKind::Unread { reason: "forbidden".to_owned() }, CheckStatus::Warn),
    ] {
        let mut asked = expectation(Vec::new());
        asked.removed_apis = Some(RemovedApis { deployed: Some(24), target: 25, rendered: Vec::new() });
        let mut observation = observation();
        observation.inspection.as_mut().unwrap().api_uses.push(used(kind.clone()));
        let all = outcomes(&asked, &observation);
        let outcome = all.iter().find(|outcome| outcome.check == CheckName::RemovedApis).unwrap();
        assert_eq!(outcome.status, status, "{kind:?}");
        assert!(outcome.line().contains("policy/v1beta1"), "{}", outcome.line());
    }
}

#[test]
fn an_address_that_no_new_node_could_show_is_said_before_anything_rolls() {
    use crate::expectation::ControlPlaneAddress;
    use crate::observation::{Pod, VirtualAddress};

    let with = |kube_vip: bool, lease: &str| ChecksExpectation {
        address: Some(Box::new(ControlPlaneAddress {
            namespace: "eksa-system".to_owned(),
            cluster: "prod".to_owned(),
            kube_vip,
            lease: Some(lease.to_owned()),
        })),
        ..expectation(Vec::new())
    };
    let machine = |name: &str| Machine {
        namespace: "eksa-system".to_owned(),
        name: name.to_owned(),
        cluster: "prod".to_owned(),
        control_plane: true,
        node: Some(name.to_owned()),
        ..Machine::default()
    };
    let pod = |node: &str, ready: bool| Pod {
        namespace: "kube-system".to_owned(),
        name: format!("kube-vip-{node}"),
        application: "kube-vip".to_owned(),
        node: Some(node.to_owned()),
        ready,
        running: Vec::new(),
    };
    let held = |host: Option<&str>| {
        Some(VirtualAddress { holder: host.map(str::to_owned), renewed_at: None, transitions: None })
    };
    let seen = Observation {
        machines: vec![machine("a"), machine("b")],
        pods: vec![pod("a", true), pod("b", true)],
        virtual_address: held(Some("a.example.com")),
        ..observation()
    };
    let says = |expectation: &ChecksExpectation, observation: &Observation| {
        let outcomes = outcomes(expectation, observation);
        outcomes.into_iter().find(|outcome| outcome.check == CheckName::VirtualAddress).unwrap().line()
    };
    let kube_vip = with(true, "plndr-cp-lock");
    let without_pods = Observation { pods: vec![pod("a", false), pod("worker", true)], ..seen.clone() };
    let one = Observation { pods: vec![pod("a", true)], ..seen.clone() };
    let unread = |kind: &str| {
        let mut unread = seen.clone();
        unread.unread.insert(kind.to_owned(), "forbidden".to_owned());
        unread
    };
    for (expectation, observation, expected) in [
        (&kube_vip, &seen, "pass"),
        (&kube_vip, &without_pods, "fail: kube-vip, which the specification brings, is ready on no node of"),
        (&kube_vip, &one, "warn: Node b: no pod of kube-vip is ready there"),
        (
            &with(false, "misspelt"),
            &Observation { virtual_address: None, ..without_pods.clone() },
            "fail: Lease kube-system/misspelt: is not there",
        ),
        (
            &kube_vip,
            &Observation { virtual_address: held(None), ..seen.clone() },
            "fail: Lease kube-system/plndr-cp-lock: is held by nobody",
        ),
        (
            &kube_vip,
            &Observation { virtual_address: held(Some("worker")), ..seen.clone() },
            "is held by worker, which is not a node of the control plane",
        ),
        (&kube_vip, &unread("Lease"), "unknown: Lease could not be read: forbidden"),
        (&kube_vip, &unread("Pod"), "unknown: Pod could not be read"),
        (&kube_vip, &Observation { machines: Vec::new(), ..seen.clone() }, "unknown: no machine of the control plane"),
        // Nothing of the control plane rolls, or nothing carries its address.
        (&expectation(Vec::new()), &without_pods, "pass"),
    ] {
        let said = says(expectation, observation);
        assert!(said.contains(expected), "{said}, {expected} expected");
    }
}
