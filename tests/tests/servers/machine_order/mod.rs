//! The order in which Cluster API replaces the control-plane machines of a cluster that manages itself, as the whole
//! program tells it: marks on Machines, by a process that is killed again and again.
//!
//! Machines are in memory. Nodes, the pods of kube-vip and the Lease of the address are this test's, on the server that
//! stands in for the cluster's own.

mod first_node;
pub(crate) mod nodes;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cluster::kubernetes::rollout_definition;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use rollout::{BRAKE, DELETE_FIRST, MachineMark};
use serde_json::{Value, json};
use simulator::{DesiredMachines, DesiredObject};
use tests::servers::manifests::{apply, define, kind, kind_in, list};
use tests::servers::{ClusterApi, Flux, Programs, isolated};
use tests::waiting::{LONG_PATIENCE, until_within};

use super::ending::assert_committed_once;
use super::killing::kill_at_random;
use super::machines::{CLUSTER_KIND, MACHINE};
use super::scene::{POLICY, Scene};
use super::simulator::machines::MachineProvider;
use first_node::Gates;
use nodes::Nodes;

const NAME: &str = "ordered";
const FILE: &str = "clusters/ordered/cluster.yaml";
const LEASE: (&str, &str) = ("coordination.k8s.io/v1", "Lease");
const CONTROL_PLANE: (&str, &str) = ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane");
const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");
const SYSTEM: &str = "kube-system";

/// Where Stepgate's own objects are.
const OWN: &str = "stepgate-system";
const KUBE_VIP: &str = "ghcr.io/kube-vip/kube-vip:v1.2.0";

/// Where kubelets find the pod of kube-vip.
const STATIC_POD: &str = "/etc/kubernetes/manifests/kube-vip.yaml";

const OLD: &str = "v1.34.0";
const NEW: &str = "v1.35.0";

/// The commits of the deploy branch: recorded, rolled out, closed.
const STAGES: [&str; 3] = ["verify", "control-plane", "verify"];

/// How often Stepgate is killed while the machines are replaced.
const KILLS: usize = 20;

/// How long a machine is seen to be kept before its successor is proven.
const KEPT: Duration = Duration::from_secs(6);

/// What makes the stage take too long at once.
const IMPATIENT: &str = "stages: {control-plane: {timeout: 1s}}\n";

struct Bench {
    scene: Scene,
    provider: MachineProvider,
    _nodes: Nodes,
}

impl Bench {
    /// Three machines of a control plane that carries its address by kube-vip, recorded and applied by Flux.
    async fn start(programs: &Programs) -> anyhow::Result<Self> {
        let mut scene = Scene::start(programs).await?;
        // The kubeconfig that Cluster API keeps leads to the machines in memory.
        scene.environment.insert("STEPGATE_MANAGEMENT_CLUSTER", NAME.into());
        let provider = MachineProvider::start(programs, &scene.server).await?;
        let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        apply(&scene.client, &[namespace(NAME), namespace(OWN)]).await?;
        define(&scene.client, &[rollout_definition()?]).await?;
        let nodes = Nodes::follow(&scene.client, NAME);
        let bench = Self { scene, provider, _nodes: nodes };
        apply(&bench.scene.client, &bench.objects(OLD)?).await?;
        let files = [("stepgate.yaml", POLICY.to_owned()), (FILE, bench.text(OLD)?)];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        bench.scene.repository.push("Describe the fleet", &files)?;
        let is_up = async || {
            let known = kind_in(&bench.scene.client, CONTROL_PLANE, NAME).await?.get(NAME).await?;
            Ok((known.data.pointer("/status/availableReplicas") == Some(&json!(3))).then_some(()))
        };
        until_within("the control plane is up", LONG_PATIENCE, is_up).await?;
        bench.scene.adopt()?;
        bench.scene.connect_flux().await?;
        Ok(bench)
    }

