//! EKS Anywhere's `Cluster` and what it refers to.

use yaml::Node;

use super::ReadCluster;
use super::eks_anywhere_rules;
use crate::fleet::objects::{FoundObject, Objects, count, field};
use crate::{BundleReference, ClusterKind, ClusterSpec, Management, Places, Provider, WorkerGroup, WorkerGroupKind};
use domain::nearest;
use domain::{Problem, ProblemCode, Severity};

const GROUP: &str = "anywhere.eks.amazonaws.com";

pub(super) fn read<'a>(
    object: &'a FoundObject,
    objects: &Objects<'a>,
    problems: &mut Vec<Problem>,
) -> Result<ReadCluster<'a>, Box<Problem>> {
    let empty = Node::default();
    let spec = object.node.get("spec").unwrap_or(&empty);
    let name = object.name.clone();
    let Some(kubernetes_version) = field(spec, &["kubernetesVersion"]) else {
        let message = format!("cluster {name:?} has no spec.kubernetesVersion");
        let problem = object.problem(&["spec"], &name, message);
        return Err(Box::new(problem.hint("write kubernetesVersion: \"1.30\" under spec")));
    };
    if kubernetes_version.parse::<bundles::KubernetesVersion>().is_err() {
        let message = format!("{kubernetes_version:?} is not a valid Kubernetes version");
        let problem = object.problem(&["spec", "kubernetesVersion"], &name, message);
        return Err(Box::new(problem.hint("write it as \"1.30\", in quotes")));
    }
    let external_etcd = spec.get("externalEtcdConfiguration").filter(|etcd| !etcd.is_null());
    if external_etcd.is_some_and(|etcd| count(etcd, &["count"]).is_none_or(|members| members == 0)) {
        let message = format!("externalEtcdConfiguration of cluster {name:?} has no count");
        let problem = object.problem(&["spec", "externalEtcdConfiguration"], &name, message);
        return Err(Box::new(problem.hint("write count: 3 under it: its gate counts the members")));
    }
    let management = match field(spec, &["managementCluster", "name"]) {
        Some(manager) if manager != name => Management::ManagedBy(manager),
        _ => Management::SelfManaged,
    };
    let provider = Provider::from_kind(&field(spec, &["datacenterRef", "kind"]).unwrap_or_default());
    unknown_fields(object, spec, problems);
    eks_anywhere_rules::check(object, spec)?;
    let worker_groups = worker_groups(object, spec, &kubernetes_version, problems)?;
    let bundle_reference = field(spec, &["eksaVersion"])
        .map(BundleReference::EksaVersion)
        .or_else(|| field(spec, &["bundlesRef", "name"]).map(BundleReference::Bundles));
    let reference_path: &[&str] = match &bundle_reference {
        Some(BundleReference::EksaVersion(_)) => &["spec", "eksaVersion"],
        _ => &["spec", "bundlesRef", "name"],
    };
    let annotation =
        |name: &str| object.node.at(&["metadata", "annotations"]).and_then(|node| node.get(name)).is_some();
    let network = spec.get("clusterNetwork").unwrap_or(&empty);
    let cilium = network.at(&["cniConfig", "cilium"]);
    let old_style = field(network, &["cni"]).is_some_and(|cni| cni.starts_with("cilium"));
    let members = members(object, spec, objects, problems);
    let cluster = ClusterSpec {
        namespace: object.namespace.clone(),
        kind: ClusterKind::EksAnywhere,
        management,
        provider,
        external_etcd: external_etcd.and_then(|etcd| count(etcd, &["count"])),
        control_plane_count: count(spec, &["controlPlaneConfiguration", "count"]),
        control_plane: Some(name.clone()),
        paused: annotation("anywhere.eks.amazonaws.com/paused"),
        skip_cilium_upgrade: cilium.and_then(|node| node.get("skipUpgrade")).and_then(Node::as_bool).unwrap_or(false),
        tanzu: None,
        cilium: cilium.is_some() || old_style,
        places: Places {
            name: object.place_of(&["metadata", "name"]),
            kubernetes_version: Some(object.place_of(&["spec", "kubernetesVersion"])),
            bundle_reference: bundle_reference.as_ref().map(|_| object.place_of(reference_path)),
        },
        files: Vec::new(),
        node: object.node.clone(),
        kubernetes_version,
        worker_groups,
        bundle_reference,
        name,
    };
    Ok((cluster, members))
}

