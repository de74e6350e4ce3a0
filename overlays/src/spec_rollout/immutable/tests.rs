use super::rule::Check;
use super::*;
use crate::testing::memory;
use crate::{ClusterKind, MemoryFiles, RenderedTree, read_fleet};

const PATH: &str = "clusters/shop/cluster.yaml";

const CLUSTER: &str = "\
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: shop}
spec:
  controlPlaneRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlane, name: shop}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlane
metadata: {name: shop}
spec: {replicas: 3, version: v1.33.1}
";

/// A cluster whose one file holds `text`.
fn cluster(text: &str) -> (ClusterSpec, MemoryFiles) {
    let fleet = read_fleet(&memory(&[(PATH, CLUSTER)]));
    let mut cluster = fleet.clusters.into_iter().next().unwrap();
    cluster.files = vec![SpecFile { path: PATH.parse().unwrap(), bytes: text.as_bytes().into() }];
    (cluster, memory(&[(PATH, text)]))
}

fn deployed(text: &str) -> RenderedTree {
    let mut tree = RenderedTree::new();
    tree.insert("cluster/cluster.yaml".parse().unwrap(), text.as_bytes());
    tree
}

fn changes(old: &str, new: &str) -> Vec<Problem> {
    let (cluster, files) = cluster(new);
    immutable_changes(&deployed(old), &cluster, &files)
}

fn count(old: &str, new: &str) -> usize {
    changes(old, new).len()
}

/// The group's version, which says nothing to these rules.
fn api_version(group: &str) -> String {
    format!("{group}/{}", if group.starts_with("anywhere") { "v1alpha1" } else { "v1beta1" })
}

/// An object of a rule's kind with a value at its field, and what else the rule looks at.
fn object(rule: &Rule, value: &str, version: &str) -> String {
    let (first, rest) = rule.field.split_once('.').unwrap_or((rule.field, ""));
    assert_eq!(first, "spec");
    let mut spec = value.to_owned();
    for key in rule.field.split('.').skip(1).collect::<Vec<_>>().into_iter().rev() {
        spec = format!("{{{key}: {spec}}}");
    }
    let more =
        if rule.when == When::TinkerbellUpgrade { format!("  kubernetesVersion: {version}\n") } else { String::new() };
    let spec = if rest.is_empty() || more.is_empty() {
        format!("spec: {spec}\n")
    } else {
        format!("spec:\n  {}\n{more}", spec.trim_start_matches('{').strip_suffix('}').unwrap())
    };
    format!("apiVersion: {}\nkind: {}\nmetadata: {{name: m}}\n{spec}", api_version(rule.group), rule.kind)
}

/// Two values between which a change is refused.
fn values(check: Check) -> (&'static str, &'static str) {
    match check {
        Check::Any | Check::AnyAtOneVersion | Check::BetweenValues => ("one", "two"),
        Check::AnyBut(_) => ("{size: one}", "{size: two}"),
        Check::ValuesOfList => ("[one]", "[two]"),
        Check::Removal | Check::RemovalWithout(_) => ("{name: one}", "null"),
        Check::Presence => ("null", "{count: 3}"),
        Check::Reference | Check::AnotherReference => ("{kind: A, name: one}", "{kind: A, name: two}"),
        Check::ReferenceOfKind(_) => ("[{kind: AWSIamConfig, name: one}]", "[{kind: AWSIamConfig, name: two}]"),
        Check::ItemsByName => ("[{name: a, id: one}]", "[{name: a, id: two}]"),
        Check::FieldOfItems("labels") => ("[{name: a, labels: one}]", "[{name: a, labels: two}]"),
        Check::FieldOfItems(_) => ("[{name: a, taints: one}]", "[{name: a, taints: two}]"),
        Check::FirstUser => ("[{name: one}]", "[{name: two}]"),
        Check::NetworkPlugin => ("{cniConfig: {cilium: {}}}", "{cniConfig: {kindnetd: {}}}"),
    }
}

/// Names the machine configuration `m` as that of the control plane.
const OWNER: &str = "\
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata: {name: shop}
spec: {controlPlaneConfiguration: {machineGroupRef: {name: m}}}
";

#[test]
fn every_row_is_refused_with_its_field_line_and_remedy() {
    for rule in cluster_api::RULES.iter().chain(eks_anywhere::RULES) {
        let (one, two) = values(rule.check);
        let old = format!("{}{OWNER}", object(rule, one, "1.32"));
        let new = format!("{}{OWNER}", object(rule, two, "1.33"));
        let (mut cluster, files) = cluster(&new);
        cluster.management = match rule.when {
            When::Managed => Management::ManagedBy("hub".to_owned()),
            _ => Management::SelfManaged,
        };
        cluster.provider = match rule.when {
            When::Tinkerbell | When::TinkerbellUpgrade => Provider::Tinkerbell,
            _ => Provider::VSphere,
        };
        let problems = immutable_changes(&deployed(&old), &cluster, &files);
        let [problem] = problems.as_slice() else { panic!("{rule:?}: {problems:?}") };
        assert!(problem.message.contains(rule.field), "{problem}");
        assert_eq!(problem.code, ProblemCode::ImmutableField);
        assert!(
            problem.is_error() && problem.line.is_some_and(|line| line > 3) && problem.hint.is_some(),
            "{problem:?}"
        );
        // Nothing changes, or the other kind of cluster: nothing is told.
        let same = immutable_changes(&deployed(&new), &cluster, &files);
        assert!(same.is_empty(), "{rule:?}: {same:?}");
    }
}

