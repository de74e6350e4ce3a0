//! The deploy branch is deleted while Flux is at it: Flux' own word says where it was, nothing is recorded anew, and the printed push brings it back.

use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tests::servers::manifests::kind_in;
use tests::servers::{DEPLOY, FLUX_NAMESPACE, Flux, isolated};

use super::machines::{self, CLUSTER, FILE};
use super::scene::{POLICY, Scene};

const SOURCE: (&str, &str) = ("source.toolkit.fluxcd.io/v1", "GitRepository");
const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");

/// The cluster's only Kustomization.
const NAME: &str = "machines-cluster";

/// Waits until Flux has fetched a commit and looked at it for the cluster.
async fn fetched(scene: &Scene, commit: &str) -> anyhow::Result<()> {
    let is_fetched = async || {
        let source = kind_in(&scene.client, SOURCE, FLUX_NAMESPACE).await?.get_opt("flux-system").await?;
        let own = kind_in(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?.get_opt(NAME).await?;
        let revision = source.and_then(|it| it.data.pointer("/status/artifact/revision").cloned());
        let has = revision.as_ref().and_then(Value::as_str).is_some_and(|revision| revision.contains(commit));
        let tried = own.is_some_and(|own| own.data.pointer("/status/lastAttemptedRevision").is_some());
        Ok((has && tried).then_some(()))
    };
    scene.until("Flux has fetched the deploy branch", is_fetched).await
}

#[test]
fn flux_says_where_a_lost_branch_was_and_adopt_refuses_until_it_is_back() {
    let name = "lost_branch::flux_says_where_a_lost_branch_was_and_adopt_refuses_until_it_is_back";
    let needed: Vec<&str> =
        ["etcd", "kube-apiserver", "kube-controller-manager"].into_iter().chain(Flux::NEEDED).collect();
    isolated(name, &needed, async |programs| {
        let scene = Scene::start(&programs).await?;
        let files = [("stepgate.yaml", POLICY), (FILE, &machines::cluster("v1.34.0"))];
        scene.repository.push("Describe the fleet", &files)?;
        scene.adopt()?;
        scene.connect_flux().await?;
        let head = scene.repository.head()?;
        fetched(&scene, &head).await?;

        let bare = scene.repository.bare();
        let git = |arguments: &[&str]| -> anyhow::Result<()> {
            let output = Command::new("git").arg("-C").arg(&bare).args(arguments).output()?;
            ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            Ok(())
        };
        git(&["update-ref", "-d", &format!("refs/heads/{DEPLOY}")])?;

        let why = scene.why(CLUSTER).await?;
        let (reasons, help) = (why["reasons"].to_string(), why["help"].as_str().unwrap_or_default());
        assert_eq!(why["state"], "blocked");
        ensure!(reasons.contains(&head) && reasons.contains("Flux in"), "{why}");
        ensure!(!help.contains("adopt"), "{help}");
        for arguments in [&["adopt"][..], &["adopt", "--yes"], &["adopt", CLUSTER, "--yes"]] {
            let output = scene.stepgate(arguments).output()?;
            let told = String::from_utf8(output.stderr)?;
            ensure!(!output.status.success() && told.contains(&head), "{arguments:?}: {told}");
            ensure!(told.contains("hint: `git "), "{told}");
        }
        git(&["show-ref", "--verify", &format!("refs/heads/{DEPLOY}")]).expect_err("something was recorded");

        // A Kustomization of another name tells the same, once those of the policy are somewhere else.
        scene.repository.push(
            "Move Flux",
            &[("stepgate.yaml", &POLICY.replace("interval: 1h", "interval: 1h, namespace: elsewhere"))],
        )?;
        let moved = scene.why(CLUSTER).await?;
        ensure!(moved["reasons"].to_string().contains(&head), "{moved}");

        let push = help.split('`').find(|part| part.starts_with("git ")).context("no command")?;
        let pushed = Command::new("sh").args(["-c", push]).output()?;
        ensure!(pushed.status.success(), "{push}: {}", String::from_utf8_lossy(&pushed.stderr));
        assert_eq!(scene.repository.head()?, head);
        let status = scene.stepgate(&["status", "-o", "json"]).output()?;
        ensure!(
            !String::from_utf8_lossy(&status.stdout).contains("blocked"),
            "{}",
            String::from_utf8_lossy(&status.stdout)
        );
        Ok(())
    });
}
