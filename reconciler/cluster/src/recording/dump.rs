//! Folders and files of dumped objects (`kubectl get … -o yaml` or `-o json`), as one observation.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kube::core::DynamicObject;
use rollout::{ControlPlaneKind, ControlPlaneReference, Identification, MachineTopology, Observation};
use serde_json::Value;
use yaml::Limits;

use crate::objects::{self, Contract, OwnedPod};
use host::disk;

/// The largest file that is read, in bytes.
const LARGEST_FILE: u64 = 256 << 20;

/// Folders deeper than this are not entered.
const DEEPEST: usize = 16;

/// Objects by kind, namespace and name; the same object dumped in two versions is one object.
type Objects = BTreeMap<(String, String, String), (Contract, DynamicObject)>;

/// Why dumped objects could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// A file or folder could not be read.
    #[error("could not read {}: {source}; name a folder of .yaml, .yml or .json files as `kubectl get … -o yaml` writes them", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file is not YAML or not JSON.
    #[error("{}:{line}:{column}: {message}; dump the objects again, the file may be cut off", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What the parser said.
        message: String,
    },
    /// A document is no Kubernetes object.
    #[error("{}:{line}: no Kubernetes object: {message}; take the file out of the folder or dump it again", path.display())]
    NotAnObject {
        /// The file.
        path: PathBuf,
        /// The line where the document starts, from 1.
        line: usize,
        /// What is missing.
        message: String,
    },
    /// No object at all.
    #[error("{} holds no Kubernetes object; dump them with `kubectl get clusters,kubeadmcontrolplanes,machinedeployments,machinesets,machines -A -o yaml`", path.display())]
    Empty {
        /// The file or folder.
        path: PathBuf,
    },
}

/// The observation of the dumped objects in a file or, recursively, in a folder.
///
/// Files ending in `.yaml`, `.yml` and `.json` are read in the order of their paths, each with any number of documents; lists are
/// taken apart; kinds that no gate reads are left out. Symbolic links and names that begin with a dot are not followed. Dumped
/// objects carry no common time: the observation is read at the epoch.
///
/// # Errors
/// See [`DumpError`]; one bad file fails the whole, because what it would have said is unknown.
pub fn read_dump(path: &Path) -> Result<Observation, DumpError> {
    let mut files = Vec::new();
    find_files(path, 0, &mut files)?;
    let mut objects = Objects::new();
    for file in files {
        for (line, value) in documents(&file)? {
            add(value, &mut objects).map_err(|message| DumpError::NotAnObject { path: file.clone(), line, message })?;
        }
    }
    if objects.is_empty() {
        return Err(DumpError::Empty { path: path.to_owned() });
    }
    Ok(observe(&objects))
}

fn find_files(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), DumpError> {
    let failed = |source| DumpError::Read { path: path.to_owned(), source };
    let metadata = if depth == 0 { fs::metadata(path) } else { fs::symlink_metadata(path) }.map_err(failed)?;
    if metadata.is_file() {
        let extension = path.extension().and_then(|extension| extension.to_str());
        if depth == 0 || matches!(extension, Some("yaml" | "yml" | "json")) {
            files.push(path.to_owned());
        }
    } else if metadata.is_dir() && depth < DEEPEST {
        let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed)?;
        let mut entries: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
        entries.sort();
        for entry in entries {
            if !entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
                find_files(&entry, depth + 1, files)?;
            }
        }
    }
    Ok(())
}

fn documents(path: &Path) -> Result<Vec<(usize, Value)>, DumpError> {
    let bytes = disk::read(path, LARGEST_FILE).map_err(|source| DumpError::Read { path: path.to_owned(), source })?;
    if path.extension().is_some_and(|extension| extension == "json") {
        return json_documents(path, &bytes);
    }
    let syntax = |error: yaml::YamlError| DumpError::Syntax {
        path: path.to_owned(),
        line: error.line,
        column: error.column,
        message: error.message,
    };
    let text = yaml::decode(&bytes).map_err(syntax)?;
    let documents = yaml::parse(&text, &Limits::default()).map_err(syntax)?;
    Ok(documents.into_iter().map(|document| (document.root.span.line(), objects::from_yaml(&document.root))).collect())
}

