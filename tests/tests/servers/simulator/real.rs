//! Scenarios played on an API server with its controllers, and on Flux. Pods alone are fake, and what answers for webhooks in them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster};
use cluster::{Cluster as _, Freshness, ObserveRequest};
use domain::CommitId;
use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use rollout::FluxReference;
use serde_json::{Value, json};
use simulator::DesiredObject;
use tests::servers::manifests::{apply, kind_in, kind_of_cluster};
use tests::servers::{
    ApiServer, ApiServerOptions, FLUX_NAMESPACE, FakeKubelet, FakeWebhooks, FleetRepository, Flux, Folder, GitServer,
    Programs, Trouble,
};
use tests::waiting::{LONG_PATIENCE, until, until_within};

use super::course::Expected;
use super::machines::{self, MachineProvider};
use super::scenario::{History, Scenario};
use super::simulated;
use super::{NODES, Step};
use crate::verdicts::Judge;

const SOURCE: (&str, &str) = ("source.toolkit.fluxcd.io/v1", "GitRepository");
const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");
const REFUSAL: (&str, &str) = ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy");
const REFUSAL_BINDING: (&str, &str) = ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding");

/// Clusters that are read at once.
const CONCURRENT: usize = 8;

/// What the scenarios are played on.
pub struct Stand {
    pub folder: Folder,
    server: ApiServer,
    client: Client,
    connection: Connection,
    repository: FleetRepository,
    git: GitServer,
    kubelet: FakeKubelet,
    webhooks: FakeWebhooks,
    _flux: Flux,
    provider: Option<MachineProvider>,
}

/// A scenario in its course.
struct Played<'a> {
    scenario: &'a Scenario,
    cluster: KubernetesCluster,
    expected: Vec<Expected>,
    /// Whether the simulator was asked for many more runs.
    is_sure: bool,
    judge: Judge,
    said: String,
    /// The commit that Flux has come to.
    attempted: Option<CommitId>,
    /// A commit of others: until Flux has come to it, more may change.
    followed: Option<CommitId>,
}

impl Played<'_> {
    /// Whether the gate says what the simulated one says in the end of a step, and nothing is to come.
    fn is_settled(&self, number: usize) -> bool {
        self.expected[number].ends.contains(&self.said) && (self.followed.is_none() || self.attempted == self.followed)
    }

    /// Why the gate cannot say what it has said since the step began; none where it can.
    fn contradiction(&mut self, step: Step, number: usize) -> Option<String> {
        let found = self.expected[number].contradiction(&self.judge.course)?;
        if !std::mem::replace(&mut self.is_sure, true) {
            println!("{} after {step:?}: {found}; the simulator is asked for more runs", self.scenario.name);
            simulated::add_more(&mut self.expected, self.scenario);
        }
        let contradiction = self.expected[number].contradiction(&self.judge.course)?;
        let courses: BTreeSet<&Vec<String>> = self.expected[number].courses.iter().collect();
        Some(format!(
            "{} after {step:?}: {contradiction}\n  real:      {:?}, now {}\n  simulated: {courses:?}",
            self.scenario.name, self.judge.course, self.said
        ))
    }
}

