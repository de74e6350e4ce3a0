//! Replicas whose clocks differ by minutes: they take turns as if these agreed, and each goes on from the others' commits at once.

use std::cell::Cell;

use anyhow::ensure;
use serde_json::json;
use tests::servers::{Clocks, Skew, isolated};

use super::replicas::Replicas;
use super::{CONFIG, FILE, GROUP, NEEDED, POLICY, STAGES, Scene};

/// By what is written in a lease, whoever is ahead would find each one expired, and whoever is behind none. One that is fast waits for less than it
/// should, by less than a leader ends early.
const CLOCKS: [Skew; 4] = [Skew::Off(600), Skew::Off(-600), Skew::Fast(1.15), Skew::Right];
const AHEAD: usize = 0;
const BEHIND: usize = 1;
const FAST: usize = 2;
const RIGHT: usize = 3;

#[test]
fn replicas_whose_clocks_differ_take_turns_and_commit_each_stage_once() {
    if !Clocks::are_there() {
        return skip::missing("there is no libfaketime (Debian: faketime)");
    }
    let name = "eksctl::skewed::replicas_whose_clocks_differ_take_turns_and_commit_each_stage_once";
    isolated(name, NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        scene.repository.push("Describe the shop", &[("stepgate.yaml", POLICY), (FILE, CONFIG)])?;
        let said = scene.said(&["adopt", "--yes"])?;
        ensure!(said.contains("shop: recorded what the source branch says"), "{said}");
        let replicas = Replicas::start(&scene, &CLOCKS)?;
        let turns = Cell::new(0);
        let lead = async |number: usize| {
            turns.set(turns.get() + u64::from(replicas.leader(None).await? != number));
            replicas.let_lead(number).await
        };

        // By this clock the record that it begins from is made ten minutes from now.
        lead(BEHIND).await?;
        let next = CONFIG.replace("\"1.31\"", "\"1.32\"").replace("v1.11.3-eksbuild.1", "v1.11.4-eksbuild.2");
        scene.repository.push("Kubernetes 1.32", &[(FILE, &next)])?;
        scene.stages_are(2).await?;
        lead(RIGHT).await?;
        scene.endpoint.raise("v1.32.2-eks-2");
        scene.stages_are(3).await?;
        lead(FAST).await?;
        scene.coredns("v1.11.4-eksbuild.2").await?;
        scene.stages_are(4).await?;
        lead(AHEAD).await?;
        scene.node("d", json!({GROUP: "istio-1-32"}), "v1.32.1-eks-1").await?;
        scene.stages_are(5).await?;

        // Whoever follows is not kept by a commit that is dated after its clock: it has seen for itself when that came.
        assert_eq!(replicas.stop_leader().await?, AHEAD);
        turns.set(turns.get() + 1);
        scene.delete("c").await?;
        scene.stages_are(6).await?;
        // What it had in mind when it was stopped does not happen twice.
        replicas.process(AHEAD)?.resume()?;
        lead(BEHIND).await?;
        for node in ["e", "f"] {
            scene.node(node, json!({GROUP: "ng-shared-1-32"}), "v1.32.1-eks-1").await?;
        }
        scene.stages_are(7).await?;
        lead(AHEAD).await?;
        for node in ["a", "b", "fargate-1"] {
            scene.delete(node).await?;
        }
        scene.stages_are(STAGES.len()).await?;

        // Nobody takes the lease from a leader that renews it. On a busy machine one may be late.
        let (transitions, turns) = (replicas.transitions().await?, turns.get());
        println!("the lease went from one to another {transitions} times, in {turns} turns");
        ensure!((turns..=2 * turns).contains(&transitions), "{transitions} transitions in {turns} turns");
        let history = scene.repository.history()?;
        ensure!(history.len() == STAGES.len(), "{history:?}");
        drop(replicas);
        scene.folder.done();
        Ok(())
    });
}
