//! Steps that are killed, and machines that lose their power, at random moments of a whole upgrade.
//!
//! `STEPGATE_NODE_KILLS` and `STEPGATE_NODE_POWER_CUTS` say how often, `STEPGATE_SEED` begins the moments.

use std::collections::BTreeMap;
use std::pin::pin;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use fastrand::Rng;
use stepgate_node::files::digest::Digest;
use stepgate_node::step::Step;
use tests::node::{ByHand, Cluster, Machine, NEW, UpgraderImage, are_there, images, needed, said};
use tests::servers::isolated;
use tokio::process::Command;
use tokio::time::timeout;

use crate::by_pod::{STEPGATE, assert_control_plane_is_new, assert_is_upgraded, journal};

/// What ends a call before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The program, with kubeadm or without it.
    Kill {
        kubeadm_too: bool,
    },
    PowerCut,
}

/// Which fault comes in which step, and when.
struct Faults {
    random: Rng,
    pending: BTreeMap<Step, Vec<Fault>>,
    happened: Vec<(Step, Fault)>,
}

/// Seconds that a step takes about: the moments are spread over them.
fn typical(step: Step) -> f64 {
    match step {
        Step::Copy => 4.0,
        Step::Containerd | Step::Kubelet => 8.0,
        Step::CniPlugins | Step::Uncordon => 0.5,
        Step::Drain => 2.0,
        Step::Kubeadm => 15.0,
        Step::Verify => 6.0,
    }
}

impl Faults {
    fn new(kills: u32, power_cuts: u32, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let mut pending: BTreeMap<Step, Vec<Fault>> = BTreeMap::new();
        let whole: f64 = Step::ALL.into_iter().map(typical).sum();
        for number in 0..kills + power_cuts {
            let mut place = random.f64() * whole;
            let is_here = |step: &Step| {
                place -= typical(*step);
                place < 0.0
            };
            let step = Step::ALL.into_iter().find(is_here).unwrap_or(Step::Kubeadm);
            let kill = Fault::Kill { kubeadm_too: random.u8(0..3) == 0 };
            pending.entry(step).or_default().push(if number < power_cuts { Fault::PowerCut } else { kill });
        }
        pending.values_mut().for_each(|faults| random.shuffle(faults));
        Self { random, pending, happened: Vec::new() }
    }

    fn next(&mut self, step: Step) -> Option<(Duration, Fault)> {
        let fault = self.pending.get_mut(&step)?.pop()?;
        Some((Duration::from_secs_f64(0.02 + self.random.f64() * typical(step)), fault))
    }
}

/// One call, ended from outside if a fault is due before it ends by itself.
async fn called(machine: &Machine, by_hand: &ByHand<'_>, step: Step, faults: &mut Faults) -> anyhow::Result<Output> {
    let child = Command::from(by_hand.call(step.as_str())?).spawn()?;
    let mut ended = pin!(child.wait_with_output());
    let Some((after, fault)) = faults.next(step) else { return Ok(ended.await?) };
    if let Ok(output) = timeout(after, &mut ended).await {
        return Ok(output?);
    }
    faults.happened.push((step, fault));
    match fault {
        Fault::Kill { kubeadm_too } => {
            machine.kill("stepgate-node")?;
            if kubeadm_too {
                machine.kill("kubeadm")?;
            }
            Ok(ended.await?)
        }
        Fault::PowerCut => {
            machine.power_cut().await?;
            let output = ended.await?;
            assert_files_are_whole(machine)?;
            machine.boot().await?;
            Ok(output)
        }
    }
}

/// Each file is the one before the upgrade or that of the release.
fn assert_files_are_whole(machine: &Machine) -> anyhow::Result<()> {
    let Some(journal) = journal(machine) else { return Ok(()) };
    for file in &journal.files {
        let digest = std::fs::read(machine.place(file.path.as_str())).ok().map(|content| Digest::of(&content));
        let before = file.before.map(|found| found.sha256);
        ensure!(digest == before || digest == Some(file.after.sha256), "{} is neither old nor new", file.path);
    }
    Ok(())
}

