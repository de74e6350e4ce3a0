//! Pods that upgrade nodes, as a controller makes them.

use std::time::Duration;

use anyhow::{Context as _, bail};
use in_place::objects::Role;
use in_place::pod::{ExitMeaning, NAMESPACE, NodeChoices, NodePod, Way, access};
use serde_json::Value;
use stepgate_node::files::root::Root;
use stepgate_node::journal::Journal;
use tests::node::{Cluster, Machine, NEW, UpgraderImage};
use tests::waiting;

/// Our own program.
pub const STEPGATE: &str = env!("CARGO_BIN_EXE_stepgate-in-tests");

/// No node of the tests needs as long.
const PATIENCE: Duration = Duration::from_secs(1500);

/// Brings the image to all nodes, and what its Pods may do to the cluster.
pub async fn install(cluster: &Cluster, image: &UpgraderImage) -> anyhow::Result<()> {
    cluster.import(image).await?;
    cluster.apply("access", &manifests(&access())).await
}

fn manifests(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("---\n{object}\n")).collect()
}

/// The Pod of a node.
pub fn pod(image: &UpgraderImage, node: &str, role: Role) -> NodePod {
    NodePod {
        node: node.to_owned(),
        image: image.reference.clone(),
        target: NEW.release.to_owned(),
        role,
        has_files: false,
        choices: NodeChoices {
            // Kernels with control groups of version 1.
            ignored_preflight_errors: vec!["SystemVerification".to_owned()],
            soak_seconds: 5,
            ..NodeChoices::default()
        },
    }
}

/// The journal of a node, as it lies on its disk.
pub fn journal(machine: &Machine) -> Option<Journal> {
    Journal::load(&Root::new(machine.root()).ok()?).ok()?
}

/// Makes a Pod in the place of the one that may be there.
pub async fn start(cluster: &Cluster, pod: &NodePod, way: Way) -> anyhow::Result<()> {
    stop(cluster, &pod.name(way)).await?;
    cluster.apply(&pod.name(way), &pod.manifest(way).to_string()).await
}

/// Takes a Pod away.
pub async fn stop(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    waiting::until(&format!("Pod {name} is gone"), async || {
        let arguments = ["-n", NAMESPACE, "delete", "pod", name, "--ignore-not-found", "--wait=true", "--timeout=60s"];
        Ok(cluster.kubectl(&arguments).await.ok())
    })
    .await
    .map(drop)
}

/// How a Pod stands.
#[derive(Debug)]
pub enum Standing {
    /// All steps are done.
    Done,
    /// It works, or waits for its next attempt.
    Works(String),
    /// This container will not go on by itself.
    Stuck { container: String, message: String },
}

/// What the API server says of a Pod; none while it says nothing.
pub async fn standing(cluster: &Cluster, name: &str) -> Option<Standing> {
    let pod = cluster.get(&["-n", NAMESPACE, "pod", name]).await?;
    if pod["status"]["phase"] == "Succeeded" {
        return Some(Standing::Done);
    }
    let mut containers = Vec::new();
    for list in ["initContainerStatuses", "containerStatuses"] {
        containers.extend(pod["status"][list].as_array().cloned().unwrap_or_default());
    }
    for status in &containers {
        let ended = [&status["state"]["terminated"], &status["lastState"]["terminated"]];
        for ended in ended.into_iter().filter(|ended| ended.is_object()) {
            let code = i32::try_from(ended["exitCode"].as_i64().unwrap_or_default()).unwrap_or(1);
            if matches!(ExitMeaning::of(code), ExitMeaning::Terminal | ExitMeaning::Refused) && status["ready"] != true
            {
                let container = status["name"].as_str().unwrap_or_default().to_owned();
                return Some(Standing::Stuck { container, message: ended["message"].to_string() });
            }
        }
    }
    Some(Standing::Works(Value::from(containers).to_string()))
}

/// Waits until a Pod has done all its steps.
pub async fn done(cluster: &Cluster, machine: &Machine, name: &str) -> anyhow::Result<()> {
    let mut last = String::new();
    let what = format!("{name} is done");
    let waited = waiting::until_within(&what, PATIENCE, async || match standing(cluster, name).await {
        Some(Standing::Done) => Ok(Some(())),
        Some(Standing::Stuck { container, message }) => bail!("{container} of {name} does not go on: {message}"),
        Some(Standing::Works(told)) => {
            last = told;
            Ok(None)
        }
        None => Ok(None),
    });
    let waited = waited.await;
    let told = journal(machine).map(|journal| format!("{:#?}", journal.steps)).unwrap_or_default();
    waited.with_context(|| format!("{last}\n{told}"))
}

/// The new version, by everybody who can tell.
pub async fn assert_is_upgraded(cluster: &Cluster, machine: &Machine) -> anyhow::Result<()> {
    cluster.wait_until_ready(machine.name(), NEW.kubernetes).await?;
    let journal = journal(machine).context("there is a journal")?;
    anyhow::ensure!(journal.is_complete(), "{journal:#?}");
    let node = cluster.get(&["node", machine.name()]).await.context("the API server answers")?;
    anyhow::ensure!(node["spec"]["unschedulable"].is_null(), "{} is cordoned", machine.name());
    for file in &journal.files {
        let content = std::fs::read(machine.place(file.path.as_str()))?;
        let digest = stepgate_node::files::digest::Digest::of(&content);
        anyhow::ensure!(digest == file.after.sha256, "{} is not that of the release", file.path);
    }
    Ok(())
}

/// The static Pods of the control plane, at the images of the release and ready.
pub async fn assert_control_plane_is_new(cluster: &Cluster) -> anyhow::Result<()> {
    for (name, tag) in [
        ("kube-apiserver", NEW.release),
        ("kube-controller-manager", NEW.release),
        ("kube-scheduler", NEW.release),
        ("etcd", NEW.etcd),
    ] {
        let wanted = format!("registry.test/{name}:{tag}");
        waiting::until(&format!("{name} is ready at {wanted}"), async || {
            let Some(pod) = cluster.get(&["-n", "kube-system", "pod", &format!("{name}-cp1")]).await else {
                return Ok(None);
            };
            let is_ready = pod["status"]["containerStatuses"][0]["ready"] == true;
            Ok((is_ready && pod["spec"]["containers"][0]["image"] == wanted.as_str()).then_some(()))
        })
        .await?;
    }
    Ok(())
}
