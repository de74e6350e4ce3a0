//! What the model's clusters are made of, and what follows from the versions of their parts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use domain::{ClusterName, CommitId, GroupName};
use policy::{ControlPlaneGate, PlanPolicy, StagePolicy};
use rollout::{
    AttemptedPart, AttemptsExpectation, ChecksExpectation, ClusterRole, ControlPlaneExpectation,
    EksaClusterExpectation, EtcdExpectation, Expectation, Extent, GroupVersions, KubeVipExpectation, KubeletVersions,
    Ledger, MachineOrderRules, MembersHeard, ObjectReference, OldMembers, Pause, PlanInput, SecretsExpectation,
    SkewFacts, StageId, StageInput, StageName, TanzuStages, VersionStep, WorkersExpectation,
};

use super::branch::{Parts, is_of_the_specification, part_digest, tree_digest};
use crate::{
    desired::{
        DesiredDefinition, DesiredKustomization, DesiredMachines, DesiredObject, DesiredPlainObject, DesiredState,
        DesiredVersion, DesiredWebhook, DesiredWorkload,
    },
    random::mix,
    shape::{ClusterShape, Etcd, MachineStrategy},
};

const FLUX_NAMESPACE: &str = "flux-system";
const EKSA_NAMESPACE: &str = "default";
const CAPI_NAMESPACE: &str = "eksa-system";

/// One cluster of the model.
#[derive(Debug, Clone)]
pub struct ModelCluster {
    /// What it is made of. Its machines follow the parts `control-plane`, `workers/…` and `etcd`.
    pub shape: ClusterShape,
    /// What it is to the others.
    pub role: ClusterRole,
    /// Its components: stages that change something in it, the cluster specification apart.
    pub components: Vec<StageName>,
    /// The policy of every stage.
    pub policy: StagePolicy,
    /// Clusters that have to be done before it begins.
    pub after: Vec<ClusterName>,
    /// Whether its Kustomizations wait for the health of what they apply.
    pub flux_waits: bool,
    /// How long a machine may take to come up, where it is a cluster of Tanzu that is rendered for Cluster API; none where EKS Anywhere carries it
    /// out.
    pub rendered: Option<Duration>,
}

/// A commit of the source branch: what every cluster is to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceCommit {
    /// Its id.
    pub id: CommitId,
    /// The wanted version of every part of every cluster.
    pub wanted: BTreeMap<ClusterName, Parts>,
    /// `paused: true` in `stepgate.yaml`.
    pub paused: Option<Pause>,
}

impl SourceCommit {
    /// The `number`-th commit of the source branch.
    #[must_use]
    pub fn new(number: usize, wanted: BTreeMap<ClusterName, Parts>, paused: Option<Pause>) -> Self {
        let digits = format!("{:040x}", 0x5000_0000_usize.saturating_add(number));
        let id = digits.parse().unwrap_or_else(|_| unreachable!("{digits:?} are forty hexadecimal digits"));
        Self { id, wanted, paused }
    }
}

impl ModelCluster {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &ClusterName {
        &self.shape.name
    }

    /// Its stages with a part in git, in order.
    #[must_use]
    pub fn stages(&self) -> Vec<StageName> {
        let mut stages = self.components.clone();
        if matches!(self.shape.etcd, Etcd::External { .. }) {
            stages.push(StageName::Etcd);
        }
        stages.push(StageName::ControlPlane);
        stages.extend(self.shape.worker_groups.iter().map(|group| StageName::Workers(group.name.clone())));
        stages.sort();
        stages
    }

    /// What its plan is made from: deployed parts, wanted parts and the ledger.
    #[must_use]
    pub fn plan_input(&self, source: &CommitId, deployed: &Parts, wanted: &Parts, ledger: Option<Ledger>) -> PlanInput {
        PlanInput {
            cluster: self.name().clone(),
            role: self.role,
            source: source.clone(),
            deployed: tree_digest(deployed),
            target: tree_digest(wanted),
            stages: self.stage_inputs(deployed, wanted),
            skew: self.skew(deployed, wanted),
            policy: PlanPolicy::default(),
            checks: ChecksExpectation::default(),
            blocked: Vec::new(),
            warnings: Vec::new(),
            ledger,
            rollback: None,
            eksctl: None,
            tanzu: self.rendered.map(|_| TanzuStages {
                is_front: false,
                preflight: vec![self.settled(), self.secrets()],
                verify: Vec::new(),
            }),
        }
    }

    fn stage_inputs(&self, deployed: &Parts, wanted: &Parts) -> Vec<StageInput> {
        // What a stage of the specification finds when the ones before it are committed.
        let mut staged = deployed.clone();
        let mut inputs = Vec::new();
        let moves_both = self.one_field_differs(deployed, wanted);
        for stage in self.stages() {
            let before = staged.clone();
            for moved in self.moved_by(&stage) {
                staged.extend(wanted.get(&moved).map(|version| (moved.clone(), *version)));
            }
            let expected = |parts: &Parts| {
                let mut expectations = self.expectations(&stage, parts);
                for expectation in &mut expectations {
                    if let Expectation::Etcd(etcd) = expectation {
                        etcd.rolls = before.get(&StageName::Etcd) != staged.get(&StageName::Etcd);
                    }
                }
                expectations
            };
            inputs.push(StageInput {
                stage: StageId::last(stage.clone()),
                deployed: part_digest(&before, &stage),
                target: part_digest(&staged, &stage),
                changes: Vec::new(),
                reasons: Vec::new(),
                risks: Vec::new(),
                one_way: Vec::new(),
                expectations: expected(&staged),
                deployed_expectations: expected(&before),
                policy: self.policy.clone(),
                machines: 0,
                uncounted_machines: false,
                render_error: None,
                carried_by: (moves_both && stage == StageName::ControlPlane).then(|| StageName::Etcd.into()),
            });
        }
        inputs
    }