    fn objects(&self, version: &str) -> anyhow::Result<Vec<Value>> {
        let machines = DesiredMachines {
            namespace: NAME.to_owned(),
            name: NAME.to_owned(),
            replicas: 3,
            version: version.to_owned(),
            template: format!("{NAME}-1s"),
            bootstrap_template: None,
        };
        let mut objects = self.provider.manifest(NAME, &DesiredObject::ControlPlane { machines, kube_vip: None })?;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kube-vip", "namespace": SYSTEM},
            "spec": {"containers": [{"name": "kube-vip", "image": KUBE_VIP, "env": [{"name": "vip_leaderelection", "value": "true"}]}]}});
        for object in &mut objects {
            match kind(object) {
                "KubeadmControlPlane" => {
                    let file = json!({"path": STATIC_POD, "content": pod.to_string()});
                    object["spec"]["kubeadmConfigSpec"]["files"] = json!([file]);
                }
                "Cluster" => object["metadata"]["annotations"] = json!({"stepgate.dev/management-cluster": NAME}),
                _ => {}
            }
        }
        Ok(objects)
    }

    /// The cluster's file in the fleet repository.
    fn text(&self, version: &str) -> anyhow::Result<String> {
        Ok(self.objects(version)?.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n"))
    }

    async fn machines(&self) -> anyhow::Result<Vec<DynamicObject>> {
        list(&self.scene.client, MACHINE, NAME).await
    }

    /// The address goes to this node.
    async fn hold(&self, node: &str) -> anyhow::Result<()> {
        let metadata = json!({"name": "plndr-cp-lock", "namespace": SYSTEM});
        let spec = json!({"holderIdentity": node, "leaseDurationSeconds": 15});
        let lease = json!({"apiVersion": LEASE.0, "kind": LEASE.1, "metadata": metadata, "spec": spec});
        apply(&self.scene.client, &[lease]).await
    }

    /// kube-vip runs on the nodes of every machine of this version.
    async fn run_kube_vip(&self, version: &str) -> anyhow::Result<()> {
        for machine in self.machines().await?.iter().filter(|machine| version_of(machine) == Some(version)) {
            let Some(node) = node_of(machine) else { continue };
            let metadata = json!({"name": format!("kube-vip-{node}"), "namespace": SYSTEM,
                "annotations": {"kubernetes.io/config.mirror": "0"}});
            let spec = json!({"nodeName": node, "containers": [{"name": "kube-vip", "image": KUBE_VIP}]});
            apply(
                &self.scene.client,
                &[json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})],
            )
            .await?;
        }
        Ok(())
    }

    /// Marks by machine.
    async fn marks(&self) -> anyhow::Result<BTreeMap<String, Vec<&'static str>>> {
        let machines = self.machines().await?;
        let marks = machines.iter().map(|machine| {
            let of = [DELETE_FIRST, BRAKE].into_iter().filter(|key| machine.annotations().contains_key(*key));
            (machine.name_any(), of.collect::<Vec<_>>())
        });
        Ok(marks.filter(|(_, marks)| !marks.is_empty()).collect())
    }

    /// Waits until another machine than these is deleted, and sees that it is kept.
    async fn next_to_go(&self, gone: &[String]) -> anyhow::Result<String> {
        let next = async || {
            let deleting = |machine: &DynamicObject| machine.metadata.deletion_timestamp.is_some();
            let machines = self.machines().await?;
            let mut names = machines.iter().filter(|machine| deleting(machine)).map(kube::ResourceExt::name_any);
            Ok(names.find(|name| !gone.contains(name)))
        };
        let name = self.scene.until("another machine is deleted", next).await?;
        let since = Instant::now();
        let is_kept = async || {
            let machines = self.machines().await?;
            let kept = machines.iter().find(|machine| machine.name_any() == name);
            ensure!(
                kept.is_some_and(|machine| machine.annotations().contains_key(BRAKE)),
                "{name} was not kept: {kept:?}"
            );
            Ok((since.elapsed() >= KEPT).then_some(()))
        };
        self.scene.until("it is kept for a while", is_kept).await?;
        Ok(name)
    }

    /// Waits until exactly these machines are marked to go before others.
    async fn marked_to_go_first(&self, names: &[&String]) -> anyhow::Result<()> {
        let is_so = async || {
            let marks = self.marks().await?;
            let marked: Vec<&String> =
                marks.iter().filter(|(_, marks)| marks.contains(&DELETE_FIRST)).map(|(name, _)| name).collect();
            Ok((marked == names).then_some(()))
        };
        self.scene.until(&format!("{names:?} are marked"), is_so).await
    }

    /// Waits until the gates of the first node and of the whole pass so.
    async fn gates_pass(&self, gates: &Gates, wanted: [bool; 2]) -> anyhow::Result<()> {
        let is_so = async || Ok((gates.pass().await?.0 == wanted).then_some(()));
        self.scene.until(&format!("the first node and the whole pass as {wanted:?}"), is_so).await
    }

    /// Waits until every machine is of the new version and none carries a mark.
    async fn rolled(&self) -> anyhow::Result<Vec<DynamicObject>> {
        let is_so = async || {
            let machines = self.machines().await?;
            let is_over = machines.len() == 3 && machines.iter().all(|machine| version_of(machine) == Some(NEW));
            Ok((is_over && self.marks().await?.is_empty()).then_some(machines))
        };
        self.scene.until("the machines are new", is_so).await
    }

    /// No object that Cluster API or Flux work by carries anything of Stepgate any more.
    async fn assert_nothing_of_ours_is_left(&self) -> anyhow::Result<()> {
        for (kind, namespace) in
            [(MACHINE, NAME), (CONTROL_PLANE, NAME), (CLUSTER_KIND, NAME), (KUSTOMIZATION, "flux-system")]
        {
            for object in list(&self.scene.client, kind, namespace).await? {
                let is_ours = |(key, value): &(&String, &String)| {
                    let names_clusters = ["stepgate.dev/management-cluster", "stepgate.dev/cluster"];
                    !names_clusters.contains(&key.as_str()) && format!("{key} {value}").contains("stepgate")
                };
                let left = object.annotations().iter().chain(object.labels()).find(is_ours);
                ensure!(left.is_none(), "{} {}: {left:?}", kind.1, object.name_any());
                ensure!(object.data.pointer("/spec/suspend") != Some(&json!(true)), "{} is suspended", kind.1);
            }
        }
        Ok(())
    }
}

