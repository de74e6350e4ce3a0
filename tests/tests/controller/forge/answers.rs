//! What people say other than by merging.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::json;
use stepgate::reconcile::ClusterOutcome;
use stepgate::watch::{Watch, WatchSettings, WebhookSecret, WebhookSettings, webhook};
use tests::servers::gitea::Permission;
use tests::servers::{Gitea, isolated};

use super::{Scene, head, message, number, text, waits_for_people};
use crate::fleet::{assert_no_stage_twice, is_done, outcome, told};

#[test]
fn closing_rejects_and_opening_again_asks_again() {
    isolated("forge::answers::closing_rejects_and_opening_again_asks_again", Gitea::NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        let fleet = &scene.fleet;
        let controller = fleet.controller();
        scene.edit("class-a");
        let pull = scene.the_pull(&controller).await?;
        let path = format!("pulls/{}", number(&pull));
        scene.act("bob", Method::PATCH, &path, json!({"state": "closed"})).await?;
        let before = fleet.head();
        // A process that knows of nothing sees it too.
        for controller in [&controller, &fleet.controller()] {
            let pass = fleet.run_until(controller, |pass| matches!(outcome(pass, "mgmt"), ClusterOutcome::Held { .. }));
            assert!(message(&pass).contains("rejected by bob: http"), "{}", told(&pass));
            fleet.pass(controller);
        }
        let said = scene.said(number(&pull)).await?;
        assert!(said.len() == 1 && said[0].contains("say here why"), "{said:?}");
        assert_eq!((fleet.head(), scene.pulls("open").await?.len()), (before, 0));
        scene.act("bob", Method::PATCH, &path, json!({"state": "open"})).await?;
        let again = scene.the_pull(&controller).await?;
        assert_eq!(number(&again), number(&pull));
        scene.gitea.merge("alice", number(&pull), "merge").await?;
        fleet.run_to_the_end(&controller);
        assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
        Ok(())
    });
}

#[test]
fn another_plan_is_asked_in_place_of_the_one_before() {
    isolated("forge::answers::another_plan_is_asked_in_place_of_the_one_before", Gitea::NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        let fleet = &scene.fleet;
        let controller = fleet.controller();
        scene.edit("class-a");
        let old = scene.the_pull(&controller).await?;
        scene.edit("class-b");
        let stale = head(&old).to_owned();
        fleet.run_until(&controller, |pass| {
            waits_for_people(pass)
                && futures::executor::block_on(scene.pulls("open")).unwrap().iter().all(|pull| head(pull) != stale)
        });
        let new = scene.the_pull(&controller).await?;
        assert_eq!(number(&old), number(&new), "there is one pull request for the stage");
        let body = text(&new, "body");
        assert!(
            body.contains("mgmt has another plan") && body.contains("what was said of the one before is void"),
            "{body}"
        );
        assert_eq!(scene.statuses(head(&new)).await?, [("stepgate/cert-manager".to_owned(), "success".to_owned())]);
        scene.gitea.merge("alice", number(&new), "squash").await?;
        fleet.run_to_the_end(&controller);
        assert!(fleet.deployed("clusters/mgmt/cert-manager/cert-manager.yaml").unwrap().contains("class-b"));
        // The first plan again, that nobody has rejected: another pull request of the same branch.
        scene.edit("class-a");
        let third = scene.the_pull(&controller).await?;
        assert!(number(&third) > number(&new));
        // What nobody asks for any more is closed.
        scene.edit("class-b");
        fleet.run_until(&controller, is_done);
        let closed = scene.gitea.read(&format!("pulls/{}", number(&third))).await?;
        assert_eq!(text(&closed, "state"), "closed");
        assert!(text(&closed, "body").starts_with("**Withdrawn by Stepgate.**"), "{}", text(&closed, "body"));
        assert!(scene.statuses(head(&third)).await?.iter().all(|(_, state)| state == "failure"));
        Ok(())
    });
}

