//! A Kubernetes minor version, carried to a cluster with real controllers: Flux applies, Cluster API makes machines in memory.

use std::time::Duration;

use tests::servers::isolated;

use super::machines::{self, CLUSTER, FILE};
use super::recording::{Recorder, assert_commits_follow_machines, assert_no_prefix_passes_early, assert_replay_agrees};
use super::scene::{POLICY, Scene};

const OLD: &str = "v1.34.0";
const NEW: &str = "v1.35.0";

#[test]
fn each_stage_is_committed_once_when_the_machines_before_it_are_done() {
    let name = "kubernetes_minor::each_stage_is_committed_once_when_the_machines_before_it_are_done";
    isolated(name, &machines::needed(), async |programs| {
        let scene = Scene::start(&programs).await?;
        let _cluster_api = machines::create(&scene, &programs, OLD, POLICY).await?;
        let recorder = Recorder::start(&scene, NEW).await?;
        let _controller = scene.controller()?;
        scene.repository.push("Kubernetes 1.35", &[(FILE, &machines::cluster(NEW))])?;
        let done = async || Ok((scene.repository.stages()?.len() >= machines::STAGES.len()).then_some(()));
        if let Err(error) = scene.until("the rollout is closed", Duration::from_secs(900), done).await {
            return Err(error.context(scene.why(CLUSTER).await?.to_string()));
        }
        let seen = recorder.finish()?;
        assert_eq!(scene.repository.stages()?, machines::STAGES);
        assert_commits_follow_machines(&seen, NEW)?;
        assert_no_prefix_passes_early(&seen, NEW, &machines::PARTS)?;
        assert_replay_agrees(&scene, &seen, NEW)?;
        let ledger = scene.repository.deployed("clusters/machines/rollout.yaml")?;
        assert!(ledger.contains("state: done"), "{ledger}");
        scene.folder.done();
        Ok(())
    });
}
