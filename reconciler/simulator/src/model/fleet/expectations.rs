//! What the gates of a cluster expect.

use std::{collections::BTreeMap, time::Duration};

use policy::ControlPlaneGate;
use rollout::{
    AttemptedPart, AttemptsExpectation, ClusterRole, ControlPlaneExpectation, EksaClusterExpectation, EtcdExpectation,
    Expectation, Extent, KubeVipExpectation, KubeletVersions, MachineOrderRules, MembersHeard, ObjectReference,
    OldMembers, SecretsExpectation, StageName, WorkersExpectation,
};

use super::objects::reference;
use super::{CAPI_NAMESPACE, EKSA_NAMESPACE, FLUX_NAMESPACE, ModelCluster};
use crate::{
    desired::{DesiredObject, DesiredWorkload},
    model::branch::{Parts, is_of_the_specification},
    shape::Etcd,
};

impl ModelCluster {
    /// What the gate of a stage expects once these parts are deployed.
    #[must_use]
    pub fn expectations(&self, stage: &StageName, parts: &Parts) -> Vec<Expectation> {
        let flux = Expectation::Flux {
            namespace: FLUX_NAMESPACE.to_owned(),
            kustomizations: vec![self.kustomization_name(stage)],
        };
        let mut expectations = vec![flux];
        if let Some(limit) = self.rendered {
            expectations.extend(self.of_rendered(stage, limit));
        } else if is_of_the_specification(stage) {
            expectations.push(Expectation::EksaCluster(EksaClusterExpectation {
                namespace: EKSA_NAMESPACE.to_owned(),
                name: self.name().to_string(),
                children: self.machine_config(parts).into_iter().map(reference).collect(),
                extent: match (stage, self.control_plane_gate()) {
                    (StageName::Etcd, _) | (StageName::ControlPlane, ControlPlaneGate::FirstNode) => Extent::Begun,
                    _ => Extent::Whole,
                },
            }));
        }
        for object in self.objects(stage, parts) {
            expectations.push(match object {
                DesiredObject::Deployment(DesiredWorkload { namespace, name, images, .. }) => {
                    Expectation::Deployment { namespace, name, images }
                }
                DesiredObject::DaemonSet(DesiredWorkload { namespace, name, images, .. }) => {
                    Expectation::DaemonSet { namespace, name, images }
                }
                DesiredObject::CustomResourceDefinition(definition) => Expectation::CustomResourceDefinition {
                    storage: definition
                        .versions
                        .iter()
                        .find(|version| version.storage)
                        .map(|version| version.name.clone())
                        .unwrap_or_default(),
                    served: definition
                        .versions
                        .iter()
                        .filter(|version| version.served)
                        .map(|version| version.name.clone())
                        .collect(),
                    name: definition.name,
                },
                DesiredObject::Webhook(webhook) => Expectation::Webhook { name: webhook.name },
                DesiredObject::Object(object) => Expectation::Object { object: reference(object) },
                DesiredObject::Etcd(machines) => Expectation::Etcd(EtcdExpectation {
                    namespace: machines.namespace,
                    name: machines.name,
                    replicas: machines.replicas,
                    infrastructure_template: None,
                    members: MembersHeard::Required,
                    old_members: OldMembers::MayStay,
                    rolls: true,
                    above_generation: None,
                }),
                DesiredObject::ControlPlane { machines, kube_vip } => {
                    Expectation::ControlPlane(ControlPlaneExpectation {
                        namespace: machines.namespace,
                        cluster: self.name().to_string(),
                        version: machines.version,
                        replicas: Some(machines.replicas),
                        infrastructure_template: None,
                        stacked_etcd: self.shape.etcd == Etcd::Stacked,
                        kubelet_versions: KubeletVersions::Required,
                        kube_vip: kube_vip.map(|image| KubeVipExpectation { image: Some(image), lease: None }),
                        order: MachineOrderRules {
                            lease: None,
                            brakes: self.policy.machines.brakes.unwrap_or(self.role == ClusterRole::Management),
                        },
                        gate: self.control_plane_gate(),
                    })
                }
                DesiredObject::Workers { group, machines } => Expectation::Workers(WorkersExpectation {
                    namespace: machines.namespace,
                    cluster: self.name().to_string(),
                    group,
                    version: machines.version,
                    replicas: Some(machines.replicas),
                    infrastructure_template: None,
                    bootstrap_template: None,
                    kubelet_versions: KubeletVersions::Required,
                }),
            });
        }
        expectations
    }

    /// What a stage of a rendered cluster expects besides its objects.
    fn of_rendered(&self, stage: &StageName, limit: Duration) -> Vec<Expectation> {
        let attempts = |part| {
            Expectation::Attempts(AttemptsExpectation {
                namespace: CAPI_NAMESPACE.to_owned(),
                cluster: self.name().to_string(),
                part,
                limit,
                retried_after: Vec::new(),
            })
        };
        match stage {
            StageName::ControlPlane => vec![attempts(AttemptedPart::ControlPlane), self.secrets()],
            StageName::Workers(group) => {
                vec![attempts(AttemptedPart::Workers { group: group.clone() }), self.secrets()]
            }
            _ => Vec::new(),
        }
    }

    /// That no other update of a rendered cluster is in progress, and none has failed.
    pub(super) fn settled(&self) -> Expectation {
        Expectation::RenderedSettled { namespace: CAPI_NAMESPACE.to_owned(), cluster: self.name().to_string() }
    }

    /// What its machines trust.
    pub(super) fn secrets(&self) -> Expectation {
        let secret = |purpose: &str| ObjectReference {
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            namespace: Some(CAPI_NAMESPACE.to_owned()),
            name: format!("{}-{purpose}", self.name()),
        };
        Expectation::Secrets(SecretsExpectation {
            namespace: CAPI_NAMESPACE.to_owned(),
            cluster: self.name().to_string(),
            secrets: ["ca", "etcd", "proxy", "sa", "kubeconfig"].map(secret).to_vec(),
            before: BTreeMap::new(),
        })
    }

    /// Objects that are asked for by their names.
    pub(in crate::model) fn asked_for(&self) -> Vec<ObjectReference> {
        match self.secrets() {
            Expectation::Secrets(expected) if self.rendered.is_some() => expected.secrets,
            _ => Vec::new(),
        }
    }
}
