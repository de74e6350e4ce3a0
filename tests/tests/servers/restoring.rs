//! What a backup is good for: everything that Cluster API knew is there again, in an API server that had nothing.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use stepgate::cluster::kubernetes::read_backup;
use tests::servers::{ApiServer, ApiServerOptions, ClusterApi, Programs, restore};

use super::machines::CLUSTER;
use super::scene::Scene;

/// Restores the only backup of a scene and compares it with what was saved.
pub async fn assert_backup_restores(scene: &Scene, programs: &Programs) -> anyhow::Result<()> {
    let folders: Vec<_> = std::fs::read_dir(scene.file("backups").join(CLUSTER))?.collect::<Result<_, _>>()?;
    let [folder] = folders.as_slice() else { anyhow::bail!("{} backups, one expected", folders.len()) };
    let (report, saved) = read_backup(&folder.path())?;
    ensure!(report.read_back && report.objects > 0, "{report:?}");
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

/// What an object says, with its owners by their names instead of uids.
type Linked<'a> = (Option<&'a Value>, Option<&'a Value>, Vec<String>);

/// Each object by kind, namespace and name.
fn linked(objects: &[Value]) -> anyhow::Result<BTreeMap<String, Linked<'_>>> {
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
