//! The Pod that upgrades one node: each step of `stepgate-node` an init container, in the documented order.
//!
//! The Pod runs in the cluster of the node, and outlives what it replaces: containerd, the network plugins, kubelet, the
//! API server. Nothing in it keeps a state; kubelet starts its steps again after a reboot, and each looks at the node
//! first. `reconciler/docs/node-upgrader.md` says what the steps do.

mod access;
mod step;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bundles::{Digest, ImageReference};
use serde_json::{Value, json};

use crate::files::{WholeFile, folder};
use crate::objects::Role;

pub use self::access::{NAMESPACE, SERVICE_ACCOUNT, access};
pub use self::step::{ExitMeaning, NodeStep};

/// Where the root of the node is in the Pod.
const HOST: &str = "/host";

/// Where the image has the program and the release.
const PROGRAM: &str = "/stepgate-node";
const RELEASE: &str = "/release";

/// Where the Pod has what is written besides the release.
const FILES: &str = "/files";

/// Where a program finds its `ServiceAccount`.
const TOKEN_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The label whose value is [`NodePod::label`]: whoever lists Pods finds that of a node.
pub const NODE_LABEL: &str = "inplace.stepgate.dev/node";

/// The annotation with the version that the Pod leads to.
pub const TARGET_ANNOTATION: &str = "inplace.stepgate.dev/target";

/// Names of objects are no longer.
const LONGEST_NAME: usize = 253;

/// Values of labels are no longer.
const LONGEST_LABEL: usize = 63;

/// Which way a Pod goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// All steps to the target.
    Upgrade,
    /// Everything back to what was there before.
    Rollback,
}

/// What is chosen for a node, beside its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeChoices {
    /// Data in `emptyDir` volumes may be lost.
    pub deletes_empty_dir_data: bool,
    /// kube-vip leaves the node: another control-plane node has to take the address.
    pub leaves_virtual_address: bool,
    /// kubeadm's own copy of etcd's data is enough: its image has no `etcdctl`.
    pub trusts_kubeadm_for_etcd: bool,
    /// Checks of kubeadm that may fail.
    pub ignored_preflight_errors: Vec<String>,
    /// How long a proof has to hold, in seconds.
    pub soak_seconds: u64,
    /// A step of which no attempt is left is tried again.
    pub is_anew: bool,
}

impl Default for NodeChoices {
    fn default() -> Self {
        Self {
            deletes_empty_dir_data: false,
            leaves_virtual_address: false,
            trusts_kubeadm_for_etcd: false,
            ignored_preflight_errors: Vec::new(),
            soak_seconds: 30,
            is_anew: false,
        }
    }
}

/// One node and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePod {
    /// The Node object.
    pub node: String,
    /// The upgrader's image of the release, by digest.
    pub image: ImageReference,
    /// The version of the release: `v1.36.4-eks-1-36-4`.
    pub target: String,
    /// What the node does for its cluster.
    pub role: Role,
    /// Whether files are written besides the release: they are in a Secret of the Pod's own name.
    pub has_files: bool,
    /// What was chosen.
    pub choices: NodeChoices,
}

impl NodePod {
    /// The name of the Pod: one for each node, so that no two work on the same one.
    #[must_use]
    pub fn name(&self, way: Way) -> String {
        let suffix = match way {
            Way::Upgrade => "node-upgrade",
            Way::Rollback => "node-rollback",
        };
        shortened(&format!("{}-{suffix}", self.node), LONGEST_NAME)
    }

    /// The value of [`NODE_LABEL`].
    #[must_use]
    pub fn label(&self) -> String {
        shortened(&self.node, LONGEST_LABEL)
    }

    /// The steps as containers, in order.
    #[must_use]
    pub fn steps(&self) -> Vec<Value> {
        NodeStep::ALL
            .into_iter()
            .map(|step| self.container(step.as_str(), &self.arguments(step), step.calls_api()))
            .collect()
    }

    /// The whole Pod.
    #[must_use]
    pub fn manifest(&self, way: Way) -> Value {
        let rollback = [String::from("rollback"), format!("--target={}", self.target), self.soak()];
        let (steps, last) = match way {
            Way::Upgrade => (self.steps(), self.container("status", &[String::from("status")], false)),
            Way::Rollback => (Vec::new(), self.container("rollback", &rollback, true)),
        };
        let mut volumes = vec![
            json!({"name": "host", "hostPath": {"path": "/", "type": "Directory"}}),
            json!({"name": "api-access", "projected": {"defaultMode": 0o400, "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ]}}),
        ];
        if self.has_files && way == Way::Upgrade {
            volumes.push(json!({"name": "files", "secret": {"secretName": self.name(way), "defaultMode": 0o400}}));
        }
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name(way),
                "namespace": NAMESPACE,
                "labels": self.labels(),
                "annotations": {TARGET_ANNOTATION: self.target},
            },
            "spec": {
                // No scheduler is asked: one that is being upgraded does not answer.
                "nodeName": self.node,
                "hostPID": true,
                // The network of the Pod would be made by the plugins that are replaced.
                "hostNetwork": true,
                "dnsPolicy": "Default",
                // A step that was killed goes on, with the API server or without it.
                "restartPolicy": "OnFailure",
                // A full node makes room for it, and does not evict it.
                "priorityClassName": "system-node-critical",
                "serviceAccountName": SERVICE_ACCOUNT,
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "tolerations": [{"operator": "Exists"}],
                "initContainers": steps,
                "containers": [last],
                "volumes": volumes,
            },
        })
    }

