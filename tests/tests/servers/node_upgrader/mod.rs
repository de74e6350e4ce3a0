//! The program on a node against a real API server: drain, proof, and the way back.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tests::servers::manifests::apply;
use tests::servers::{ApiServer, ApiServerOptions, FakeKubelet, Folder, isolated};

use kubelet::StaticPods;
use machine::{Machine, told};
use release::{NEW, OLD, Release};

mod kubelet;
#[path = "../../../../reconciler/node/tests/upgrade/machine.rs"]
#[allow(dead_code, reason = "the program's own tests use all of it")]
mod machine;
#[path = "../../../../reconciler/node/tests/upgrade/release.rs"]
#[allow(dead_code, reason = "the program's own tests use all of it")]
mod release;

const NEEDED: &[&str] = &["etcd", "kube-apiserver"];

const PROGRAM: &str = env!("CARGO_BIN_EXE_stepgate-node-in-tests");

const NODE: &str = "cp1";

/// What the program is called with besides its step.
struct Caller<'a> {
    machine: &'a Machine,
    kubeconfig: std::path::PathBuf,
}

impl Caller<'_> {
    /// Not on a thread of the runtime: the program waits for what runs there.
    async fn call(&self, arguments: &[&str]) -> Output {
        let mut command = self.machine.command(arguments);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        if !arguments.contains(&"--time-limit") {
            command.args(["--time-limit", "60"]);
        }
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    async fn succeeds(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.call(arguments).await;
        ensure!(output.status.success(), "{arguments:?}: {}", told(&output));
        Ok(told(&output))
    }

    async fn fails(&self, arguments: &[&str], why: &[&str]) -> anyhow::Result<()> {
        let output = self.call(arguments).await;
        let said = told(&output);
        ensure!(!output.status.success(), "{arguments:?}: {said}");
        for why in why {
            ensure!(said.contains(why), "{why} in {said}");
        }
        Ok(())
    }
}

fn pod(name: &str, owner: Option<&str>, volumes: &Value) -> Value {
    let owners = owner
        .map(|kind| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "0b0d", "controller": true}]));
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}, "ownerReferences": owners},
        "spec": {"nodeName": NODE, "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false, "volumes": volumes,
            "containers": [{"name": "web", "image": "example.com/web:1"}]}})
}

async fn accounts(client: &Client) -> anyhow::Result<()> {
    let account = |namespace: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}});
    apply(client, &[account("default"), account("kube-system")]).await
}

