//! What a release or a node may do to an upgrade, and the way back.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use in_place::objects::Role;
use in_place::pod::Way;
use stepgate_node::step::Step;
use tests::node::{Archive, ByHand, Cluster, NEW, OLD, UpgraderImage, are_there, needed};
use tests::servers::{Programs, isolated};
use tests::waiting;

use crate::by_pod::{STEPGATE, assert_is_upgraded, done, install, journal, pod, start, stop};

/// Says its version, and does nothing else.
const BROKEN: &str =
    "#!/bin/sh\ncase \"$*\" in --version) echo Kubernetes v1.36.4 ;; *) echo broken >&2; exit 1 ;; esac\n";

/// Both replicas have to run: no Pod of them may leave.
const BUDGET: &str = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: all, namespace: default}, \
     spec: {minAvailable: 2, selector: {matchLabels: {app: hello}}}}";

#[test]
fn kubelet_that_does_not_run_is_undone_and_node_goes_back() {
    if !are_there() {
        return;
    }
    let name = "breaking::kubelet_that_does_not_run_is_undone_and_node_goes_back";
    isolated(name, &needed(), async |programs| {
        let good = UpgraderImage::make(&programs, STEPGATE.as_ref(), "whole", |_, content| content)?;
        let broken = UpgraderImage::make(&programs, STEPGATE.as_ref(), "kubelet", |name, content| {
            if name == "kubelet" { BROKEN.as_bytes().to_vec() } else { content }
        })?;
        let cluster = Cluster::start_with_new_control_plane(&programs, &good, "kubelet").await?;
        install(&cluster, &good).await?;
        install(&cluster, &broken).await?;
        let recorded = async |what: &str, step: Step, text: &str| {
            waiting::until(what, async || {
                let record = journal(&cluster.worker).map(|journal| journal.record(step));
                Ok(record.filter(|record| record.message.contains(text)))
            })
            .await
        };

        // A budget holds the drain up, and is named while it does.
        cluster.apply("budget", BUDGET).await?;
        let mut worker = pod(&broken, "w1", Role::Worker);
        start(&cluster, &worker, Way::Upgrade).await?;
        let blocked = recorded("Pod and budget are named", Step::Drain, "The disruption budget all").await?;
        ensure!(blocked.message.contains("default/hello-"), "{}", blocked.message);
        cluster.kubectl(&["delete", "poddisruptionbudget", "all"]).await?;

        let failed = recorded("the broken kubelet is found", Step::Kubelet, "kubelet before the upgrade runs again");
        ensure!(failed.await?.attempts > 0);
        cluster.wait_until_ready("w1", OLD.kubernetes).await?;
        stop(&cluster, &worker.name(Way::Upgrade)).await?;
        worker.image = good.reference.clone();
        start(&cluster, &worker, Way::Rollback).await?;
        done(&cluster, &cluster.worker, &worker.name(Way::Rollback)).await?;
        ensure!(journal(&cluster.worker).context("there is a journal")?.is_rolled_back());
        cluster.wait_until_ready("w1", OLD.kubernetes).await?;
        cluster.wait_for_workload(2).await?;

        // The mended release goes all the way.
        stop(&cluster, &worker.name(Way::Rollback)).await?;
        start(&cluster, &worker, Way::Upgrade).await?;
        done(&cluster, &cluster.worker, &worker.name(Way::Upgrade)).await?;
        assert_is_upgraded(&cluster, &cluster.worker).await?;
        cluster.done()
    });
}

/// An image of this name and of the new version that has another program.
fn broken(programs: &Programs, name: &str) -> anyhow::Result<PathBuf> {
    let place = programs.path(&format!("images/broken-{name}.tar"));
    let reference = format!("registry.test/{name}:{}", NEW.release);
    let content = vec![(programs.path("workload").canonicalize()?, format!("usr/local/bin/{name}"))];
    Archive { references: &[&reference], entrypoint: &format!("/usr/local/bin/{name}"), content }.write(&place)?;
    Ok(place)
}

/// The upgrade of the control plane ends at a broken image, and the node is as it was after the way back.
async fn ends_at(programs: &Programs, component: &str, expected: &[&str]) -> anyhow::Result<()> {
    let image = UpgraderImage::make(programs, STEPGATE.as_ref(), "whole", |_, content| content)?;
    let cluster = Cluster::start(programs, component).await?;
    let node = &cluster.control_plane;
    cluster.import_archive(node, &broken(programs, component)?).await?;
    let by_hand = ByHand::install(&cluster, &image, node)?;
    for step in [Step::Copy, Step::Containerd, Step::CniPlugins, Step::Drain] {
        by_hand.succeed(step.as_str()).await?;
    }
    let why = by_hand.fail("kubeadm", 1).await?;
    for text in expected {
        ensure!(why.contains(text), "{text} in {why}");
    }
    by_hand.succeed("rollback").await?;
    ensure!(journal(node).context("there is a journal")?.is_rolled_back());
    cluster.wait_until_ready("cp1", OLD.kubernetes).await?;
    for (name, tag) in [(component, OLD.release), ("etcd", OLD.etcd)] {
        let pod = cluster.get(&["-n", "kube-system", "pod", &format!("{name}-cp1")]).await;
        let pod = pod.context("the API server answers")?;
        let wanted = format!("registry.test/{name}:{tag}");
        ensure!(pod["spec"]["containers"][0]["image"] == wanted.as_str(), "{pod}");
    }
    let found = cluster.get(&["node", "cp1"]).await.context("the API server answers")?;
    ensure!(found["spec"]["unschedulable"].is_null(), "cp1 is cordoned");
    ensure!(cluster.get(&["configmap", "kept"]).await.is_some(), "etcd has lost data");
    cluster.wait_for_workload(2).await?;
    cluster.done()
}

#[test]
fn api_server_that_does_not_run_is_undone_by_kubeadm_and_us() {
    if !are_there() {
        return;
    }
    let name = "breaking::api_server_that_does_not_run_is_undone_by_kubeadm_and_us";
    isolated(name, &needed(), async |programs| {
        // kubeadm puts the API server back, and leaves etcd at the new version.
        let manifests = format!("kubeadm left these manifests: registry.test/etcd:{}", NEW.etcd);
        let old = format!("registry.test/kube-apiserver:{}", OLD.release);
        ends_at(&programs, "kube-apiserver", &["earlier state", &manifests, &old]).await
    });
}

#[test]
fn controller_manager_that_crashes_is_found_though_kubeadm_says_success() {
    if !are_there() {
        return;
    }
    let name = "breaking::controller_manager_that_crashes_is_found_though_kubeadm_says_success";
    isolated(name, &needed(), async |programs| {
        let expected = ["the node is not proven healthy", "kube-controller-manager is not ready"];
        ends_at(&programs, "kube-controller-manager", &expected).await
    });
}
