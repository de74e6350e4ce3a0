//! A snapshot of etcd, before anything is changed.

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::files::found_at;
use crate::journal::Saved;
use crate::pods;
use crate::static_pods::{self, StaticPod};
use crate::work::{Work, own_path};

const SNAPSHOT: &str = "stepgate-snapshot.db";

/// Takes one where etcd runs on this node, by the `etcdctl` of its own image.
///
/// # Errors
/// When there is none, or it fails.
pub fn snapshot(work: &mut Work<'_>) -> anyhow::Result<String> {
    let Some(etcd) = static_pods::read(work.root, "etcd")? else { return Ok("no etcd here".to_owned()) };
    if work.choices.trusts_kubeadm_for_etcd {
        return Ok("no snapshot of etcd, as asked".to_owned());
    }
    let folder = data_folder(&etcd);
    let inside = format!("{folder}/{SNAPSHOT}");
    let container = container(work)?;
    let pki = "/etc/kubernetes/pki/etcd";
    let (ca, certificate) = (format!("--cacert={pki}/ca.crt"), format!("--cert={pki}/healthcheck-client.crt"));
    let key = format!("--key={pki}/healthcheck-client.key");
    // A name that is used once: an attempt that was killed may still hold the last one.
    let name = format!("stepgate-{}", std::process::id());
    work.run(
        "ctr",
        &[
            "--namespace",
            "k8s.io",
            "tasks",
            "exec",
            "--exec-id",
            &name,
            &container,
            "etcdctl",
            "--endpoints=https://127.0.0.1:2379",
            &ca,
            &certificate,
            &key,
            "snapshot",
            "save",
            &inside,
        ],
    )
    .context("no snapshot of etcd (--etcd-backup=kubeadm relies on the copy that kubeadm makes)")?;
    let place = work.root.place(&inside)?;
    let Some(found) = found_at(&place)? else { bail!("etcdctl has written no {inside}") };
    let path = own_path("etcd-snapshot.db")?;
    work.files().put(path.as_str(), &place, found)?;
    work.disk.remove(&place)?;
    work.journal.etcd_snapshot = Some(Saved { path: path.clone(), before: found });
    work.save()?;
    Ok(format!("etcd saved to {path}"))
}

fn data_folder(etcd: &StaticPod) -> String {
    let volumes = etcd.manifest.pointer("/spec/volumes").and_then(Value::as_array).cloned().unwrap_or_default();
    let data = volumes.iter().find(|volume| volume.get("name").and_then(Value::as_str) == Some("etcd-data"));
    let path = data.and_then(|volume| volume.pointer("/hostPath/path")).and_then(Value::as_str);
    path.unwrap_or("/var/lib/etcd").to_owned()
}

fn container(work: &Work<'_>) -> anyhow::Result<String> {
    let path = format!("/api/v1/namespaces/kube-system/pods/etcd-{}", work.journal.node);
    let pod = work.api()?.get(&path, work.deadline)?.context("the API server knows no Pod of etcd here")?;
    if !pods::is_ready(&pod) {
        bail!("etcd of this node is not ready: nothing is begun");
    }
    let id = pod.pointer("/status/containerStatuses/0/containerID").and_then(Value::as_str).unwrap_or_default();
    id.rsplit('/').next().filter(|id| !id.is_empty()).map(str::to_owned).context("etcd of this node has no container")
}
