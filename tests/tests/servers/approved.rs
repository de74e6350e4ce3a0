//! Stages that people approve on a real forge, carried out by real Flux on machines of real Cluster API.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Value, json};
use tests::servers::{Gitea, isolated};

use super::machines::{self, CLUSTER, FILE};
use super::recording::{Recorder, assert_commits_follow_machines};
use super::scene::{POLICY, Scene, kill_at_random};

const OLD: &str = "v1.34.0";
const NEW: &str = "v1.35.0";

/// How often Stepgate is killed meanwhile.
const KILLS: usize = 20;

/// Ways of merging that keep the commits, by which stages are counted here.
const STYLES: [&str; 3] = ["merge", "rebase", "rebase-merge"];

#[test]
fn each_stage_is_merged_by_another_person_and_then_applied_by_flux() {
    let name = "approved::each_stage_is_merged_by_another_person_and_then_applied_by_flux";
    let needed: Vec<&str> = machines::needed().into_iter().chain(Gitea::NEEDED.iter().copied()).collect();
    isolated(name, &needed, async |programs| {
        let (scene, gitea) = Scene::on_forge(&programs).await?;
        let forge = json!({"kind": "gitea", "url": gitea.url(), "repository": "platform/fleet"});
        let policy = format!("{POLICY}approval: stage\nforge: {forge}\n");
        let _cluster_api = machines::create(&scene, &programs, OLD, &policy).await?;
        let recorder = Recorder::start(&scene, NEW).await?;
        let mut controller = scene.controller()?;
        scene.repository.push("Kubernetes 1.35", &[(FILE, &machines::cluster(NEW))])?;
        tokio::try_join!(merge_all(&scene, &gitea), kill_at_random(&mut controller, KILLS))?;
        scene.stages_are(CLUSTER, &machines::STAGES).await?;
        assert_commits_follow_machines(&recorder.finish()?, NEW)?;
        scene.assert_nothing_is_left()?;
        // One pull request for each stage, whatever the kills, and who merged it is on record.
        let pulls = gitea.read("pulls?state=all&limit=50").await?;
        let stages = machines::PARTS.len();
        ensure!(pulls.as_array().is_some_and(|pulls| pulls.len() == stages), "{pulls}");
        let ledger = scene.repository.deployed(&format!("clusters/{CLUSTER}/rollout.yaml"))?;
        ensure!(ledger.matches("by: alice (http").count() == stages, "{ledger}");
        scene.folder.done();
        Ok(())
    });
}

/// A person merges whatever Stepgate asks for, until every stage is merged.
async fn merge_all(scene: &Scene, gitea: &Gitea) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut merged = 0;
    while merged < machines::PARTS.len() {
        ensure!(start.elapsed() < Duration::from_secs(900), "{merged} merged; {}", scene.why(CLUSTER).await?);
        let pulls = gitea.read("pulls?state=open&limit=50").await?;
        for pull in pulls.as_array().into_iter().flatten() {
            let author = pull.pointer("/user/login").and_then(Value::as_str);
            ensure!(author == Some("stepgate"), "{pull}");
            let number = pull.get("number").and_then(Value::as_u64).unwrap_or_default();
            // One whose branch is moved at this moment is seen again.
            let style = STYLES[merged % STYLES.len()];
            merged += usize::from(gitea.merge("alice", number, style).await.is_ok());
        }
        // A person looks now and then.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}