#[test]
fn rules_of_some_clusters_leave_the_others_alone() {
    for rule in eks_anywhere::RULES.iter().filter(|rule| !matches!(rule.when, When::Always | When::NotPaused)) {
        let (one, two) = values(rule.check);
        let old = format!("{}{OWNER}", object(rule, one, "1.32"));
        let (mut cluster, files) = cluster(&format!("{}{OWNER}", object(rule, two, "1.33")));
        cluster.provider = Provider::VSphere;
        cluster.management = match rule.when {
            When::Managed => Management::SelfManaged,
            _ => Management::ManagedBy("hub".to_owned()),
        };
        assert_eq!(immutable_changes(&deployed(&old), &cluster, &files), [], "{rule:?}");
    }
}

const TEMPLATE: &str = "\
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: AzureMachineTemplate
metadata: {name: a, namespace: fleet}
spec:
  template:
    spec:
      vmSize: Standard_D2s_v3
";

#[test]
fn a_template_edited_in_place_is_told_with_both_values() {
    let new = TEMPLATE.replace("D2s", "D4s");
    let [problem] = changes(TEMPLATE, &new).try_into().unwrap();
    assert_eq!(
        problem.message,
        "AzureMachineTemplate fleet/a: spec.template.spec.vmSize goes from \"Standard_D2s_v3\" to \"Standard_D4s_v3\", and the \
         webhook of this kind refuses it"
    );
    assert_eq!((problem.line, problem.column), (Some(7), Some(15)));
    assert_eq!(problem.path_text(), Some(PATH));
    assert!(problem.hint.unwrap().contains("make a new AzureMachineTemplate of another name"));
}

#[test]
fn a_template_of_another_name_is_what_is_asked_for() {
    assert_eq!(count(TEMPLATE, &TEMPLATE.replace("D2s", "D4s").replace("name: a", "name: b")), 0);
    assert_eq!(count(TEMPLATE, &TEMPLATE.replace("namespace: fleet", "namespace: fleet, labels: {a: b}")), 0);
}

#[test]
fn another_version_of_the_api_may_name_fields_otherwise() {
    assert_eq!(count(TEMPLATE, &TEMPLATE.replace("vmSize", "size").replace("v1beta1", "v1beta2")), 0);
}

#[test]
fn what_the_webhook_lets_through_is_not_refused() {
    let google = TEMPLATE.replace("Azure", "GCP").replace("vmSize: Standard_D2s_v3", "additionalLabels: {a: b}");
    assert_eq!(count(&google, &google.replace("a: b", "a: c")), 0);
    let empty = TEMPLATE.replace("vmSize", "tags: {}\n      vmSize");
    assert_eq!(count(TEMPLATE, &empty), 0);
}

#[test]
fn a_template_that_may_change_rolls_nothing_and_is_a_warning() {
    for (group, kind) in [
        ("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate"),
        ("bootstrap.cluster.x-k8s.io", "RKE2ConfigTemplate"),
        ("infrastructure.cluster.x-k8s.io", "Metal3MachineTemplate"),
        ("infrastructure.cluster.x-k8s.io", "NutanixMachineTemplate"),
    ] {
        let old = TEMPLATE.replace("infrastructure.cluster.x-k8s.io", group).replace("AzureMachineTemplate", kind);
        let [problem] = changes(&old, &old.replace("D2s", "D4s")).try_into().unwrap();
        assert!(!problem.is_error() && problem.message.contains("no machine is rolled"), "{problem}");
        let (mut cluster, files) = cluster(&old.replace("D2s", "D4s"));
        cluster.kind = ClusterKind::ClusterClass;
        assert_eq!(immutable_changes(&deployed(&old), &cluster, &files), [], "its templates are rolled");
    }
}

#[test]
fn values_that_a_controller_fills_in_may_come_and_go() {
    let without = CLUSTER.replace("spec:\n  controlPlaneRef", "spec:\n  paused: false\n  controlPlaneRef");
    let with = CLUSTER.replace("spec:\n", "spec:\n  controlPlaneEndpoint: {host: 192.0.2.1, port: 6443}\n");
    assert_eq!((count(&without, &with), count(&with, &without)), (0, 0));
    assert_eq!(count(&with, &with.replace("192.0.2.1", "192.0.2.2")), 1);
}

