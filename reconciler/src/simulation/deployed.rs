//! What a simulated cluster is told of a commit: the objects that the cluster's directory on the deploy branch holds.

use std::collections::BTreeMap;

use domain::{ClusterName, GroupName, TreeDigest};
use overlays::{ClusterKind, ClusterSpec, ComponentName, ObjectSummary, RenderedTree};
use simulator::{
    ClusterShape, DesiredDefinition, DesiredKustomization, DesiredMachines, DesiredObject, DesiredPlainObject,
    DesiredState, DesiredVersion, DesiredWebhook, DesiredWorkload, Etcd, MachineStrategy, WorkerGroup,
};
use yaml::Node;

use planning::expectation::cluster_api_namespace;
use planning::facts::deployed_cluster;
use planning::machines::Specification;
use planning::machines::kube_vip;
use planning::{ClusterDirectory, cluster_folder};

use super::MachineCounts;
use crate::reconcile::planner::EksDReleases;

/// What carries the address of a control plane. That a bundle brings another image, and with it other machines, is not simulated.
const KUBE_VIP: &str = "public.ecr.aws/l0g8r8j6/kube-vip/kube-vip:v1.2.0";

/// What the directory asks of the cluster.
pub fn desired(
    name: &ClusterName,
    spec: &ClusterSpec,
    directory: &ClusterDirectory,
    counts: &MachineCounts,
    releases: &EksDReleases,
) -> DesiredState {
    let tree = &directory.files;
    let flux = tree.files.iter().filter(|(path, _)| path.is_below(&format!("flux/{name}")));
    let kustomizations = flux
        .flat_map(|(_, bytes)| overlays::objects_of(bytes))
        .filter(|node| text(node, &["kind"]) == Some("Kustomization"))
        .filter_map(|node| kustomization(name, spec, directory, (counts, releases), &node))
        .collect();
    DesiredState { kustomizations }
}

fn text<'a>(node: &'a Node, path: &[&str]) -> Option<&'a str> {
    node.at(path).and_then(Node::as_str)
}

fn kustomization(
    name: &ClusterName,
    spec: &ClusterSpec,
    directory: &ClusterDirectory,
    (counts, releases): (&MachineCounts, &EksDReleases),
    node: &Node,
) -> Option<DesiredKustomization> {
    let path = text(node, &["spec", "path"])?.trim_start_matches("./").trim_end_matches('/').to_owned();
    // With a deploy path the objects name it; the directory that we hold begins below it.
    let inside = path.find(&cluster_folder(name)).and_then(|at| path.get(at..))?;
    let depends_on = node.at(&["spec", "dependsOn"]).and_then(Node::as_sequence).unwrap_or_default();
    let objects = if inside.ends_with(&format!("/{}", ComponentName::Cluster.directory())) {
        machines(name, spec, directory, counts, releases)
    } else {
        objects(&directory.files.below(inside))
    };
    Some(DesiredKustomization {
        namespace: text(node, &["metadata", "namespace"]).unwrap_or("flux-system").to_owned(),
        name: text(node, &["metadata", "name"])?.to_owned(),
        depends_on: depends_on.iter().filter_map(|other| text(other, &["name"]).map(str::to_owned)).collect(),
        wait: node.at(&["spec", "wait"]).and_then(Node::as_bool).unwrap_or(false),
        objects,
        path,
    })
}

fn objects(tree: &RenderedTree) -> Vec<DesiredObject> {
    let nodes: Vec<Node> = tree
        .files
        .iter()
        .filter(|(path, _)| path.is_yaml())
        .flat_map(|(_, bytes)| overlays::objects_of(bytes))
        .collect();
    let answering = services(&nodes);
    nodes.iter().filter_map(|node| object(node, &answering)).collect()
}

