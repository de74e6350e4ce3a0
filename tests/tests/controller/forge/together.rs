//! Several clusters in one pull request.

use stepgate::reconcile::ReconcileReport;
use tests::servers::{Gitea, isolated};

use super::{Scene, head, number, text};
use crate::fleet::{assert_no_stage_twice, outcome, told};

const TEAMS: &str = "clusters: {mgmt: {approval: none}}\n";

fn asks(pass: &ReconcileReport, cluster: &str) -> bool {
    outcome(pass, cluster).message().contains("waits for approval: http")
}

#[test]
fn two_clusters_are_one_pull_request_that_changes_in_its_place() {
    isolated(
        "forge::together::two_clusters_are_one_pull_request_that_changes_in_its_place",
        Gitea::NEEDED,
        async |programs| {
            let scene = Scene::administered(&programs, TEAMS).await?;
            let fleet = &scene.fleet;
            let controller = fleet.controller();
            fleet.bump();
            let pass = fleet.run_until(&controller, |pass| asks(pass, "team-a") && asks(pass, "team-b"));
            let pulls = scene.pulls("open").await?;
            assert_eq!(pulls.len(), 1, "{}", told(&pass));
            let pull = number(&pulls[0]);
            assert_eq!(text(&pulls[0], "title"), "fleet: cilium, 2 clusters");
            let body = text(&pulls[0], "body");
            assert!(body.contains("| team-a | cilium |") && body.contains("| team-b | cilium |"), "{body}");
            assert_eq!(scene.statuses(head(&pulls[0])).await?, [("stepgate/cilium".to_owned(), "success".to_owned())]);
            // One is held by its name: the other one goes on without it, and it is told in the text.
            scene.say("bob", pull, "/stepgate hold team-b").await?;
            fleet.run_until(&controller, |pass| outcome(pass, "team-b").message().contains("held by bob"));
            fleet.pass(&controller);
            let pulls = scene.pulls("open").await?;
            assert_eq!((pulls.len(), number(&pulls[0])), (1, pull));
            let body = text(&pulls[0], "body");
            assert!(body.contains("team-b is asked for no more. Somebody holds it"), "{body}");
            scene.gitea.merge("alice", pull, "rebase").await?;
            fleet.run_until(&controller, |pass| outcome(pass, "team-a").message().contains("stage control-plane of"));
            assert_eq!(fleet.stages("team-a"), ["cilium"]);
            assert_eq!(fleet.stages("team-b"), [""; 0]);
            assert_no_stage_twice(fleet);
            Ok(())
        },
    );
}
