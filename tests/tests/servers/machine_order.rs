//! The order in which Cluster API replaces control-plane machines, told by marks on them. Machines are in memory; the Lease of the address and the
//! pods of kube-vip are this test's, on the server that stands in for the cluster's own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster, end_expired_marks};
use cluster::{Cluster as _, Freshness, ObserveRequest};
use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use rollout::{
    BRAKE, ControlPlaneExpectation, DELETE_FIRST, Expectation, KubeVipExpectation, KubeletVersions, MachineOrder,
    MachineOrderRules, MarkChange, MarkKind, Observation, RunningOrder, machine_order,
};
use serde_json::{Value, json};
use simulator::{DesiredMachines, DesiredObject};
use tests::servers::manifests::{apply, kind_in, list};
use tests::servers::{ApiServer, ApiServerOptions, ClusterApi, Folder, Programs, isolated};
use tests::waiting::{LONG_PATIENCE, until_within};

use super::machines::MACHINE;
use super::simulator::machines::MachineProvider;

const NAME: &str = "ordered";
const LEASE: (&str, &str) = ("coordination.k8s.io/v1", "Lease");
const POD: (&str, &str) = ("v1", "Pod");
const SYSTEM: &str = "kube-system";

/// How long a machine is seen to be kept before its successor is proven.
const KEPT: Duration = Duration::from_secs(6);

struct Scene {
    _server: ApiServer,
    client: Client,
    connection: Connection,
    cluster: KubernetesCluster,
    provider: MachineProvider,
    until: Timestamp,
}

impl Scene {
    async fn start(programs: &Programs, folder: &Folder) -> anyhow::Result<Self> {
        let place = folder.path().join("management");
        let server = ApiServer::start(programs, &place, ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let source = ConnectionSource::Kubeconfig { path: Some(server.kubeconfig()), context: None };
        let connection = Connection::open(&source).await?.with_requests_per_second(1000);
        let cluster = KubernetesCluster::management(connection.clone(), folder.path().join("backups"));
        let provider = MachineProvider::start(programs, &server).await?;
        apply(&client, &[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}})]).await?;
        // As precise as marks are written.
        let until = Timestamp::from_second(Timestamp::now().as_second() + 1800)?;
        Ok(Self { _server: server, client, connection, cluster, provider, until })
    }

    /// Puts the control plane at a version.
    async fn want(&self, version: &str) -> anyhow::Result<()> {
        let machines = DesiredMachines {
            namespace: NAME.to_owned(),
            name: NAME.to_owned(),
            replicas: 3,
            version: version.to_owned(),
            template: format!("{NAME}-1s"),
        };
        let objects = self.provider.manifest(NAME, &DesiredObject::ControlPlane { machines, kube_vip: None })?;
        apply(&self.client, &objects).await
    }

    async fn read(&self, expectation: &ControlPlaneExpectation) -> Observation {
        self.cluster
            .observe(&ObserveRequest {
                expectations: vec![Expectation::ControlPlane(expectation.clone())],
                kustomizations: Vec::new(),
                deployed: std::sync::Arc::default(),
                freshness: Freshness::Fresh,
                at: Timestamp::now(),
            })
            .await
    }

    fn order(&self, expectation: &ControlPlaneExpectation, seen: &Observation) -> MachineOrder {
        let rollout = "0123456789ab".parse().unwrap();
        machine_order(
            NAME,
            Some(RunningOrder { expectation, rollout: &rollout, until: self.until }),
            seen,
            Timestamp::now(),
        )
    }

    /// The address goes to this node.
    async fn hold(&self, node: &str) -> anyhow::Result<()> {
        let lease = json!({"apiVersion": LEASE.0, "kind": LEASE.1, "metadata": {"name": "plndr-cp-lock", "namespace": SYSTEM},
            "spec": {"holderIdentity": node, "leaseDurationSeconds": 15}});
        apply(&self.client, &[lease]).await
    }

    /// kube-vip runs on this node.
    async fn run_kube_vip(&self, node: &str) -> anyhow::Result<()> {
        let name = format!("kube-vip-{node}");
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": SYSTEM, "annotations": {"kubernetes.io/config.mirror": "0"}},
            "spec": {"nodeName": node, "containers": [{"name": "kube-vip", "image": "kube-vip:v1.2.0"}]}});
        apply(&self.client, &[pod]).await?;
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "kube-vip", "image": "kube-vip:v1.2.0", "imageID": "sha256:1", "ready": true,
                "restartCount": 0, "state": {"running": {}}}]}});
        let pods = kind_in(&self.client, POD, SYSTEM).await?;
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// Our marks by machine.
    async fn marks(&self) -> anyhow::Result<BTreeMap<String, Vec<&'static str>>> {
        let machines = list(&self.client, MACHINE, NAME).await?;
        let marks = machines.iter().map(|machine| {
            let of = [DELETE_FIRST, BRAKE].into_iter().filter(|key| machine.annotations().contains_key(*key));
            (machine.name_any(), of.collect::<Vec<_>>())
        });
        Ok(marks.filter(|(_, marks)| !marks.is_empty()).collect())
    }
}

