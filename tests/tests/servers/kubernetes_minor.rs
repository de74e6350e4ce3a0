//! A Kubernetes minor version, carried to a cluster with real controllers: Flux applies, Cluster API makes machines in memory.

use tests::servers::isolated;

use super::ending::{End, assert_committed_once};
use super::killing::{KILLS, kill_at_random};
use super::machines::{self, CLUSTER, FILE};
use super::recording::{Recorder, assert_commits_follow_machines, assert_no_prefix_passes_early, assert_replay_agrees};
use super::restoring::{assert_backup_holds_what_clusterctl_moves, assert_backup_restores};
use super::scene::{POLICY, Scene};

const OLD: &str = "v1.34.0";
const NEW: &str = "v1.35.0";

#[test]
fn each_stage_is_committed_once_when_the_machines_before_it_are_done() {
    let name = "kubernetes_minor::each_stage_is_committed_once_when_the_machines_before_it_are_done";
    let needed: Vec<&str> = machines::needed().into_iter().chain(["clusterctl"]).collect();
    isolated(name, &needed, async |programs| {
        let scene = Scene::start(&programs).await?;
        let _cluster_api = machines::create(&scene, &programs, OLD, POLICY).await?;
        let recorder = Recorder::start(&scene, NEW).await?;
        let _controller = scene.controller()?;
        scene.repository.push("Kubernetes 1.35", &[(FILE, &machines::cluster(NEW))])?;
        scene.stages_are(CLUSTER, &machines::STAGES).await?;
        let seen = recorder.finish().await?;
        assert_commits_follow_machines(&seen, NEW)?;
        assert_no_prefix_passes_early(&seen, NEW, &machines::PARTS)?;
        assert_replay_agrees(&scene, &seen, NEW)?;
        scene.assert_nothing_is_left()?;
        assert_backup_restores(&scene, &programs).await?;
        assert_backup_holds_what_clusterctl_moves(&scene, &programs).await?;
        scene.folder.done();
        Ok(())
    });
}

#[test]
fn kills_at_random_moments_lead_to_the_same_end() {
    let name = "kubernetes_minor::kills_at_random_moments_lead_to_the_same_end";
    isolated(name, &machines::needed(), async |programs| {
        let scene = Scene::start(&programs).await?;
        let _cluster_api = machines::create(&scene, &programs, OLD, POLICY).await?;
        let recorder = Recorder::start(&scene, NEW).await?;
        let mut controller = scene.controller()?;
        scene.repository.push("Kubernetes 1.35", &[(FILE, &machines::cluster(NEW))])?;
        let end = End::rendered(&scene, CLUSTER).await?;
        kill_at_random(&mut controller, KILLS).await?;
        scene.stages_are(CLUSTER, &machines::STAGES).await?;
        let seen = recorder.finish().await?;
        assert_commits_follow_machines(&seen, NEW)?;
        assert_no_prefix_passes_early(&seen, NEW, &machines::PARTS)?;
        scene.assert_nothing_is_left()?;
        end.assert_reached(&scene, &machines::STAGES)?;
        assert_committed_once(&scene, &machines::STAGES, 0)?;
        scene.folder.done();
        Ok(())
    });
}
