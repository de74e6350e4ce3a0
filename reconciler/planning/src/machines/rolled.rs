//! Which changes of Cluster API's objects replace machines: Cluster API compares what machines are made from, and changes the rest in place.

use yaml::Node;

/// Fields of a machine that Cluster API changes in place (`MachineDeployment`: since 1.4).
const IN_PLACE: [&str; 6] = [
    "nodeDrainTimeout",
    "nodeVolumeDetachTimeout",
    "nodeDeletionTimeout",
    "deletion",
    "minReadySeconds",
    "readinessGates",
];

/// Fields that ask for new machines by a time.
const AFTER: [&[&str]; 2] = [&["spec", "rolloutAfter"], &["spec", "rollout", "after"]];

/// The object of that kind and name, in any namespace.
fn find<'n>(nodes: &'n [Node], kind: &str, name: Option<&str>) -> Option<&'n Node> {
    let text = |node: &'n Node, path: &[&str]| node.at(path).and_then(Node::as_str);
    nodes.iter().find(|node| {
        text(node, &["kind"]) == Some(kind) && name.is_none_or(|name| text(node, &["metadata", "name"]) == Some(name))
    })
}

/// Whether machines of a `MachineDeployment` are replaced; none where it is not on both sides.
pub(crate) fn machine_deployment(before: &[Node], after: &[Node], name: &str) -> Option<bool> {
    let [old, new] = [before, after].map(|nodes| find(nodes, "MachineDeployment", Some(name)));
    let (old, new) = old.zip(new)?;
    let [old_machine, new_machine] = [old, new].map(|node| node.at(&["spec", "template", "spec"]).map(machine));
    Some(old_machine != new_machine || asks_again(old, new))
}

/// Whether machines of a `KubeadmControlPlane` are replaced; none where it is not on both sides.
pub(crate) fn control_plane(before: &[Node], after: &[Node]) -> Option<bool> {
    let [old, new] = [before, after].map(|nodes| find(nodes, "KubeadmControlPlane", None));
    let (old, new) = old.zip(new)?;
    let infrastructure = |node: &Node| {
        let old = node.at(&["spec", "machineTemplate", "infrastructureRef"]);
        old.or_else(|| node.at(&["spec", "machineTemplate", "spec", "infrastructureRef"])).map(reference)
    };
    // Another version of the API writes the same configuration otherwise.
    let is_one_version = old.get("apiVersion") == new.get("apiVersion");
    let differs = |path: &[&str]| old.at(path) != new.at(path);
    let is_other = differs(&["spec", "version"]) || infrastructure(old) != infrastructure(new);
    Some(is_other || (is_one_version && differs(&["spec", "kubeadmConfigSpec"])) || asks_again(old, new))
}

/// Lists of worker groups in a Cluster object: EKS Anywhere's, and those of a topology.
const GROUP_LISTS: [&[&str]; 3] = [
    &["spec", "workerNodeGroupConfigurations"],
    &["spec", "topology", "workers", "machineDeployments"],
    &["spec", "topology", "workers", "machinePools"],
];

/// Fields of such a group that say how many machines it has and how they are replaced.
const OF_COUNTS: [&str; 4] = ["count", "autoscalingConfiguration", "replicas", "upgradeRolloutStrategy"];

/// Fields of EKS Anywhere's `Cluster` that its control plane is not made from, or that are looked at elsewhere.
const BESIDE_CONTROL_PLANE: [&str; 9] = [
    "workerNodeGroupConfigurations",
    "externalEtcdConfiguration",
    "bundlesRef",
    "eksaVersion",
    "managementCluster",
    "gitOpsRef",
    "licenseToken",
    "packages",
    "machineHealthCheck",
];

/// Whether machines of a group are replaced that the `Cluster` object lists; none where it is not on both sides.
pub(crate) fn listed_group(before: &[Node], after: &[Node], name: &str) -> Option<bool> {
    let made_from = |nodes: &[Node]| {
        let lists = GROUP_LISTS.iter().filter_map(|path| find(nodes, "Cluster", None)?.at(path)?.as_sequence());
        let named = |group: &&Node| group.get("name").and_then(Node::as_str) == Some(name);
        let group = lists.flatten().find(named)?;
        Some((without(group, &OF_COUNTS), machine_config(nodes, group).cloned()))
    };
    let (old, new) = made_from(before).zip(made_from(after))?;
    Some(old != new)
}

/// Whether machines of a control plane are replaced that the `Cluster` object describes: the machine's description, or what all machines
/// are made with.
pub(crate) fn described_control_plane(before: &[Node], after: &[Node]) -> bool {
    let made_from = |nodes: &[Node]| {
        let spec = find(nodes, "Cluster", None)?.get("spec")?;
        let plane = spec.get("controlPlaneConfiguration");
        let config = plane.and_then(|plane| machine_config(nodes, plane)).cloned();
        let plane = plane.map(|plane| without(plane, &OF_COUNTS));
        let topology = spec.get("topology").map(|topology| without(topology, &["workers", "controlPlane"]));
        let own = spec.at(&["topology", "controlPlane"]).map(|plane| without(plane, &OF_COUNTS));
        let rest = without(spec, &[&BESIDE_CONTROL_PLANE[..], &["controlPlaneConfiguration", "topology"]].concat());
        let of_class: Vec<Node> = nodes.iter().flat_map(of_class).cloned().collect();
        Some((plane, config, topology, own, rest, of_class))
    };
    made_from(before).zip(made_from(after)).is_some_and(|(old, new)| old != new)
}

