//! Cluster API's `Cluster`, plain or with a topology.

use std::collections::BTreeSet;

use yaml::Node;

use super::ReadCluster;
use crate::fleet::objects::{FoundObject, Objects, Reference, count, field, references};
use crate::{ClusterKind, ClusterSpec, Management, Place, Places, Provider, WorkerGroup, WorkerGroupKind};
use domain::{Problem, ProblemCode};

pub(super) fn read<'a>(
    object: &'a FoundObject,
    objects: &Objects<'a>,
    _: &mut Vec<Problem>,
) -> Result<ReadCluster<'a>, Box<Problem>> {
    let empty = Node::default();
    let spec = object.node.get("spec").unwrap_or(&empty);
    if spec.get("topology").is_some_and(|topology| !topology.is_null()) {
        class(object, objects, spec)
    } else {
        plain(object, objects, spec)
    }
}

fn is_paused(object: &FoundObject, spec: &Node) -> bool {
    let annotation = object.node.at(&["metadata", "annotations"]).and_then(|node| node.get("cluster.x-k8s.io/paused"));
    annotation.is_some() || spec.get("paused").and_then(Node::as_bool).unwrap_or(false)
}

/// Management by annotation, as nothing else in a Cluster says which cluster its controllers run in.
fn management(object: &FoundObject) -> Management {
    let annotation = object.node.at(&["metadata", "annotations", "stepgate.dev/management-cluster"]);
    match annotation.and_then(Node::as_str) {
        Some(name) if name == object.name => Management::SelfManaged,
        Some(name) => Management::ManagedBy(name.to_owned()),
        None => Management::Undeclared,
    }
}

fn class<'a>(object: &'a FoundObject, objects: &Objects<'a>, spec: &Node) -> Result<ReadCluster<'a>, Box<Problem>> {
    let topology = spec.get("topology").cloned().unwrap_or_default();
    let name = object.name.clone();
    let Some(kubernetes_version) = field(&topology, &["version"]) else {
        let message = format!("cluster {name:?} has no spec.topology.version");
        return Err(Box::new(object.problem(&["spec", "topology"], &name, message)));
    };
    let class = Reference {
        group: Some("cluster.x-k8s.io".to_owned()),
        kind: "ClusterClass".to_owned(),
        namespace: field(&topology, &["classNamespace"]).or_else(|| field(&topology, &["classRef", "namespace"])),
        name: field(&topology, &["class"]).or_else(|| field(&topology, &["classRef", "name"])).unwrap_or_default(),
    };
    let groups = |key: &str, kind: WorkerGroupKind| -> Vec<WorkerGroup> {
        let items = topology.at(&["workers", key]).and_then(Node::as_sequence).unwrap_or_default().iter();
        let of = |item: &Node| {
            Some(WorkerGroup {
                name: field(item, &["name"])?,
                kind,
                object: None,
                kubernetes_version: kubernetes_version.clone(),
                own_kubernetes_version: false,
                replicas: count(item, &["replicas"]),
                machine_config: field(item, &["class"]),
            })
        };
        items.filter_map(of).collect()
    };
    let mut worker_groups = groups("machineDeployments", WorkerGroupKind::TopologyMachineDeployment);
    worker_groups.extend(groups("machinePools", WorkerGroupKind::TopologyMachinePool));
    // Groups besides those of the topology, which its controller leaves alone.
    let workers = objects.workers(object);
    specified_once(&name, &workers)?;
    worker_groups.extend(workers.iter().map(|workers| worker_group(workers, &kubernetes_version)));
    distinct(object, &worker_groups)?;
    check_versions(object, &kubernetes_version, &object.place_of(&["spec", "topology", "version"]), &worker_groups)?;
    check_replicas(object, object, &TOPOLOGY_REPLICAS)?;
    for workers in &workers {
        check_replicas(object, workers, &[&["spec", "replicas"]])?;
    }
    let mut members = vec![object];
    members.extend(&workers);
    if let Some(class) = objects.referred(object, &class) {
        members.push(class);
        members.extend(references(&class.node).iter().filter_map(|reference| objects.referred(class, reference)));
        // What patches of the class say of etcd, its template does not tell.
        let template = members.iter().find(|member| member.kind == "KubeadmControlPlaneTemplate");
        let is_patched =
            class.node.at(&["spec", "patches"]).is_some_and(|patches| yaml::emit(patches).contains("etcd"));
        if let Some(template) = template.filter(|_| !is_patched) {
            let replicas = ["spec", "topology", "controlPlane", "replicas"];
            check_members(object, object, template, &replicas, &["spec", "template", "spec"])?;
        }
    }
    let infrastructure = members
        .iter()
        .find(|member| member.group == "infrastructure.cluster.x-k8s.io")
        .map(|member| Provider::from_kind(&member.kind));
    let cluster = ClusterSpec {
        namespace: object.namespace.clone(),
        kind: ClusterKind::ClusterClass,
        management: management(object),
        provider: infrastructure.unwrap_or_else(|| Provider::Other("ClusterClass".to_owned())),
        external_etcd: None,
        control_plane_count: count(&topology, &["controlPlane", "replicas"]),
        control_plane: None,
        bundle_reference: None,
        paused: is_paused(object, spec),
        skip_cilium_upgrade: true,
        tanzu: None,
        cilium: false,
        places: Places {
            name: object.place_of(&["metadata", "name"]),
            kubernetes_version: Some(object.place_of(&["spec", "topology", "version"])),
            bundle_reference: None,
        },
        files: Vec::new(),
        node: object.node.clone(),
        kubernetes_version,
        worker_groups,
        name,
    };
    Ok((cluster, members))
}

