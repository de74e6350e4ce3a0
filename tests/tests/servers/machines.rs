//! A cluster of Cluster API with machines in memory, as a fleet describes it.

use anyhow::Context as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tests::servers::manifests::{apply, kind, list, objects, set};
use tests::servers::{ClusterApi, Flux, Programs};

use super::scene::Scene;

pub const CLUSTER: &str = "machines";
pub const NAMESPACE: &str = "fleet";
pub const CLUSTER_KIND: (&str, &str) = ("cluster.x-k8s.io/v1beta2", "Cluster");
pub const MACHINE: (&str, &str) = ("cluster.x-k8s.io/v1beta2", "Machine");

/// The cluster's file in the fleet repository.
pub const FILE: &str = "clusters/machines/cluster.yaml";

/// The file of its class.
pub const CLASS_FILE: &str = "clusters/machines/class.yaml";

/// The parts that stages roll, in their order, and how many machines each has.
pub const PARTS: [(&str, usize); 3] = [("control-plane", 3), ("blue", 2), ("green", 1)];

/// The commits of the deploy branch for one rollout: adopted, rolled out, closed.
pub const STAGES: [&str; 5] = ["verify", "control-plane", "workers/blue", "workers/green", "verify"];

/// What has to be built for such a cluster.
pub fn needed() -> Vec<&'static str> {
    let servers = ["etcd", "kube-apiserver", "kube-controller-manager"];
    servers.into_iter().chain(Flux::NEEDED).chain(ClusterApi::NEEDED).collect()
}

/// Three control-plane machines and two worker groups.
pub fn cluster(version: &str) -> String {
    format!(
        "\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: {CLUSTER}
  namespace: {NAMESPACE}
  annotations:
    stepgate.dev/management-cluster: management
spec:
  clusterNetwork:
    services: {{cidrBlocks: [10.128.0.0/12]}}
    pods: {{cidrBlocks: [192.168.0.0/16]}}
    serviceDomain: cluster.local
  topology:
    classRef: {{name: in-memory}}
    version: {version}
    controlPlane: {{replicas: 3}}
    workers:
      machineDeployments:
        - {{class: default-worker, name: blue, replicas: 2}}
        - {{class: green-worker, name: green, replicas: 1}}
"
    )
}

/// The template of the provider's workers.
const WORKER_TEMPLATE: &str = "in-memory-default-worker-machinetemplate";

/// The class that the provider comes with, its machines up after a second; and one more kind of workers, whose machines come up after `green`.
///
/// Both templates of that kind are there from the start: Flux applies a class before templates that came with it, and Cluster API then
/// refuses the class.
pub fn class(programs: &Programs, green: &str) -> anyhow::Result<String> {
    let mut documents = Vec::new();
    for mut object in provided(programs)? {
        in_namespace(&mut object)?;
        match kind(&object) {
            "DevMachineTemplate" => {
                starts_after(&mut object, "1s")?;
                if is_worker_template(&object) {
                    for duration in ["1s", "2s", "24h"] {
                        documents.push(green_template_of(&object, duration)?.to_string());
                    }
                }
            }
            "ClusterClass" => {
                let workers = "/spec/workers/machineDeployments";
                let workers =
                    object.pointer_mut(workers).and_then(Value::as_array_mut).context("a class without workers")?;
                let mut worker = workers.first().cloned().context("a class without workers")?;
                set(&mut worker, "/class", json!("green-worker"))?;
                set(&mut worker, "/infrastructure/templateRef/name", json!(green_name(green)))?;
                workers.push(worker);
            }
            _ => {}
        }
        documents.push(object.to_string());
    }
    Ok(documents.join("\n---\n"))
}

/// The template of the green workers that come up after this time, as the class holds it.
pub fn green_template(programs: &Programs, duration: &str) -> anyhow::Result<Value> {
    let mut template = provided(programs)?.into_iter().find(is_worker_template).context("no template of workers")?;
    in_namespace(&mut template)?;
    green_template_of(&template, duration)
}

fn green_template_of(worker: &Value, duration: &str) -> anyhow::Result<Value> {
    let mut template = worker.clone();
    set(&mut template, "/metadata/name", json!(green_name(duration)))?;
    starts_after(&mut template, duration)?;
    Ok(template)
}

/// Templates cannot be changed, so that another duration is another template.
fn green_name(duration: &str) -> String {
    format!("green-{duration}")
}

fn is_worker_template(object: &Value) -> bool {
    kind(object) == "DevMachineTemplate" && object.pointer("/metadata/name") == Some(&json!(WORKER_TEMPLATE))
}

fn in_namespace(object: &mut Value) -> anyhow::Result<()> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).context("an object without metadata")?;
    metadata.insert("namespace".to_owned(), json!(NAMESPACE));
    Ok(())
}

/// The class that the provider comes with, and its templates.
pub fn provided(programs: &Programs) -> anyhow::Result<Vec<Value>> {
    let module = programs.module("cluster-api-in-memory", "sigs.k8s.io/cluster-api/test")?;
    let path = module.join("infrastructure/docker/templates/clusterclass-in-memory.yaml");
    objects(&std::fs::read_to_string(&path).with_context(|| path.display().to_string())?)
}

/// A machine and what runs on it come up after this time.
pub fn starts_after(template: &mut Value, duration: &str) -> anyhow::Result<()> {
    for part in ["vm", "node", "apiServer", "etcd"] {
        let place = format!("/spec/template/spec/backend/inMemory/{part}/provisioning/startupDuration");
        set(template, &place, json!(duration))?;
    }
    Ok(())
}

/// Puts the fleet into the repository, records it, lets Flux create the cluster, and waits until it is up.
pub async fn create(scene: &Scene, programs: &Programs, version: &str, policy: &str) -> anyhow::Result<ClusterApi> {
    let cluster_api = ClusterApi::start(programs, &scene.server).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(&scene.client, &[namespace]).await?;
    let files = [("stepgate.yaml", policy.to_owned()), (CLASS_FILE, class(programs, "1s")?), (FILE, cluster(version))];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    scene.repository.push("Describe the fleet", &files)?;
    scene.adopt()?;
    scene.connect_flux().await?;
    scene
        .until("the cluster is up", || async {
            let clusters = list(&scene.client, CLUSTER_KIND, NAMESPACE).await?;
            let ready = clusters.iter().any(|cluster| {
                let count = |part: &str| cluster.data.pointer(&format!("/status/{part}/availableReplicas")).cloned();
                is_true(cluster, "Available")
                    && count("controlPlane") == Some(json!(3))
                    && count("workers") == Some(json!(3))
            });
            Ok(ready.then_some(()))
        })
        .await?;
    Ok(cluster_api)
}

/// Whether an object has a condition of this type that is True.
pub fn is_true(object: &DynamicObject, condition: &str) -> bool {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|known| known.get("type") == Some(&json!(condition)) && known.get("status") == Some(&json!("True")))
}