impl Stand {
    pub async fn start(programs: &Programs) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let options = ApiServerOptions { controllers: true, ..ApiServerOptions::default() };
        let server = ApiServer::start(programs, &folder.path().join("management"), options).await?;
        let client = server.client().await?;
        let source = ConnectionSource::Kubeconfig { path: Some(server.kubeconfig()), context: None };
        let connection = Connection::open(&source).await?.with_requests_per_second(1000);
        let flux = Flux::start(programs, &server).await?;
        let repository = FleetRepository::create(&folder.path().join("repository"))?;
        let git = GitServer::start(repository.served().0).await?;
        let kubelet = FakeKubelet::start(&client, &NODES, "v1.34.0").await?;
        let webhooks = FakeWebhooks::start(&client).await?;
        let provider = None;
        Ok(Self { folder, server, client, connection, repository, git, kubelet, webhooks, _flux: flux, provider })
    }

    /// The same with Cluster API, for scenarios of machines.
    pub async fn with_machines(mut self, programs: &Programs) -> anyhow::Result<Self> {
        self.provider = Some(MachineProvider::start(programs, &self.server).await?);
        Ok(self)
    }

    /// The cluster that a scenario is about: one of its own, where it has machines.
    fn cluster(&self, scenario: &Scenario) -> KubernetesCluster {
        let (connection, backups) = (self.connection.clone(), self.folder.path().join("backups"));
        if machines::shape(scenario).is_some() {
            KubernetesCluster::workload(connection, &scenario.name, &scenario.name, backups)
        } else {
            KubernetesCluster::management(connection, backups)
        }
    }

    /// Plays scenarios side by side, step by step, and compares each with the simulator's course of it.
    pub async fn play(&mut self, scenarios: &[Scenario]) -> anyhow::Result<()> {
        let now = Timestamp::now();
        let mut played: Vec<Played<'_>> = scenarios
            .iter()
            .map(|scenario| Played {
                scenario,
                cluster: self.cluster(scenario),
                expected: simulated::expected(scenario),
                is_sure: false,
                judge: Judge::new(nothing(), Vec::new(), now),
                said: String::new(),
                attempted: None,
                followed: None,
            })
            .collect();
        for (number, step) in Step::ALL.into_iter().enumerate() {
            self.act(step, &mut played).await.with_context(|| format!("{step:?}"))?;
            let start = Instant::now();
            played.iter_mut().for_each(|played| played.judge.course.clear());
            self.settle(step, number, &mut played).await?;
            // Those that were the first to settle are seen once more.
            self.settle(step, number, &mut played).await?;
            println!("{step:?}: {} scenarios settled after {} s", played.len(), start.elapsed().as_secs());
        }
        Ok(())
    }

    async fn act(&mut self, step: Step, played: &mut [Played<'_>]) -> anyhow::Result<()> {
        let scenarios: Vec<&Scenario> = played.iter().map(|played| played.scenario).collect();
        if step == Step::Trouble {
            self.trouble(&scenarios, true).await?;
        }
        let mended: Vec<&Scenario> = scenarios.iter().copied().filter(|scenario| step.mends(scenario)).collect();
        self.trouble(&mended, false).await?;
        let provider = self.provider.as_ref();
        let file = |scenario: &Scenario| {
            let version = step.version(scenario)?;
            let text = manifests(scenario, version, provider);
            Some(text.map(|text| (format!("{}/objects.yaml", scenario.name), text)))
        };
        let files: Vec<(String, String)> =
            played.iter().filter_map(|played| file(played.scenario)).collect::<anyhow::Result<_>>()?;
        if files.is_empty() {
            return Ok(());
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        // What is read from now on is later than the commit.
        let at = Timestamp::now();
        let commit: CommitId = self.repository.push(&format!("{step:?}"), &files)?.parse()?;
        if step == Step::Install {
            self.connect_flux(&scenarios).await?;
        }
        for played in played {
            match step.version(played.scenario) {
                Some(version) => played.judge.commit(commit.clone(), played.scenario.expectations(version), at),
                None => {
                    played.judge.follow(commit.clone());
                    played.followed = Some(commit.clone());
                }
            }
        }
        Ok(())
    }

    /// Reads until every gate has said what the simulator's said in the end, and what it said before as well.
    async fn settle(&self, step: Step, number: usize, played: &mut [Played<'_>]) -> anyhow::Result<()> {
        let mut open: Vec<&mut Played<'_>> = played.iter_mut().collect();
        // A contradiction ends the wait, and is told without what the other gates are waiting for.
        let settled_or_contradiction = async || {
            let readings: Vec<_> = open.iter_mut().map(|played| self.read(played)).collect();
            stream::iter(readings).buffer_unordered(CONCURRENT).collect::<Vec<()>>().await;
            if let Some(contradiction) = open.iter_mut().find_map(|played| played.contradiction(step, number)) {
                return Ok(Some(Err(contradiction)));
            }
            open.retain(|played| !played.is_settled(number));
            Ok(open.is_empty().then_some(Ok(())))
        };
        let what = format!("all gates are settled after {step:?}");
        let waited = until_within(&what, LONG_PATIENCE, settled_or_contradiction).await;
        let outcome = waited.with_context(|| {
            let left = open.iter().map(|played| {
                format!(
                    "{}, Flux at {:?}\n  real:      {}\n  simulated: {:?}",
                    played.scenario.name, played.attempted, played.said, played.expected[number].ends
                )
            });
            format!("these differ:\n{}", left.collect::<Vec<_>>().join("\n"))
        })?;
        outcome.map_err(anyhow::Error::msg)
    }

    async fn read(&self, played: &mut Played<'_>) {
        let now = Timestamp::now();
        let request = ObserveRequest {
            expectations: played.judge.expectations.clone(),
            kustomizations: vec![FluxReference {
                namespace: FLUX_NAMESPACE.to_owned(),
                name: played.scenario.name.clone(),
            }],
            deployed: Arc::default(),
            freshness: Freshness::Fresh,
            at: now,
        };
        let observation = played.cluster.observe(&request).await;
        let kustomization = observation.flux.kustomizations.first();
        played.attempted = kustomization.and_then(|kustomization| kustomization.last_attempted_revision.clone());
        played.said = played.judge.read(&observation, now);
    }

    /// What goes wrong in these scenarios begins, or ends.
    async fn trouble(&mut self, scenarios: &[&Scenario], begins: bool) -> anyhow::Result<()> {
        for scenario in scenarios {
            match scenario.history {
                // A machine that is stuck comes with the bump.
                History::Bumped | History::Dropped | History::Pruned | History::Refused | History::Stuck => {}
                History::Paused => machines::pause(&self.client, scenario, begins).await?,
                History::Deleted if begins => machines::delete_one(&self.client, scenario).await?,
                History::Deleted => {}
                History::Crashing | History::Repaired | History::TakenBack => {
                    self.fail_pods(scenario, Trouble::CrashLoopBackOff, begins).await?;
                }
                History::Pulling => self.fail_pods(scenario, Trouble::ContainerCreating, begins).await?,
                History::Suspended => {
                    let kustomizations = kind_in(&self.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
                    let suspend = Patch::Merge(json!({"spec": {"suspend": begins}}));
                    let person = PatchParams { field_manager: Some("flux".to_owned()), ..PatchParams::default() };
                    kustomizations.patch(&scenario.name, &person, &suspend).await?;
                }
                History::Silent => self.webhooks.silence(&scenario.name, "app", begins),
                History::SourceAway => self.git.be_away(begins),
                History::ServerAway if begins => self.server.server.kill()?,
                History::ServerAway => {
                    self.server.server.restart()?;
                    self.server.wait_until_ready().await?;
                }
            }
        }
        if scenarios.iter().any(|scenario| scenario.history == History::Refused) {
            self.refuse(begins).await?;
        }
        Ok(())
    }

    async fn fail_pods(&self, scenario: &Scenario, trouble: Trouble, begins: bool) -> anyhow::Result<()> {
        let images = scenario.images(2);
        if begins {
            images.iter().for_each(|image| self.kubelet.trouble(image, trouble));
            return Ok(());
        }
        Ok(self.kubelet.recover(&images).await?)
    }

    /// The API server refuses the second version of what says that it is to be refused, or does so no more.
    async fn refuse(&self, begins: bool) -> anyhow::Result<()> {
        if begins {
            let kinds = ["deployments", "daemonsets", "configmaps", "customresourcedefinitions"];
            let policy = json!({
                "apiVersion": REFUSAL.0, "kind": REFUSAL.1, "metadata": {"name": "refusal"},
                "spec": {
                    "matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"], "resources": kinds}]},
                    "validations": [{"message": "not today", "expression":
                        "!has(object.metadata.labels) || !('refused' in object.metadata.labels) \
                         || object.metadata.labels['refused'] != object.metadata.labels['version']"}],
                },
            });
            let binding = json!({
                "apiVersion": REFUSAL_BINDING.0, "kind": REFUSAL_BINDING.1, "metadata": {"name": "refusal"},
                "spec": {"policyName": "refusal", "validationActions": ["Deny"]},
            });
            apply(&self.client, &[policy, binding]).await?;
        } else {
            for kind in [REFUSAL_BINDING, REFUSAL] {
                kind_of_cluster(&self.client, kind).await?.delete("refusal", &DeleteParams::default()).await?;
            }
        }
        let refused = json!({"metadata": {"name": "refused", "labels": {"refused": "2", "version": "2"}}});
        let refused = serde_json::from_value(refused)?;
        let configs = kind_in(&self.client, ("v1", "ConfigMap"), "default").await?;
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        // The API server tells nobody when it has taken notice.
        let noticed = async || Ok((configs.create(&dry_run, &refused).await.is_err() == begins).then_some(()));
        until("the API server has taken notice of the policy", noticed).await
    }

    /// Flux applies the folder of each scenario.
    async fn connect_flux(&self, scenarios: &[&Scenario]) -> anyhow::Result<()> {
        let url = self.git.url(self.repository.served().1);
        let source = json!({
            "apiVersion": SOURCE.0, "kind": SOURCE.1, "metadata": {"name": FLUX_NAMESPACE, "namespace": FLUX_NAMESPACE},
            "spec": {"interval": "2s", "url": url, "ref": {"branch": "main"}},
        });
        let namespaces = scenarios
            .iter()
            .map(|scenario| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scenario.name}}));
        let kustomizations = scenarios.iter().map(|scenario| {
            json!({
                "apiVersion": KUSTOMIZATION.0, "kind": KUSTOMIZATION.1,
                "metadata": {"name": scenario.name, "namespace": FLUX_NAMESPACE},
                "spec": {"interval": "1h", "retryInterval": "3s", "path": format!("./{}", scenario.name), "prune": true,
                    "sourceRef": {"kind": SOURCE.1, "name": FLUX_NAMESPACE}},
            })
        });
        let objects: Vec<Value> = namespaces.chain([source]).collect();
        apply(&self.client, &objects).await?;
        apply(&self.client, &kustomizations.collect::<Vec<_>>()).await
    }
}

