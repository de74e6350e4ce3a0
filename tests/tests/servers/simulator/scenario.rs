//! The scenarios: what is deployed, and what happens to it.

use rollout::{Expectation, ObjectReference};
use simulator::{
    DesiredDefinition, DesiredKustomization, DesiredObject, DesiredPlainObject, DesiredState, DesiredVersion,
    DesiredWebhook, DesiredWorkload, Fault,
};
use tests::servers::FLUX_NAMESPACE;

use super::machines;

/// What a Kustomization consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A Deployment of one Pod.
    Small,
    /// A Deployment of three Pods.
    Large,
    /// Two Deployments.
    Pair,
    /// A DaemonSet.
    Agent,
    /// A Deployment that answers for a webhook, and the definition of what the webhook checks.
    Webhook,
    /// A definition that stores another version from the bump on.
    Definition,
    /// A ConfigMap.
    Config,
    /// A Deployment, a DaemonSet and a ConfigMap.
    Mixed,
    /// A cluster of Cluster API whose control plane is bumped.
    ControlPlane,
    /// A cluster of Cluster API with two worker groups, of which one is bumped.
    Workers,
    /// A cluster of Cluster API that is bumped as a whole.
    Cluster,
}

/// What happens, beside the bump to the second version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// Nothing else.
    Bumped,
    /// New images crash until somebody repairs them.
    Crashing,
    /// New images are not pulled for a while.
    Pulling,
    /// A person has suspended the Kustomization before the bump, and resumes it.
    Suspended,
    /// The API server refuses the bump until somebody allows it.
    Refused,
    /// New images crash, and a third version comes.
    Repaired,
    /// New images crash, and the first version comes back.
    TakenBack,
    /// The webhook falls silent, and answers again.
    Silent,
    /// The bump takes a version away at which objects are stored.
    Dropped,
    /// The bump takes an object away.
    Pruned,
    /// The git server is away during the bump.
    SourceAway,
    /// The API server is away during the bump.
    ServerAway,
    /// A machine of the bump never comes up, and a third version has machines that do.
    Stuck,
    /// A person has paused the Cluster before the bump, and resumes it.
    Paused,
    /// A person deletes a machine by hand before the bump.
    Deleted,
}

impl History {
    /// The version that is committed when the trouble is over; none where none is.
    pub fn last_version(self) -> Option<u32> {
        match self {
            Self::Repaired | Self::Stuck => Some(3),
            Self::TakenBack => Some(1),
            _ => None,
        }
    }

    /// Whether somebody puts right what went wrong.
    pub fn is_mended(self) -> bool {
        self != Self::TakenBack
    }
}

/// One scenario, with namespaces and names of its own.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub name: String,
    pub shape: Shape,
    pub history: History,
}

impl Scenario {
    fn new(shape: Shape, history: History) -> Self {
        Self { name: format!("{shape:?}-{history:?}").to_lowercase(), shape, history }
    }

    /// Those that do not disturb each other.
    pub fn side_by_side() -> Vec<Self> {
        use History::{Bumped, Crashing, Dropped, Pruned, Pulling, Refused, Repaired, Silent, Suspended, TakenBack};
        use Shape::{Agent, Config, Definition, Large, Mixed, Pair, Small, Webhook};
        let pods = [Small, Large, Pair, Agent, Webhook, Mixed];
        let of_pods = [Bumped, Crashing, Pulling, Suspended, Refused, Repaired, TakenBack];
        let others = [Definition, Config]
            .into_iter()
            .flat_map(|shape| [Bumped, Suspended, Refused].into_iter().map(move |history| Self::new(shape, history)));
        let special = [(Webhook, Silent), (Definition, Dropped), (Small, Pruned)];
        let of_pods =
            pods.into_iter().flat_map(|shape| of_pods.into_iter().map(move |history| Self::new(shape, history)));
        of_pods.chain(others).chain(special.into_iter().map(|(shape, history)| Self::new(shape, history))).collect()
    }

    /// Those that everything else on the same servers would feel.
    pub fn alone() -> Vec<Self> {
        vec![Self::new(Shape::Mixed, History::SourceAway), Self::new(Shape::Mixed, History::ServerAway)]
    }

    /// Those of clusters with machines, which do not disturb each other either.
    pub fn of_machines() -> Vec<Self> {
        use History::{Bumped, Deleted, Paused, Stuck};
        use Shape::{Cluster, ControlPlane, Workers};
        let all = [
            (ControlPlane, Bumped),
            (Workers, Bumped),
            (Cluster, Bumped),
            (ControlPlane, Paused),
            (Workers, Paused),
            (Workers, Stuck),
            (ControlPlane, Deleted),
            (Workers, Deleted),
        ];
        all.map(|(shape, history)| Self::new(shape, history)).into()
    }

    /// What goes wrong, in the simulator's terms.
    pub fn fault(&self) -> Option<Fault> {
        match self.history {
            History::Bumped | History::Dropped | History::Pruned => None,
            History::Crashing | History::Repaired | History::TakenBack => Some(Fault::FailingPod),
            History::Pulling => Some(Fault::SlowImage),
            History::Suspended => Some(Fault::FluxSuspended),
            History::Refused => Some(Fault::FluxError),
            History::Silent => Some(Fault::WebhookDown),
            History::SourceAway => Some(Fault::SourceError),
            History::ServerAway => Some(Fault::ApiOutage),
            History::Stuck => Some(Fault::MachineStuck),
            History::Paused => Some(Fault::ClusterPaused),
            History::Deleted if self.shape == Shape::ControlPlane => Some(Fault::ControlPlaneMachineDeleted),
            History::Deleted => Some(Fault::MachineDeleted),
        }
    }