/// Fields of `spec` (EKS Anywhere v1alpha1 `ClusterSpec`).
const FIELDS: &[&str] = &[
    "bundlesRef",
    "clusterNetwork",
    "controlPlaneConfiguration",
    "datacenterRef",
    "eksaVersion",
    "etcdEncryption",
    "externalEtcdConfiguration",
    "gitOpsRef",
    "identityProviderRefs",
    "kubernetesVersion",
    "licenseToken",
    "machineHealthCheck",
    "managementCluster",
    "packages",
    "podIamConfig",
    "proxyConfiguration",
    "registryMirrorConfiguration",
    "workerNodeGroupConfigurations",
];

/// The API server drops a field that it does not know: a misspelt `workerNodeGroupConfigurations` would take every worker
/// away. One that is close to a known name is an error; another may come from a later release and is only remarked on.
fn unknown_fields(object: &FoundObject, spec: &Node, problems: &mut Vec<Problem>) {
    let Some(fields) = spec.as_mapping() else { return };
    for entry in fields.iter().filter(|entry| !FIELDS.contains(&entry.key.as_str())) {
        let place = object.place(entry.key_span);
        let message = format!("unknown field {:?} in the spec of cluster {:?}", entry.key, object.name);
        let problem = Problem::new(ProblemCode::BadCluster, message).path(&place.path).at(place.line, place.column);
        let problem = problem.cluster(&object.name);
        problems.push(match nearest(&entry.key, FIELDS) {
            Some(known) => problem.hint(format!("did you mean {known:?}?")),
            None => problem.severity(Severity::Warning).hint("EKS Anywhere would drop it"),
        });
    }
}

fn worker_groups(
    object: &FoundObject,
    spec: &Node,
    kubernetes_version: &str,
    problems: &mut Vec<Problem>,
) -> Result<Vec<WorkerGroup>, Box<Problem>> {
    let cluster = object.name.as_str();
    let Some(node) = spec.get("workerNodeGroupConfigurations").filter(|node| !node.is_null()) else {
        return Ok(Vec::new());
    };
    let path = ["spec", "workerNodeGroupConfigurations"];
    let Some(items) = node.as_sequence() else {
        let message = "workerNodeGroupConfigurations must be a list";
        return Err(Box::new(object.problem(&path, cluster, message)));
    };
    let mut groups: Vec<WorkerGroup> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let place = object.place(item.span);
        // EKS Anywhere names a single group without name `md-0`.
        let name = field(item, &["name"]).unwrap_or_else(|| format!("md-{index}"));
        if groups.iter().any(|group| group.name == name) {
            let problem = Problem::new(ProblemCode::BadCluster, format!("two worker groups are called {name:?}"));
            let problem = problem.path(&place.path).at(place.line, place.column).cluster(cluster);
            return Err(Box::new(problem.hint("give each worker group its own name")));
        }
        let own = field(item, &["kubernetesVersion"]);
        if let Some(version) = &own
            && version.parse::<bundles::KubernetesVersion>().is_err()
        {
            let message = format!("worker group {name:?}: {version:?} is not a valid Kubernetes version");
            let problem = Problem::new(ProblemCode::BadCluster, message);
            problems.push(problem.path(&place.path).at(place.line, place.column).cluster(cluster));
        }
        let autoscaled = item.get("autoscalingConfiguration").is_some_and(|node| !node.is_null());
        groups.push(WorkerGroup {
            kind: WorkerGroupKind::WorkerNodeGroup,
            object: Some(format!("{cluster}-{name}")),
            own_kubernetes_version: own.is_some(),
            kubernetes_version: own.unwrap_or_else(|| kubernetes_version.to_owned()),
            replicas: if autoscaled { None } else { count(item, &["count"]) },
            machine_config: field(item, &["machineGroupRef", "name"]),
            name,
        });
    }
    Ok(groups)
}

