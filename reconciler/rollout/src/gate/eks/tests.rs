use super::*;
use crate::before::Before;
use crate::gate::findings::Findings;
use jiff::Timestamp;

fn node(name: &str, origin: Option<NodeOrigin>, kubelet: &str) -> Node {
    Node {
        name: name.to_owned(),
        ready: ConditionStatus::True,
        unschedulable: false,
        pressures: Vec::new(),
        control_plane: false,
        kubelet_version: Some(kubelet.to_owned()),
        release: None,
        origin,
        unschedulable_since: None,
    }
}

fn of(name: &str, group: &str, kubelet: &str) -> Node {
    node(name, Some(NodeOrigin::Group(group.to_owned())), kubelet)
}

fn reading(nodes: &[Node]) -> Observation {
    let mut observation = Observation::empty(Timestamp::UNIX_EPOCH);
    observation.nodes = nodes.to_vec();
    observation.survey = Some(Survey::default());
    observation
}

#[track_caller]
fn check_part(part: EksPart, observation: &Observation, expected: &[&str]) {
    check_expectation(&part.into(), observation, expected);
}

#[track_caller]
fn check_expectation(expectation: &EksExpectation, observation: &Observation, expected: &[&str]) {
    let mut findings = Findings::default();
    check(expectation, observation, &mut findings);
    let reasons = match findings.into_verdict() {
        Ok(_) => Vec::new(),
        Err(verdict) => match *verdict {
            crate::verdict::GateVerdict::Wait { reason, .. } => reason.into_lines(),
            other => panic!("{other:?}"),
        },
    };
    assert_eq!(reasons.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
}

fn group(nodes: u32) -> EksPart {
    EksPart::NodeGroup { name: "ng-1-32".parse().unwrap(), version: Some("1.32".to_owned()), nodes }
}

#[test]
fn a_control_plane_is_at_its_minor_and_no_kubelet_is_newer() {
    let part = || EksPart::ControlPlane { version: "1.32".to_owned() };
    let mut observation = reading(&[of("a", "ng-1-31", "v1.31.4-eks-1")]);
    check_part(part(), &observation, &["API server: /version: its version is not known: it was not read"]);
    observation.server_version = Some("v1.31.9-eks-1".to_owned());
    check_part(part(), &observation, &["API server: /version: v1.31.9-eks-1, 1.32 expected"]);
    for version in ["v1.32.2-eks-2", "v1.32+", "1.32"] {
        observation.server_version = Some(version.to_owned());
        check_part(part(), &observation, &[]);
    }
    observation.nodes.push(of("b", "ng-1-33", "v1.33.0"));
    let newer = "Node b: status.nodeInfo.kubeletVersion: kubelet v1.33.0 is newer than the API server may be (1.32)";
    check_part(part(), &observation, &[newer]);
}

#[test]
fn a_group_has_its_nodes_ready_at_its_version() {
    check_part(group(2), &reading(&[of("a", "ng-1-32", "v1.32.1")]), &["node group ng-1-32: 1 of 2 nodes are ready"]);
    check_part(group(1), &reading(&[of("a", "ng-1-32", "v1.32.1"), of("b", "ng-1-31", "v1.31.1")]), &[]);
    check_part(group(0), &reading(&[]), &[]);
    let mut cordoned = of("a", "ng-1-32", "v1.32.1");
    cordoned.unschedulable = true;
    let mut unready = of("b", "ng-1-32", "v1.32.1");
    unready.ready = ConditionStatus::Unknown;
    let older = of("c", "ng-1-32", "v1.31.1");
    check_part(
        group(1),
        &reading(&[cordoned, unready, older]),
        &[
            "Node a: spec.unschedulable: is cordoned",
            "Node b: status.conditions[Ready]: Unknown, True expected",
            "Node c: status.nodeInfo.kubeletVersion: kubelet v1.31.1, 1.32 expected",
            "node group ng-1-32: 0 of 1 nodes are ready",
        ],
    );
}

#[test]
fn a_group_that_goes_is_cordoned_and_then_gone() {
    let part = || EksPart::NodeGroupGone { name: "ng-1-31".parse().unwrap() };
    let mut cordoned = of("a", "ng-1-31", "v1.31.1");
    cordoned.unschedulable = true;
    check_part(
        part(),
        &reading(&[cordoned, of("b", "ng-1-31", "v1.31.1")]),
        &[
            "Node a: of group ng-1-31 is cordoned and still there",
            "Node b: of group ng-1-31 is still there, and not cordoned",
        ],
    );
    check_part(part(), &reading(&[of("c", "ng-1-32", "v1.32.1")]), &[]);
}

#[test]
fn workloads_of_the_system_are_as_well_as_before() {
    let mut observation = reading(&[of("a", "ng-1-32", "v1.32.1")]);
    observation.survey = None;
    check_part(group(1), &observation, &["workloads: were not looked at yet"]);
    let broken = ["Deployment kube-system/coredns", "DaemonSet logging/agent", "Deployment shop/web"];
    let broken = broken.map(str::to_owned).to_vec();
    observation.survey = Some(Survey { workloads: 9, broken });
    check_part(
        group(1),
        &observation,
        &["Deployment kube-system/coredns: is not ready", "DaemonSet logging/agent: is not ready"],
    );
    let before = Before::of(&observation);
    check_expectation(&EksExpectation { part: group(1), before }, &observation, &[]);
}

#[test]
fn what_could_not_be_read_waits() {
    let mut observation = reading(&[of("a", "ng-1-32", "v1.32.1")]);
    observation.unread.insert("Node".to_owned(), "forbidden".to_owned());
    check_part(group(1), &observation, &["Node: could not be read: forbidden"]);
}

#[test]
fn an_add_on_runs_its_version() {
    let part = |name: &str, version: Option<&str>| EksPart::Addon {
        name: name.parse().unwrap(),
        version: version.map(str::to_owned),
    };
    let mut observation = reading(&[]);
    check_part(
        part("coredns", Some("v1.11.4-eksbuild.2")),
        &observation,
        &["Deployment kube-system/coredns: not found, though it is what add-on coredns runs"],
    );
    let image = "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/coredns:v1.11.3-eksbuild.1".to_owned();
    observation.deployments.push(crate::observation::Deployment {
        namespace: "kube-system".to_owned(),
        name: "coredns".to_owned(),
        generation: 3,
        observed_generation: Some(3),
        spec_replicas: 2,
        replicas: Some(2),
        updated_replicas: Some(2),
        images: vec![image.clone()],
        ..crate::observation::Deployment::default()
    });
    let field = "spec.template.spec.containers[].image";
    let behind = format!("Deployment kube-system/coredns: {field}: runs {image}, v1.11.4-eksbuild.2 expected");
    check_part(part("coredns", Some("v1.11.4-eksbuild.2")), &observation, &[&behind]);
    for version in [Some("v1.11.3-eksbuild.9"), Some("1.11.3"), Some("latest"), None] {
        check_part(part("coredns", version), &observation, &[]);
    }
    check_part(part("team-agent", Some("v2.2.0")), &observation, &[]);
}

#[test]
fn an_add_on_is_rolled_out_when_no_pod_of_before_is_left() {
    let part = || EksPart::Addon { name: "coredns".parse().unwrap(), version: Some("v1.11.4".to_owned()) };
    let with = |replicas: u32, updated: Option<u32>| {
        let mut observation = reading(&[]);
        observation.deployments.push(crate::observation::Deployment {
            namespace: "kube-system".to_owned(),
            name: "coredns".to_owned(),
            observed_generation: Some(0),
            spec_replicas: 2,
            replicas: Some(replicas),
            // Those of before are, where the new ones are not.
            ready_replicas: Some(2),
            updated_replicas: updated,
            images: vec!["registry.example.com/eks/coredns:v1.11.4-eksbuild.2".to_owned()],
            ..crate::observation::Deployment::default()
        });
        observation
    };
    let coredns = "Deployment kube-system/coredns: status.";
    for (updated, count) in [(None, 0), (Some(1), 1)] {
        let few = format!("{coredns}updatedReplicas: {count} of 2 pods are of its newest template");
        check_part(part(), &with(3, updated), &[&few]);
    }
    let many = format!("{coredns}replicas: 3, 2 expected: pods of before are still there");
    check_part(part(), &with(3, Some(2)), &[&many]);
    check_part(part(), &with(2, Some(2)), &[]);
    // What was not ready before the rollout need not be.
    let mut broken = with(3, Some(1));
    broken.survey = Some(Survey { workloads: 1, broken: vec!["Deployment kube-system/coredns".to_owned()] });
    let before = Before::of(&broken);
    check_expectation(&EksExpectation { part: part(), before }, &broken, &[]);
}

#[test]
fn an_image_that_cannot_be_pulled_is_told_where_pods_come_anew() {
    use crate::expectation::Expectation;
    let moves = |part: EksPart| Expectation::Eks(part.into()).moves_pods();
    assert!(moves(group(1)) && moves(EksPart::NodeGroupGone { name: "ng-1-31".parse().unwrap() }));
    assert!(moves(EksPart::Addon { name: "kube-proxy".parse().unwrap(), version: None }));
    assert!(!moves(EksPart::Leftovers { cluster: "shop".to_owned(), groups: Vec::new() }));
}

#[test]
fn fargate_and_leftovers_are_told_with_what_helps() {
    let fargate = || EksPart::Fargate { version: "1.32".to_owned(), restarts: false };
    let nodes = [
        node("fargate-1", Some(NodeOrigin::Fargate), "v1.31.1"),
        of("a", "ng-1-32", "v1.32.1"),
        of("b", "ng-1-31", "v1.31.1"),
        node("auto", Some(NodeOrigin::Other("auto".to_owned())), "v1.32.1"),
        node("stray", None, "v1.32.1"),
    ];
    let observation = reading(&nodes);
    check_part(
        fargate(),
        &observation,
        &[
            "Node fargate-1: status.nodeInfo.kubeletVersion: is of Fargate at v1.31.1, and goes with its pod alone: 1.32 \
           expected",
        ],
    );
    check_part(fargate(), &reading(&[node("fargate-1", Some(NodeOrigin::Fargate), "v1.32.1")]), &[]);
    let leftovers = || EksPart::Leftovers { cluster: "shop".to_owned(), groups: vec!["ng-1-32".to_owned()] };
    check_part(
        leftovers(),
        &observation,
        &["Node b: is of node group ng-1-31, which the cluster has no longer", "Node stray: belongs to no node group"],
    );
    let before = Before::of(&observation);
    let known = EksExpectation { part: leftovers(), before };
    check_expectation(&known, &observation, &["Node b: is of node group ng-1-31, which the cluster has no longer"]);
}
