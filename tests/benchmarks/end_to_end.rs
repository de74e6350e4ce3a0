//! P7: from a push on the source branch to the stage's commit on the deploy branch, in a fleet of 1,000 clusters.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, bail};
use stepgate::reconcile::{ClusterOutcome, Controller, ReconcileReport};

use crate::fleet::{Fleet, is_done, name};
use crate::measure::{Sample, whole_process};
use crate::memory::{Resident, forget_peak, memory};
use crate::report::{Report, median};
use crate::{Environment, corpus};

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let folder = environment.scratch.path().join("end-to-end");
    fs::create_dir_all(&folder)?;
    let fleet = Fleet::new(&folder, corpus::CLUSTERS)?;
    let mut report = Report {
        work: format!("a push in a fleet of {} clusters: detect, plan, render, commit, push", corpus::CLUSTERS),
        ..Report::default()
    };
    // The scene takes memory as well, above all the simulated clusters: what comes on top of it is the controller's.
    let scene = memory(Resident::Now)?;
    forget_peak()?;
    let mut stages = Vec::new();
    let controller = fleet.controller()?;
    let mut reached = |stage: &str| -> anyhow::Result<u64> {
        let [views, readings] = controller.remembered_bytes();
        let (now, peak) = (memory(Resident::Now)?, memory(Resident::Peak)?);
        forget_peak()?;
        let [now, peak] = [now, peak].map(|taken| taken.saturating_sub(scene));
        let counted = format!("views count {} and readings {}", views >> 20, readings >> 20);
        stages.push(format!("{stage} {} (peak {}, {counted})", now >> 10, peak >> 10));
        Ok(peak)
    };
    let (cold, first) = whole_process(|| Fleet::pass(&controller))?;
    report.compare(format!("{} clusters are done", first.clusters.len()), is_done(&first));
    let (settled, _) = whole_process(|| Fleet::pass(&controller))?;
    let mut peak = reached("first pass")?;

    // One cluster's machines, a stage of one commit: what is waited for in between is virtual.
    let (mut changed, mut committed) = (Vec::new(), Vec::new());
    for round in 0..environment.rounds {
        let number = 1 + round * 7;
        fleet.change_one(number, 5)?;
        let (sample, pass) = whole_process(|| Fleet::pass(&controller))?;
        if round == 0 {
            peak = peak.max(reached("one cluster changed")?);
            report.compare(
                compared("one cluster changed"),
                fleet.plans_are_remembered_rightly(&controller, corpus::CLUSTERS)?,
            );
        }
        changed.push(sample);
        committed.push(until_committed(&fleet, &controller, &pass, &name(number))?);
        fleet.settle(&controller)?;
    }
    let both: Vec<Sample> = changed
        .iter()
        .zip(&committed)
        .map(|(one, two)| Sample { cpu: one.cpu + two.cpu, wall: one.wall + two.wall })
        .collect();

    // What the comparison has taken is none of the controller's.
    reached("rounds and comparison")?;
    fleet.bump()?;
    let (all, pass) = whole_process(|| Fleet::pass(&controller))?;
    // Before a second planner reads everything to be compared with.
    peak = peak.max(reached("every cluster changed")?);
    report
        .compare(compared("every cluster changed"), fleet.plans_are_remembered_rightly(&controller, corpus::CLUSTERS)?);
    let push = until_committed(&fleet, &controller, &pass, "mgmt")?;
    // Time stands still, so that each pass decides about clusters of which there is nothing new.
    let waiting = (0..environment.rounds).map(|_| Ok(whole_process(|| Fleet::pass(&controller))?.0));
    let waiting = waiting.collect::<anyhow::Result<Vec<Sample>>>()?;
    reached("first stage committed, comparison included")?;
    let total = Sample { cpu: all.cpu + push.cpu, wall: all.wall + push.wall };

    let wall = |samples: &[Sample]| median(samples, |sample| sample.wall);
    report.at_most(
        "one cluster changed, until its stage is pushed, on the clock",
        wall(&both),
        Duration::from_millis(15),
    );
    report.at_most(
        "every cluster changed, until the first stage is pushed, on the clock",
        total.wall,
        Duration::from_millis(700),
    );
    report.row("one cluster changed: detect, plan, render", changed);
    report.row("one cluster changed: decide, commit, push", committed);
    report.row("every cluster changed: detect, plan, render all", vec![all]);
    report.row("every cluster changed: decide for all, commit and push one", vec![push]);
    report.row("pass in which every cluster waits", waiting);
    report.row("first pass of a new process over the settled fleet", vec![cold]);
    report.row("pass in which nothing changed", vec![settled]);
    report.notes.push(format!(
        "memory of the controller in MiB, without the scene ({}): {}",
        scene >> 10,
        stages.join(", ")
    ));
    report.goals.push((format!("peak memory of the controller {} MiB (goal < 192 MiB)", peak >> 10), peak >> 10 < 192));
    report.notes.push("no peer: nothing else goes from a bundle to a stage's commit".to_owned());
    Ok(report)
}

/// Passes until a stage of the cluster is committed; the sample is that of the pass that commits it.
fn until_committed(
    fleet: &Fleet,
    controller: &Controller,
    pass: &ReconcileReport,
    cluster: &str,
) -> anyhow::Result<Sample> {
    let mut last = pass.clone();
    for _ in 0..1_000 {
        fleet.go_on(controller, &last)?;
        let (sample, pass) = whole_process(|| Fleet::pass(controller))?;
        let own = pass.clusters.iter().find(|own| own.cluster == cluster).context("the cluster is in the pass")?;
        if !own.committed.is_empty() {
            return Ok(sample);
        }
        if let ClusterOutcome::Failed { message, .. } = &own.outcome {
            bail!("{cluster}: {message}");
        }
        last = pass.as_ref().clone();
    }
    bail!("{cluster} does not come to a commit")
}

fn compared(what: &str) -> String {
    format!("{what}: plans and tree digests with and without what is remembered")
}