    /// The parts that a stage's commit moves: one field of EKS Anywhere moves external etcd and the
    /// control plane.
    #[must_use]
    pub fn moved_by(&self, stage: &StageName) -> Vec<StageName> {
        match (stage, &self.shape.etcd) {
            (StageName::Etcd, Etcd::External { .. }) => vec![StageName::Etcd, StageName::ControlPlane],
            _ => vec![stage.clone()],
        }
    }

    fn one_field_differs(&self, deployed: &Parts, wanted: &Parts) -> bool {
        let differs = |part: &StageName| wanted.get(part).is_some_and(|version| deployed.get(part) != Some(version));
        matches!(self.shape.etcd, Etcd::External { .. }) && self.moved_by(&StageName::Etcd).iter().any(differs)
    }

    fn skew(&self, deployed: &Parts, wanted: &Parts) -> SkewFacts {
        let step = |stage: &StageName| {
            Some(VersionStep {
                deployed: deployed.get(stage).map(|version| kubernetes(*version)),
                target: kubernetes(*wanted.get(stage)?),
            })
        };
        let group = |name: &GroupName| {
            Some(GroupVersions { group: name.clone(), version: step(&StageName::Workers(name.clone()))? })
        };
        SkewFacts {
            control_plane: step(&StageName::ControlPlane),
            workers: self.shape.worker_groups.iter().filter_map(|known| group(&known.name)).collect(),
            ..SkewFacts::default()
        }
    }

    /// How far the control plane has to be before the next stage.
    pub(super) fn control_plane_gate(&self) -> ControlPlaneGate {
        match self.role {
            ClusterRole::Management => ControlPlaneGate::Whole,
            ClusterRole::Workload => self.policy.machines.gate,
        }
    }

    /// How long any gate of it has to hold: those before the first commit have the usual soak, whatever its policy says.
    pub(super) fn shortest_soak(&self) -> Duration {
        self.policy.soak.min(StagePolicy::default().soak)
    }

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
    fn settled(&self) -> Expectation {
        Expectation::RenderedSettled { namespace: CAPI_NAMESPACE.to_owned(), cluster: self.name().to_string() }
    }

    /// What its machines trust.
    fn secrets(&self) -> Expectation {
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
    pub(super) fn asked_for(&self) -> Vec<ObjectReference> {
        match self.secrets() {
            Expectation::Secrets(expected) if self.rendered.is_some() => expected.secrets,
            _ => Vec::new(),
        }
    }

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

    /// Names of everything that a stage changes, its Kustomization included, as [`SimulatedCluster::unfinished`] names them.
    ///
    /// [`SimulatedCluster::unfinished`]: crate::SimulatedCluster::unfinished
    #[must_use]
    pub fn names_of(&self, stage: &StageName) -> BTreeSet<String> {
        // Names do not depend on versions, but for the bundle's own object.
        let objects = self.objects(stage, &Parts::new()).into_iter().map(|object| object.to_string());
        let kustomization = format!("Kustomization {FLUX_NAMESPACE}/{}", self.kustomization_name(stage));
        objects.chain([kustomization]).collect()
    }

    /// The same without its Kustomization.
    pub(super) fn objects_of(&self, stage: &StageName) -> BTreeSet<String> {
        self.objects(stage, &Parts::new()).into_iter().map(|object| object.to_string()).collect()
    }

    /// The same of `stage` and all stages after it.
    pub(super) fn names_from(&self, stage: &StageName) -> BTreeSet<String> {
        self.stages().iter().filter(|other| *other >= stage).flat_map(|later| self.names_of(later)).collect()
    }

    fn kustomization_name(&self, stage: &StageName) -> String {
        if is_of_the_specification(stage) {
            format!("{}-cluster", self.name())
        } else {
            format!("{}-{stage}", self.name())
        }
    }

    /// What EKS Anywhere's controller works from: the Cluster, and the machine configuration of an external etcd, whose change leaves the
    /// Cluster alone.
    fn specification(&self, parts: &Parts) -> Vec<DesiredObject> {
        let versions = parts.iter().filter(|(part, _)| matches!(part, StageName::ControlPlane | StageName::Workers(_)));
        let content = versions.map(|(part, version)| format!("{part}: {version}\n")).collect();
        let cluster = eksa_object("Cluster", self.name().to_string(), content);
        [cluster].into_iter().chain(self.machine_config(parts)).map(DesiredObject::Object).collect()
    }

    fn machine_config(&self, parts: &Parts) -> Option<DesiredPlainObject> {
        let Etcd::External { .. } = self.shape.etcd else { return None };
        let content = format!("{:?}", parts.get(&StageName::Etcd));
        Some(eksa_object("VSphereMachineConfig", format!("{}-etcd", self.name()), content))
    }

    fn objects(&self, stage: &StageName, parts: &Parts) -> Vec<DesiredObject> {
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

/// Kubernetes of a version number of machines: ten patches make a minor, from 1.30.0 on.
#[must_use]
pub fn kubernetes(version: u32) -> String {
    format!("v1.{}.{}", 30 + version / 10, version % 10)
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

fn reference(object: DesiredPlainObject) -> ObjectReference {
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