fn json_documents(path: &Path, bytes: &[u8]) -> Result<Vec<(usize, Value)>, DumpError> {
    let mut documents = Vec::new();
    let mut stream = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    loop {
        let start = stream.byte_offset();
        let line = 1 + bytes.iter().take(start).filter(|byte| **byte == b'\n').count();
        match stream.next() {
            None => return Ok(documents),
            Some(Ok(value)) => documents.push((line, value)),
            Some(Err(error)) => {
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
                return Err(DumpError::Syntax {
                    path: path.to_owned(),
                    line: error.line(),
                    column: error.column(),
                    message,
                });
            }
        }
    }
}

/// Adds an object, or the objects of a list.
fn add(value: Value, objects: &mut Objects) -> Result<(), String> {
    if let Value::Array(items) = value {
        return items.into_iter().try_for_each(|item| add(item, objects));
    }
    let field = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let (Some(api_version), Some(kind)) = (field("apiVersion"), field("kind")) else {
        return Err(String::from("apiVersion or kind is missing"));
    };
    if kind.ends_with("List") && value.get("items").is_some() {
        let Value::Object(mut list) = value else { return Ok(()) };
        let Some(Value::Array(items)) = list.remove("items") else {
            return Err(format!("items of the {kind} is not a list"));
        };
        let item_kind = kind.trim_end_matches("List");
        for mut item in items {
            // The items of a typed list need not repeat their type.
            if let (Value::Object(fields), false) = (&mut item, item_kind.is_empty()) {
                fields.entry("apiVersion").or_insert_with(|| Value::String(api_version.clone()));
                fields.entry("kind").or_insert_with(|| Value::String(item_kind.to_owned()));
            }
            add(item, objects)?;
        }
        return Ok(());
    }
    let object: DynamicObject = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let name = object.metadata.name.clone().filter(|name| !name.is_empty()).ok_or("metadata.name is missing")?;
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let contract = Contract::of(&api_version);
    let key = (format!("{kind}.{group}"), namespace, name);
    // The newer version says more.
    if contract == Contract::V1Beta2 || !objects.contains_key(&key) {
        objects.insert(key, (contract, object));
    }
    Ok(())
}

