//! The fleet: clusters of Cluster API with a class each, whose machines come up after a second.

use anyhow::Context as _;
use serde_json::{Value, json};
use tests::servers::Programs;
use tests::servers::manifests::{kind, objects, set};

/// Machines of a cluster: one of the control plane and one worker.
pub const MACHINES: usize = 2;

/// The policy: nothing is waited for but the gates.
pub const POLICY: &str = "\
apiVersion: stepgate.dev/v1alpha1
kind: Policy
deploy: {branch: deploy}
soak: 0s
timeout: 30m
flux: {interval: 1h}
";

pub fn name(number: usize) -> String {
    format!("cluster-{number:03}")
}

/// The namespace of a cluster.
pub fn namespace(number: usize) -> String {
    format!("fleet-{number:03}")
}

/// The version of a round; the fleet begins with that of round zero.
pub fn version(round: usize) -> String {
    format!("v1.34.{round}")
}

/// The file of a cluster.
pub fn cluster(number: usize, version: &str) -> String {
    format!(
        "\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: {}
  namespace: {}
  annotations: {{stepgate.dev/management-cluster: management}}
spec:
  clusterNetwork:
    services: {{cidrBlocks: [10.128.0.0/12]}}
    pods: {{cidrBlocks: [192.168.0.0/16]}}
    serviceDomain: cluster.local
  topology:
    classRef: {{name: in-memory}}
    version: {version}
    controlPlane: {{replicas: 1}}
    workers: {{machineDeployments: [{{class: default-worker, name: blue, replicas: 1}}]}}
",
        name(number),
        namespace(number),
    )
}

/// The class that the provider comes with and its templates, in the namespace of a cluster.
pub fn class(programs: &Programs, number: usize) -> anyhow::Result<String> {
    let module = programs.module("cluster-api-in-memory", "sigs.k8s.io/cluster-api/test")?;
    let path = module.join("infrastructure/docker/templates/clusterclass-in-memory.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut documents = Vec::new();
    for mut object in objects(&text)? {
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).context("no metadata")?;
        metadata.insert("namespace".to_owned(), json!(namespace(number)));
        if kind(&object) == "DevMachineTemplate" {
            for part in ["vm", "node", "apiServer", "etcd"] {
                let place = format!("/spec/template/spec/backend/inMemory/{part}/provisioning/startupDuration");
                set(&mut object, &place, json!("1s"))?;
            }
        }
        documents.push(object.to_string());
    }
    Ok(documents.join("\n---\n"))
}

/// The files of the source branch.
pub fn files(programs: &Programs, clusters: usize) -> anyhow::Result<Vec<(String, String)>> {
    let mut files = vec![("stepgate.yaml".to_owned(), POLICY.to_owned())];
    for number in 0..clusters {
        files.push((format!("clusters/{}/class.yaml", name(number)), class(programs, number)?));
        files.push(file(number, &version(0)));
    }
    Ok(files)
}

/// Path and text of a cluster's specification on the source branch.
pub fn file(number: usize, version: &str) -> (String, String) {
    (format!("clusters/{}/cluster.yaml", name(number)), cluster(number, version))
}