async fn allow_disruptions(client: &Client, allowed: u32) -> anyhow::Result<()> {
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
    let budgets: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> = Api::default_namespaced(client.clone());
    budgets.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

async fn names(client: &Client) -> anyhow::Result<Vec<String>> {
    let pods = Api::<Pod>::default_namespaced(client.clone()).list(&ListParams::default()).await?;
    Ok(pods.into_iter().filter_map(|pod| pod.metadata.name).collect())
}

async fn is_cordoned(client: &Client) -> anyhow::Result<bool> {
    let node = Api::<Node>::all(client.clone()).get(NODE).await?;
    Ok(node.spec.and_then(|spec| spec.unschedulable).unwrap_or_default())
}

async fn copy(caller: &Caller<'_>, release: &Path, role: &str) -> anyhow::Result<String> {
    let release = release.to_str().unwrap();
    caller.succeeds(&["copy", "--from", release, "--role", role, "--node", NODE]).await
}

#[test]
fn drain_names_pod_and_budget_and_leaves_a_foreign_cordon() {
    let name = "node_upgrader::drain_names_pod_and_budget_and_leaves_a_foreign_cordon";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let _kubelet = FakeKubelet::start(&client, &[NODE], OLD).await?;
        accounts(&client).await?;
        let machine = Machine::new();
        let release = Release::new(NEW);
        let reports = StaticPods::run(&client, machine.root(), NODE);
        reports.settled().await;
        let caller = Caller { machine: &machine, kubeconfig: server.kubeconfig() };
        let nodes: Api<Node> = Api::all(client.clone());
        // Another machine's Node is not drained.
        let other = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}});
        apply(&client, &[other]).await?;
        let from = release.folder().to_str().unwrap();
        caller.fails(&["copy", "--from", from, "--role", "worker", "--node", "other"], &["it is another one"]).await?;
        // Nor is a worker newer than its API server, which is at v1.36.
        let nodes_of_next = Release::new("v1.37.0");
        let next = Machine::at("v1.36.4");
        let caller_of_next = Caller { machine: &next, kubeconfig: server.kubeconfig() };
        let from = nodes_of_next.folder().to_str().unwrap();
        let why = ["the control plane goes to v1.37.0 before its workers"];
        caller_of_next.fails(&["copy", "--from", from, "--role", "worker", "--node", NODE], &why).await?;
        copy(&caller, release.folder(), "worker").await?;
        caller.succeeds(&["containerd", "--target", NEW]).await?;
        caller.succeeds(&["cni-plugins", "--target", NEW]).await?;

        // What would be lost is named, and nothing is begun.
        let data = json!([{"name": "data", "emptyDir": {}}]);
        let pods = [
            pod("web", Some("ReplicaSet"), &json!([])),
            pod("agent", Some("DaemonSet"), &data),
            pod("cache", Some("ReplicaSet"), &data),
            pod("bare", None, &json!([])),
        ];
        apply(&client, &pods).await?;
        let drain = ["drain", "--target", NEW, "--time-limit", "4"];
        caller.fails(&drain, &["Pod default/bare: no controller", "Pod default/cache: data in its emptyDir"]).await?;
        ensure!(!is_cordoned(&client).await?, "the node was cordoned");
        Api::<Pod>::default_namespaced(client.clone()).delete("bare", &kube::api::DeleteParams::default()).await?;
        while names(&client).await?.contains(&"bare".to_owned()) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }

        // A budget is never got round; Pod and budget are named.
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
        apply(&client, &[budget]).await?;
        allow_disruptions(&client, 0).await?;
        let drain = ["drain", "--target", NEW, "--delete-emptydir-data", "--time-limit", "4"];
        caller.fails(&drain, &["default/web: The disruption budget web needs 1 healthy pods"]).await?;
        let mut left = names(&client).await?;
        left.sort();
        ensure!(left == ["agent", "web"], "{left:?}");
        ensure!(is_cordoned(&client).await?, "the node is not cordoned");
        allow_disruptions(&client, 1).await?;
        caller.succeeds(&["drain", "--target", NEW, "--delete-emptydir-data"]).await?;
        ensure!(names(&client).await? == ["agent"], "the agent is gone");
        ensure!(machine.journal().drained.contains(&"default/web".to_owned()), "{:?}", machine.journal().drained);

        // Somebody takes the cordon over: it is theirs now.
        let taken = json!({"metadata": {"annotations": {"inplace.stepgate.dev/cordoned-for": null}}});
        nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(taken)).await?;
        for step in ["kubeadm", "kubelet", "verify"] {
            caller.succeeds(&[step, "--target", NEW]).await?;
        }
        let said = caller.succeeds(&["uncordon", "--target", NEW]).await?;
        ensure!(said.contains("somebody else has cordoned the node"), "{said}");
        ensure!(is_cordoned(&client).await?, "a foreign cordon was taken back");
        folder.done();
        Ok(())
    });
}

/// Everything of the machine is as before the upgrade, and Pods may come.
async fn ensure_is_undone(machine: &Machine, client: &Client) -> anyhow::Result<()> {
    for pod in kubelet::PODS {
        let manifest = machine.read(&format!("/etc/kubernetes/manifests/{pod}.yaml"));
        ensure!(manifest.contains(OLD), "{pod} was not put back: {manifest}");
    }
    for (path, old, _) in release::contents(OLD) {
        ensure!(machine.read(&path) == old, "{path} was not put back");
    }
    ensure!(machine.read("/proc/200/exe") == machine.read("/usr/bin/kubelet"), "kubelet runs something else");
    ensure!(!is_cordoned(client).await?, "the node is cordoned");
    Ok(())
}