/// `namespace/name` of each Service → the Deployment whose pods it selects.
fn services(nodes: &[Node]) -> BTreeMap<String, (String, String)> {
    let kind = |wanted: &'static str| nodes.iter().filter(move |node| text(node, &["kind"]) == Some(wanted));
    let labels = |node: &Node, path: &[&str]| -> BTreeMap<String, String> {
        let found = node.at(path).and_then(Node::as_mapping);
        found
            .into_iter()
            .flat_map(|map| map.iter())
            .filter_map(|entry| Some((entry.key.to_string(), entry.value.as_str()?.to_owned())))
            .collect()
    };
    let named = |node: &Node| {
        let namespace = text(node, &["metadata", "namespace"]).unwrap_or("default").to_owned();
        Some((namespace, text(node, &["metadata", "name"])?.to_owned()))
    };
    let mut found = BTreeMap::new();
    for service in kind("Service") {
        let Some((namespace, name)) = named(service) else { continue };
        let selector = labels(service, &["spec", "selector"]);
        let answers = kind("Deployment").find(|deployment| {
            let pods = labels(deployment, &["spec", "template", "metadata", "labels"]);
            named(deployment).is_some_and(|(own, _)| own == namespace)
                && !selector.is_empty()
                && selector.iter().all(|(key, value)| pods.get(key) == Some(value))
        });
        if let Some(deployment) = answers.and_then(named) {
            found.insert(format!("{namespace}/{name}"), deployment);
        }
    }
    found
}

fn object(node: &Node, services: &BTreeMap<String, (String, String)>) -> Option<DesiredObject> {
    let summary = ObjectSummary::of(node)?;
    let namespace = || summary.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let content = || yaml::emit(node);
    Some(match summary.kind.as_str() {
        "Deployment" | "DaemonSet" => {
            let workload = DesiredWorkload {
                namespace: namespace(),
                name: summary.name.clone(),
                replicas: summary.replicas.unwrap_or(1),
                images: summary.images.clone(),
                template: node.at(&["spec", "template"]).map(yaml::emit).unwrap_or_default(),
            };
            if summary.kind == "Deployment" {
                DesiredObject::Deployment(workload)
            } else {
                DesiredObject::DaemonSet(workload)
            }
        }
        "CustomResourceDefinition" => DesiredObject::CustomResourceDefinition(DesiredDefinition {
            name: summary.name.clone(),
            versions: summary
                .crd
                .iter()
                .flat_map(|definition| &definition.versions)
                .map(|version| DesiredVersion {
                    name: version.name.clone(),
                    served: version.served,
                    storage: version.storage,
                })
                .collect(),
        }),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => DesiredObject::Webhook(DesiredWebhook {
            kind: summary.kind.clone(),
            name: summary.name.clone(),
            deployment: summary.webhooks.iter().find_map(|hook| services.get(hook.service.as_ref()?).cloned()),
        }),
        _ => DesiredObject::Object(DesiredPlainObject {
            api_version: summary.api_version.clone(),
            kind: summary.kind.clone(),
            namespace: summary.namespace.clone(),
            name: summary.name.clone(),
            content: content(),
        }),
    })
}