    /// Whether others commit to the same branch.
    pub fn has_neighbours(&self) -> bool {
        !matches!(self.history, History::SourceAway | History::ServerAway)
    }

    /// The reference of an image of this version.
    pub fn image(&self, part: &str, version: u32) -> String {
        format!("registry.example/{}/{part}:v{version}@sha256:{version:064x}", self.name)
    }

    /// The images of this version.
    pub fn images(&self, version: u32) -> Vec<String> {
        self.objects(version)
            .into_iter()
            .filter_map(|object| match object {
                DesiredObject::Deployment(workload) | DesiredObject::DaemonSet(workload) => Some(workload.images),
                _ => None,
            })
            .flatten()
            .collect()
    }

    /// API group of the kind that this scenario defines.
    pub fn group(&self) -> String {
        format!("{}.example.com", self.name)
    }

    fn workload(&self, name: &str, replicas: u32, version: u32) -> DesiredWorkload {
        DesiredWorkload {
            namespace: self.name.clone(),
            name: name.to_owned(),
            replicas,
            images: vec![self.image(name, version)],
            template: String::new(),
        }
    }

    fn definition(&self, versions: &[(&str, bool)]) -> DesiredObject {
        let versions = versions.iter().map(|(name, storage)| DesiredVersion {
            name: (*name).to_owned(),
            served: true,
            storage: *storage,
        });
        DesiredObject::CustomResourceDefinition(DesiredDefinition {
            name: format!("things.{}", self.group()),
            versions: versions.collect(),
        })
    }

    fn config(&self, name: &str, version: u32) -> DesiredObject {
        DesiredObject::Object(DesiredPlainObject {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: Some(self.name.clone()),
            name: name.to_owned(),
            content: version.to_string(),
        })
    }

    /// What a version consists of.
    pub fn objects(&self, version: u32) -> Vec<DesiredObject> {
        let deployment = |name: &str, replicas| DesiredObject::Deployment(self.workload(name, replicas, version));
        let mut objects = match self.shape {
            Shape::Small => vec![deployment("app", 1)],
            Shape::Large => vec![deployment("app", 3)],
            Shape::Pair => vec![deployment("app", 1), deployment("cainjector", 2)],
            Shape::Agent => vec![DesiredObject::DaemonSet(self.workload("agent", 0, version))],
            Shape::Webhook => vec![
                self.definition(&[("v1", true)]),
                deployment("app", 1),
                DesiredObject::Webhook(DesiredWebhook {
                    kind: "ValidatingWebhookConfiguration".to_owned(),
                    name: self.name.clone(),
                    deployment: Some((self.name.clone(), "app".to_owned())),
                }),
            ],
            Shape::Definition if self.history == History::Dropped && version > 1 => {
                vec![self.definition(&[("v2", true)])]
            }
            Shape::Definition if version > 1 => vec![self.definition(&[("v1", false), ("v2", true)])],
            Shape::Definition => vec![self.definition(&[("v1", true)])],
            Shape::Config => vec![self.config("config", version)],
            Shape::Mixed => vec![
                deployment("app", 2),
                DesiredObject::DaemonSet(self.workload("agent", 0, version)),
                self.config("config", version),
            ],
            Shape::ControlPlane | Shape::Workers | Shape::Cluster => machines::objects(self, version),
        };
        if self.history == History::Pruned && version == 1 {
            objects.push(self.config("left-over", 1));
        }
        objects
    }

    /// What the deploy branch says at this version.
    pub fn desired(&self, version: u32) -> DesiredState {
        DesiredState {
            kustomizations: vec![DesiredKustomization {
                namespace: FLUX_NAMESPACE.to_owned(),
                name: self.name.clone(),
                path: format!("./{}", self.name),
                depends_on: Vec::new(),
                wait: false,
                objects: self.objects(version),
            }],
        }
    }

    /// What the gate expects at this version.
    pub fn expectations(&self, version: u32) -> Vec<Expectation> {
        let kustomizations = vec![self.name.clone()];
        let mut expectations = vec![Expectation::Flux { namespace: FLUX_NAMESPACE.to_owned(), kustomizations }];
        expectations.extend(self.objects(version).into_iter().filter_map(|object| {
            Some(match object {
                DesiredObject::Deployment(DesiredWorkload { namespace, name, images, .. }) => {
                    Expectation::Deployment { namespace, name, images }
                }
                DesiredObject::DaemonSet(DesiredWorkload { namespace, name, images, .. }) => {
                    Expectation::DaemonSet { namespace, name, images }
                }
                DesiredObject::CustomResourceDefinition(definition) => {
                    let served = definition.versions.iter().map(|version| version.name.clone()).collect();
                    let storage = definition.versions.iter().find(|version| version.storage)?.name.clone();
                    Expectation::CustomResourceDefinition { name: definition.name, served, storage }
                }
                DesiredObject::Webhook(webhook) => Expectation::Webhook { name: webhook.name },
                DesiredObject::Object(object) => Expectation::Object { object: reference(object) },
                DesiredObject::ControlPlane { machines, .. } => machines::control_plane(machines),
                DesiredObject::Workers { group, machines } => machines::workers(&self.name, group, machines),
                DesiredObject::Etcd(_) => return None,
            })
        }));
        if self.history == History::Pruned
            && version > 1
            && let DesiredObject::Object(object) = self.config("left-over", 1)
        {
            expectations.push(Expectation::Absent { object: reference(object) });
        }
        expectations
    }
}

fn reference(object: DesiredPlainObject) -> ObjectReference {
    ObjectReference {
        api_version: object.api_version,
        kind: object.kind,
        namespace: object.namespace,
        name: object.name,
    }
}