/// Every step until it succeeds, whatever comes between.
async fn upgrade(machine: &Machine, by_hand: &ByHand<'_>, faults: &mut Faults) -> anyhow::Result<()> {
    for step in Step::ALL {
        loop {
            let before = faults.happened.len();
            let output = called(machine, by_hand, step, faults).await?;
            if output.status.success() {
                break;
            }
            // A kill may also hit a call that has failed already; its attempts are counted on the node.
            let is_ended_by_us = faults.happened.len() > before;
            if !is_ended_by_us && output.status.code() != Some(1) {
                bail!("{step} does not go on after {:?}: {}", faults.happened, said(&output));
            }
        }
    }
    let journal = journal(machine).context("there is a journal")?;
    let interruptions: u32 = journal.steps.values().map(|record| record.interruptions).sum();
    println!("{}: {:?}, of these noticed {interruptions}", machine.name(), faults.happened);
    ensure!(interruptions > 0, "no fault came while a step was at work: {:?}", faults.happened);
    Ok(())
}

fn number(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn faults(share: u32) -> Faults {
    let seed = std::env::var("STEPGATE_SEED").map_or_else(|_| fastrand::u64(..), |text| text.parse().unwrap());
    println!("STEPGATE_SEED={seed}");
    let (kills, power_cuts) = (number("STEPGATE_NODE_KILLS", 50), number("STEPGATE_NODE_POWER_CUTS", 10));
    Faults::new(kills * share / 100, power_cuts * share / 100, seed)
}

#[test]
fn single_node_goes_on_after_kills_and_power_cuts() {
    if !are_there() {
        return;
    }
    let name = "disturbed::single_node_goes_on_after_kills_and_power_cuts";
    isolated(name, &needed(), async |programs| {
        let image = UpgraderImage::make(&programs, STEPGATE.as_ref(), "whole", |_, content| content)?;
        let cluster = Cluster::start(&programs, "single").await?;
        // All Pods are on the one node then, and its API server is the only one.
        cluster.kubectl(&["delete", "node", "w1"]).await?;
        cluster.worker.power_off().await?;
        cluster.wait_for_workload(2).await?;
        let kept = cluster.get(&["configmap", "kept"]).await.unwrap();
        let by_hand = ByHand::install(&cluster, &image, &cluster.control_plane)?;
        // What kubeadm would start and nobody can bring is named while all is as before.
        let missing = format!("registry.test/kube-scheduler:{}", NEW.release);
        cluster.control_plane.run("ctr", &["--namespace", "k8s.io", "images", "remove", "--sync", &missing]).await?;
        let why = by_hand.fail("copy", 1).await?;
        ensure!(why.contains(&missing) && why.contains("was not pulled"), "{why}");
        for archive in images(&programs, NEW, true)? {
            cluster.import_archive(&cluster.control_plane, &archive).await?;
        }
        upgrade(&cluster.control_plane, &by_hand, &mut faults(60)).await?;
        assert_is_upgraded(&cluster, &cluster.control_plane).await?;
        assert_control_plane_is_new(&cluster).await?;
        cluster.wait_for_workload(2).await?;
        assert_eq!(cluster.get(&["configmap", "kept"]).await.unwrap()["metadata"]["uid"], kept["metadata"]["uid"]);
        cluster.done()
    });
}

#[test]
fn worker_goes_on_after_kills_and_power_cuts() {
    if !are_there() {
        return;
    }
    let name = "disturbed::worker_goes_on_after_kills_and_power_cuts";
    isolated(name, &needed(), async |programs| {
        let image = UpgraderImage::make(&programs, STEPGATE.as_ref(), "whole", |_, content| content)?;
        let cluster = Cluster::start_with_new_control_plane(&programs, &image, "disturbed").await?;
        let by_hand = ByHand::install(&cluster, &image, &cluster.worker)?;
        upgrade(&cluster.worker, &by_hand, &mut faults(40)).await?;
        assert_is_upgraded(&cluster, &cluster.worker).await?;
        cluster.wait_for_workload(2).await?;
        cluster.done()
    });
}