/// The Cluster API objects that EKS Anywhere's controller makes of the deployed specification.
fn machines(
    name: &ClusterName,
    spec: &ClusterSpec,
    directory: &ClusterDirectory,
    counts: &MachineCounts,
    releases: &EksDReleases,
) -> Vec<DesiredObject> {
    let deployed = directory.deployed(name);
    let Some(cluster) = deployed_cluster(&deployed, spec) else { return Vec::new() };
    let namespace = cluster_api_namespace(&cluster);
    let machines = |object: String, replicas: u32, version: &str, template: &str| DesiredMachines {
        namespace: namespace.clone(),
        name: object,
        replicas,
        version: machine_version(version),
        template: template.to_owned(),
        bootstrap_template: None,
    };
    let mut found = Vec::new();
    if let Some(replicas) = cluster.external_etcd {
        let template = template(&deployed, &cluster, "externalEtcdConfiguration");
        let object = format!("{name}-etcd");
        found.push(DesiredObject::Etcd(machines(object, replicas, &cluster.kubernetes_version, &template)));
    }
    if cluster.kind == ClusterKind::ClusterApi {
        return cluster_api(&cluster, &deployed, counts);
    }
    let nodes: Vec<Node> = deployed.files.values().flat_map(|bytes| overlays::objects_of(bytes)).collect();
    let specification = Specification { cluster: &cluster, objects: &nodes };
    found.push(DesiredObject::ControlPlane {
        machines: machines(
            name.to_string(),
            cluster.control_plane_count.or(counts.control_plane).unwrap_or(1),
            &cluster.kubernetes_version,
            &made_from(
                template(&deployed, &cluster, "controlPlaneConfiguration"),
                releases.get(&cluster.kubernetes_version),
                cluster.node.at(&["spec", "controlPlaneConfiguration"]),
            ),
        ),
        kube_vip: kube_vip::expectation(&specification, None).map(|_| KUBE_VIP.to_owned()),
    });
    for group in &cluster.worker_groups {
        let Ok(group_name) = group.name.parse() else { continue };
        let template = group.machine_config.as_deref().map(|config| template_of(&deployed, config)).unwrap_or_default();
        let template = made_from(template, releases.get(&group.kubernetes_version), listed(&cluster, &group.name));
        let replicas = group.replicas.or_else(|| counts.workers.get(&group_name).copied()).unwrap_or(1);
        found.push(DesiredObject::Workers {
            group: group_name,
            machines: machines(format!("{name}-{}", group.name), replicas, &group.kubernetes_version, &template),
        });
    }
    let specification = deployed.below(ComponentName::Cluster.directory());
    found.extend(objects(&specification));
    found
}

/// The objects of Cluster API that the deployed specification has itself.
fn cluster_api(cluster: &ClusterSpec, deployed: &RenderedTree, counts: &MachineCounts) -> Vec<DesiredObject> {
    let specification = deployed.below(ComponentName::Cluster.directory());
    let nodes: Vec<Node> = specification.files.values().flat_map(|bytes| overlays::objects_of(bytes)).collect();
    let machines = |node: &Node, known: Option<u32>, version: &[&str], template: &[&str]| DesiredMachines {
        namespace: text(node, &["metadata", "namespace"]).unwrap_or("default").to_owned(),
        name: text(node, &["metadata", "name"]).unwrap_or_default().to_owned(),
        replicas: replicas(node).or(known).unwrap_or(1),
        version: text(node, version).unwrap_or_default().to_owned(),
        template: text(node, template).unwrap_or_default().to_owned(),
        bootstrap_template: None,
    };
    let made = nodes.iter().filter_map(|node| match text(node, &["kind"])? {
        "KubeadmControlPlane" => {
            let template = ["spec", "machineTemplate", "spec", "infrastructureRef", "name"];
            Some(DesiredObject::ControlPlane {
                machines: machines(node, counts.control_plane, &["spec", "version"], &template),
                kube_vip: None,
            })
        }
        "MachineDeployment" => {
            let (spec, name) = (["spec", "template", "spec"], text(node, &["metadata", "name"])?);
            let group = cluster.worker_groups.iter().find(|group| {
                group.object.as_deref() == Some(name) || format!("{}-{}", cluster.name, group.name) == name
            })?;
            let template: Vec<&str> = spec.iter().copied().chain(["infrastructureRef", "name"]).collect();
            let version: Vec<&str> = spec.iter().copied().chain(["version"]).collect();
            let bootstrap: Vec<&str> = spec.iter().copied().chain(["bootstrap", "configRef", "name"]).collect();
            let bootstrap = text(node, &bootstrap).map(str::to_owned);
            let group: GroupName = group.name.parse().ok()?;
            let known = counts.workers.get(&group).copied();
            let machines = machines(node, known, &version, &template);
            Some(DesiredObject::Workers {
                group,
                machines: DesiredMachines { bootstrap_template: bootstrap, ..machines },
            })
        }
        _ => None,
    });
    made.chain(objects(&specification)).collect()
}