/// What an object says of the control planes of a class; its workers have parts of their own.
fn of_class(node: &Node) -> Vec<&Node> {
    match node.get("kind").and_then(Node::as_str).unwrap_or_default() {
        "ClusterClass" => {
            let parts = [&["spec", "controlPlane"][..], &["spec", "patches"]];
            parts.into_iter().filter_map(|path| node.at(path)).collect()
        }
        kind if kind.ends_with("ControlPlaneTemplate") => node.get("spec").into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The machine configuration that a part of EKS Anywhere's `Cluster` refers to.
fn machine_config<'n>(nodes: &'n [Node], part: &Node) -> Option<&'n Node> {
    let text = |name: &str| part.at(&["machineGroupRef", name]).and_then(Node::as_str);
    find(nodes, text("kind")?, Some(text("name")?))?.get("spec")
}

/// A mapping without these keys.
fn without(node: &Node, keys: &[&str]) -> Node {
    let mut node = node.clone();
    if let Some(mapping) = node.as_mapping_mut() {
        mapping.retain(|entry| !keys.contains(&&*entry.key));
    }
    node
}

fn asks_again(old: &Node, new: &Node) -> bool {
    AFTER.iter().any(|path| new.at(path).is_some() && old.at(path) != new.at(path))
}

/// What a machine is made from.
fn machine(spec: &Node) -> Node {
    let mut spec = spec.clone();
    let Some(mapping) = spec.as_mapping_mut() else { return spec };
    mapping.retain(|entry| !IN_PLACE.contains(&&*entry.key));
    if let Some(infrastructure) = mapping.get_mut("infrastructureRef") {
        *infrastructure = reference(infrastructure);
    }
    if let Some(configuration) =
        mapping.get_mut("bootstrap").and_then(Node::as_mapping_mut).and_then(|it| it.get_mut("configRef"))
    {
        *configuration = reference(configuration);
    }
    spec
}

/// A reference as far as it counts: its version and namespace do not.
fn reference(node: &Node) -> Node {
    let text = |name: &str| node.get(name).and_then(Node::as_str).unwrap_or_default();
    Node::from(format!("{}/{}", text("kind"), text("name")).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &str) -> Vec<Node> {
        overlays::objects_of(text.as_bytes())
    }

    const DEPLOYMENT: &str = "\
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineDeployment
metadata: {name: blue}
spec:
  replicas: 3
  template:
    metadata: {labels: {a: b}}
    spec:
      version: v1.33.1
      nodeDrainTimeout: 10m
      infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DockerMachineTemplate, name: blue}
";

    const CONTROL_PLANE: &str = "\
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlane
metadata: {name: prod}
spec:
  replicas: 3
  version: v1.33.1
  machineTemplate: {infrastructureRef: {kind: DockerMachineTemplate, name: prod}}
  kubeadmConfigSpec: {clusterConfiguration: {apiServer: {extraArgs: {profiling: 'true'}}}}
";

    #[test]
    fn machines_roll_when_what_they_are_made_from_changes() {
        for (from, to, expected) in [
            ("replicas: 3", "replicas: 5", false),
            ("nodeDrainTimeout: 10m", "nodeDrainTimeout: 20m", false),
            ("{a: b}", "{a: c}", false),
            ("io/v1beta1, kind", "io/v1beta2, kind", false),
            ("v1.33.1", "v1.33.2", true),
            ("kind: DockerMachineTemplate, name: blue", "kind: DockerMachineTemplate, name: blue-2", true),
            ("spec:\n  replicas", "spec:\n  rolloutAfter: 2026-01-01T00:00:00Z\n  replicas", true),
        ] {
            let after = DEPLOYMENT.replace(from, to);
            assert_eq!(machine_deployment(&nodes(DEPLOYMENT), &nodes(&after), "blue"), Some(expected), "{to}");
        }
        assert_eq!(machine_deployment(&[], &nodes(DEPLOYMENT), "blue"), None);
    }

    const EKS_ANYWHERE: &str = "\
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata: {name: prod}
spec:
  kubernetesVersion: '1.33'
  controlPlaneConfiguration: {count: 3, machineGroupRef: {kind: VSphereMachineConfig, name: plane}}
  workerNodeGroupConfigurations:
  - {name: blue, count: 2, machineGroupRef: {kind: VSphereMachineConfig, name: blue}}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: VSphereMachineConfig
metadata: {name: plane}
spec: {template: plane-1}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: VSphereMachineConfig
metadata: {name: blue}
spec: {template: blue-1}
";

    #[test]
    fn machines_that_a_cluster_describes_roll_with_what_they_are_made_from() {
        for (from, to, group, plane) in [
            ("count: 2", "count: 4", false, false),
            ("{count: 3", "{count: 5", false, false),
            ("blue-1", "blue-2", true, false),
            ("plane-1", "plane-2", false, true),
            ("count: 2,", "count: 2, taints: [{key: a}],", true, false),
            ("'1.33'", "'1.34'", false, true),
        ] {
            let after = EKS_ANYWHERE.replace(from, to);
            let (before, after) = (nodes(EKS_ANYWHERE), nodes(&after));
            assert_eq!(listed_group(&before, &after, "blue"), Some(group), "{to}");
            assert_eq!(described_control_plane(&before, &after), plane, "{to}");
        }
        assert_eq!(listed_group(&nodes(EKS_ANYWHERE), &nodes(EKS_ANYWHERE), "red"), None);
    }

    #[test]
    fn control_planes_roll_when_version_template_or_configuration_change() {
        for (from, to, expected) in [
            ("replicas: 3", "replicas: 5", false),
            ("v1.33.1", "v1.33.2", true),
            ("'true'", "'false'", true),
            ("name: prod}}", "name: prod-2}}", true),
        ] {
            let after = CONTROL_PLANE.replace(from, to);
            assert_eq!(control_plane(&nodes(CONTROL_PLANE), &nodes(&after)), Some(expected), "{to}");
        }
    }
}