fn node_of(machine: &DynamicObject) -> Option<&str> {
    machine.data.pointer("/status/nodeRef/name")?.as_str()
}

fn version_of(machine: &DynamicObject) -> Option<&str> {
    machine.data.pointer("/spec/version")?.as_str()
}

#[test]
fn the_holder_goes_last_and_no_machine_before_its_successor_is_proven() {
    let name = "machine_order::the_holder_goes_last_and_no_machine_before_its_successor_is_proven";
    let servers = ["etcd", "kube-apiserver", "kube-controller-manager"];
    let needed: Vec<&str> = servers.into_iter().chain(Flux::NEEDED).chain(ClusterApi::NEEDED).collect();
    isolated(name, &needed, async |programs| {
        let bench = Bench::start(&programs).await?;
        let old: BTreeMap<String, String> = bench
            .machines()
            .await?
            .iter()
            .filter_map(|machine| Some((machine.name_any(), node_of(machine)?.to_owned())))
            .collect();
        let names: Vec<&String> = old.keys().collect();
        ensure!(names.len() == 3, "{names:?}");

        let mut controller = bench.scene.controller()?;
        bench.scene.repository.push("Kubernetes 1.35", &[(FILE, &bench.text(NEW)?)])?;
        // Nothing is written as long as no new node could show what the gate waits for.
        bench.scene.why_says(NAME, &["kube-vip, which the specification brings, is ready on no node"]).await?;
        assert_eq!(bench.scene.repository.stages()?, STAGES[..1]);
        bench.run_kube_vip(OLD).await?;
        bench.hold(&old[names[0]]).await?;
        bench.marked_to_go_first(&[names[1], names[2]]).await?;
        let killing = tokio::spawn(async move {
            kill_at_random(&mut controller, KILLS).await?;
            anyhow::Ok(controller)
        });

        // The address moves while the first of them is on its way: the marks follow, and people are told how to let it go.
        let first = bench.next_to_go(&[]).await?;
        ensure!(first != *names[0], "the holder goes first");
        // A new machine beside all of the old ones is not enough for anybody.
        let gates = Gates::of(&bench).await?;
        let (passed, said) = gates.pass().await?;
        ensure!(passed == [false, false], "{said}");
        let line = format!("kubectl annotate machines.cluster.x-k8s.io {first} -n {NAME} {BRAKE}-");
        bench.scene.why_says(NAME, &[&first, "is kept by", "kube-vip on node"]).await?;
        let advice = bench.scene.why(NAME).await?["advice"].to_string();
        ensure!(advice.contains(&line), "{advice}");
        let told = async || {
            let events = list(&bench.scene.client, ("v1", "Event"), OWN).await?;
            let message = |event: &DynamicObject| event.data["message"].as_str().map(str::to_owned);
            let kept = events.iter().filter(|event| event.data["reason"] == "MachineKept");
            Ok(kept.filter_map(message).any(|message| message.contains(&line)).then_some(()))
        };
        bench.scene.until("an event tells of it", told).await?;
        let holder = names.iter().find(|name| **name != names[0] && **name != &first).context("no machine is left")?;
        bench.hold(&old[*holder]).await?;
        let marked: Vec<&String> = names.iter().copied().filter(|name| name != holder).collect();
        bench.marked_to_go_first(&marked).await?;
        bench.run_kube_vip(NEW).await?;

        let second = bench.next_to_go(std::slice::from_ref(&first)).await?;
        assert_eq!(&second, names[0]);
        // One is gone and its successor is proven: the first node is there, the whole is not.
        bench.gates_pass(&gates, [true, false]).await?;
        bench.run_kube_vip(NEW).await?;

        // What stands in for the holder is not proven; when that takes too long, nothing is kept for it any more.
        let third = bench.next_to_go(&[first, second]).await?;
        assert_eq!(&third, *holder);
        let impatient = format!("{POLICY}{IMPATIENT}");
        bench.scene.repository.push("Do not wait", &[("stepgate.yaml", &impatient)])?;
        let new = bench.rolled().await?;
        bench.gates_pass(&gates, [true, true]).await?;
        bench.scene.why_says(NAME, &["kube-vip on node"]).await?;
        bench.scene.repository.push("Wait", &[("stepgate.yaml", POLICY)])?;
        bench.run_kube_vip(NEW).await?;
        bench.hold(new.iter().find_map(node_of).context("no node")?).await?;
        let controller = killing.await??;
        bench.scene.stages_are(NAME, &STAGES).await?;
        assert_committed_once(&bench.scene, &STAGES, 0)?;
        bench.assert_nothing_of_ours_is_left().await?;

        what_a_killed_process_left_ends_with_its_time(&bench).await?;
        drop(controller);
        bench.assert_nothing_of_ours_is_left().await?;
        bench.scene.assert_nothing_is_left()?;
        bench.scene.folder.done();
        Ok(())
    });
}

