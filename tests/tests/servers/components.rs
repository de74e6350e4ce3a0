//! A bump of every component of a management cluster, with published manifests, applied by Flux to a real API server.
//!
//! What is not real are Pods: a fake kubelet says that they run, and Services answer for the webhooks in them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tests::servers::manifests::{define, kind, kind_in, list, objects};
use tests::servers::settled::{self, CLUSTER, EKSA_CLUSTER, FakeEksAnywhere, NODES};
use tests::servers::{FLUX_NAMESPACE, FakeKubelet, FakeWebhooks, Flux, Trouble, isolated};

use super::flux_upgrade::{self, SyncObjects};
use super::requests::assert_reads_by_lists;
use super::scene::{KILLS, POLICY, Scene, kill_at_random};
use super::second_writer;

const KUBERNETES: &str = "1.34";

/// The commits of the deploy branch: recorded, each component, closed.
const STAGES: [&str; 9] =
    ["verify", "cert-manager", "capi", "eks-a", "bundle", "cilium-preflight", "cilium", "flux", "verify"];

/// An image of the next release.
const LOST: &str = "public.ecr.aws/release-container-registry/kubernetes-sigs/cluster-api/kubeadm-control-plane-controller\
    :v1.13.2-eks-a-v0.0.0-dev-build.1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");

/// The shared data, looked for upwards from this package.
fn shared() -> Option<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("shared/data"))
        .find(|path| path.exists())
}

#[test]
fn published_manifests_are_rolled_out_stage_by_stage() {
    let Some(data) = shared() else {
        println!("skipped: shared data not present");
        return;
    };
    let needed: Vec<&str> =
        ["etcd", "kube-apiserver", "kube-controller-manager", "helm"].into_iter().chain(Flux::NEEDED).collect();
    let name = "components::published_manifests_are_rolled_out_stage_by_stage";
    isolated(name, &needed, async |programs| {
        let mut scene = Scene::start(&programs).await?;
        let mirror = data.join("mirror");
        let kubeconfig = scene.server.user(second_writer::USER, "system:masters")?;
        scene.environment.insert("STEPGATE_KUBECONFIG", kubeconfig.into());
        scene.environment.insert("STEPGATE_HELM", programs.path("helm").into());
        scene.environment.insert("STEPGATE_MIRROR", std::env::join_paths([&mirror, &mirror.join("substitutes")])?);
        let kubelet = FakeKubelet::start(&scene.client, &NODES, &format!("v{KUBERNETES}.2")).await?;
        let _webhooks = FakeWebhooks::start(&scene.client).await?;
        let bundles = |release: &str| {
            let path = data.join(format!("eks-anywhere/bundles/release-{release}.yaml"));
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            // The stored 0.25 names the components of 0.24, under whose definition its own Bundles are invalid.
            anyhow::Ok(text.replace("cluster-controller/v0.24.4/", "cluster-controller/v0.25.2/"))
        };
        let cluster = include_str!("../../../fixtures/demo/published/clusters/mgmt/cluster.yaml");
        let cluster = cluster.replace("KUBERNETES_VERSION", KUBERNETES);
        let policy = format!("{POLICY}variables: {{VSPHERE_SERVER: vcenter.example.com}}\n");
        let files = [
            ("stepgate.yaml", policy.as_str()),
            ("clusters/mgmt/cluster.yaml", &cluster),
            ("bundles/bundles.yaml", &bundles("0.25")?),
        ];
        define(&scene.client, &[release_definition()]).await?;
        scene.repository.push("Describe the fleet", &files)?;
        scene.adopt()?;
        scene.connect_flux().await?;
        applied(&scene).await?;
        settled::create(&scene.client, &format!("v{KUBERNETES}.2")).await?;
        let _eks_anywhere = FakeEksAnywhere::start(&scene.client);

        let sync = SyncObjects::read(&scene).await?;
        let mut controller = scene.controller()?;
        kubelet.trouble(LOST, Trouble::ImagePullBackOff);
        scene.repository.push("Take release 0.26", &[("bundles/bundles.yaml", &bundles("0.26")?)])?;

        // An image that cannot be pulled stops its stage, and is named.
        scene.stage_is(CLUSTER, "capi").await?;
        scene.why_says(CLUSTER, &["Deployment capi-kubeadm-control-plane-system/", "ImagePullBackOff"]).await?;
        assert_eq!(scene.repository.stages()?, STAGES[..3]);
        let recover = async || kubelet.recover(&[LOST.to_owned()]).await;
        second_writer::assert_stops_and_goes_on(&scene, recover).await?;

        let rest = async {
            // Flux upgrades itself: its own controllers are replaced while they apply the manifests that say so.
            scene.stage_is(CLUSTER, "flux").await?;
            flux_upgrade::restart(&mut scene).await?;
            scene.stages_are(CLUSTER, &STAGES).await
        };
        // Whatever moment Stepgate is killed at, the rest goes as it would have gone.
        tokio::try_join!(rest, kill_at_random(&mut controller, KILLS))?;
        sync.assert_untouched(&scene).await?;
        scene.assert_nothing_is_left()?;
        assert_runs_what_is_deployed(&scene).await?;
        assert_reads_by_lists(&scene, &mirror, &programs).await?;
        scene.folder.done();
        Ok(())
    });
}