    /// The Secret with what is written besides the release: it may have keys of registries in it.
    #[must_use]
    pub fn secret(&self, files: &[WholeFile]) -> Value {
        let data: BTreeMap<String, String> =
            folder(files).into_iter().map(|(name, content)| (name, STANDARD.encode(content))).collect();
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self.name(Way::Upgrade), "namespace": NAMESPACE, "labels": self.labels()},
            "type": "Opaque",
            "data": data,
        })
    }

    fn labels(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("app.kubernetes.io/managed-by", String::from("stepgate")),
            ("app.kubernetes.io/name", String::from("stepgate-node")),
            (NODE_LABEL, self.label()),
        ])
    }

    fn soak(&self) -> String {
        format!("--soak={}", self.choices.soak_seconds)
    }

    fn arguments(&self, step: NodeStep) -> Vec<String> {
        let choices = &self.choices;
        let mut arguments = vec![step.as_str().to_owned()];
        if step == NodeStep::Copy {
            arguments.extend([format!("--from={RELEASE}"), format!("--role={}", self.role.as_str())]);
            if self.has_files {
                arguments.push(format!("--files={FILES}"));
            }
            if choices.trusts_kubeadm_for_etcd {
                arguments.push(String::from("--etcd-backup=kubeadm"));
            }
        } else {
            arguments.push(format!("--target={}", self.target));
        }
        if step == NodeStep::Drain {
            let flags = [
                (choices.deletes_empty_dir_data, "--delete-emptydir-data"),
                (choices.leaves_virtual_address, "--leave-virtual-address"),
            ];
            arguments.extend(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag.to_owned()));
        }
        if step == NodeStep::Kubeadm {
            let ignored = choices.ignored_preflight_errors.iter();
            arguments.extend(ignored.map(|name| format!("--ignore-preflight-error={name}")));
            // Every image is on the node before the first step that changes it.
            arguments.push(String::from("--image-pull-policy=IfNotPresent"));
        }
        if step.proves() {
            arguments.push(self.soak());
        }
        if choices.is_anew {
            arguments.push(String::from("--anew"));
        }
        arguments
    }

    fn container(&self, name: &str, arguments: &[String], calls_api: bool) -> Value {
        let host = [format!("--root={HOST}"), String::from("--enter-host")];
        let arguments = [arguments, &host].concat();
        let own = |field: &str| json!({"fieldRef": {"fieldPath": field}});
        let mut mounts = vec![json!({"name": "host", "mountPath": HOST, "mountPropagation": "HostToContainer"})];
        if calls_api {
            mounts.push(json!({"name": "api-access", "mountPath": TOKEN_FOLDER, "readOnly": true}));
        }
        if self.has_files && name == NodeStep::Copy.as_str() {
            mounts.push(json!({"name": "files", "mountPath": FILES, "readOnly": true}));
        }
        let mut environment = vec![
            json!({"name": "NODE_NAME", "valueFrom": own("spec.nodeName")}),
            json!({"name": "POD_NAME", "valueFrom": own("metadata.name")}),
            json!({"name": "POD_NAMESPACE", "valueFrom": own("metadata.namespace")}),
        ];
        if !calls_api {
            // Every container is told where the API server is; without it, the program asks for no credentials.
            environment.push(json!({"name": "KUBERNETES_SERVICE_HOST", "value": ""}));
        }
        json!({
            "name": name,
            "image": self.image.to_string(),
            "imagePullPolicy": "IfNotPresent",
            "command": [PROGRAM],
            "args": arguments,
            "env": environment,
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
            "securityContext": {"privileged": true, "readOnlyRootFilesystem": true},
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": mounts,
        })
    }
}

/// Two long names that begin alike stay two.
fn shortened(name: &str, longest: usize) -> String {
    if name.len() <= longest {
        return name.to_owned();
    }
    let digest = Digest::of(name.as_bytes()).to_string();
    let unique: String = digest.trim_start_matches("sha256:").chars().take(10).collect();
    let kept: String = name.chars().take(longest - unique.len() - 1).collect();
    format!("{}-{unique}", kept.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests;