fn nothing() -> CommitId {
    "0".repeat(40).parse().unwrap()
}

/// The objects of a version as files of the deploy branch.
fn manifests(scenario: &Scenario, version: u32, provider: Option<&MachineProvider>) -> anyhow::Result<String> {
    let labels = json!({"version": version.to_string(),
        "refused": if scenario.history == History::Refused { "2" } else { "never" }});
    let mut documents = Vec::new();
    for object in scenario.objects(version) {
        let of_machines = provider.map(|provider| provider.manifest(&scenario.name, &object)).transpose()?;
        for mut object in of_machines.into_iter().flatten().chain(manifest(scenario, &object)) {
            object["metadata"]["labels"] = labels.clone();
            documents.push(object.to_string());
        }
    }
    Ok(documents.join("\n---\n"))
}

fn manifest(scenario: &Scenario, object: &DesiredObject) -> Vec<Value> {
    let metadata = |name: &str| json!({"name": name, "namespace": scenario.name});
    let workload = |name: &str, images: &[String]| {
        let containers: Vec<Value> = images.iter().map(|image| json!({"name": name, "image": image})).collect();
        json!({
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}},
        })
    };
    match object {
        DesiredObject::Deployment(wanted) => {
            let mut spec = workload(&wanted.name, &wanted.images);
            spec["replicas"] = json!(wanted.replicas);
            let port = json!([{"port": 443, "targetPort": 9443}]);
            vec![
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(&wanted.name), "spec": spec}),
                json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata(&wanted.name),
                    "spec": {"selector": {"app": wanted.name}, "ports": port}}),
            ]
        }
        DesiredObject::DaemonSet(wanted) => {
            let spec = workload(&wanted.name, &wanted.images);
            vec![
                json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata(&wanted.name), "spec": spec}),
            ]
        }
        DesiredObject::CustomResourceDefinition(wanted) => {
            let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
            let versions = wanted.versions.iter().map(|version| {
                json!({"name": version.name, "served": version.served, "storage": version.storage, "schema": schema})
            });
            vec![json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": wanted.name},
                "spec": {"group": scenario.group(), "scope": "Namespaced", "versions": versions.collect::<Vec<_>>(),
                    "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"}},
            })]
        }
        DesiredObject::Webhook(wanted) => vec![json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": wanted.kind, "metadata": {"name": wanted.name},
            "webhooks": [{
                "name": scenario.group(), "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"namespace": scenario.name, "name": "app", "path": "/"}},
                "rules": [{"apiGroups": [scenario.group()], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}],
            }],
        })],
        DesiredObject::Object(wanted) => vec![json!({"apiVersion": wanted.api_version, "kind": wanted.kind,
            "metadata": metadata(&wanted.name), "data": {"content": wanted.content}})],
        // Their provider makes these.
        DesiredObject::ControlPlane { .. } | DesiredObject::Workers { .. } | DesiredObject::Etcd(_) => Vec::new(),
    }
}