fn replicas(node: &Node) -> Option<u32> {
    node.at(&["spec", "replicas"]).and_then(Node::as_i64)?.try_into().ok()
}

/// The template that follows from a part's machine configuration.
fn template(deployed: &RenderedTree, cluster: &ClusterSpec, part: &str) -> String {
    let config = text(&cluster.node, &["spec", part, "machineGroupRef", "name"]);
    config.map(|config| template_of(deployed, config)).unwrap_or_default()
}

/// Fields of a part of a `Cluster` that its machines are made with, besides their configuration.
const MADE_WITH: [&str; 4] = ["labels", "taints", "kubeletConfiguration", "certSANs"];

/// The entry of a worker group in the `Cluster` object.
fn listed<'a>(cluster: &'a ClusterSpec, group: &str) -> Option<&'a Node> {
    let groups = cluster.node.at(&["spec", "workerNodeGroupConfigurations"])?.as_sequence()?;
    groups.iter().find(|known| text(known, &["name"]) == Some(group))
}

/// A template with what else machines are made from: a release of EKS-D, and what the part itself says of them.
fn made_from(template: String, release: Option<&String>, part: Option<&Node>) -> String {
    let fields = MADE_WITH.iter().filter_map(|field| Some(format!("{field}: {}", yaml::emit(part?.get(field)?))));
    let described: String = fields.collect();
    let mut name = template;
    if let Some(release) = release {
        name = format!("{name}-{release}");
    }
    if !described.is_empty() {
        name = format!("{name}-{}", short(&described));
    }
    name
}

fn short(content: &str) -> String {
    let digest = TreeDigest::of([content.as_bytes()]).to_string();
    digest.trim_start_matches("sha256:").get(..8).unwrap_or_default().to_owned()
}

/// Templates are never changed: EKS Anywhere makes a new one, with a name of its own, for each content of the configuration.
fn template_of(deployed: &RenderedTree, config: &str) -> String {
    let files = deployed.below(ComponentName::Cluster.directory());
    let content: String = (files.files.values())
        .flat_map(|bytes| overlays::objects_of(bytes))
        .filter(|node| text(node, &["kind"]).is_some_and(|kind| kind.ends_with("MachineConfig")))
        .filter(|node| text(node, &["metadata", "name"]) == Some(config))
        .map(|node| yaml::emit(&node))
        .collect();
    format!("{config}-{}", short(&content))
}

/// A full version for a minor: machines always have one.
fn machine_version(version: &str) -> String {
    let text = version.trim_start_matches('v');
    if text.split('.').count() >= 3 { format!("v{text}") } else { format!("v{text}.0") }
}

/// The cluster before anything is rolled out on it, as its deployed specification has it.
pub fn shape(
    name: &ClusterName,
    spec: &ClusterSpec,
    directory: &ClusterDirectory,
    counts: &MachineCounts,
) -> ClusterShape {
    let cluster = deployed_cluster(&directory.deployed(name), spec).unwrap_or_else(|| spec.clone());
    let groups = cluster.worker_groups.iter().filter_map(|group| {
        let name: GroupName = group.name.parse().ok()?;
        let replicas = group.replicas.or_else(|| counts.workers.get(&name).copied()).unwrap_or(1);
        Some(WorkerGroup { name, replicas })
    });
    ClusterShape {
        name: name.clone(),
        namespace: cluster_api_namespace(&cluster),
        kubernetes_version: machine_version(&cluster.kubernetes_version),
        control_plane_replicas: cluster.control_plane_count.or(counts.control_plane).unwrap_or(1),
        worker_groups: groups.collect(),
        etcd: cluster.external_etcd.map_or(Etcd::Stacked, |replicas| Etcd::External { replicas }),
        strategy: MachineStrategy::Rolling,
    }
}
