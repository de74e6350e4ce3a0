//! The program on a node against a real API server: drain, proof, and the way back.

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

mod images;
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

const KUBE_VIP: &str = "/etc/kubernetes/manifests/kube-vip.yaml";

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

async fn copy(caller: &Caller<'_>, release: &Release, role: &str) -> anyhow::Result<String> {
    let files = release.files();
    let [from, files] = [release.folder(), &files].map(|folder| folder.to_str().unwrap());
    caller.succeeds(&["copy", "--from", from, "--files", files, "--role", role, "--node", NODE]).await
}

/// kube-vip's manifest.
fn kube_vip(tag: &str) -> String {
    format!("kind: Pod\nspec:\n  containers:\n  - name: kube-vip\n    image: registry.test/kube-vip:{tag}\n")
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
        copy(&caller, &release, "worker").await?;
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

/// What kubeadm writes down of a cluster.
async fn kubeadm_config(client: &Client) -> anyhow::Result<()> {
    let text = format!("apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: {OLD}\n");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kubeadm-config", "namespace": "kube-system"}, "data": {"ClusterConfiguration": text}});
    apply(client, &[object]).await
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
        kubeadm_config(&client).await?;
        let image = format!("registry.test/kube-apiserver:{NEW}");
        // This kubelet tells its version, and does not stay up.
        let whole = std::fs::read(release.place("/usr/bin/kubelet"))?;
        release.replace("/usr/bin/kubelet", format!("#!/bin/sh\necho Kubernetes {NEW}\n# breaks\n").as_bytes());
        let reports = StaticPods::run(&client, machine.root(), NODE);
        let caller = Caller { machine: &machine, kubeconfig: server.kubeconfig() };
        let vip = machine.place("/etc/kubernetes/manifests/kube-vip.yaml");
        machine::write(&vip, &kube_vip("v1"), 0o600);
        let mirror = release::mirror(NEW);
        release.write_files(&[(KUBE_VIP, &kube_vip("v2"), "0600"), (release::MIRROR, &mirror, "0644")]);
        let step = |name: &'static str| [name, "--target", NEW];
        let limited = |name: &'static str| [name, "--target", NEW, "--time-limit", "6"];

        reports.settled().await;
        let said = copy(&caller, &release, "first-control-plane").await?;
        ensure!(said.contains("2 images copied, etcd saved to /var/lib/stepgate/node/etcd-snapshot.db"), "{said}");
        ensure!(machine.read("/run/images").starts_with(&image), "{}", machine.read("/run/images"));
        let executed = machine.read("/run/executed");
        ensure!(executed.contains("etcd:3.6.6-0 etcdctl --endpoints=https://127.0.0.1:2379"), "{executed}");
        ensure!(machine.read("/var/lib/stepgate/node/etcd-snapshot.db") == "data\n", "the snapshot is another file");
        for name in ["containerd", "cni-plugins"] {
            caller.succeeds(&step(name)).await?;
        }
        caller.succeeds(&["drain", "--target", NEW, "--leave-virtual-address"]).await?;
        ensure!(!vip.exists() && is_cordoned(&client).await?, "kube-vip did not leave, or Pods may come");

        // Its member of etcd leads: another one does before kubeadm touches it.
        let member = |name: &str, id: u64, version: &str| {
            let status = json!({"header": {"member_id": id}, "version": version, "leader": 26});
            json!({"Endpoint": format!("https://{name}:2379"), "Status": status})
        };
        let [own, second, third] = [member("a", 26, "3.6.6"), member("b", 27, "3.6.6"), member("c", 28, "3.6.8")];
        machine::write(&machine.place("/run/etcd-own"), &json!([own]).to_string(), 0o600);
        machine::write(&machine.place("/run/etcd-cluster"), &json!([second, third, own]).to_string(), 0o600);

        // kubeadm says SUCCESS, and the controller-manager does not stay up.
        reports.crash("kube-controller-manager", NEW);
        caller.fails(&limited("kubeadm"), &["kube-controller-manager is not ready (CrashLoopBackOff)"]).await?;
        let executed = machine.read("/run/executed");
        ensure!(executed.contains("healthcheck-client.key move-leader 1c"), "{executed}");
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
        ensure!(machine.read(KUBE_VIP) == kube_vip("v1"), "kube-vip did not come back as it was");
        ensure!(machine.read(release::MIRROR) == release::mirror(OLD), "the mirror was not put back");
        ensure!(machine.restarts() == ["containerd", "kubelet", "containerd"], "{:?}", machine.restarts());
        caller.fails(&step("containerd"), &["is being rolled back, or was"]).await?;

        // From the start: the control plane is healthy now, and kubelet breaks.
        reports.recover();
        reports.settled().await;
        copy(&caller, &release, "first-control-plane").await?;
        for name in ["containerd", "cni-plugins", "drain", "kubeadm"] {
            caller.succeeds(&step(name)).await?;
        }
        caller.fails(&limited("kubelet"), &["kubelet is activating, and not active"]).await?;
        caller.succeeds(&step("rollback")).await?;
        ensure_is_undone(&machine, &client).await?;

        // The node is proven, and its new kube-vip does not run: the old one is there again.
        release.replace("/usr/bin/kubelet", &whole);
        reports.settled().await;
        copy(&caller, &release, "first-control-plane").await?;
        for name in ["containerd", "cni-plugins", "drain", "kubeadm", "kubelet", "verify"] {
            caller.succeeds(&step(name)).await?;
        }
        ensure!(machine.read(KUBE_VIP) == kube_vip("v1"), "kube-vip was replaced before the proof");
        ensure!(machine.read(release::MIRROR) == release::mirror(NEW), "the mirror was not written");
        reports.crash("kube-vip", "v2");
        caller.fails(&limited("uncordon"), &["kube-vip is not ready (CrashLoopBackOff)"]).await?;
        ensure!(is_cordoned(&client).await?, "Pods may come to a node without kube-vip");
        reports.recover();
        caller.succeeds(&step("rollback")).await?;
        ensure_is_undone(&machine, &client).await?;
        ensure!(machine.read(KUBE_VIP) == kube_vip("v1"), "kube-vip was not put back");

        reports.settled().await;
        for _ in 0..2 {
            // The second time everything is called again, and nothing comes of it.
            copy(&caller, &release, "first-control-plane").await?;
            for name in ["containerd", "cni-plugins", "drain", "kubeadm", "kubelet", "verify", "uncordon"] {
                caller.succeeds(&step(name)).await?;
            }
            ensure!(!is_cordoned(&client).await?, "the node is cordoned");
        }
        let node = Api::<Node>::all(client.clone()).get(NODE).await?;
        ensure!(node.status.unwrap().node_info.unwrap().kubelet_version == NEW, "the Node is not at {NEW}");
        ensure!(machine.read(KUBE_VIP) == kube_vip("v2"), "kube-vip is the old one");
        ensure!(machine.journal().is_complete(), "{}", told(&machine.run(&["status"])));
        let configuration = machine.read("/var/lib/stepgate/node/upgrade.yaml");
        ensure!(configuration.contains("addon/coredns"), "CoreDNS is not left alone: {configuration}");
        caller.fails(&step("rollback"), &["the node is in use at it"]).await?;
        folder.done();
        Ok(())
    });
}
