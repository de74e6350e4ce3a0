//! Rules for approvals on a real forge.

use reqwest::Method;
use serde_json::json;
use stepgate::reconcile::ClusterOutcome;
use tests::servers::{Gitea, isolated};

use super::{Scene, head, message, number, text, waits_for_people};
use crate::fleet::{outcome, told};

/// Whoever pushes to the source branch here is `A Person <person@example.com>`.
const RULES: &str = "people: {alice: [alice@example.com], bob: [bob@example.com], olga: [person@example.com]}\n\
                     groups: {platform: [bob, olga]}\napprovers: {minimum: 2, groups: {platform: 1}}\n";

/// What the status of a commit says.
async fn description(scene: &Scene, commit: &str) -> anyhow::Result<String> {
    let found = scene.gitea.read(&format!("commits/{commit}/status")).await?;
    Ok(text(&found["statuses"][0], "description").to_owned())
}

#[test]
fn reviews_and_comments_are_counted_and_what_is_missing_is_told() {
    isolated(
        "forge::rules::reviews_and_comments_are_counted_and_what_is_missing_is_told",
        Gitea::NEEDED,
        async |programs| {
            let scene = Scene::administered(&programs, RULES).await?;
            let fleet = &scene.fleet;
            let controller = fleet.controller();
            scene.edit("class-a");
            let pull = scene.the_pull(&controller).await?;
            let (number, commit) = (number(&pull), head(&pull).to_owned());
            assert_eq!(description(&scene, &commit).await?, "0 of 2 approvals; group platform missing");
            // Olga wrote it, under another name.
            scene.act("olga", Method::POST, &format!("pulls/{number}/reviews"), json!({"event": "APPROVED"})).await?;
            fleet.run_until(&controller, |pass| message(pass).contains("olga wrote what is rolled out"));
            scene.say("alice", number, "/stepgate approve").await?;
            fleet.run_until(&controller, |pass| message(pass).contains("; 1 of 2 approvals; group platform missing"));
            fleet.pass(&controller);
            let said = scene.said(number).await?.concat();
            assert!(said.contains("alice approved it. It is not merged yet: 1 of 2 approvals"), "{said}");
            assert_eq!(scene.pulls("open").await?.len(), 1);
            let review = json!({"event": "APPROVED", "commit_id": commit});
            scene.act("bob", Method::POST, &format!("pulls/{number}/reviews"), review).await?;
            fleet.run_to_the_end(&controller);
            assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
            let ledger = fleet.deployed("clusters/mgmt/rollout.yaml").unwrap();
            for wanted in ["who: alice", "who: bob", "means: review", "means: comment"] {
                assert!(ledger.contains(wanted), "{wanted} is missing in {ledger}");
            }
            Ok(())
        },
    );
}

#[test]
fn a_merge_without_protection_is_held_until_the_others_approve() {
    isolated(
        "forge::rules::a_merge_without_protection_is_held_until_the_others_approve",
        Gitea::NEEDED,
        async |programs| {
            let scene = Scene::administered(&programs, RULES).await?;
            let fleet = &scene.fleet;
            let controller = fleet.controller();
            scene.edit("class-a");
            let pull = scene.the_pull(&controller).await?;
            scene.gitea.merge("alice", number(&pull), "squash").await?;
            for controller in [&controller, &fleet.controller()] {
                let pass =
                    fleet.run_until(controller, |pass| matches!(outcome(pass, "mgmt"), ClusterOutcome::Held { .. }));
                assert!(message(&pass).contains("merged too early: 1 of 2 approvals"), "{}", told(&pass));
            }
            scene.say("bob", number(&pull), "/stepgate approve").await?;
            fleet.run_to_the_end(&controller);
            assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
            // With nothing left to be asked, the next change asks as before.
            scene.edit("class-b");
            let pass = fleet.run_until(&controller, waits_for_people);
            assert!(message(&pass).contains("0 of 2 approvals"), "{}", told(&pass));
            Ok(())
        },
    );
}
