//! Forges that fail, processes that die, and rules that are in the way.

use std::collections::BTreeSet;
use std::sync::Arc;

use forge::ForgeCredential;
use reqwest::Method;
use serde_json::json;
use stepgate::reconcile::ReconcileReport;
use tests::servers::forge_proxy::Fate;
use tests::servers::gitea::Permission;
use tests::servers::{Gitea, isolated};

use super::{Scene, message, number, text, waits_for_people};
use crate::fleet::{is_done, told};

/// Merged and verified, or not yet merged: nothing else is right after a death.
async fn finish(scene: &Scene, merge: bool) -> anyhow::Result<Arc<ReconcileReport>> {
    let controller = scene.fleet.controller();
    let pass = scene.fleet.run_until(&controller, waits_for_people);
    let pulls = scene.pulls("open").await?;
    let heads: BTreeSet<&str> = pulls.iter().map(|pull| text(&pull["head"], "ref")).collect();
    assert_eq!(heads.len(), pulls.len(), "two pull requests for one branch: {heads:?}");
    assert_eq!(pulls.len(), usize::from(merge), "{}", told(&pass));
    if let Some(pull) = pulls.first() {
        scene.gitea.merge("alice", number(pull), "merge").await?;
    }
    Ok(scene.fleet.run_to_the_end(&controller))
}

#[test]
fn a_process_killed_at_any_call_asks_once() {
    isolated("forge::faults::a_process_killed_at_any_call_asks_once", Gitea::NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        let fleet = &scene.fleet;
        let mut asked = 0;
        for killed_at in 0.. {
            scene.edit(&format!("class-{killed_at}"));
            // Every other call is done by the forge before the process dies.
            let fate = if killed_at % 2 == 0 { Fate::DiesAfter } else { Fate::DiesBefore };
            scene.proxy.fates(move |number, _, _| if number == killed_at { fate } else { Fate::Answered });
            let controller = fleet.controller();
            let survived = loop {
                match scene.pass_or_death(&controller).await {
                    None => break false,
                    Some(pass) if waits_for_people(&pass) && !is_done(&pass) => break true,
                    Some(pass) => fleet.wait(Some(&pass)),
                }
            };
            asked = scene.proxy.asked();
            scene.proxy.fates(|_, _, _| Fate::Answered);
            finish(&scene, true).await?;
            if survived {
                break;
            }
        }
        // Looked for, opened, its status set.
        assert!(asked >= 3, "only {asked} calls until people are asked");
        let closed = scene.pulls("closed").await?;
        let merged = closed.iter().filter(|pull| pull["merged"].as_bool() == Some(true)).count();
        assert_eq!(merged, closed.len(), "pull requests that nobody merged");
        Ok(())
    });
}

#[test]
fn two_processes_at_once_ask_once() {
    isolated("forge::faults::two_processes_at_once_ask_once", Gitea::NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        let fleet = &scene.fleet;
        let controllers = [fleet.controller(), fleet.controller()];
        scene.edit("class-a");
        for _ in 0..40 {
            let (one, two) = tokio::join!(controllers[0].pass(), controllers[1].pass());
            let (one, two) = (one?, two?);
            assert!(scene.pulls("open").await?.len() <= 1);
            if waits_for_people(&one) && waits_for_people(&two) && !is_done(&one) {
                break;
            }
            fleet.wait(Some(&one));
        }
        let pass = finish(&scene, true).await?;
        assert_eq!(scene.pulls("closed").await?.len(), 1, "{}", told(&pass));
        Ok(())
    });
}

#[test]
fn a_forge_that_is_away_only_delays() {
    isolated("forge::faults::a_forge_that_is_away_only_delays", Gitea::NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        let fleet = &scene.fleet;
        let controller = fleet.controller();
        scene.edit("class-a");
        scene.proxy.fates(|_, _, _| Fate::Refused(502));
        let pass = fleet.run_until(&controller, |pass| message(pass).contains("the forge says 502"));
        assert!(message(&pass).contains("waits for approval: branch stepgate/"), "{}", told(&pass));
        // It does what it is told to, and every answer is lost.
        scene.proxy.fates(|_, method, _| if method == Method::GET { Fate::Answered } else { Fate::Lost });
        fleet.pass(&controller);
        fleet.pass(&controller);
        assert_eq!(scene.pulls("all").await?.len(), 1);
        scene.proxy.fates(|_, _, _| Fate::Answered);
        let pull = scene.the_pull(&controller).await?;
        // What is merged while the forge's interface is away is found in git.
        scene.proxy.fates(|_, _, _| Fate::Refused(500));
        scene.gitea.merge("alice", number(&pull), "merge").await?;
        fleet.run_to_the_end(&controller);
        assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
        Ok(())
    });
}