const EKS_ANYWHERE: &str = "\
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata: {name: shop}
spec:
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16, 172.16.0.0/16]}}
  proxyConfiguration: {httpProxy: 'http://me:hunter2@192.0.2.9:3128'}
  managementCluster: {name: hub}
";

#[test]
fn the_order_of_networks_does_not_count() {
    let turned = EKS_ANYWHERE.replace("[192.168.0.0/16, 172.16.0.0/16]", "[172.16.0.0/16, 192.168.0.0/16]");
    assert_eq!(count(EKS_ANYWHERE, &turned), 0);
}

#[test]
fn a_paused_cluster_may_change_anything() {
    let paused =
        EKS_ANYWHERE.replace("name: shop", "name: shop, annotations: {anywhere.eks.amazonaws.com/paused: 'true'}");
    let new = EKS_ANYWHERE.replace("192.168.0.0", "192.168.64.0");
    assert_eq!((count(&paused, &new), count(EKS_ANYWHERE, &new)), (0, 1));
}

#[test]
fn another_manager_is_refused() {
    let [problem] = changes(EKS_ANYWHERE, &EKS_ANYWHERE.replace("name: hub", "name: other")).try_into().unwrap();
    assert!(problem.message.contains("spec.managementCluster.name goes from \"hub\" to \"other\""), "{problem}");
    let by_itself = EKS_ANYWHERE.replace("  managementCluster: {name: hub}\n", "");
    assert_eq!(count(&by_itself, &EKS_ANYWHERE.replace("name: hub", "name: shop")), 0);
}

#[test]
fn a_long_value_that_goes_or_comes_is_not_told_whole() {
    let change = |old: Option<&str>, new: Option<&str>| {
        let value = |text: Option<&str>| text.map(|text| Value::String(text.to_owned()));
        told(&[Change { field: "spec.bundlesRef".to_owned(), old: value(old), new: value(new) }])
    };
    let long = "x".repeat(SHOWN + 1);
    let long = Some(long.as_str());
    assert_eq!(change(long, None), "spec.bundlesRef is taken out");
    assert_eq!(change(None, long), "spec.bundlesRef is set");
    assert_eq!(change(long, Some("a")), "spec.bundlesRef gets another value");
    assert_eq!(change(Some("a"), None), "spec.bundlesRef is no longer \"a\"");
}

#[test]
fn passwords_of_a_proxy_are_not_shown() {
    let [problem] = changes(EKS_ANYWHERE, &EKS_ANYWHERE.replace("hunter2", "hunter3")).try_into().unwrap();
    assert!(problem.message.contains("spec.proxyConfiguration.httpProxy gets another value"), "{problem}");
    assert!(!problem.to_string().contains("hunter"), "{problem}");
}

#[test]
fn a_line_is_told_only_where_the_file_says_the_same() {
    let new = TEMPLATE.replace("D2s", "D4s");
    let (cluster, _) = cluster(&new);
    let moved = memory(&[(PATH, &format!("# First\n---\n{new}"))]);
    let line = |files: &MemoryFiles| immutable_changes(&deployed(TEMPLATE), &cluster, files)[0].line;
    assert_eq!((line(&moved), line(&memory(&[(PATH, TEMPLATE)])), line(&memory(&[]))), (Some(9), None, None));
}

#[test]
fn a_cluster_that_goes_to_another_namespace_is_refused() {
    let moved = CLUSTER.replace("{name: shop}", "{name: shop, namespace: other}");
    let said = changes(CLUSTER, &moved).iter().map(ToString::to_string).collect::<Vec<_>>();
    // The specification that is asked about has no namespace, so only what names another one moves.
    let (mut cluster, files) = cluster(&moved);
    cluster.node = std::sync::Arc::new(objects_of(moved.as_bytes()).remove(0));
    let problems = immutable_changes(&deployed(CLUSTER), &cluster, &files);
    assert!(problems.iter().any(|problem| problem.to_string().contains("made there anew")), "{problems:?} {said:?}");
    let named = CLUSTER.replace("{name: shop}", "{name: shop, namespace: default}");
    cluster.node = std::sync::Arc::new(objects_of(named.as_bytes()).remove(0));
    assert_eq!(immutable_changes(&deployed(CLUSTER), &cluster, &files).len(), 0);
}

#[test]
fn another_control_plane_is_no_change_of_the_one_that_runs() {
    let renamed = CLUSTER.replace("KubeadmControlPlane, name: shop}", "KubeadmControlPlane, name: planes}");
    let other = CLUSTER.replace("kind: KubeadmControlPlane, name: shop}", "kind: RKE2ControlPlane, name: shop}");
    for after in [&renamed, &other] {
        let said = changes(CLUSTER, after);
        assert!(said.iter().any(|problem| problem.to_string().contains("spec.controlPlaneRef")), "{said:?}");
    }
}
