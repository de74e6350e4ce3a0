//! A bump of every component of a management cluster, with published manifests, applied by Flux to a real API server.
//!
//! Real are the API server with its controllers, Flux, the repository and Stepgate. What is not:
//! - Pods and Nodes: a fake kubelet says that they run. What is in the images is not there, cert-manager, Cluster API and EKS Anywhere included.
//! - Webhooks: Services answer in the place of their Pods, allow everything, convert by the version's name and inject their own authority.
//! - EKS Anywhere's controller: it is only said of each specification that it was carried out.
//! - Machines: their objects stand there as if they had settled, and nobody acts on them. This bump changes none.
//! - EKS Distro's releases have a definition without a schema, and of the stored bundle 0.25 one address is another one.
//! - Flux's own upgrade starts the same programs again ([`super::flux_upgrade`]), and its credentials are asked for by nobody.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tests::servers::manifests::{define, kind, kind_in, list, objects};
use tests::servers::settled::{self, CLUSTER, EKSA_CLUSTER, FakeEksAnywhere, NODES};
use tests::servers::{FLUX_NAMESPACE, FakeKubelet, FakeWebhooks, Flux, Trouble, isolated};

use super::ending::{End, assert_committed_once};
use super::flux_upgrade::{self, SyncObjects};
use super::killing::Kills;
use super::requests::assert_reads_by_lists;
use super::scene::{POLICY, Scene};
use super::second_writer;

const KUBERNETES: &str = "1.34";

/// The commits of the deploy branch: recorded, each component, closed.
const STAGES: [&str; 9] =
    ["verify", "cert-manager", "capi", "eks-a", "bundle", "cilium-preflight", "cilium", "flux", "verify"];

/// An image of the next release.
const LOST: &str = "public.ecr.aws/release-container-registry/kubernetes-sigs/cluster-api/kubeadm-control-plane-controller\
    :v1.13.2-eks-a-v0.0.0-dev-build.1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");

/// A bundle of the shared data.
fn bundles(data: &Path, release: &str) -> anyhow::Result<String> {
    let path = data.join(format!("eks-anywhere/bundles/release-{release}.yaml"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    // The stored 0.25 names the components of 0.24, under whose definition its own Bundles are invalid.
    Ok(text.replace("cluster-controller/v0.24.4/", "cluster-controller/v0.25.2/"))
}

/// Gives the cluster Flux' definitions as the release has them: those of the Flux that runs here
/// are of another release.
async fn define_flux(scene: &Scene) -> anyhow::Result<()> {
    let output = scene.stepgate(&["render", "--cluster", CLUSTER, "--component", "flux-system"]).output()?;
    ensure!(output.status.success(), "stepgate render: {}", String::from_utf8_lossy(&output.stderr));
    let mut rendered = objects(&String::from_utf8(output.stdout)?)?;
    rendered.retain(|object| kind(object) == "CustomResourceDefinition");
    define(&scene.client, &rendered).await
}

#[test]
fn published_manifests_are_rolled_out_stage_by_stage() {
    let Some(data) = skip::shared("data") else { return };
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
        let cluster = include_str!("../../../fixtures/demo/published/clusters/mgmt/cluster.yaml");
        let cluster = cluster.replace("KUBERNETES_VERSION", KUBERNETES);
        let policy = format!("{POLICY}variables: {{VSPHERE_SERVER: vcenter.example.com}}\n");
        let files = [
            ("stepgate.yaml", policy.as_str()),
            ("clusters/mgmt/cluster.yaml", &cluster),
            ("bundles/bundles.yaml", &bundles(&data, "0.25")?),
        ];
        define(&scene.client, &[release_definition()]).await?;
        scene.repository.push("Describe the fleet", &files)?;
        define_flux(&scene).await?;
        scene.adopt()?;
        scene.connect_flux().await?;
        applied(&scene).await?;
        settled::create(&scene.client, &format!("v{KUBERNETES}.2")).await?;
        let _eks_anywhere = FakeEksAnywhere::start(&scene.client);

        kubelet.trouble(LOST, Trouble::ImagePullBackOff);
        let sync = SyncObjects::read(&scene).await?;
        scene.repository.push("Take release 0.26", &[("bundles/bundles.yaml", &bundles(&data, "0.26")?)])?;
        let end = End::rendered(&scene, CLUSTER).await?;
        let mut controller = scene.controller()?;
        // Whatever moments Stepgate is killed at, it goes on as it would have gone.
        let mut kills = Kills::new(&scene.repository, STAGES.len())?;
        kills.until(&mut controller, 3).await?;

        // An image that cannot be pulled stops its stage, and is named.
        scene.stage_is(CLUSTER, "capi").await?;
        scene.why_says(CLUSTER, &["Deployment capi-kubeadm-control-plane-system/", "ImagePullBackOff"]).await?;
        kills.catch_up(&mut controller).await?;
        assert_eq!(scene.repository.stages()?, STAGES[..3]);
        let recover = async || kubelet.recover(&[LOST.to_owned()]).await;
        second_writer::assert_stops_and_goes_on(&scene, recover).await?;

        let rest = async {
            // Flux upgrades itself: its own controllers are replaced while they apply the manifests that say so.
            scene.stage_is(CLUSTER, "flux").await?;
            flux_upgrade::restart(&mut scene).await?;
            scene.stages_are(CLUSTER, &STAGES).await
        };
        tokio::try_join!(rest, kills.until(&mut controller, STAGES.len()))?;
        kills.finish(&mut controller).await?;
        sync.assert_untouched(&scene).await?;
        scene.assert_nothing_is_left()?;
        end.assert_reached(&scene, &STAGES)?;
        // Somebody's note came and went.
        assert_committed_once(&scene, &STAGES, 2)?;
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
    let waited = scene.until("Flux has applied what was recorded", ready).await;
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