fn expectation(version: &str) -> ControlPlaneExpectation {
    ControlPlaneExpectation {
        namespace: NAME.to_owned(),
        cluster: NAME.to_owned(),
        version: version.to_owned(),
        replicas: Some(3),
        infrastructure_template: None,
        stacked_etcd: true,
        kubelet_versions: KubeletVersions::WhenReported,
        kube_vip: Some(KubeVipExpectation { image: None, lease: None }),
        order: MachineOrderRules { lease: None, brakes: true },
        gate: policy::ControlPlaneGate::Whole,
    }
}

#[test]
fn the_holder_goes_last_and_each_machine_waits_for_its_successor_to_be_proven() {
    let name = "machine_order::the_holder_goes_last_and_each_machine_waits_for_its_successor_to_be_proven";
    let needed: Vec<&str> = ["etcd", "kube-apiserver"].into_iter().chain(ClusterApi::NEEDED).collect();
    isolated(name, &needed, async |programs| {
        let folder = Folder::new()?;
        let scene = Scene::start(&programs, &folder).await?;
        scene.want("v1.34.0").await?;
        let old_one = expectation("v1.34.0");
        let is_up = async || {
            let seen = scene.read(&old_one).await;
            let up = seen.control_planes.iter().any(|known| known.available_replicas == Some(3));
            Ok(up.then_some(seen))
        };
        let seen = until_within("the control plane is up", LONG_PATIENCE, is_up).await?;
        let mut old: Vec<(String, String)> =
            seen.machines.iter().filter_map(|machine| Some((machine.name.clone(), machine.node.clone()?))).collect();
        old.sort();
        ensure!(old.len() == 3, "{old:?}");
        for (_, node) in &old {
            scene.run_kube_vip(node).await?;
        }
        // A Lease of another name: no machine is marked, and that is said.
        let mut wrong = expectation("v1.35.0");
        (wrong.kube_vip, wrong.order.lease) = (None, Some("no-such-lease".to_owned()));
        scene.hold(&old[0].1).await?;

        scene.want("v1.35.0").await?;
        let expected = expectation("v1.35.0");
        let course = roll(&scene, &expected, &wrong, &old).await?;
        // The address went to the second in between: what the first of them was marked for, the other is now.
        assert_eq!(course.gone.last(), Some(&course.holder), "{:?}", course.gone);
        assert_eq!(course.gone.len(), 3);
        ensure!(course.kept.iter().all(|kept| *kept >= KEPT) && course.kept.len() == 3, "{:?}", course.kept);
        assert_eq!(scene.marks().await?, BTreeMap::new());

        what_a_killed_process_left_ends_with_its_time(&scene, &expected).await?;
        folder.done();
        Ok(())
    });
}

struct Course {
    /// Old machines in the order in which they were deleted.
    gone: Vec<String>,
    /// The one whose node held the address in the end.
    holder: String,
    /// How long each was kept.
    kept: Vec<Duration>,
}

