//! Charts that Flux' helm-controller installs: a release that is there is not one that works.

use anyhow::{Context as _, ensure};
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster};
use cluster::{Cluster as _, Freshness, ObserveRequest};
use domain::CommitId;
use jiff::Timestamp;
use rollout::{Expectation, GateVerdict};
use serde_json::{Value, json};
use tests::servers::manifests::apply;
use tests::servers::{FLUX_NAMESPACE, FakeKubelet, Flux, Trouble, isolated};
use tests::waiting;

use super::scene::Scene;
use super::verdicts::Judge;

const NAMESPACE: &str = "charts";

const CHART: &str = "{apiVersion: v2, name: app, version: 0.1.0}\n";

const TEMPLATE: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
        - {name: app, image: {{ .Values.image | quote }}}
";

fn image(version: u32) -> String {
    format!("registry.example/app:v{version}@sha256:{version:064x}")
}

fn release(version: u32) -> String {
    let source = json!({"kind": "GitRepository", "name": FLUX_NAMESPACE, "namespace": FLUX_NAMESPACE});
    let chart = json!({"spec": {"chart": "./chart", "sourceRef": source}});
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "app", "namespace": NAMESPACE},
        "spec": {"interval": "1h", "timeout": "10s", "chart": chart, "values": {"image": image(version)}},
    })
    .to_string()
}

/// The gate of one stage that consists of a release.
fn judge(commit: CommitId, at: Timestamp) -> Judge {
    let flux = Expectation::Flux { namespace: FLUX_NAMESPACE.to_owned(), kustomizations: vec![NAMESPACE.to_owned()] };
    let release = Expectation::HelmRelease { namespace: NAMESPACE.to_owned(), name: "app".to_owned() };
    Judge::new(commit, vec![flux, release], at)
}

/// What the gate says of one more reading.
async fn read(judge: &mut Judge, cluster: &KubernetesCluster) -> GateVerdict {
    let now = Timestamp::now();
    let request = ObserveRequest {
        expectations: judge.expectations.clone(),
        kustomizations: Vec::new(),
        deployed: std::sync::Arc::default(),
        freshness: Freshness::Fresh,
        at: now,
    };
    judge.evaluate(&cluster.observe(&request).await, now)
}

/// Reads until the gate has passed, or says all of these words.
async fn until(judge: &mut Judge, cluster: &KubernetesCluster, words: Option<&[&str]>) -> anyhow::Result<()> {
    let mut said = String::new();
    let judged = async || {
        let verdict = read(judge, cluster).await;
        said = match &verdict {
            GateVerdict::Wait { reason, .. } => reason.to_string(),
            other => format!("{other:?}"),
        };
        ensure!(words.is_none() || !verdict.is_pass(), "passed instead of {words:?}");
        let is_said = words.map_or(verdict.is_pass(), |words| words.iter().all(|word| said.contains(word)));
        Ok(is_said.then_some(()))
    };
    let waited = waiting::until(&format!("the gate says {words:?}"), judged).await;
    println!("{said}");
    waited.with_context(|| format!("said instead: {said}"))
}

#[test]
fn a_release_passes_its_gate_when_it_is_installed_and_a_failure_is_told_in_helms_words() {
    let needed: Vec<&str> =
        ["etcd", "kube-apiserver", "kube-controller-manager", Flux::HELM].into_iter().chain(Flux::NEEDED).collect();
    let name = "charts::a_release_passes_its_gate_when_it_is_installed_and_a_failure_is_told_in_helms_words";
    isolated(name, &needed, async |programs| {
        let scene = Scene::start(&programs).await?;
        let _helm = Flux::helm(&programs, &scene.server).await?;
        let kubelet = FakeKubelet::start(&scene.client, &["node-0"], "v1.34.0").await?;
        let source = ConnectionSource::Kubeconfig { path: Some(scene.server.kubeconfig()), context: None };
        let connection = Connection::open(&source).await?.with_requests_per_second(1000);
        let cluster = KubernetesCluster::management(connection, scene.file("unused"));
        let push = |version: u32| -> anyhow::Result<Judge> {
            let at = Timestamp::now();
            let release = release(version);
            let files = [
                ("chart/Chart.yaml", CHART),
                ("chart/templates/app.yaml", TEMPLATE),
                ("release/app.yaml", release.as_str()),
            ];
            Ok(judge(scene.repository.push(&format!("Version {version}"), &files)?.parse()?, at))
        };

        let mut gate = push(1)?;
        apply(&scene.client, &flux(&scene)).await?;
        until(&mut gate, &cluster, None).await?;

        // It is applied, and present; but Helm has not brought it about, and says so.
        kubelet.trouble(&image(2), Trouble::CrashLoopBackOff);
        let mut gate = push(2)?;
        let failed = [
            "HelmRelease charts/app",
            "False (UpgradeFailed: Helm upgrade failed for release charts/app with chart app@0.1.0",
        ];
        until(&mut gate, &cluster, Some(&failed)).await?;

        let mut gate = push(3)?;
        until(&mut gate, &cluster, None).await?;
        scene.folder.done();
        Ok(())
    });
}

fn flux(scene: &Scene) -> Vec<Value> {
    let metadata = |name: &str| json!({"name": name, "namespace": FLUX_NAMESPACE});
    let url = scene.git.url(scene.repository.served().1);
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": metadata(FLUX_NAMESPACE),
            "spec": {"interval": "2s", "url": url, "ref": {"branch": "main"}}}),
        json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": metadata(NAMESPACE),
            "spec": {"interval": "1h", "retryInterval": "3s", "path": "./release", "prune": true,
                "sourceRef": {"kind": "GitRepository", "name": FLUX_NAMESPACE}}}),
    ]
}
