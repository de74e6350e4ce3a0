//! What real Flux refuses never comes about: what is pushed in its place takes over at once, long before the stage's time is over.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tests::servers::isolated;
use tests::servers::manifests::kind_in;
use tests::waiting::{LONG_PATIENCE, until_within};

use crate::machines::{self, CLUSTER, CLUSTER_KIND, FILE, NAMESPACE};
use crate::scene::{POLICY, Scene};

/// The time that [`POLICY`] gives a stage.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The cluster with a label of this value.
fn labelled(value: &str) -> String {
    let named = format!("  namespace: {NAMESPACE}\n");
    machines::cluster(super::OLD).replacen(&named, &format!("{named}  labels: {{team: \"{value}\"}}\n"), 1)
}

#[test]
fn a_pushed_repair_of_what_flux_refused_takes_over_at_once() {
    let name = "faults::repaired::a_pushed_repair_of_what_flux_refused_takes_over_at_once";
    isolated(name, &machines::needed(), async |programs| {
        let scene = Scene::start(&programs).await?;
        let _cluster_api = machines::create(&scene, &programs, super::OLD, POLICY).await?;
        let _controller = scene.controller()?;
        let committed = async |count: usize| {
            let is_there = async || Ok(Some(scene.repository.stages()?).filter(|stages| stages.len() >= count));
            match until_within(&format!("commit {count}"), LONG_PATIENCE, is_there).await {
                Ok(stages) => Ok(stages),
                Err(error) => Err(error.context(scene.why(CLUSTER).await?.to_string())),
            }
        };
        scene.repository.push("Name the team", &[(FILE, &labelled("no label!"))])?;
        let stages = committed(2).await?;
        let began = Instant::now();
        let stage = stages.last().context("no stage")?.clone();
        scene.why_says(CLUSTER, &["Kustomization flux-system/machines-cluster", "no label!", "Invalid value"]).await?;
        // Nobody repairs it yet: it waits, and nothing else is committed.
        assert_eq!(scene.repository.stages()?, stages);

        scene.repository.push("Name the team as labels can", &[(FILE, &labelled("platform"))])?;
        let stages = committed(3).await?;
        ensure!(began.elapsed() < TIMEOUT, "it took over after {:?}", began.elapsed());
        assert_eq!(stages.last(), Some(&stage), "the same stage once more");
        let stages = committed(4).await?;
        assert_eq!(stages.last().map(String::as_str), Some("verify"));
        let cluster = kind_in(&scene.client, CLUSTER_KIND, NAMESPACE).await?.get(CLUSTER).await?;
        assert_eq!(cluster.metadata.labels.unwrap_or_default().get("team").map(String::as_str), Some("platform"));
        scene.folder.done();
        Ok(())
    });
}
