//! Evictions: what is said of them, held against what a real API server answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster};
use cluster::{Cluster as _, Freshness, ObserveRequest};
use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use rollout::{
    EvictionAnswer, Expectation, Gate, GateHistory, GateVerdict, Observation, WorkersExpectation, eviction_answer,
};
use serde_json::{Value, json};
use tests::servers::manifests::apply;
use tests::servers::{ApiServer, ApiServerOptions, Folder, isolated};

/// A cordoned node, which no Machine stands for: it is being drained.
const NODE: &str = "worker-1";

const SITUATIONS: usize = 200;

fn node() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {"unschedulable": true}})
}

fn workers() -> Expectation {
    Expectation::Workers(WorkersExpectation {
        namespace: "eksa-system".to_owned(),
        cluster: "prod".to_owned(),
        group: "md-0".parse().unwrap(),
        version: "v1.36.0".to_owned(),
        replicas: None,
        infrastructure_template: None,
        bootstrap_template: None,
        kubelet_versions: rollout::KubeletVersions::WhenReported,
    })
}

async fn observed(cluster: &KubernetesCluster) -> Observation {
    let request = ObserveRequest {
        expectations: vec![workers()],
        kustomizations: Vec::new(),
        deployed: Arc::default(),
        freshness: Freshness::Fresh,
        at: Timestamp::now(),
    };
    cluster.observe(&request).await
}

async fn cluster(server: &ApiServer, folder: &Folder) -> anyhow::Result<KubernetesCluster> {
    let source = ConnectionSource::Kubeconfig { path: Some(server.kubeconfig()), context: None };
    let connection = Connection::open(&source).await?.with_requests_per_second(1000);
    Ok(KubernetesCluster::management(connection, folder.path().join("backups")))
}

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// One pod in a namespace of its own, with the budgets there.
struct Situation {
    namespace: String,
    objects: Vec<Value>,
    pod_status: Value,
    deleted: bool,
    budgets: Vec<(String, Value)>,
}

fn situation(number: usize, numbers: &mut Numbers) -> Situation {
    let namespace = format!("case-{number}");
    let kind = numbers.below(8);
    let phase = match kind {
        0 => "Succeeded",
        1 => "Failed",
        2 => "Pending",
        _ => "Running",
    };
    let ready = phase == "Running" && numbers.below(3) > 0;
    let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" }});
    let selectors = [
        json!({"matchLabels": {"app": "web"}}),
        json!({"matchLabels": {"app": "other"}}),
        json!({}),
        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "x"]}]}),
        json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}),
        json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}], "matchLabels": {"app": "web"}}),
        Value::Null,
    ];
    let (mut objects, mut budgets) = (Vec::new(), Vec::new());
    for index in 0..numbers.one(&[0, 1, 1, 1, 1, 2]) {
        let name = format!("budget-{index}");
        let selector = selectors[usize::try_from(numbers.below(8)).unwrap()].clone();
        let mut spec = json!({"minAvailable": 1, "selector": selector});
        match numbers.below(3) {
            0 => spec["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow"),
            1 => spec["unhealthyPodEvictionPolicy"] = json!("IfHealthyBudget"),
            _ => {}
        }
        let (healthy, desired) = (numbers.below(4), numbers.below(4));
        let observed = numbers.one(&[1, 1, 1, 0]);
        let status = json!({"observedGeneration": observed, "expectedPods": 3, "currentHealthy": healthy,
            "desiredHealthy": desired, "disruptionsAllowed": numbers.one(&[0, 0, 1, 2])});
        objects.push(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec}));
        budgets.push((name, status));
    }
    let deleted = phase == "Running" && numbers.below(8) == 0;
    Situation { pod_status: json!({"phase": phase, "conditions": [condition]}), namespace, objects, deleted, budgets }
}