/// Nobody decides any more: whoever runs takes marks away once their time is over, and leaves those of others.
async fn what_a_killed_process_left_ends_with_its_time(bench: &Bench) -> anyhow::Result<()> {
    let machines = bench.machines().await?;
    let [first, second, ..] = machines.as_slice() else { anyhow::bail!("{machines:?}") };
    let now = Timestamp::now();
    let mark = MachineMark {
        owner: MachineMark::OWNER.to_owned(),
        rollout: "0123456789ab".parse()?,
        reason: "goes first".to_owned(),
        since: now - SignedDuration::from_secs(60),
        until: now + SignedDuration::from_secs(1),
    };
    let ours = json!({"metadata": {"labels": {"stepgate.dev/marked": "true"},
        "annotations": {BRAKE: serde_json::to_string(&mark)?}}});
    let theirs = json!({"metadata": {"annotations": {DELETE_FIRST: "jane"}}});
    let api = kind_in(&bench.scene.client, MACHINE, NAME).await?;
    for (machine, marks) in [(first, ours), (second, theirs)] {
        api.patch(&machine.name_any(), &PatchParams::default(), &Patch::Merge(marks)).await?;
    }
    let left = BTreeMap::from([(second.name_any(), vec![DELETE_FIRST])]);
    let is_taken = async || Ok((bench.marks().await? == left).then_some(()));
    bench.scene.until("its mark is gone", is_taken).await
}