#[test]
fn a_token_that_may_not_is_named_with_what_it_lacks() {
    isolated("forge::faults::a_token_that_may_not_is_named_with_what_it_lacks", Gitea::NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        let fleet = &scene.fleet;
        let controller = fleet.controller();
        let Some(ForgeCredential::Token(token_file)) = &fleet.access.credential else { panic!("no token") };
        let good = std::fs::read_to_string(token_file)?;
        scene.edit("class-a");
        std::fs::write(token_file, scene.gitea.token("stepgate", &["read:repository", "read:issue"]).await?)?;
        let pass = fleet.run_until(&controller, |pass| message(pass).contains("the token may not"));
        assert!(
            message(&pass).contains("write:repository") || message(&pass).contains("write:issue"),
            "{}",
            told(&pass)
        );
        std::fs::write(token_file, "0123456789012345678901234567890123456789")?;
        let pass = fleet.run_until(&controller, |pass| message(pass).contains("does not accept the token"));
        assert!(message(&pass).contains("make another token"), "{}", told(&pass));
        assert_eq!(scene.pulls("all").await?.len(), 0);
        std::fs::write(token_file, good)?;
        finish(&scene, true).await?;
        Ok(())
    });
}

#[test]
fn a_protected_branch_takes_what_its_rules_take() {
    isolated("forge::faults::a_protected_branch_takes_what_its_rules_take", Gitea::NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        let fleet = &scene.fleet;
        let controller = fleet.controller();
        scene.gitea.permit("stepgate", Permission::Admin).await?;
        // Only by pull requests, with the status of Stepgate and one approval; Stepgate itself writes the last commit of a rollout.
        let rule = json!({
            "rule_name": "deploy", "enable_push": true, "enable_push_whitelist": true, "push_whitelist_usernames": ["stepgate"],
            "enable_status_check": true, "status_check_contexts": ["stepgate/*"], "required_approvals": 1,
        });
        scene.gitea.administrate(Method::POST, "repos/platform/fleet/branch_protections", rule).await?;
        scene.edit("class-a");
        let pull = scene.the_pull(&controller).await?;
        let refused = scene.gitea.merge("alice", number(&pull), "merge").await.unwrap_err().to_string();
        assert!(refused.contains("approvals"), "{refused}");
        scene.say("bob", number(&pull), "/stepgate hold").await?;
        fleet.run_until(&controller, |pass| message(pass).contains("(held by bob)"));
        let review = json!({"event": "APPROVED", "commit_id": text(&pull["head"], "sha")});
        scene.act("bob", Method::POST, &format!("pulls/{}/reviews", number(&pull)), review).await?;
        // Approved, and held by a comment: the status that the branch requires is not there.
        let refused = scene.gitea.merge("alice", number(&pull), "merge").await.unwrap_err().to_string();
        assert!(refused.contains("status checks"), "{refused}");
        scene.say("bob", number(&pull), "/stepgate resume").await?;
        scene.the_pull(&controller).await?;
        scene.gitea.merge("alice", number(&pull), "squash").await?;
        fleet.run_to_the_end(&controller);
        let ledger = fleet.deployed("clusters/mgmt/rollout.yaml").unwrap();
        assert!(ledger.contains("by: alice (http") && ledger.contains("approved by bob"), "{ledger}");
        // Against Stepgate as well: it says so and loses nothing.
        let rule = json!({"enable_push": false});
        scene.gitea.administrate(Method::PATCH, "repos/platform/fleet/branch_protections/deploy", rule).await?;
        scene.edit("class-b");
        let pull = scene.the_pull(&controller).await?;
        scene.say("alice", number(&pull), "/stepgate approve").await?;
        fleet.run_until(&controller, |_| {
            futures::executor::block_on(scene.said(number(&pull))).unwrap().concat().contains("could not be merged")
        });
        assert_eq!(scene.pulls("open").await?.len(), 1);
        Ok(())
    });
}
