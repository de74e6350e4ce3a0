//! The objects of a cluster, as its parts make them.

use std::sync::Arc;

use rollout::{ObjectReference, StageName};

use super::{CAPI_NAMESPACE, EKSA_NAMESPACE, FLUX_NAMESPACE, ModelCluster, kubernetes};
use crate::{
    desired::{
        DesiredDefinition, DesiredKustomization, DesiredMachines, DesiredObject, DesiredPlainObject, DesiredState,
        DesiredVersion, DesiredWebhook, DesiredWorkload,
    },
    model::branch::{Parts, is_of_the_specification},
    random::mix,
    shape::{Etcd, MachineStrategy},
};

impl ModelCluster {
    /// What the deploy branch says of the cluster when its directory holds these parts.
    #[must_use]
    pub fn desired(&self, parts: &Parts) -> Arc<DesiredState> {
        let mut kustomizations: Vec<DesiredKustomization> = Vec::new();
        for stage in self.stages() {
            let name = self.kustomization_name(&stage);
            let mut objects = self.objects(&stage, parts);
            if let Some(known) = kustomizations.iter_mut().find(|known| known.name == name) {
                known.objects.extend(objects);
                continue;
            }
            if is_of_the_specification(&stage) && self.rendered.is_none() {
                objects.extend(self.specification(parts));
            }
            // Machines come from controllers that a component brings.
            let capi = self.components.contains(&StageName::Capi) && is_of_the_specification(&stage);
            kustomizations.push(DesiredKustomization {
                namespace: FLUX_NAMESPACE.to_owned(),
                path: format!("clusters/{}/{}", self.name(), name),
                name,
                depends_on: if capi { vec![self.kustomization_name(&StageName::Capi)] } else { Vec::new() },
                wait: self.flux_waits,
                objects,
            });
        }
        Arc::new(DesiredState { kustomizations })
    }

    /// What EKS Anywhere's controller works from: the Cluster, and the machine configuration of an external etcd, whose change leaves the
    /// Cluster alone.
    fn specification(&self, parts: &Parts) -> Vec<DesiredObject> {
        let versions = parts.iter().filter(|(part, _)| matches!(part, StageName::ControlPlane | StageName::Workers(_)));
        let content = versions.map(|(part, version)| format!("{part}: {version}\n")).collect();
        let cluster = eksa_object("Cluster", self.name().to_string(), content);
        [cluster].into_iter().chain(self.machine_config(parts)).map(DesiredObject::Object).collect()
    }

    pub(super) fn machine_config(&self, parts: &Parts) -> Option<DesiredPlainObject> {
        let Etcd::External { .. } = self.shape.etcd else { return None };
        let content = format!("{:?}", parts.get(&StageName::Etcd));
        Some(eksa_object("VSphereMachineConfig", format!("{}-etcd", self.name()), content))
    }

