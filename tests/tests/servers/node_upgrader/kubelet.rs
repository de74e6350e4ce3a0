//! What a kubelet reports of the machine of a test: its version, its boot, and the static Pods in its folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::machine::{Machine, write};
use super::release::{OLD, Release};

/// What kubeadm writes at each version.
pub const PODS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

const FOLDER: &str = "/etc/kubernetes/manifests";

/// kubeadm of the release: it writes manifests, and says SUCCESS whatever comes of it.
const KUBEADM: &str = r#"#!/bin/sh
[ "$1" = version ] && echo v1.36.4 && exit 0
[ "$1 $2" = "config images" ] && grep -q '"kubernetesVersion": "v1.36.4"' @ROOT@$5 && echo registry.test/kube-apiserver:v1.36.4 && exit 0
cd @ROOT@/etc/kubernetes/manifests || exit 1
for f in kube-[acs]*.yaml; do sed s/v1.35.4/v1.36.4/ $f >.$f && mv .$f $f; done
echo SUCCESS
"#;

/// containerd runs what the manifests say; etcd's container has an etcdctl.
const CTR: &str = r#"#!/bin/sh
root=@ROOT@
for last; do :; done
case "$3 $4" in
  "tasks list") echo TASK PID STATUS
    for f in $root/etc/kubernetes/manifests/*.yaml; do i=$(sed -n 's/.*image: //p' $f); echo "${i##*/} 1 RUNNING"; done ;;
  "tasks exec") echo "$@" >>$root/run/executed
    case "$*" in
      *"endpoint status --cluster"*) cat $root/run/etcd-cluster; exit ;;
      *"endpoint status"*) cat $root/run/etcd-own; exit ;;
      *move-leader*) exit ;;
    esac
    mkdir -p $(dirname $root$last); echo data >$root$last ;;
  "images list") cat $root/run/images 2>/dev/null || true ;;
  "images pull") [ ! -e $root/run/no-registry ] || { echo no such host >&2; exit 1; }
    echo $last manifest $(cat $root/run/digest 2>/dev/null) >>$root/run/images ;;
esac
"#;

/// Puts a static Pod of this image into kubelet's folder.
pub fn write_static_pod(machine: &Machine, name: &str, tag: &str) {
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - name: {name}\n    image: registry.test/{name}:{tag}\n"
    );
    write(&machine.place(&format!("{FOLDER}/{name}.yaml")), &manifest, 0o600);
}

/// Gives the machine a control plane, and the release a kubeadm that upgrades it.
pub fn write_static_pods(machine: &Machine, release: &mut Release) {
    for name in PODS {
        write_static_pod(machine, name, OLD);
    }
    write_static_pod(machine, "etcd", "3.6.6-0");
    let root = machine.root();
    let of_machine = |script: &str| script.replace("@ROOT@", root.to_str().unwrap());
    release.replace("/usr/bin/kubeadm", of_machine(KUBEADM).as_bytes());
    write(&machine.programs().join("ctr"), &of_machine(CTR), 0o755);
}

/// Reports until it is dropped.
pub struct StaticPods {
    task: JoinHandle<()>,
    crashing: Arc<Mutex<(String, String)>>,
    rounds: Arc<Mutex<u32>>,
}

impl StaticPods {
    /// Of the machine below `root`.
    pub fn run(client: &Client, root: PathBuf, node: &'static str) -> Self {
        let client = client.clone();
        let crashing: Arc<Mutex<(String, String)>> = Arc::default();
        let rounds: Arc<Mutex<u32>> = Arc::default();
        let (seen, counted) = (Arc::clone(&crashing), Arc::clone(&rounds));
        let task = tokio::spawn(async move {
            loop {
                let crashing = seen.lock().unwrap().clone();
                // What changed meanwhile is reported in the next round.
                if report(&client, &root, node, &crashing).await.is_ok() {
                    *counted.lock().unwrap() += 1;
                }
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        });
        Self { task, crashing, rounds }
    }

    /// From now on this Pod crash-loops at this version, and no other does.
    pub fn crash(&self, name: &str, version: &str) {
        *self.crashing.lock().unwrap() = (name.to_owned(), version.to_owned());
    }

    /// From now on all run.
    pub fn recover(&self) {
        *self.crashing.lock().unwrap() = Default::default();
    }

    /// Waits until everything is reported that is so now.
    pub async fn settled(&self) {
        let start = *self.rounds.lock().unwrap();
        for _ in 0..1200 {
            if *self.rounds.lock().unwrap() >= start + 2 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("nothing was reported for a minute");
    }
}

impl Drop for StaticPods {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn report(client: &Client, root: &Path, node: &str, crashing: &(String, String)) -> anyhow::Result<()> {
    let program = fs::read_to_string(root.join("proc/200/exe"))?;
    let version = program.lines().find_map(|line| line.strip_prefix("echo Kubernetes ")).unwrap_or_default();
    let boot = fs::read_to_string(root.join("proc/sys/kernel/random/boot_id"))?;
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({"status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "nodeInfo": {"kubeletVersion": version, "bootID": boot.trim()},
    }});
    Api::<Node>::all(client.clone()).patch_status(node, &PatchParams::default(), &Patch::Merge(status)).await?;
    for name in PODS.into_iter().chain(["etcd", "kube-vip"]) {
        let Ok(manifest) = fs::read_to_string(root.join(format!("etc/kubernetes/manifests/{name}.yaml"))) else {
            continue;
        };
        let image = manifest.lines().find_map(|line| line.trim().strip_prefix("image: ")).unwrap_or_default();
        report_pod(client, name, node, image, crashing).await?;
    }
    Ok(())
}

async fn report_pod(
    client: &Client,
    name: &str,
    node: &str,
    image: &str,
    crashing: &(String, String),
) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let full = format!("{name}-{node}");
    let current = pods.get_opt(&full).await?;
    let runs = current.as_ref().and_then(|pod| pod.spec.as_ref()?.containers.first()?.image.clone());
    if runs.as_deref() != Some(image) {
        if current.is_some() {
            pods.delete(&full, &DeleteParams::default().grace_period(0)).await?;
        }
        let pod: Value = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": full, "namespace": "kube-system", "annotations": {"kubernetes.io/config.mirror": image}},
            "spec": {"nodeName": node, "automountServiceAccountToken": false, "containers": [{"name": name, "image": image}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    }
    let is_ready = crashing.0 != name || !image.ends_with(&crashing.1);
    let task = image.rsplit('/').next().unwrap_or_default();
    let state = if is_ready {
        json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    } else {
        json!({"waiting": {"reason": "CrashLoopBackOff"}})
    };
    let status = json!({"status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "containerStatuses": [{"name": name, "image": image, "imageID": image, "ready": is_ready, "restartCount": 0,
            "containerID": format!("containerd://{task}"), "state": state}],
    }});
    pods.patch_status(&full, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}