/// The kind of EKS Distro's releases, which EKS Anywhere's CLI installs with a management cluster.
fn release_definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "releases.distro.eks.amazonaws.com"},
        "spec": {"group": "distro.eks.amazonaws.com", "scope": "Namespaced",
            "names": {"kind": "Release", "plural": "releases", "singular": "release", "listKind": "ReleaseList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema}]}})
}

/// Waits until Flux has applied everything and EKS Anywhere's `Cluster` is there.
async fn applied(scene: &Scene) -> anyhow::Result<()> {
    let ready = async || {
        let found = list(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
        let all = found.len() > 5 && found.iter().all(|known| super::machines::is_true(known, "Ready"));
        let clusters = list(&scene.client, EKSA_CLUSTER, "default").await.unwrap_or_default();
        Ok((all && !clusters.is_empty()).then_some(()))
    };
    let waited = scene.until("Flux has applied what was recorded", Duration::from_secs(900), ready).await;
    match waited {
        Ok(()) => Ok(()),
        Err(error) => {
            let found = list(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
            let told: Vec<_> = found
                .iter()
                .map(|known| json!([known.metadata.name, known.data.pointer("/status/conditions")]))
                .collect();
            Err(error.context(json!(told).to_string()))
        }
    }
}

/// Every workload of the deploy branch runs, with the images that it has there.
async fn assert_runs_what_is_deployed(scene: &Scene) -> anyhow::Result<()> {
    let mut seen = 0;
    for path in scene.repository.deployed_files("clusters/mgmt")? {
        for object in objects(&scene.repository.deployed(&path)?)? {
            if !matches!(kind(&object), "Deployment" | "DaemonSet") {
                continue;
            }
            let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let api = kind_in(&scene.client, ("apps/v1", kind(&object)), text("/metadata/namespace")).await?;
            let found = api.get(text("/metadata/name")).await?;
            let name = text("/metadata/name");
            assert_eq!(images(&found.data), images(&object), "{name}");
            let ready = ["/status/readyReplicas", "/status/numberReady"];
            ensure!(ready.iter().any(|path| found.data.pointer(path).is_some()), "{name} is not ready");
            seen += 1;
        }
    }
    ensure!(seen > 10, "{seen} workloads on the deploy branch");
    Ok(())
}

/// The images of a workload's containers.
pub fn images(workload: &Value) -> Vec<&Value> {
    let containers = workload.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    containers.into_iter().flatten().filter_map(|container| container.get("image")).collect()
}