fn plain<'a>(object: &'a FoundObject, objects: &Objects<'a>, spec: &Node) -> Result<ReadCluster<'a>, Box<Problem>> {
    let name = object.name.clone();
    let reference = |node: &Node, path: &[&str]| objects.referred(object, &Reference::of(node.at(path)?)?);
    let control_plane = reference(spec, &["controlPlaneRef"]);
    let etcd = external_etcd(object, objects, spec)?;
    let workers = objects.workers(object);
    specified_once(&name, &workers)?;
    let version = control_plane.and_then(|plane| {
        let read = |path: &[&str]| Some((field(&plane.node, path)?, plane.place_of(path)));
        VERSIONS.into_iter().find_map(read)
    });
    let Some((kubernetes_version, place)) = version else {
        let problem = match (control_plane, field(spec, &["controlPlaneRef", "name"])) {
            (Some(plane), _) => {
                let message = format!("{} {:?} of cluster {name:?} has no spec.version", plane.kind, plane.name);
                let hint = "write the version that runs into it, as v1.30.2; where its kind has no such field, list the file \
                            under `ignore:` in stepgate.yaml, and upgrade the cluster by its own means";
                plane.problem(&["spec"], &name, message).hint(hint)
            }
            (None, Some(plane)) => {
                let message = format!("control plane {plane:?} of cluster {name:?} is not in this repository");
                object
                    .problem(&["spec", "controlPlaneRef"], &name, message)
                    .hint("add it, in the namespace of the cluster; a cluster is rolled by its control plane")
            }
            (None, None) => object.problem(&["spec"], &name, format!("cluster {name:?} has no spec.controlPlaneRef")),
        };
        return Err(Box::new(problem));
    };
    let mut members = vec![object];
    members.extend(reference(spec, &["infrastructureRef"]));
    members.extend(control_plane);
    members.extend(etcd);
    members.extend(&workers);
    let worker_groups: Vec<WorkerGroup> =
        workers.iter().map(|workers| worker_group(workers, &kubernetes_version)).collect();
    distinct(object, &worker_groups)?;
    check_versions(object, &kubernetes_version, &place, &worker_groups)?;
    for counted in control_plane.into_iter().chain(workers.iter().copied()) {
        check_replicas(object, counted, &[&["spec", "replicas"]])?;
    }
    if let Some(plane) = control_plane {
        check_members(object, plane, plane, &["spec", "replicas"], &["spec"])?;
    }
    let infrastructure = field(spec, &["infrastructureRef", "kind"]).unwrap_or_default();
    let cluster = ClusterSpec {
        namespace: object.namespace.clone(),
        kind: ClusterKind::ClusterApi,
        management: management(object),
        provider: Provider::from_kind(&infrastructure),
        external_etcd: etcd.and_then(|etcd| count(&etcd.node, &["spec", "replicas"])),
        control_plane_count: control_plane.and_then(|plane| count(&plane.node, &["spec", "replicas"])),
        control_plane: control_plane.map(|plane| plane.name.clone()),
        bundle_reference: None,
        paused: is_paused(object, spec),
        skip_cilium_upgrade: true,
        tanzu: None,
        cilium: false,
        places: Places {
            name: object.place_of(&["metadata", "name"]),
            kubernetes_version: Some(place),
            bundle_reference: None,
        },
        files: Vec::new(),
        node: object.node.clone(),
        kubernetes_version,
        worker_groups,
        name,
    };
    Ok((cluster, members))
}

