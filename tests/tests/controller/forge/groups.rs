//! One pull request for the clusters of a wave, on a real forge: merged in every way, and asked for by processes that die.

use std::collections::BTreeSet;

use fastrand::Rng;
use serde_json::Value;
use stepgate::reconcile::{ClusterOutcome, ReconcileReport};
use tests::servers::forge_proxy::Fate;
use tests::servers::{Gitea, isolated};

use super::{Scene, number, text, waits_for_people};
use crate::fleet::{assert_no_stage_twice, is_done, told};

/// Nobody is asked about the management cluster; the teams are a wave.
const WAVES: &str = "clusters: {mgmt: {approval: none}}\n\
                     waves: [{name: first, clusters: [mgmt]}, {name: teams, clusters: ['team-*'], concurrency: 2}]\n";
const TEAMS: [&str; 2] = ["team-a", "team-b"];
const OVERLAY: &str = "overlays/cilium/kustomization.yaml";
const STYLES: [&str; 4] = ["merge", "squash", "rebase", "rebase-merge"];

/// How often a process dies.
const KILLS: usize = 20;

/// Asks for another annotation: one stage of every cluster.
fn annotate(scene: &Scene, owner: usize) {
    let text = format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\ncommonAnnotations: {{team.example.com/owner: 'owner-{owner}'}}\n"
    );
    scene.fleet.edit(OVERLAY, |_| text);
}

/// The only open pull request; none where nothing is asked.
async fn the_group(scene: &Scene, pass: &ReconcileReport) -> anyhow::Result<Option<Value>> {
    let mut pulls = scene.pulls("open").await?;
    if pulls.is_empty() {
        let done = pass.clusters.iter().all(|cluster| cluster.outcome == ClusterOutcome::Done);
        assert!(done, "it waits for people who are not asked: {}", told(pass));
        return Ok(None);
    }
    assert_eq!(pulls.len(), 1, "{pulls:?}");
    let pull = pulls.remove(0);
    assert!(text(&pull["head"], "ref").starts_with("stepgate/teams/"), "{pull}");
    Ok(Some(pull))
}

/// Whether a pull request asks for both teams. One of them has a group of workers of its own.
fn asks_for_both(pull: &Value) -> bool {
    let body = text(pull, "body");
    TEAMS.iter().all(|team| body.contains(&format!("| {team} |")))
}

/// Both teams had every stage that was asked for once, by a merge of alice's.
fn assert_landed(scene: &Scene, merged: &[String]) {
    let fleet = &scene.fleet;
    assert_no_stage_twice(fleet);
    for team in TEAMS {
        let ledger = fleet.deployed(&format!("clusters/{team}/rollout.yaml")).unwrap();
        assert!(ledger.contains("state: done"), "{ledger}");
        let asked = ledger.matches("- scope:").count();
        assert_eq!((ledger.matches("by: alice (http").count(), asked > 0), (asked, true), "{merged:?} {ledger}");
    }
}

#[test]
fn a_wave_lands_by_squash_rebase_and_merge() {
    isolated("forge::groups::a_wave_lands_by_squash_rebase_and_merge", Gitea::NEEDED, async |programs| {
        let scene = Scene::with_policy(&programs, WAVES).await?;
        let fleet = &scene.fleet;
        let controller = fleet.controller();
        fleet.bump();
        let (mut merged, mut edits, mut together) = (Vec::new(), 0, 0);
        loop {
            let pass = fleet.run_until(&controller, waits_for_people);
            let Some(pull) = the_group(&scene, &pass).await? else {
                assert_landed(&scene, &merged);
                if together >= STYLES.len() {
                    break;
                }
                edits += 1;
                annotate(&scene, edits);
                continue;
            };
            let style = if asks_for_both(&pull) { STYLES[together % STYLES.len()] } else { "merge" };
            together += usize::from(asks_for_both(&pull));
            scene.gitea.merge("alice", number(&pull), style).await?;
            merged.push(format!("{} by {style}", text(&pull["head"], "ref")));
        }
        println!("{together} times both together; merged {merged:?}");
        assert_eq!(scene.pulls("closed").await?.len(), merged.len());
        Ok(())
    });
}

#[test]
fn processes_that_die_at_random_moments_ask_and_commit_once() {
    isolated(
        "forge::groups::processes_that_die_at_random_moments_ask_and_commit_once",
        Gitea::NEEDED,
        async |programs| {
            let seed = std::env::var("STEPGATE_SEED").map_or_else(|_| fastrand::u64(..), |text| text.parse().unwrap());
            println!("STEPGATE_SEED={seed}");
            let mut random = Rng::with_seed(seed);
            let scene = Scene::with_policy(&programs, WAVES).await?;
            let fleet = &scene.fleet;
            fleet.bump();
            let (mut kills, mut edits, mut together, mut merged) = (0, 0, 0, Vec::new());
            let mut controller = fleet.controller();
            loop {
                if kills < KILLS {
                    let (at, after) = (random.usize(..6), random.bool());
                    let fate = if after { Fate::DiesAfter } else { Fate::DiesBefore };
                    scene.proxy.fates(move |number, _, _| if number == at { fate } else { Fate::Answered });
                } else {
                    scene.proxy.fates(|_, _, _| Fate::Answered);
                }
                let Some(pass) = scene.pass_or_death(&controller).await else {
                    kills += 1;
                    controller = fleet.controller();
                    continue;
                };
                if !waits_for_people(&pass) {
                    fleet.wait(Some(&pass));
                    continue;
                }
                if is_done(&pass) {
                    assert_landed(&scene, &merged);
                    if kills >= KILLS {
                        break;
                    }
                    edits += 1;
                    annotate(&scene, edits);
                    continue;
                }
                let pulls = scene.pulls("open").await?;
                let branches: BTreeSet<&str> = pulls.iter().map(|pull| text(&pull["head"], "ref")).collect();
                assert!(pulls.len() <= 1 && branches.len() == pulls.len(), "asked twice: {branches:?}");
                let Some(pull) = pulls.first() else {
                    fleet.wait(Some(&pass));
                    continue;
                };
                // People merge what has a status that says so.
                let statuses = scene.statuses(text(&pull["head"], "sha")).await?;
                if !statuses.iter().any(|(_, state)| state == "success") {
                    fleet.wait(Some(&pass));
                    continue;
                }
                scene.gitea.merge("alice", number(pull), STYLES[random.usize(..STYLES.len())]).await?;
                merged.push(text(&pull["head"], "ref").to_owned());
                together += usize::from(asks_for_both(pull));
            }
            println!(
                "{kills} deaths, {edits} further changes, {together} times both teams together; merged {merged:?}"
            );
            assert!(together > 0);
            // Nothing was asked in vain, and nothing is left.
            let closed = scene.pulls("closed").await?;
            let in_vain = closed.iter().filter(|pull| pull["merged"].as_bool() != Some(true)).count();
            assert_eq!((closed.len(), in_vain), (merged.len(), 0), "{merged:?}");
            assert_eq!(scene.pulls("open").await?.len(), 0);
            Ok(())
        },
    );
}
