//! Stages that people approve, on a real forge or over SSH without any, carried out by real Flux on machines of real Cluster API.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tests::servers::{Gitea, SshServer, isolated};
use tests::waiting::{LONG_PATIENCE, until_within};

use super::killing::kill_at_random;
use super::machines::{self, CLUSTER, FILE};
use super::recording::{Recorder, assert_commits_follow_machines};
use super::scene::{POLICY, Scene};

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
        rolls_out(&scene, "by: alice (http", async || merge_all(&gitea, machines::PARTS.len()).await).await?;
        // One pull request for each stage, whatever the kills.
        let pulls = gitea.read("pulls?state=all&limit=50").await?;
        ensure!(pulls.as_array().is_some_and(|pulls| pulls.len() == machines::PARTS.len()), "{pulls}");
        scene.folder.done();
        Ok(())
    });
}

#[test]
fn each_stage_is_approved_over_ssh_and_then_applied_by_flux() {
    let name = "approved::each_stage_is_approved_over_ssh_and_then_applied_by_flux";
    if !SshServer::is_there() {
        return skip::missing("there is no sshd (Debian: openssh-server)");
    }
    isolated(name, &machines::needed(), async |programs| {
        if !SshServer::may_serve() {
            skip::missing("sshd does not work in a user namespace, and this user may make no others (run as root)");
            return Ok(());
        }
        let (scene, server) = Scene::over_ssh(&programs).await?;
        let _cluster_api = machines::create(&scene, &programs, OLD, &format!("{POLICY}approval: stage\n")).await?;
        rolls_out(&scene, "by: Alice <alice@example.com>", async || approve_all(&scene, &server).await).await?;
        scene.folder.done();
        Ok(())
    });
}

/// One rollout from its push to its end, while people approve and Stepgate is killed; in the ledger each stage has somebody beside it.
async fn rolls_out(scene: &Scene, who: &str, people: impl AsyncFnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let recorder = Recorder::start(scene, NEW).await?;
    let mut controller = scene.controller()?;
    scene.repository.push("Kubernetes 1.35", &[(FILE, &machines::cluster(NEW))])?;
    tokio::try_join!(people(), kill_at_random(&mut controller, KILLS))?;
    scene.stages_are(CLUSTER, &machines::STAGES).await?;
    assert_commits_follow_machines(&recorder.finish().await?, NEW)?;
    scene.assert_nothing_is_left()?;
    let ledger = scene.repository.deployed(&format!("clusters/{CLUSTER}/rollout.yaml"))?;
    ensure!(ledger.matches(who).count() == machines::PARTS.len(), "{ledger}");
    Ok(())
}

/// A person merges whatever Stepgate asks for, until so many stages are merged.
pub async fn merge_all(gitea: &Gitea, stages: usize) -> anyhow::Result<()> {
    let mut merged = 0;
    let all_merged = async || {
        let pulls = gitea.read("pulls?state=open&limit=50").await?;
        for pull in pulls.as_array().into_iter().flatten() {
            let author = pull.pointer("/user/login").and_then(Value::as_str);
            ensure!(author == Some("stepgate"), "{pull}");
            let number = pull.get("number").and_then(Value::as_u64).unwrap_or_default();
            // One whose branch is moved at this moment is seen again.
            let style = STYLES[merged % STYLES.len()];
            merged += usize::from(gitea.merge("alice", number, style).await.is_ok());
        }
        Ok((merged >= stages).then_some(()))
    };
    let waited = until_within("every stage is merged", LONG_PATIENCE, all_merged).await;
    waited.with_context(|| format!("{merged} merged"))
}

/// A person approves whatever is proposed by a command on a machine of hers, until every stage is approved.
async fn approve_all(scene: &Scene, server: &SshServer) -> anyhow::Result<()> {
    let key = server.key("alice")?;
    let mut approved = 0;
    let all_approved = async || {
        if scene.repository.proposed()?.is_empty() {
            return Ok(None);
        }
        let mut command = scene.stepgate(&["approve", CLUSTER, "--yes", "--as", "Alice <alice@example.com>"]);
        command.env("STEPGATE_GIT_SECRET", &key).env("XDG_CACHE_HOME", scene.file("cache-of-alice"));
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        // Where nothing is proposed, or the branch is moved at this moment, it says so and is said again.
        approved += usize::from(output.status.success());
        Ok((approved >= machines::PARTS.len()).then_some(()))
    };
    let waited = until_within("every stage is approved", LONG_PATIENCE, all_approved).await;
    waited.with_context(|| format!("{approved} approved"))
}