async fn make(client: &Client, situation: &Situation) -> anyhow::Result<()> {
    let namespace = situation.namespace.as_str();
    let base = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}),
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-0", "namespace": namespace, "labels": {"app": "web"}},
            "spec": {"nodeName": NODE, "automountServiceAccountToken": false,
                "containers": [{"name": "web", "image": "web:1"}]}}),
    ];
    apply(client, &base).await?;
    apply(client, &situation.objects).await?;
    let merge = PatchParams::default();
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    pods.patch_status("web-0", &merge, &Patch::Merge(json!({"status": situation.pod_status}))).await?;
    let budgets = Api::<PodDisruptionBudget>::namespaced(client.clone(), namespace);
    for (name, status) in &situation.budgets {
        budgets.patch_status(name, &merge, &Patch::Merge(json!({"status": status}))).await?;
    }
    if situation.deleted {
        pods.delete("web-0", &DeleteParams::default().grace_period(3600)).await?;
    }
    Ok(())
}

/// A client of the administrator that asks once: that of `kube` asks again for minutes after an answer of 429.
pub fn asking(server: &ApiServer) -> anyhow::Result<reqwest::Client> {
    let read = |name: &str| std::fs::read(server.folder().join("certificates").join(name));
    let identity = reqwest::Identity::from_pem(&[read("admin.crt")?, read("admin.key")?].concat())?;
    let authority = reqwest::Certificate::from_pem(server.authority().certificate().as_bytes())?;
    Ok(reqwest::Client::builder().no_proxy().tls_certs_only([authority]).identity(identity).build()?)
}

/// The answer of the server, in the words of the forecast.
async fn answered(client: &reqwest::Client, server: &str, namespace: &str) -> anyhow::Result<String> {
    let url = format!("{server}/api/v1/namespaces/{namespace}/pods/web-0/eviction?dryRun=All");
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "web-0", "namespace": namespace}});
    let request = client.post(url).header("Content-Type", "application/json").body(body.to_string());
    let answer = request.send().await?;
    let (code, later) = (answer.status().as_u16(), answer.headers().contains_key("Retry-After"));
    let text = answer.text().await?;
    Ok(match code {
        201 => "goes".to_owned(),
        429 if later => "stale".to_owned(),
        429 if text.contains("DisruptionBudget") => "refused".to_owned(),
        500 if text.contains("more than one PodDisruptionBudget") => "several".to_owned(),
        code => format!("{code} {text}"),
    })
}

#[test]
fn forecasts_agree_with_what_a_server_answers_to_evictions() {
    let name = "drains::forecasts_agree_with_what_a_server_answers_to_evictions";
    isolated(name, &["etcd", "kube-apiserver"], async |programs| {
        let folder = Folder::new()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        apply(&client, &[node()]).await?;
        let mut numbers = Numbers(34);
        let situations: Vec<Situation> = (0..SITUATIONS).map(|number| situation(number, &mut numbers)).collect();
        let making = stream::iter(&situations).map(|situation| make(&client, situation)).buffer_unordered(8);
        println!("making {SITUATIONS} situations");
        making.collect::<Vec<_>>().await.into_iter().collect::<Result<Vec<()>, _>>()?;

        println!("reading them");
        let observation = observed(&cluster(&server, &folder).await?).await;
        println!("asking the server");
        let drains = observation.drains.context("no drains were read")?;
        assert_eq!((drains.unread.clone(), drains.nodes.len(), drains.pods.len()), (Vec::new(), 1, SITUATIONS));
        let (asking, url) = (asking(&server)?, server.url());
        let mut answers = Vec::new();
        for situation in &situations {
            answers.push(answered(&asking, &url, &situation.namespace).await?);
        }
        let mut seen = std::collections::BTreeMap::<String, u32>::new();
        for (situation, answered) in situations.iter().zip(answers) {
            let pod = drains.pods.iter().find(|pod| pod.pod.namespace == situation.namespace).context("no pod")?;
            let at_once = pod.termination.is_some() || matches!(pod.phase.as_str(), "Succeeded" | "Failed" | "Pending");
            let said = match eviction_answer(&pod.pod, at_once, &drains.budgets) {
                EvictionAnswer::Goes => "goes",
                EvictionAnswer::Refused(_) => "refused",
                EvictionAnswer::Stale(_) => "stale",
                EvictionAnswer::SeveralBudgets(_) => "several",
            };
            let of = (&situation.pod_status, &situation.objects, &situation.budgets, situation.deleted);
            ensure!(said == answered, "{said} was said, {answered} was answered: {of:?}");
            *seen.entry(answered).or_default() += 1;
        }
        // Every answer was among them, and not once by chance.
        let often = |word: &str| seen.get(word).copied().unwrap_or_default() >= 5;
        ensure!(["goes", "refused", "stale", "several"].iter().all(|word| often(word)), "{seen:?}");
        println!("{seen:?}");
        folder.done();
        Ok(())
    });
}

