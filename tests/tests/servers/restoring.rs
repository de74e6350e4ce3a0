//! What a backup is good for: everything that Cluster API knew is there again, in an API server that had nothing.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, ensure};
use cluster::kubernetes::{Backup, Connection, ConnectionSource, KubernetesCluster, read_backup};
use cluster::{BackupRequest, Cluster as _};
use domain::RolloutId;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tests::servers::manifests::objects;
use tests::servers::{ApiServer, ApiServerOptions, ClusterApi, Programs, restore};

use super::machines::{CLUSTER, NAMESPACE};
use super::scene::Scene;

/// Restores the only backup of a scene and compares it with what was saved.
pub async fn assert_backup_restores(scene: &Scene, programs: &Programs) -> anyhow::Result<()> {
    let mut folders: Vec<_> = std::fs::read_dir(scene.file("backups").join(CLUSTER))?.collect::<Result<_, _>>()?;
    // Dumps lie beside backups.
    folders.retain(|folder| folder.file_name() != "dumps");
    let [folder] = folders.as_slice() else { anyhow::bail!("{} backups, one expected", folders.len()) };
    let Backup { header, objects: saved } = read_backup(&folder.path(), &[])?;
    ensure!(header.report.read_back && header.report.objects > 0, "{header:?}");
    let empty = ApiServer::start(programs, &scene.file("empty"), ApiServerOptions::default()).await?;
    ClusterApi::define(programs, &empty).await?;
    let restored = restore(&empty.client().await?, saved.clone()).await?;
    assert_eq!(restored.len(), saved.len());
    let restored: Vec<Value> = restored.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    let (before, after) = (linked(&saved)?, linked(&restored)?);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (name, object) in &before {
        assert_eq!(Some(object), after.get(name), "{name}");
    }
    for kind in ["Cluster", "KubeadmControlPlane", "Machine", "Secret"] {
        ensure!(before.keys().any(|name| name.starts_with(&format!("{kind} "))), "no {kind} was saved");
    }
    Ok(())
}

/// What Cluster API's own `clusterctl move` takes to another management cluster is in a backup of the same moment, with the same owners.
pub async fn assert_backup_holds_what_clusterctl_moves(scene: &Scene, programs: &Programs) -> anyhow::Result<()> {
    let source = ConnectionSource::Kubeconfig { path: Some(scene.server.kubeconfig()), context: None };
    let backups = scene.file("beside-clusterctl");
    let cluster = KubernetesCluster::management(Connection::open(&source).await?, backups.clone());
    let rollout: RolloutId = "0123456789ab".parse()?;
    cluster.back_up(&BackupRequest { rollout: rollout.clone(), at: Timestamp::now(), keep: 1, keep_for: None }).await?;
    let saved = read_backup(&backups.join(rollout.as_str()), &[])?.objects;

    label_definitions(&scene.client).await?;
    let moved = scene.file("moved");
    std::fs::create_dir_all(&moved)?;
    let output = Command::new(programs.path("clusterctl"))
        .args(["move", "--namespace", NAMESPACE, "--to-directory"])
        .arg(&moved)
        .arg("--kubeconfig")
        .arg(scene.server.kubeconfig())
        .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
        .env("XDG_CONFIG_HOME", scene.file("clusterctl"))
        .output()?;
    ensure!(output.status.success(), "clusterctl move: {}", String::from_utf8_lossy(&output.stderr));
    let mut theirs = Vec::new();
    for entry in std::fs::read_dir(&moved)? {
        theirs.extend(objects(&std::fs::read_to_string(entry?.path())?)?);
    }
    let owners = |objects: &[Value]| -> anyhow::Result<BTreeMap<String, Vec<String>>> {
        Ok(linked(objects)?.into_iter().map(|(name, (_, _, owners))| (name, owners)).collect())
    };
    let (ours, theirs) = (owners(&saved)?, owners(&theirs)?);
    for kind in ["Cluster", "ClusterClass", "KubeadmControlPlane", "MachineDeployment", "Machine", "Secret"] {
        ensure!(theirs.keys().any(|name| name.starts_with(&format!("{kind} "))), "no {kind} was moved: {theirs:?}");
    }
    for (name, owners) in &theirs {
        assert_eq!(ours.get(name), Some(owners), "{name}");
    }
    Ok(())
}

/// As `clusterctl init` labels what it installs: by that it finds what it moves.
async fn label_definitions(client: &Client) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let label = json!({"metadata": {"labels": {"clusterctl.cluster.x-k8s.io": ""}}});
    for definition in api.list(&ListParams::default()).await? {
        if definition.spec.group.ends_with("cluster.x-k8s.io") {
            api.patch(&definition.name_any(), &PatchParams::default(), &Patch::Merge(&label)).await?;
        }
    }
    Ok(())
}

/// What an object says, with its owners by their names instead of uids.
pub type Linked<'a> = (Option<&'a Value>, Option<&'a Value>, Vec<String>);

/// Each object by kind, namespace and name.
pub fn linked(objects: &[Value]) -> anyhow::Result<BTreeMap<String, Linked<'_>>> {
    let text = |object: &Value, path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = |object: &Value| {
        let place = text(object, "/metadata/namespace");
        format!(
            "{} {place}/{} of {}",
            text(object, "/kind"),
            text(object, "/metadata/name"),
            text(object, "/apiVersion")
        )
    };
    let uids: BTreeMap<String, String> =
        objects.iter().map(|object| (text(object, "/metadata/uid"), name(object))).collect();
    let mut found = BTreeMap::new();
    for object in objects {
        let links = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let owner = |owner: &Value| uids.get(&text(owner, "/uid")).cloned().context("an owner that is not there");
        let owners = links.into_iter().flatten().map(owner).collect::<Result<_, _>>()?;
        // A Secret has its data where others have a specification.
        let content = object.get("spec").or_else(|| object.get("data"));
        found.insert(name(object), (content, object.pointer("/metadata/labels"), owners));
    }
    Ok(found)
}