fn observe(objects: &Objects) -> Observation {
    let mut observation = Observation::empty(Timestamp::UNIX_EPOCH);
    observation.identity = Identification::without_server("recording");
    let of = |kind: &str| {
        let kind = kind.to_owned();
        objects
            .iter()
            .filter(move |((known, _, _), _)| *known == kind)
            .map(|(_, (contract, object))| (*contract, object))
    };
    let pods: Vec<OwnedPod> = of("Pod.").map(|(_, pod)| OwnedPod::of(pod)).collect();
    observation.deployments = of("Deployment.apps").map(|(_, object)| objects::deployment(object, &pods)).collect();
    observation.daemon_sets = of("DaemonSet.apps").map(|(_, object)| objects::daemon_set(object, &pods)).collect();
    observation.pods = of("Pod.")
        .filter(|(_, pod)| objects::is_of_application(pod, "kube-vip"))
        .map(|(_, pod)| objects::pod(pod, "kube-vip"))
        .collect();
    observation.nodes = of("Node.").map(|(_, object)| objects::node(object)).collect();
    observation.virtual_address = of("Lease.coordination.k8s.io")
        .find(|(_, lease)| lease.metadata.name.as_deref() == Some("plndr-cp-lock"))
        .map(|(_, lease)| objects::virtual_address(lease));
    observation.custom_resource_definitions = of("CustomResourceDefinition.apiextensions.k8s.io")
        .map(|(_, object)| objects::custom_resource_definition(object))
        .collect();
    observation.flux.sources = ["GitRepository", "OCIRepository"]
        .into_iter()
        .flat_map(|kind| {
            let found = of(&format!("{kind}.source.toolkit.fluxcd.io"));
            found.map(move |(_, object)| objects::source(object, kind.to_owned().into()))
        })
        .collect();
    observation.flux.kustomizations =
        of("Kustomization.kustomize.toolkit.fluxcd.io").map(|(_, object)| objects::kustomization(object)).collect();
    observation.flux.name_commits();
    observation.flux.releases =
        of("HelmRelease.helm.toolkit.fluxcd.io").map(|(_, object)| objects::helm_release(object)).collect();
    observation.clusters =
        of("Cluster.cluster.x-k8s.io").map(|(contract, object)| objects::cluster(object, contract)).collect();
    observation.control_planes = of("KubeadmControlPlane.controlplane.cluster.x-k8s.io")
        .map(|(contract, object)| objects::control_plane(object, contract))
        .collect();
    for cluster in &mut observation.clusters {
        let has_known = observation
            .control_planes
            .iter()
            .any(|known| (&known.namespace, &known.cluster) == (&cluster.namespace, &cluster.name));
        if cluster.control_plane.is_none() && !has_known {
            cluster.control_plane = labelled_control_plane(objects, cluster);
        }
    }
    let other_control_planes = observation.clusters.iter().filter_map(|cluster| {
        let reference = cluster.control_plane.as_ref()?;
        let key =
            (format!("{}.{}", reference.kind, reference.group), reference.namespace.clone(), reference.name.clone());
        let (_, object) = objects.get(&key).filter(|_| reference.kind != ControlPlaneKind::Kubeadm)?;
        Some(objects::contract_control_plane(object, reference, &cluster.name))
    });
    observation.control_planes.extend(other_control_planes.collect::<Vec<_>>());
    observation.machine_deployments = of("MachineDeployment.cluster.x-k8s.io")
        .map(|(contract, object)| objects::machine_deployment(object, contract))
        .collect();
    observation.machine_pools =
        of("MachinePool.cluster.x-k8s.io").map(|(_, object)| objects::machine_pool(object)).collect();
    observation.machine_sets =
        of("MachineSet.cluster.x-k8s.io").map(|(_, object)| objects::machine_set(object)).collect();
    let infrastructure: Vec<DynamicObject> = objects
        .iter()
        .filter(|((kind, _, _), _)| kind.ends_with(".infrastructure.cluster.x-k8s.io"))
        .map(|(_, (_, object))| object.clone())
        .collect();
    observation.machines = of("Machine.cluster.x-k8s.io")
        .map(|(contract, object)| objects::machine(object, contract, &observation.machine_sets, &infrastructure))
        .collect();
    objects::fill_in_legacy_machines(
        &mut observation.machines,
        &observation.control_planes,
        &observation.machine_deployments,
    );
    observation.eksa_clusters =
        of("Cluster.anywhere.eks.amazonaws.com").map(|(_, object)| objects::eksa_cluster(object)).collect();
    observation.etcd_clusters =
        of("EtcdadmCluster.etcdcluster.cluster.x-k8s.io").map(|(_, object)| objects::etcdadm_cluster(object)).collect();
    observation
}

/// The control plane that carries the name of a cluster in its label, where the dumped Cluster itself refers to none.
fn labelled_control_plane(objects: &Objects, cluster: &MachineTopology) -> Option<ControlPlaneReference> {
    let (kind, namespace, name) = objects.iter().find_map(|(key, (_, object))| {
        let (kind, namespace, _) = key;
        let is_control_plane = kind.split('.').next().is_some_and(|kind| kind.ends_with("ControlPlane"));
        let is_of_cluster = *namespace == cluster.namespace && objects::cluster_name(object) == cluster.name;
        (is_control_plane && is_of_cluster).then_some(key)
    })?;
    let (kind, group) = kind.split_once('.')?;
    Some(ControlPlaneReference {
        group: group.to_owned(),
        kind: kind.to_owned().into(),
        namespace: namespace.clone(),
        name: name.clone(),
    })
}

#[cfg(test)]
#[path = "dump_tests.rs"]
mod tests;
