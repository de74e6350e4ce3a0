//! What the machines of a cluster trust, put back alone: the rest of a cluster that rolls has changed since its backup was taken.
//!
//! Where no backup has them, a machine of the control plane does: kubeadm's provider has written them into its bootstrap data.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use yaml::{Limits, Node};

use super::object::{Key, key, text};
use super::{Restore, RestoreError};
use crate::client::kind::{KUBEADM_CONTROL_PLANE, MACHINE, SECRET};
use crate::write::backup::Backup;

/// Secrets by what they are for, each with the files that bootstrap data has its certificate and its key in.
const FILES: [(&str, &str, &str); 4] = [
    ("ca", "ca.crt", "ca.key"),
    ("etcd", "etcd/ca.crt", "etcd/ca.key"),
    ("proxy", "front-proxy-ca.crt", "front-proxy-ca.key"),
    ("sa", "sa.pub", "sa.key"),
];

/// Where kubeadm keeps them.
const FOLDER: &str = "/etc/kubernetes/pki/";

impl Restore {
    /// The same, of the Secrets that machines trust alone.
    #[must_use]
    pub fn of_certificates(mut self, cluster: &str) -> Self {
        let names: Vec<String> = FILES
            .iter()
            .map(|(purpose, ..)| *purpose)
            .chain(["kubeconfig"])
            .map(|purpose| format!("{cluster}-{purpose}"))
            .collect();
        self.objects.retain(|object| is_secret(object) && names.contains(&key(object).name));
        self
    }
}

fn is_secret(object: &Value) -> bool {
    let Key { group, kind, .. } = key(object);
    group.is_empty() && kind == SECRET.kind
}

/// The same backup with the certificates that the bootstrap data of a machine holds.
///
/// # Errors
/// When it has no such machine, or the machine no bootstrap data of a control plane.
pub fn with_certificates_of(mut backup: Backup, cluster: &str, machine: &str) -> Result<Backup, RestoreError> {
    let without = |reason: String| RestoreError::NoCertificates { machine: machine.to_owned(), reason };
    let is_it = |object: &&Value| key(object).kind == MACHINE.kind && key(object).name == machine;
    let found = backup.objects.iter().find(is_it).ok_or_else(|| without("there is no such Machine".to_owned()))?;
    let namespace = text(found, "/metadata/namespace").to_owned();
    let name = text(found, "/spec/bootstrap/dataSecretName");
    let data = backup.objects.iter().find(|object| is_secret(object) && key(object).name == name);
    let data = data.ok_or_else(|| without(format!("its bootstrap data (Secret {name:?}) is gone")))?;
    let files = files(text(data, "/data/value")).map_err(without)?;
    let is_plane = |object: &&Value| {
        key(object).kind == KUBEADM_CONTROL_PLANE.kind
            && text(object, "/metadata/labels/cluster.x-k8s.io~1cluster-name") == cluster
    };
    let owner = backup.objects.iter().find(is_plane).map(|plane| {
        json!({"apiVersion": plane["apiVersion"], "kind": plane["kind"], "name": plane.pointer("/metadata/name"),
            "uid": plane.pointer("/metadata/uid"), "controller": true, "blockOwnerDeletion": true})
    });
    let owners: Vec<Value> = owner.into_iter().collect();
    for (purpose, certificate, private) in FILES {
        let file = |name: &str| {
            let path = format!("{FOLDER}{name}");
            let known = files.get(&path).map(|content| STANDARD.encode(content));
            known.ok_or_else(|| {
                without(format!("its bootstrap data has no {path}: name a machine of the control plane"))
            })
        };
        let name = format!("{cluster}-{purpose}");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": owners,
                "labels": {"cluster.x-k8s.io/cluster-name": cluster}},
            "data": {"tls.crt": file(certificate)?, "tls.key": file(private)?}});
        backup.objects.retain(|object| !(is_secret(object) && key(object).name == name));
        backup.objects.push(secret);
    }
    Ok(backup)
}

/// The files that bootstrap data writes, by path.
fn files(value: &str) -> Result<BTreeMap<String, String>, String> {
    let bytes = STANDARD.decode(value).map_err(|_| "its bootstrap data is not base64".to_owned())?;
    let config = String::from_utf8(bytes).map_err(|_| "its bootstrap data is not text".to_owned())?;
    let parsed =
        yaml::parse(&config, &Limits::default()).map_err(|_| "its bootstrap data is no cloud-config".to_owned())?;
    let root = parsed.into_iter().next().map(|document| document.root).unwrap_or_default();
    let written = root.get("write_files").and_then(Node::as_sequence).unwrap_or_default();
    let file = |node: &Node| {
        let text = |name: &str| node.get(name).and_then(Node::as_str).map(str::to_owned);
        // What is encoded is none of these.
        text("encoding").is_none().then(|| Some((text("path")?, text("content")?))).flatten()
    };
    Ok(written.iter().filter_map(file).collect())
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