/// The external etcd that a cluster refers to: it has to be there, of this cluster, and say how
/// many members it has, since its gate counts them.
fn external_etcd<'a>(
    cluster: &FoundObject,
    objects: &Objects<'a>,
    spec: &Node,
) -> Result<Option<&'a FoundObject>, Box<Problem>> {
    let Some(reference) = spec.get("managedExternalEtcdRef").and_then(Reference::of) else { return Ok(None) };
    let name = &cluster.name;
    let Some(etcd) = objects.referred(cluster, &reference) else {
        let message = format!("external etcd {:?} of cluster {name:?} is not in this repository", reference.name);
        let problem = cluster.problem(&["spec", "managedExternalEtcdRef"], name, message);
        return Err(Box::new(problem.hint("add the EtcdadmCluster, in the namespace of the cluster")));
    };
    let label = etcd.node.at(&["metadata", "labels"]).and_then(|labels| labels.get("cluster.x-k8s.io/cluster-name"));
    if let Some(owner) = label.and_then(Node::as_str).filter(|owner| owner != name) {
        let message = format!("external etcd {:?} of cluster {name:?} is that of cluster {owner:?}", etcd.name);
        let problem = etcd.problem(&["metadata", "labels"], name, message);
        return Err(Box::new(problem.hint("give each cluster its own EtcdadmCluster, or take the label away")));
    }
    if count(&etcd.node, &["spec", "replicas"]).is_none_or(|replicas| replicas == 0) {
        let message = format!("external etcd {:?} of cluster {name:?} has no spec.replicas", etcd.name);
        return Err(Box::new(etcd.problem(&["spec"], name, message).hint("write replicas: 3 under spec")));
    }
    Ok(Some(etcd))
}

fn worker_group(object: &FoundObject, cluster: &str) -> WorkerGroup {
    let own = field(&object.node, &["spec", "template", "spec", "version"]);
    let kind = match object.kind.as_str() {
        "MachinePool" => WorkerGroupKind::MachinePool,
        _ => WorkerGroupKind::MachineDeployment,
    };
    WorkerGroup {
        name: crate::tanzu::group_of(&object.node, &object.name),
        kind,
        object: Some(object.name.clone()),
        own_kubernetes_version: own.is_some(),
        kubernetes_version: own.unwrap_or_else(|| cluster.to_owned()),
        replicas: count(&object.node, &["spec", "replicas"]),
        machine_config: field(&object.node, &["spec", "template", "spec", "infrastructureRef", "name"]),
    }
}

/// Where a control plane says its version: as the contract has it, and as Google's provider had it before.
const VERSIONS: [&[&str]; 2] = [&["spec", "version"], &["spec", "controlPlaneVersion"]];

/// A version that cannot be read has a gate that never passes. Variables are somebody else's to name.
fn check_versions(
    cluster: &FoundObject,
    version: &str,
    place: &Place,
    groups: &[WorkerGroup],
) -> Result<(), Box<Problem>> {
    let is_bad =
        |version: &str| version.parse::<bundles::KubernetesVersion>().is_err() && !version.contains(['$', '{']);
    if is_bad(version) {
        let message = format!("cluster {:?}: {version:?} is not a valid Kubernetes version", cluster.name);
        let problem = Problem::new(ProblemCode::BadCluster, message).path(&place.path).at(place.line, place.column);
        return Err(Box::new(problem.cluster(&cluster.name).hint("write it as v1.30.2, with what the vendor adds")));
    }
    let Some(group) = groups.iter().find(|group| is_bad(&group.kubernetes_version)) else { return Ok(()) };
    let WorkerGroup { name, kubernetes_version, .. } = group;
    let message = format!("worker group {name:?}: {kubernetes_version:?} is not a valid Kubernetes version");
    let problem = cluster.problem(&["metadata", "name"], &cluster.name, message);
    Err(Box::new(problem.hint("write it as v1.30.2, with what the vendor adds")))
}