#[test]
fn what_keeps_a_node_is_named_with_owner_budget_and_remedy() {
    let name = "drains::what_keeps_a_node_is_named_with_owner_budget_and_remedy";
    isolated(name, &["etcd", "kube-apiserver"], async |programs| {
        let folder = Folder::new()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let owner = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true}]);
        let pod = |name: &str, metadata: Value| {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
                "spec": {"nodeName": NODE, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "a", "image": "a:1"}]}});
            pod["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
            pod
        };
        let web = json!({"labels": {"app": "web", "pod-template-hash": "6c"}, "ownerReferences": owner("ReplicaSet", "web-6c")});
        let objects = [
            node(),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}),
            pod("web-6c-x", web),
            pod("lingers", json!({"labels": {"app": "z"}, "finalizers": ["example.com/wait"]})),
            pod("daemon", json!({"labels": {"app": "web"}, "ownerReferences": owner("DaemonSet", "d")})),
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "keep", "namespace": "default"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}),
        ];
        apply(&client, &objects).await?;
        let merge = PatchParams::default();
        let pods = Api::<Pod>::namespaced(client.clone(), "default");
        let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        for name in ["web-6c-x", "lingers"] {
            pods.patch_status(name, &merge, &Patch::Merge(&running)).await?;
        }
        let since = "2026-01-02T03:04:05Z";
        let status = json!({"status": {"observedGeneration": 1, "expectedPods": 1, "currentHealthy": 1,
            "desiredHealthy": 1, "disruptionsAllowed": 0, "conditions": [{"type": "DisruptionAllowed",
                "status": "False", "reason": "InsufficientPods", "message": "", "lastTransitionTime": since}]}});
        let budgets = Api::<PodDisruptionBudget>::namespaced(client.clone(), "default");
        budgets.patch_status("keep", &merge, &Patch::Merge(status)).await?;
        pods.delete("lingers", &DeleteParams::default()).await?;

        let cluster = cluster(&server, &folder).await?;
        let (stage, rollout) = ("workers/md-0".parse()?, "aaaaaaaaaaaa".parse()?);
        let (expectations, policy) = ([workers()], policy::StagePolicy::default());
        let told = async || -> anyhow::Result<(Vec<String>, Vec<String>)> {
            let observation = observed(&cluster).await;
            let gate = Gate {
                cluster: "management",
                identity: None,
                stage: &stage,
                rollout: &rollout,
                expectations: &expectations,
                binding: None,
                policy: &policy,
            };
            let verdict = gate.evaluate(Some(&observation), &GateHistory::default(), observation.read_at);
            let GateVerdict::Wait { reason, .. } = verdict else { anyhow::bail!("{verdict:?}") };
            let lines = reason.into_lines();
            let help = lines.iter().filter_map(|line| line.help.clone()).collect();
            Ok((lines.iter().map(ToString::to_string).collect(), help))
        };
        let started = Instant::now();
        let lingering = loop {
            let (lines, help) = told().await?;
            let refused = format!(
                "Pod default/web-6c-x of Deployment default/web: its eviction from Node {NODE} is refused since {since} \
                 by PodDisruptionBudget default/keep: 1 of 1 pods are healthy and 1 are asked for"
            );
            ensure!(lines.contains(&refused), "{lines:#?}");
            ensure!(
                help.iter().any(|it| it.starts_with("kubectl scale deployment web -n default --replicas=2, or")),
                "{help:#?}"
            );
            ensure!(!lines.iter().any(|line| line.contains("daemon")), "{lines:#?}");
            let lingers = lines.into_iter().find(|line| line.contains("default/lingers"));
            if let Some(line) = lingers {
                break line;
            }
            ensure!(started.elapsed() < Duration::from_secs(8), "a pod that stays is not named");
            // Between two looks at what only time brings about.
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        ensure!(lingering.contains("by its finalizers example.com/wait"), "{lingering}");
        folder.done();
        Ok(())
    });
}
