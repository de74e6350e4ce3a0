//! From the bump to the last merge.

use std::collections::BTreeSet;

use stepgate::reconcile::ClusterOutcome;
use tests::servers::{Gitea, isolated};

use super::{Scene, head, number, text, waits_for_people};
use crate::fleet::{assert_no_stage_twice, is_done, told};

/// Nobody is asked about the clusters of teams.
const TEAMS: &str = "clusters: {team-a: {approval: none}, team-b: {approval: none}}\n";

#[test]
fn every_stage_is_a_pull_request_that_another_person_merges() {
    isolated(
        "forge::flow::every_stage_is_a_pull_request_that_another_person_merges",
        Gitea::NEEDED,
        async |programs| {
            let scene = Scene::with_policy(&programs, TEAMS).await?;
            let fleet = &scene.fleet;
            let controller = fleet.controller();
            fleet.bump();
            let mut merged = Vec::new();
            loop {
                let pass = fleet.run_until(&controller, waits_for_people);
                if is_done(&pass) {
                    break;
                }
                let pulls = scene.pulls("open").await?;
                let done = pass.clusters.iter().all(|cluster| cluster.outcome == ClusterOutcome::Done);
                assert!(done || !pulls.is_empty(), "it waits for people who are not asked: {}", told(&pass));
                for pull in pulls {
                    let branch = text(&pull["head"], "ref").to_owned();
                    assert_eq!((text(&pull["user"], "login"), text(&pull["base"], "ref")), ("stepgate", "deploy"));
                    let status = format!("stepgate/{}", branch.splitn(3, '/').nth(2).unwrap());
                    assert_eq!(scene.statuses(head(&pull)).await?, [(status, "success".to_owned())]);
                    let body = text(&pull, "body");
                    assert!(body.contains("| stage | component |") && body.contains("plan sha256:"), "{body}");
                    let style = ["merge", "squash", "rebase", "rebase-merge"][merged.len() % 4];
                    scene.gitea.merge("alice", number(&pull), style).await?;
                    merged.push(branch);
                }
            }
            assert_eq!(merged.iter().collect::<BTreeSet<_>>().len(), merged.len(), "asked twice: {merged:?}");
            assert!(merged.len() >= 4, "{merged:?}");
            assert_no_stage_twice(fleet);
            let ledger = fleet.deployed("clusters/mgmt/rollout.yaml").unwrap();
            let stages = fleet.stages("mgmt").len() - 1;
            assert_eq!(ledger.matches("by: alice (http").count(), stages, "{ledger}");
            assert_eq!(scene.pulls("open").await?.len(), 0);
            Ok(())
        },
    );
}