#[test]
fn control_plane_is_undone_twice_and_then_upgraded() {
    let name = "node_upgrader::control_plane_is_undone_twice_and_then_upgraded";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let _kubelet = FakeKubelet::start(&client, &[NODE], OLD).await?;
        accounts(&client).await?;
        let machine = Machine::new();
        let mut release = Release::new(NEW);
        kubelet::write_static_pods(&machine, &mut release);
        let image = format!("registry.test/kube-apiserver:{NEW}");
        release.change(|manifest| manifest["images"] = json!([{"reference": image}]));
        // This kubelet tells its version, and does not stay up.
        let whole = std::fs::read(release.place("/usr/bin/kubelet"))?;
        release.replace("/usr/bin/kubelet", format!("#!/bin/sh\necho Kubernetes {NEW}\n# breaks\n").as_bytes());
        let reports = StaticPods::run(&client, machine.root(), NODE);
        let caller = Caller { machine: &machine, kubeconfig: server.kubeconfig() };
        let vip = machine.place("/etc/kubernetes/manifests/kube-vip.yaml");
        machine::write(&vip, "spec: {containers: [{image: registry.test/kube-vip:1}]}\n", 0o600);
        let step = |name: &'static str| [name, "--target", NEW];
        let limited = |name: &'static str| [name, "--target", NEW, "--time-limit", "6"];

        reports.settled().await;
        let said = copy(&caller, release.folder(), "first-control-plane").await?;
        ensure!(said.contains("1 images copied, etcd saved to /var/lib/stepgate/node/etcd-snapshot.db"), "{said}");
        ensure!(machine.read("/run/images").trim() == image, "{}", machine.read("/run/images"));
        let executed = machine.read("/run/executed");
        ensure!(executed.contains("etcd:3.6.6-0 etcdctl --endpoints=https://127.0.0.1:2379"), "{executed}");
        ensure!(machine.read("/var/lib/stepgate/node/etcd-snapshot.db") == "data\n", "the snapshot is another file");
        for name in ["containerd", "cni-plugins"] {
            caller.succeeds(&step(name)).await?;
        }
        caller.succeeds(&["drain", "--target", NEW, "--leave-virtual-address"]).await?;
        ensure!(!vip.exists() && is_cordoned(&client).await?, "kube-vip did not leave, or Pods may come");

        // kubeadm says SUCCESS, and the controller-manager does not stay up.
        reports.crash("kube-controller-manager", NEW);
        caller.fails(&limited("kubeadm"), &["kube-controller-manager is not ready (CrashLoopBackOff)"]).await?;
        caller.fails(&step("kubelet"), &["kubelet comes after kubeadm"]).await?;
        // etcd does not go back over a minor version: the node stays cordoned, and that is said.
        kubelet::write_static_pod(&machine, "etcd", "3.7.0-0");
        let why = ["etcd was upgraded from registry.test/etcd:3.6.6-0 to registry.test/etcd:3.7.0-0", "stays cordoned"];
        for _ in 0..4 {
            caller.fails(&step("rollback"), &why).await?;
        }
        ensure!(caller.call(&step("rollback")).await.status.code() == Some(4), "it is tried again");
        ensure!(is_cordoned(&client).await? && !vip.exists(), "a node that is not undone is in use");
        kubelet::write_static_pod(&machine, "etcd", "3.6.8-0");
        caller.succeeds(&["rollback", "--target", NEW, "--anew"]).await?;
        ensure_is_undone(&machine, &client).await?;
        ensure!(vip.exists(), "kube-vip did not come back");
        ensure!(machine.restarts() == ["containerd", "kubelet", "containerd"], "{:?}", machine.restarts());
        caller.fails(&step("containerd"), &["is being rolled back, or was"]).await?;

        // From the start: the control plane is healthy now, and kubelet breaks.
        reports.recover();
        reports.settled().await;
        copy(&caller, release.folder(), "first-control-plane").await?;
        for name in ["containerd", "cni-plugins", "drain", "kubeadm"] {
            caller.succeeds(&step(name)).await?;
        }
        caller.fails(&limited("kubelet"), &["kubelet is activating, and not active"]).await?;
        caller.succeeds(&step("rollback")).await?;
        ensure_is_undone(&machine, &client).await?;

        release.replace("/usr/bin/kubelet", &whole);
        reports.settled().await;
        for _ in 0..2 {
            // The second time everything is called again, and nothing comes of it.
            copy(&caller, release.folder(), "first-control-plane").await?;
            for name in ["containerd", "cni-plugins", "drain", "kubeadm", "kubelet", "verify", "uncordon"] {
                caller.succeeds(&step(name)).await?;
            }
            ensure!(!is_cordoned(&client).await?, "the node is cordoned");
        }
        let node = Api::<Node>::all(client.clone()).get(NODE).await?;
        ensure!(node.status.unwrap().node_info.unwrap().kubelet_version == NEW, "the Node is not at {NEW}");
        ensure!(machine.journal().is_complete(), "{}", told(&machine.run(&["status"])));
        let configuration = machine.read("/var/lib/stepgate/node/upgrade.yaml");
        ensure!(configuration.contains("addon/coredns"), "CoreDNS is not left alone: {configuration}");
        caller.fails(&step("rollback"), &["the node is in use at it"]).await?;
        folder.done();
        Ok(())
    });
}
