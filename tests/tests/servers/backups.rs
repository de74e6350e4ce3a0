//! Backups on a volume that has no room.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use cluster::kubernetes::{BackupError, Connection, ConnectionSource, KubernetesCluster, read_backup};
use cluster::{BackupRequest, Cluster as _, ClusterError, Freshness, ObserveRequest};
use jiff::Timestamp;
use rollout::Expectation;
use serde_json::json;
use tests::servers::manifests::{apply, define};
use tests::servers::{ApiServer, ApiServerOptions, Folder, definition, isolated};

const NEEDED: &[&str] = &["etcd", "kube-apiserver"];

/// Mounts a volume of this size.
fn volume(folder: &Path, kibibytes: u32) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let size = format!("size={kibibytes}k");
    let status = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder).status()?;
    ensure!(status.success(), "mount: {status}");
    Ok(())
}

fn backup(rollout: &str, keep: u32) -> BackupRequest {
    BackupRequest { rollout: rollout.parse().unwrap(), at: Timestamp::now(), keep, keep_for: None }
}

#[test]
fn a_volume_without_room_is_named_and_keeps_the_backup_that_it_has() {
    let name = "backups::a_volume_without_room_is_named_and_keeps_the_backup_that_it_has";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        define(&client, &[definition(("cluster.x-k8s.io", "v1beta2", "Machine", "machines"), "Namespaced")]).await?;
        let machine = |name: &str, length: usize| {
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": name, "namespace": "default",
                "annotations": {"example.com/long": "x".repeat(length)}}})
        };
        apply(&client, &[machine("small", 10)]).await?;
        let backups = folder.path().join("backups");
        volume(&backups, 128)?;
        let source = ConnectionSource::Kubeconfig { path: Some(server.kubeconfig()), context: None };
        let cluster = KubernetesCluster::management(Connection::open(&source).await?, backups.clone());
        let first = cluster.back_up(&backup("aaaaaaaaaaaa", 1)).await?;

        apply(&client, &[machine("large", 200_000)]).await?;
        let request = backup("bbbbbbbbbbbb", 1);
        let refused = cluster.back_up(&request).await.unwrap_err();
        ensure!(matches!(&refused, ClusterError::Backup(BackupError::Full { .. })), "{refused}");
        ensure!(refused.to_string().contains("backup.keep"), "{refused}");
        let asked = ObserveRequest {
            expectations: vec![Expectation::BackupTaken { maximum_age: std::time::Duration::from_secs(3600) }],
            kustomizations: Vec::new(),
            deployed: std::sync::Arc::default(),
            freshness: Freshness::Fresh,
            at: Timestamp::now(),
        };
        let seen = cluster.observe(&asked).await;
        let failure = seen.backup_failure.clone().unwrap();
        assert_eq!((failure.rollout, failure.at, failure.volume_full), (request.rollout.clone(), request.at, true));
        // What was there is there still, and what could not be finished takes no room.
        assert_eq!(seen.backup.as_ref(), Some(&first));
        read_backup(Path::new(&first.location), &[])?;
        let left: Vec<_> =
            std::fs::read_dir(&backups)?.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>()?;
        assert_eq!(left, ["aaaaaaaaaaaa"]);

        // With room again it is taken, and then the one before goes.
        let status = Command::new("mount").args(["-o", "remount,size=4m"]).arg(&backups).status()?;
        ensure!(status.success(), "mount: {status}");
        let second = cluster.back_up(&BackupRequest { at: Timestamp::now(), ..request }).await?;
        let seen = cluster.observe(&asked).await;
        assert_eq!((seen.backup.as_ref(), seen.backup_failure), (Some(&second), None));
        ensure!(!Path::new(&first.location).exists(), "both are kept");
        ensure!(Command::new("umount").arg(&backups).status()?.success(), "umount");
        folder.done();
        Ok(())
    });
}