#[test]
fn comments_command_where_their_author_may_write() {
    isolated("forge::answers::comments_command_where_their_author_may_write", Gitea::NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        let fleet = &scene.fleet;
        let controller = fleet.controller();
        scene.edit("class-a");
        let pull = scene.the_pull(&controller).await?;
        let (number, head, before) = (number(&pull), head(&pull).to_owned(), fleet.head());
        scene.say("olga", number, "/stepgate approve").await?;
        scene.say("bob", number, "Not today.\n\n/stepgate hold").await?;
        scene.say("alice", number, "/stepgate approve").await?;
        // On Gitea only who administers the repository may look up what others may do.
        fleet.pass(&controller);
        assert!(scene.said(number).await?.concat().contains("its user has to administer"), "nobody is authorised");
        assert_eq!(fleet.head(), before);
        scene.gitea.permit("stepgate", Permission::Admin).await?;
        let pass = fleet.run_until(&controller, |pass| message(pass).contains("(held by bob)"));
        assert_eq!(fleet.head(), before, "{}", told(&pass));
        fleet.pass(&controller);
        fleet.pass(&fleet.controller());
        let said = scene.said(number).await?;
        assert!(said.len() == 1 && said[0].contains("olga: `/stepgate approve` is refused"), "{said:?}");
        assert_eq!(scene.statuses(&head).await?, [("stepgate/cert-manager".to_owned(), "pending".to_owned())]);
        scene.say("bob", number, "/stepgate resume").await?;
        let pass = fleet.run_until(&controller, is_done);
        assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"], "{}", told(&pass));
        let ledger = fleet.deployed("clusters/mgmt/rollout.yaml").unwrap();
        assert!(ledger.contains("by: alice <alice@127.0.0.1>"), "{ledger}");
        let said = scene.said(number).await?;
        assert!(said.len() == 1 && said[0].contains("alice approved it"), "{said:?}");
        assert_eq!(scene.pulls("open").await?.len(), 0);
        assert_no_stage_twice(fleet);
        Ok(())
    });
}

#[test]
fn what_a_comment_approves_is_merged_when_a_window_is_open() {
    isolated(
        "forge::answers::what_a_comment_approves_is_merged_when_a_window_is_open",
        Gitea::NEEDED,
        async |programs| {
            let now = Timestamp::now().to_zoned(TimeZone::UTC);
            let clock =
                |hours: i64| now.saturating_add(SignedDuration::from_hours(hours)).strftime("%H:%M").to_string();
            let windows = format!("windows: [{{from: '{}', to: '{}'}}]\n", clock(3), clock(6));
            let scene = Scene::with_policy(&programs, &windows).await?;
            let fleet = &scene.fleet;
            scene.gitea.permit("stepgate", Permission::Admin).await?;
            let controller = fleet.controller();
            scene.edit("class-a");
            let pull = scene.the_pull(&controller).await?;
            assert_eq!(
                scene.statuses(head(&pull)).await?,
                [("stepgate/cert-manager".to_owned(), "pending".to_owned())]
            );
            scene.say("alice", number(&pull), "/stepgate approve").await?;
            let before = fleet.head();
            fleet.pass(&controller);
            assert!(scene.said(number(&pull)).await?.concat().contains("merged in its time"), "nothing was answered");
            assert_eq!(fleet.head(), before);
            fleet.clock.advance(SignedDuration::from_hours(4));
            fleet.run_to_the_end(&controller);
            assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
            Ok(())
        },
    );
}

#[test]
fn what_the_forge_signs_wakes_the_watch() {
    isolated("forge::answers::what_the_forge_signs_wakes_the_watch", Gitea::NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        let fleet = &scene.fleet;
        scene.edit("class-a");
        let pull = scene.the_pull(&fleet.controller()).await?;
        let settings = WatchSettings {
            interval: Duration::from_secs(3600),
            ..WatchSettings::new(["main".parse()?, fleet.layout.branch.clone()])
        };
        let watch = Watch::start(fleet.repository.clone(), settings);
        let told = watch.told();
        let router = webhook(&WebhookSettings::new(WebhookSecret::new("only-for-tests-2")?), watch.nudge())?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        let hook = |secret: &str| {
            json!({
                "type": "gitea", "active": true, "events": ["push", "pull_request", "issue_comment", "pull_request_review"],
                "config": {"url": url, "content_type": "json", "secret": secret},
            })
        };
        scene.gitea.administrate(Method::POST, "repos/platform/fleet/hooks", hook("only-for-tests-2")).await?;
        scene.say("alice", number(&pull), "Nothing moves by this.").await?;
        tests::waiting::end_of("it is told", told.notified()).await?;
        serving.abort();
        Ok(())
    });
}