/// References of a Cluster: kind, name and the path of the reference.
fn references(spec: &Node) -> Vec<(String, String, Vec<&'static str>)> {
    let mut references = Vec::new();
    let mut add = |node: Option<&Node>, path: &[&'static str]| {
        if let Some(node) = node
            && let (Some(kind), Some(name)) = (field(node, &["kind"]), field(node, &["name"]))
        {
            references.push((kind, name, path.to_vec()));
        }
    };
    add(spec.get("datacenterRef"), &["datacenterRef"]);
    add(spec.at(&["controlPlaneConfiguration", "machineGroupRef"]), &["controlPlaneConfiguration", "machineGroupRef"]);
    add(spec.at(&["externalEtcdConfiguration", "machineGroupRef"]), &["externalEtcdConfiguration", "machineGroupRef"]);
    add(spec.get("gitOpsRef"), &["gitOpsRef"]);
    for item in spec.get("workerNodeGroupConfigurations").and_then(Node::as_sequence).unwrap_or_default() {
        add(item.get("machineGroupRef"), &["workerNodeGroupConfigurations"]);
    }
    for item in spec.get("identityProviderRefs").and_then(Node::as_sequence).unwrap_or_default() {
        add(Some(item), &["identityProviderRefs"]);
    }
    references
}

fn members<'a>(
    object: &'a FoundObject,
    spec: &Node,
    objects: &Objects<'a>,
    problems: &mut Vec<Problem>,
) -> Vec<&'a FoundObject> {
    let mut members = vec![object];
    for (kind, name, path) in references(spec) {
        match find(object, objects, &kind, &name) {
            Some(member) => {
                if !members.iter().any(|known| std::ptr::eq(*known, member)) {
                    members.push(member);
                }
            }
            None => {
                let path: Vec<&str> = std::iter::once("spec").chain(path).collect();
                let message = format!("{kind} {name:?} of cluster {:?} is not in this repository", object.name);
                let problem = object.problem(&path, &object.name, message).severity(Severity::Warning);
                problems.push(Problem { code: ProblemCode::MissingReference, ..problem });
            }
        }
    }
    // What machine configurations and Snow pools refer to in turn.
    let mut index = 0;
    while let Some(member) = members.get(index).copied() {
        index += 1;
        for path in [["spec", "templateRef"], ["spec", "ipPoolRef"]] {
            let Some(node) = member.node.at(&path) else { continue };
            let (Some(kind), Some(name)) = (field(node, &["kind"]), field(node, &["name"])) else { continue };
            if let Some(found) = find(object, objects, &kind, &name)
                && !members.iter().any(|known| std::ptr::eq(*known, found))
            {
                members.push(found);
            }
        }
    }
    members
}

/// The object that a reference of `cluster` means: the one in its file, else in its folder, else the only one anywhere.
fn find<'a>(cluster: &FoundObject, objects: &Objects<'a>, kind: &str, name: &str) -> Option<&'a FoundObject> {
    // EKS Anywhere itself writes machine configurations without apiVersion.
    let fits = |object: &&&FoundObject| object.group == GROUP || object.group.is_empty();
    let mut found: Vec<&'a FoundObject> = objects.named(kind, name).iter().filter(fits).copied().collect();
    found.sort_by_key(|object| (object.path != cluster.path, object.path.parent() != cluster.path.parent()));
    let nearby = found.first().filter(|first| first.path.parent() == cluster.path.parent());
    match nearby {
        Some(first) => Some(first),
        None => match found.as_slice() {
            [only] => Some(only),
            _ => found.into_iter().find(|object| object.namespace == cluster.namespace),
        },
    }
}