/// Where a topology says how many machines its control plane has.
const TOPOLOGY_REPLICAS: [&[&str]; 1] = [&["spec", "topology", "controlPlane", "replicas"]];

/// How many machines there are is a whole number: the API server refuses whatever else stands there, and nothing could be counted.
fn check_replicas(cluster: &FoundObject, object: &FoundObject, paths: &[&[&str]]) -> Result<(), Box<Problem>> {
    for path in paths {
        let Some(text) = field(&object.node, path) else { continue };
        if count(&object.node, path).is_none() && !text.contains(['$', '{']) {
            let (kind, name) = (&object.kind, &object.name);
            let written = object.node.at(path).map(|node| yaml::emit(node).trim().to_owned()).unwrap_or(text);
            let message = format!("{kind} {name:?}: {} {written} is not a valid number of machines", path.join("."));
            let problem = object.problem(path, &cluster.name, message);
            return Err(Box::new(problem.hint("write a whole number, without quotes")));
        }
    }
    Ok(())
}

/// A KubeadmControlPlane whose machines hold etcd has an odd number of them: its webhook refuses any other. `counted` says how many, and
/// `plane` below `spec` where etcd is.
fn check_members(
    cluster: &FoundObject,
    counted: &FoundObject,
    plane: &FoundObject,
    replicas: &[&str],
    spec: &[&str],
) -> Result<(), Box<Problem>> {
    let etcd = [spec, &["kubeadmConfigSpec", "clusterConfiguration", "etcd", "external"]].concat();
    let is_external = plane.node.at(&etcd).is_some_and(|node| !node.is_null());
    let is_external = is_external || field(&cluster.node, &["spec", "managedExternalEtcdRef", "name"]).is_some();
    let is_kubeadm = plane.kind.starts_with("KubeadmControlPlane");
    let wrong = match count(&counted.node, replicas) {
        Some(0) if is_kubeadm => "a control plane without machines",
        Some(number) if is_kubeadm && !is_external && number % 2 == 0 => "an even number of machines that hold etcd",
        Some(_) | None => return Ok(()),
    };
    let number = count(&counted.node, replicas).unwrap_or_default();
    let message = format!(
        "{} {:?}: {} is {number}: {wrong}, which the webhook of KubeadmControlPlane refuses",
        counted.kind,
        counted.name,
        replicas.join(".")
    );
    let problem = counted.problem(replicas, &cluster.name, message);
    Err(Box::new(problem.hint("write an odd number: 1, 3 or 5")))
}

/// A group of workers that stands in two files, as copies of files have it.
fn specified_once(cluster: &str, workers: &[&FoundObject]) -> Result<(), Box<Problem>> {
    for (index, object) in workers.iter().enumerate() {
        let twin = workers.iter().take(index).find(|other| (&other.kind, &other.name) == (&object.kind, &object.name));
        let Some(twin) = twin.filter(|twin| twin.is_beside(&object.namespace)) else { continue };
        let place = twin.place_of(&["metadata", "name"]);
        let message = format!(
            "{} {:?} of cluster {cluster:?} is also specified in {}:{}",
            object.kind, object.name, place.path, place.line
        );
        let problem = object.problem(&["metadata", "name"], cluster, message);
        return Err(Box::new(
            problem.hint("keep one of the two, or list the other file under `ignore:` in stepgate.yaml"),
        ));
    }
    Ok(())
}

/// Stages are called after worker groups: a `MachineDeployment` and a `MachinePool` of one name cannot be told apart.
fn distinct(cluster: &FoundObject, groups: &[WorkerGroup]) -> Result<(), Box<Problem>> {
    let mut names = BTreeSet::new();
    let Some(twin) = groups.iter().find(|group| !names.insert(group.name.as_str())) else { return Ok(()) };
    let message = format!("two worker groups of cluster {:?} are called {:?}", cluster.name, twin.name);
    let problem = cluster.problem(&["metadata", "name"], &cluster.name, message);
    Err(Box::new(problem.hint("give each worker group its own name: its stage is workers/<name>")))
}
