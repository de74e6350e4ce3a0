//! An eksctl that takes too long, and one that is begun by a process that knows an older deploy branch.

use std::process::Command;

use anyhow::ensure;
use tests::servers::{Process, isolated};
use tests::waiting::until;

use super::applied::Applied;
use super::{CLUSTER, CONFIG, FILE, NEEDED, POLICY, Scene};

/// What is run: the add-on once more, since the first time took too long.
const RUN: [&str; 3] = ["upgrade cluster ", "update addon ", "update addon "];

#[test]
fn what_takes_too_long_is_ended_and_begun_anew_for_the_newest_commit_alone() {
    let name = "eksctl::late::what_takes_too_long_is_ended_and_begun_anew_for_the_newest_commit_alone";
    isolated(name, NEEDED, async |programs| {
        let mut scene = Scene::start(&programs).await?;
        // The shortest time that there is.
        scene.environment.insert("STEPGATE_EKSCTL_TIMEOUT", "60".into());
        let applied = Applied::new(scene)?;
        applied.allow()?;
        let scene = &applied.scene;
        let policy = POLICY.replace("apply: pipeline", "apply: eksctl");
        scene.repository.push("Describe the shop", &[("stepgate.yaml", &policy), (FILE, CONFIG)])?;
        let said = scene.said(&["adopt", "--yes"])?;
        ensure!(said.contains("shop: recorded what the source branch says"), "{said}");
        let folder = scene.folder.path().to_owned();
        let mut controller = Process::start(&folder, "stepgate", applied.command(&["run", "--listen", "off"]))?;
        let next = CONFIG.replace("\"1.31\"", "\"1.32\"").replace("v1.11.3-eksbuild.1", "v1.11.4-eksbuild.2");
        scene.repository.push("Kubernetes 1.32", &[(FILE, &next)])?;
        let has_run = async |count: usize| {
            let begun = async || Ok((applied.ran().len() >= count).then_some(()));
            until(&format!("{:?} is begun", &RUN[..count]), begun).await?;
            assert_eq!(applied.ran(), RUN[..count]);
            anyhow::Ok(())
        };

        has_run(1).await?;
        // Somebody's copy of the branch, which stays where it is.
        let older = folder.join("older.git");
        let cloned = Command::new("git")
            .args(["clone", "--quiet", "--mirror"])
            .args([&scene.repository.bare(), &older])
            .output()?;
        ensure!(cloned.status.success(), "{}", String::from_utf8_lossy(&cloned.stderr));
        applied.let_go().await?;
        scene.endpoint.raise("v1.32.2-eks-2");
        has_run(2).await?;
        applied.says("took too long and was ended").await?;
        // That is known to whoever goes on.
        controller.kill()?;
        controller.restart()?;
        applied.says("took too long and was ended").await?;

        let refused = applied.command(&["run", "--once"]).env("STEPGATE_REPO", &older).output()?;
        let refused = String::from_utf8_lossy(&refused.stdout).into_owned();
        ensure!(refused.contains("is refused: eksctl has carried out"), "{refused}");
        ensure!(refused.contains("put the deploy branch back to a commit that contains it"), "{refused}");
        assert_eq!(applied.ran(), RUN[..2]);

        has_run(3).await?;
        applied.let_go().await?;
        scene.coredns("v1.11.4-eksbuild.2").await?;
        scene.stages_are(4).await?;
        let ledger = scene.repository.deployed(&format!("clusters/{CLUSTER}/rollout.yaml"))?;
        ensure!(ledger.contains("(attempt 2)"), "{ledger}");
        applied.scene.folder.done();
        Ok(())
    });
}