/// Plays a process that is killed over and over: each reading is decided on by itself, and often only a part of what was decided is done.
async fn roll(
    scene: &Scene,
    expected: &ControlPlaneExpectation,
    wrong: &ControlPlaneExpectation,
    old: &[(String, String)],
) -> anyhow::Result<Course> {
    let mut course = Course { gone: Vec::new(), holder: old[0].0.clone(), kept: Vec::new() };
    let (mut held_since, mut turn): (Option<(String, Instant)>, usize) = (None, 0);
    let deadline = Instant::now() + LONG_PATIENCE;
    loop {
        ensure!(Instant::now() < deadline, "{:?} have gone, {:?}", course.gone, scene.marks().await?);
        let seen = scene.read(expected).await;
        ensure!(seen.unread.is_empty(), "{:?}", seen.unread);
        let MachineOrder { changes, notes } = scene.order(expected, &seen);
        turn += 1;
        // Killed in the middle of it, every other time.
        let done: &[MarkChange] = if turn.is_multiple_of(2) { &changes } else { &changes[..changes.len() / 2] };
        scene.cluster.order_machines(done, Timestamp::now()).await?;
        let outdated = seen.machines.iter().filter(|machine| machine.spec_version.as_deref() != Some("v1.35.0"));
        if outdated.clone().count() == 3 && held_since.is_none() && turn.is_multiple_of(3) {
            let order = scene.order(wrong, &scene.read(wrong).await);
            let is_marked = |change: &MarkChange| change.kind == MarkKind::DeleteFirst && change.mark.is_some();
            ensure!(!order.changes.iter().any(is_marked), "{order:?}");
            ensure!(
                order.notes.iter().any(|note| note.to_string().contains("no-such-lease: is not there")),
                "{order:?}"
            );
        }
        for machine in seen.machines.iter().filter(|machine| machine.deleting) {
            if course.gone.contains(&machine.name) {
                continue;
            }
            course.gone.push(machine.name.clone());
            held_since = Some((machine.name.clone(), Instant::now()));
        }
        if let Some((name, since)) = &held_since {
            let machine = seen.machines.iter().find(|machine| &machine.name == name);
            let is_kept = machine.is_some_and(|machine| machine.brake.is_some());
            if since.elapsed() < KEPT {
                ensure!(is_kept, "{name} is not kept: {machine:?}");
                let is_said = |note: &rollout::Reason| note.to_string().contains("kube-vip on node");
                ensure!(notes.iter().any(is_said) || since.elapsed() < Duration::from_secs(1), "{notes:?}");
            } else {
                course.kept.push(since.elapsed());
                held_since = None;
                let new = seen.machines.iter().filter(|machine| machine.spec_version.as_deref() == Some("v1.35.0"));
                for node in new.filter_map(|machine| machine.node.as_deref()) {
                    scene.run_kube_vip(node).await?;
                }
                // While the first is on its way, the address moves to another old one; with the last one it moves for good.
                let left = old.iter().find(|(name, _)| !course.gone.contains(name) && *name != course.holder);
                match (course.gone.len(), left) {
                    (1, Some((name, node))) => {
                        course.holder.clone_from(name);
                        scene.hold(node).await?;
                    }
                    (3, _) => {
                        let node = seen
                            .machines
                            .iter()
                            .filter(|machine| !machine.deleting)
                            .find_map(|machine| machine.node.clone());
                        scene.hold(&node.context("no node is left")?).await?;
                    }
                    _ => {}
                }
            }
        }
        let is_over = course.gone.len() == 3
            && seen.machines.len() == 3
            && seen.machines.iter().all(|machine| machine.spec_version.as_deref() == Some("v1.35.0"));
        if is_over && changes.is_empty() {
            return Ok(course);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// Nobody decides any more: whoever runs takes marks away once their time is over, and leaves those of others.
async fn what_a_killed_process_left_ends_with_its_time(
    scene: &Scene,
    expected: &ControlPlaneExpectation,
) -> anyhow::Result<()> {
    let seen = scene.read(expected).await;
    let mut outdated = seen.clone();
    outdated.control_planes.iter_mut().for_each(|known| known.spec_version = "v1.36.0".to_owned());
    let order = scene.order(expected, &outdated);
    scene.cluster.order_machines(&order.changes, Timestamp::now()).await?;
    assert_eq!(scene.marks().await?.len(), 3);
    let first = seen.machines.first().context("no machine")?;
    let theirs: Value = json!({"metadata": {"annotations": {DELETE_FIRST: "jane"}}});
    let machines = kind_in(&scene.client, MACHINE, NAME).await?;
    machines.patch(&first.name, &PatchParams::default(), &Patch::Merge(theirs)).await?;
    let before = end_expired_marks(&scene.connection, scene.until - SignedDuration::from_secs(1)).await?;
    assert_eq!((before, scene.marks().await?.len()), (Some(scene.until), 3));
    assert_eq!(end_expired_marks(&scene.connection, scene.until).await?, None);
    assert_eq!(scene.marks().await?, BTreeMap::from([(first.name.clone(), vec![DELETE_FIRST])]));
    Ok(())
}
