//! Flux that fetches the deploy branch from a registry: what it has applied is known by the commit that the artifact was made of.

use anyhow::{Context as _, ensure};
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster};
use cluster::{Cluster as _, Freshness, ObserveRequest};
use domain::CommitId;
use jiff::Timestamp;
use rollout::{Expectation, GateVerdict, ObjectReference};
use serde_json::json;
use tests::servers::manifests::apply;
use tests::servers::{ApiServer, ApiServerOptions, Artifacts, FLUX_NAMESPACE, Flux, Folder, isolated};
use tests::waiting;

use super::verdicts::Judge;

const NAME: &str = "fleet";

/// What the artifact of a version consists of.
fn expectations() -> Vec<Expectation> {
    let object = ObjectReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: Some("default".to_owned()),
        name: "version".to_owned(),
    };
    let kustomizations = vec![NAME.to_owned()];
    vec![Expectation::Flux { namespace: FLUX_NAMESPACE.to_owned(), kustomizations }, Expectation::Object { object }]
}

fn commit(letter: char) -> CommitId {
    letter.to_string().repeat(40).parse().unwrap()
}

async fn judged(judge: &mut Judge, cluster: &KubernetesCluster) -> GateVerdict {
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

/// Waits until the gate passes, for this commit.
async fn passes(judge: &mut Judge, cluster: &KubernetesCluster, commit: &CommitId) -> anyhow::Result<()> {
    let mut said = String::new();
    let passed = async || {
        let verdict = judged(judge, cluster).await;
        said = format!("{verdict:?}");
        let GateVerdict::Pass { evidence } = verdict else { return Ok(None) };
        ensure!(evidence.applied_revision.as_ref() == Some(commit), "passed by {evidence:?}");
        Ok(Some(()))
    };
    waiting::until("the gate passes", passed).await.with_context(|| said)
}

#[test]
fn what_flux_applies_from_a_registry_counts_by_the_commit_that_the_artifact_names() {
    let needed: Vec<&str> =
        ["etcd", "kube-apiserver", "kube-controller-manager"].into_iter().chain(Flux::NEEDED).collect();
    let name = "registry::what_flux_applies_from_a_registry_counts_by_the_commit_that_the_artifact_names";
    isolated(name, &needed, async |programs| {
        let folder = Folder::new()?;
        let options = ApiServerOptions { controllers: true, ..ApiServerOptions::default() };
        let server = ApiServer::start(&programs, &folder.path().join("management"), options).await?;
        let client = server.client().await?;
        let _flux = Flux::start(&programs, &server).await?;
        let registry = Artifacts::start().await?;
        let files = folder.path().join("files");
        std::fs::create_dir_all(&files)?;
        let push = |version: u32, revision: Option<&str>| {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "version", "namespace": "default"},
                "data": {"version": version.to_string()}});
            std::fs::write(files.join("version.yaml"), object.to_string())?;
            registry.push(&files, revision)
        };
        let source = ConnectionSource::Kubeconfig { path: Some(server.kubeconfig()), context: None };
        let connection = Connection::open(&source).await?.with_requests_per_second(1000);
        let cluster = KubernetesCluster::management(connection, folder.path().join("unused"));

        let (first, second, third) = (commit('a'), commit('b'), commit('c'));
        let mut judge = Judge::new(first.clone(), expectations(), Timestamp::now());
        push(1, Some(&format!("deploy@sha1:{first}")))?;
        let metadata = json!({"name": NAME, "namespace": FLUX_NAMESPACE});
        let fetched = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository", "metadata": metadata,
            "spec": {"interval": "2s", "url": registry.url(), "insecure": true, "ref": {"tag": Artifacts::TAG}}});
        let applied = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": metadata,
            "spec": {"interval": "1h", "retryInterval": "3s", "path": "./", "prune": true,
                "sourceRef": {"kind": "OCIRepository", "name": NAME}}});
        apply(&client, &[fetched, applied]).await?;
        passes(&mut judge, &cluster, &first).await?;

        // What is applied still is of the commit before: the gate of the next one is not open.
        judge.commit(second.clone(), expectations(), Timestamp::now());
        let early = judged(&mut judge, &cluster).await;
        ensure!(!early.is_pass(), "{early:?}");
        push(2, Some(&format!("deploy@sha1:{second}")))?;
        passes(&mut judge, &cluster, &second).await?;

        // An artifact that does not say what it was made of proves nothing, although it is applied; the reason says what helps.
        judge.commit(third, expectations(), Timestamp::now());
        push(3, None)?;
        let words = ["org.opencontainers.image.revision", "flux push artifact"];
        let mut said = String::new();
        let named = async || {
            let verdict = judged(&mut judge, &cluster).await;
            ensure!(!verdict.is_pass(), "{verdict:?}");
            if let GateVerdict::Wait { reason, .. } = verdict {
                said = format!("{reason} {}", reason.help.clone().unwrap_or_default());
            }
            Ok(words.iter().all(|word| said.contains(word)).then_some(()))
        };
        let waited = waiting::until("the gate says what is missing", named).await;
        waited.with_context(|| said)?;
        folder.done();
        Ok(())
    });
}