    pub(super) fn objects(&self, stage: &StageName, parts: &Parts) -> Vec<DesiredObject> {
        let version = parts.get(stage).copied().unwrap_or_default();
        let name = self.name();
        match stage {
            StageName::Bundle => vec![DesiredObject::Object(DesiredPlainObject {
                api_version: "anywhere.eks.amazonaws.com/v1alpha1".to_owned(),
                kind: "Bundles".to_owned(),
                namespace: Some(CAPI_NAMESPACE.to_owned()),
                name: format!("bundles-{version}"),
                content: String::new(),
            })],
            StageName::CertManager => vec![
                DesiredObject::CustomResourceDefinition(definition("certificates.cert-manager.io", "v1")),
                deployment("cert-manager", "cert-manager", 2, version),
                deployment("cert-manager", "cert-manager-webhook", 1, version),
                webhook("cert-manager-webhook", "cert-manager", "cert-manager-webhook"),
            ],
            StageName::Capi => vec![
                DesiredObject::CustomResourceDefinition(definition("machines.cluster.x-k8s.io", "v1beta2")),
                deployment("capi-system", "capi-controller-manager", 1, version),
                deployment("capi-kubeadm", "capi-kubeadm-control-plane", 1, version),
                webhook("capi-validating-webhook", "capi-system", "capi-controller-manager"),
            ],
            StageName::EksA => vec![deployment(CAPI_NAMESPACE, "eksa-controller-manager", 1, version)],
            StageName::CiliumPreflight => vec![daemon_set("kube-system", "cilium-pre-flight-check", version)],
            StageName::Cilium => {
                vec![
                    daemon_set("kube-system", "cilium", version),
                    deployment("kube-system", "cilium-operator", 2, version),
                ]
            }
            StageName::Flux => vec![
                deployment(FLUX_NAMESPACE, "source-controller", 1, version),
                deployment(FLUX_NAMESPACE, "kustomize-controller", 1, version),
            ],
            StageName::Etcd => {
                let Etcd::External { replicas } = self.shape.etcd else { return Vec::new() };
                let machines = machines(format!("{name}-etcd"), replicas, format!("v3.5.{version}"));
                vec![DesiredObject::Etcd(machines)]
            }
            StageName::ControlPlane => vec![DesiredObject::ControlPlane {
                machines: self.machines(name.to_string(), self.shape.control_plane_replicas, version),
                kube_vip: Some(match self.shape.strategy {
                    MachineStrategy::Rolling => image("kube-vip", version),
                    // No step on a node writes it.
                    MachineStrategy::InPlace { .. } => image("kube-vip", 1),
                }),
            }],
            StageName::Workers(group) => {
                let known = self.shape.worker_groups.iter().find(|known| known.name == *group);
                let replicas = known.map_or(0, |known| known.replicas);
                let machines = self.machines(format!("{name}-{group}"), replicas, version);
                vec![DesiredObject::Workers { group: group.clone(), machines }]
            }
            StageName::Addons => {
                vec![
                    daemon_set("kube-system", "antrea-agent", version),
                    deployment("kube-system", "antrea-controller", 1, version),
                ]
            }
            StageName::Templates => vec![DesiredObject::Object(DesiredPlainObject {
                api_version: "infrastructure.cluster.x-k8s.io/v1beta2".to_owned(),
                kind: "DevMachineTemplate".to_owned(),
                namespace: Some(CAPI_NAMESPACE.to_owned()),
                name: format!("{name}-{version}"),
                content: String::new(),
            })],
            StageName::Preflight
            | StageName::Backup
            | StageName::Addon(_)
            | StageName::Fargate
            | StageName::Leftovers
            | StageName::Verify => Vec::new(),
        }
    }

    /// Machines that stay are made from the same template at every version.
    fn machines(&self, name: String, replicas: u32, version: u32) -> DesiredMachines {
        let template = match self.shape.strategy {
            MachineStrategy::Rolling => return machines(name, replicas, kubernetes(version)),
            MachineStrategy::InPlace { .. } => name.clone(),
        };
        DesiredMachines { template, ..machines(name, replicas, kubernetes(version)) }
    }
}

fn image(name: &str, version: u32) -> String {
    // Images are compared and never pulled: any digest that differs from the others will do.
    let seed = name.bytes().fold(u64::from(version), |state, byte| mix(state ^ u64::from(byte)));
    format!(
        "registry.example/{name}:v{version}@sha256:{:016x}{:016x}{:016x}{:016x}",
        seed,
        mix(seed),
        !seed,
        !mix(seed)
    )
}

fn eksa_object(kind: &str, name: String, content: String) -> DesiredPlainObject {
    DesiredPlainObject {
        api_version: "anywhere.eks.amazonaws.com/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        namespace: Some(EKSA_NAMESPACE.to_owned()),
        name,
        content,
    }
}

pub(super) fn reference(object: DesiredPlainObject) -> ObjectReference {
    let DesiredPlainObject { api_version, kind, namespace, name, .. } = object;
    ObjectReference { api_version, kind, namespace, name }
}

fn workload(namespace: &str, name: &str, replicas: u32, version: u32) -> DesiredWorkload {
    DesiredWorkload {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        replicas,
        images: vec![image(name, version)],
        template: String::new(),
    }
}

fn deployment(namespace: &str, name: &str, replicas: u32, version: u32) -> DesiredObject {
    DesiredObject::Deployment(workload(namespace, name, replicas, version))
}

fn daemon_set(namespace: &str, name: &str, version: u32) -> DesiredObject {
    DesiredObject::DaemonSet(workload(namespace, name, 0, version))
}

fn definition(name: &str, version: &str) -> DesiredDefinition {
    DesiredDefinition {
        name: name.to_owned(),
        versions: vec![DesiredVersion { name: version.to_owned(), served: true, storage: true }],
    }
}

fn webhook(name: &str, namespace: &str, deployment: &str) -> DesiredObject {
    DesiredObject::Webhook(DesiredWebhook {
        kind: "ValidatingWebhookConfiguration".to_owned(),
        name: name.to_owned(),
        deployment: Some((namespace.to_owned(), deployment.to_owned())),
    })
}

fn machines(name: String, replicas: u32, version: String) -> DesiredMachines {
    let template = format!("{name}-{version}");
    DesiredMachines {
        namespace: CAPI_NAMESPACE.to_owned(),
        name,
        replicas,
        version,
        template,
        bootstrap_template: None,
    }
}
