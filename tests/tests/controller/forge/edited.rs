//! What people change on a proposed branch of a real forge.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;
use tests::servers::gitea::Permission;
use tests::servers::{Gitea, isolated};

use super::{Scene, head, message, number, text};
use crate::fleet::{assert_no_stage_twice, told};

const FILE: &str = "clusters/mgmt/cert-manager/cert-manager.yaml";

/// Olga wrote what is rolled out.
const RULES: &str = "approvers: {minimum: 2}\nacceptEdits: true\n\
                     people: {alice: [alice@example.com], bob: [bob@example.com], carol: [carol@example.com], olga: [person@example.com]}\n";

/// Somebody edits a file of a branch, as the web page does.
async fn edit(scene: &Scene, user: &str, branch: &str, from: &str, to: &str) -> anyhow::Result<()> {
    let found = scene.gitea.read(&format!("contents/{FILE}?ref={branch}")).await?;
    let content: String = text(&found, "content").split_whitespace().collect();
    let old = String::from_utf8(STANDARD.decode(content)?)?;
    assert!(old.contains(from), "{old}");
    let person = json!({"name": user, "email": format!("{user}@example.com")});
    let body = json!({
        "branch": branch, "sha": text(&found, "sha"), "content": STANDARD.encode(old.replace(from, to)),
        "message": "Another class", "author": person, "committer": person,
    });
    scene.act(user, Method::PUT, &format!("contents/{FILE}"), body).await.map(drop)
}

async fn review(scene: &Scene, user: &str, pull: &serde_json::Value) -> anyhow::Result<()> {
    let review = json!({"event": "APPROVED", "commit_id": head(pull)});
    scene.act(user, Method::POST, &format!("pulls/{}/reviews", number(pull)), review).await.map(drop)
}

#[test]
fn an_accepted_edit_is_shown_and_asked_for_anew_and_lands() {
    isolated(
        "forge::edited::an_accepted_edit_is_shown_and_asked_for_anew_and_lands",
        Gitea::NEEDED,
        async |programs| {
            let scene = Scene::administered(&programs, RULES).await?;
            scene.gitea.user("carol", Permission::Write).await?;
            let fleet = &scene.fleet;
            let controller = fleet.controller();
            scene.edit("class-a");
            let pull = scene.the_pull(&controller).await?;
            review(&scene, "bob", &pull).await?;
            fleet.run_until(&controller, |pass| message(pass).contains("; 1 of 2 approvals"));
            let branch = text(&pull["head"], "ref").to_owned();
            edit(&scene, "alice", &branch, "class-a", "class-of-alice").await?;
            let pass = fleet.run_until(&controller, |pass| message(pass).contains("; 0 of 2 approvals"));
            let again = scene.the_pull(&controller).await?;
            assert_eq!(number(&again), number(&pull), "{}", told(&pass));
            let body = text(&again, "body");
            for wanted in [
                "## Changed by people\n\n- alice changed `clusters/mgmt/cert-manager/cert-manager.yaml`: changed Deployment",
                "what people changed of mgmt is proposed now; what was said before is void",
            ] {
                assert!(body.replace("\r\n", "\n").contains(wanted), "{wanted} is missing in\n{body}");
            }
            assert_eq!(
                scene.statuses(head(&again)).await?,
                [("stepgate/cert-manager".to_owned(), "pending".to_owned())]
            );
            // Alice wrote it, so two others approve it; a review of what was there before counts for nothing.
            for user in ["alice", "bob"] {
                review(&scene, user, &again).await?;
            }
            let pass = fleet.run_until(&controller, |pass| message(pass).contains("; 1 of 2 approvals"));
            assert!(message(&pass).contains("alice wrote what is rolled out"), "{}", told(&pass));
            review(&scene, "carol", &again).await?;
            fleet.run_until(&controller, |pass| !message(pass).contains("of 2 approvals"));
            scene.gitea.merge("carol", number(&again), "squash").await?;
            fleet.run_to_the_end(&controller);
            assert!(fleet.deployed(FILE).unwrap().contains("class-of-alice"));
            assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
            let ledger = fleet.deployed("clusters/mgmt/rollout.yaml").unwrap();
            assert!(ledger.contains("edits:") && ledger.contains("alice <alice@example.com>"), "{ledger}");
            assert_no_stage_twice(fleet);
            Ok(())
        },
    );
}

#[test]
fn an_edit_that_the_source_branch_overtakes_is_told_in_the_pull_request() {
    isolated(
        "forge::edited::an_edit_that_the_source_branch_overtakes_is_told_in_the_pull_request",
        Gitea::NEEDED,
        async |programs| {
            let scene = Scene::administered(&programs, RULES).await?;
            let fleet = &scene.fleet;
            let controller = fleet.controller();
            scene.edit("class-a");
            let pull = scene.the_pull(&controller).await?;
            let branch = text(&pull["head"], "ref").to_owned();
            edit(&scene, "alice", &branch, "class-a", "class-of-alice").await?;
            // The branch moves before anybody has looked, and once more after what was lost is told.
            let mut body = String::new();
            for class in ["class-b", "class-c"] {
                scene.edit(class);
                fleet.pass(&controller);
                let again = scene.the_pull(&controller).await?;
                assert_eq!(number(&again), number(&pull));
                body = text(&again, "body").replace("\r\n", "\n");
                let lost = "alice changed `clusters/mgmt/cert-manager/cert-manager.yaml`, and that is not part of this: the source branch renders another \
                            file by now";
                for wanted in [format!("## Not part of this any more\n\n- {lost}"), format!(": mgmt: {lost}")] {
                    assert!(body.contains(&wanted), "{wanted} is missing in\n{body}");
                }
                assert_eq!(body.matches(": mgmt: alice changed").count(), 1, "{body}");
            }
            fleet.pass(&fleet.controller());
            let again = scene.the_pull(&controller).await?;
            assert_eq!(text(&again, "body").replace("\r\n", "\n"), body, "it is told once");
            Ok(())
        },
    );
}

#[test]
fn an_edit_that_is_not_accepted_is_shown_and_holds() {
    isolated("forge::edited::an_edit_that_is_not_accepted_is_shown_and_holds", Gitea::NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        scene.gitea.permit("stepgate", Permission::Admin).await?;
        let fleet = &scene.fleet;
        let controller = fleet.controller();
        scene.edit("class-a");
        let pull = scene.the_pull(&controller).await?;
        let branch = text(&pull["head"], "ref").to_owned();
        edit(&scene, "alice", &branch, "class-a", "class-of-alice").await?;
        scene.say("bob", number(&pull), "/stepgate approve").await?;
        let before = fleet.head();
        fleet.run_until(&controller, |pass| message(pass).contains("accepts no edits"));
        fleet.pass(&controller);
        let pull = scene.the_pull(&controller).await?;
        let body = text(&pull, "body").replace("\r\n", "\n");
        for wanted in [
            "**People have changed this branch.**",
            "- alice changed `clusters/mgmt/cert-manager/cert-manager.yaml`: changed Deployment",
            "Take it back on the branch (`git revert`)",
        ] {
            assert!(body.contains(wanted), "{wanted} is missing in\n{body}");
        }
        assert_eq!(scene.statuses(head(&pull)).await?, [("stepgate/cert-manager".to_owned(), "failure".to_owned())]);
        assert_eq!(fleet.head(), before);
        edit(&scene, "alice", &branch, "class-of-alice", "class-a").await?;
        fleet.run_to_the_end(&controller);
        assert!(!fleet.deployed(FILE).unwrap().contains("class-of-alice"));
        Ok(())
    });
}
