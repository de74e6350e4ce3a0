//! Watches an upgrade from the side: which machines there are, and what was committed by then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use kube::api::DynamicObject;
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use tests::continuous::matrix::CHAIN;
use tests::continuous::progress::{Event, Teller};
use tests::servers::FleetRepository;
use tests::servers::manifests::list;
use tests::waiting::until;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::cluster::GROUP;
use crate::external_etcd::bench::NAMESPACE;
use crate::machines::MACHINE;
use crate::scene::Scene;

/// Between two looks. A machine is up after a second at the earliest.
const PERIOD: Duration = Duration::from_millis(500);

/// What does not answer so long is asked again.
const PATIENCE: Duration = Duration::from_secs(5);

/// Parts of a cluster, and the stages that commit them.
const PARTS: [&str; 2] = ["control-plane", "workers"];

/// One machine: its part, the place of its version in the chain, and which it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    part: &'static str,
    version: usize,
    uid: String,
    name: String,
}

/// The machines at a moment, with the stages that were committed before it was looked at, and after.
#[derive(Debug, Clone)]
struct Look {
    before: usize,
    after: Vec<String>,
    machines: Vec<Known>,
}

#[derive(Debug, Default)]
struct Seen {
    looks: Vec<Look>,
    /// How many commits there were when the upgrade to each version began.
    begun: BTreeMap<usize, usize>,
    /// How many commits were told.
    told: usize,
}

pub struct Watch {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watch {
    /// Begins to look, and to tell of each commit.
    pub fn start(scene: &Scene, teller: &Arc<Teller>) -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (client, repository) = (scene.client.clone(), scene.repository.clone());
        let (kept, teller) = (Arc::clone(&seen), Arc::clone(teller));
        let task = tokio::spawn(async move {
            let mut told = repository.stages().map_or(0, |stages| stages.len());
            loop {
                // What could not be read is looked at the next time.
                if let Ok(Ok(look)) = timeout(PATIENCE, look(&client, &repository)).await {
                    for stage in look.after.iter().skip(told) {
                        let _ = teller.tell(Event::Commit(stage.clone()));
                    }
                    told = look.after.len();
                    let mut kept = locked(&kept);
                    kept.told = told;
                    kept.looks.push(look);
                }
                tokio::time::sleep(PERIOD).await;
            }
        });
        Self { seen, task }
    }

    /// From now on machines may go to the version at this place of the chain; so many commits were made before.
    pub fn upgrade_begins(&self, version: usize, commits: usize) {
        locked(&self.seen).begun.insert(version, commits);
    }

    /// Waits until so many commits were told: what is told next is of what follows them.
    pub async fn has_told(&self, commits: usize) -> anyhow::Result<()> {
        until("every commit is told", async || Ok((locked(&self.seen).told >= commits).then_some(()))).await
    }

    /// Stage after stage: no machine of a version was there before the commit that asks for it, and nothing was committed behind that before
    /// the last older machine of its part was gone.
    pub fn assert_commits_followed_machines(&self) -> anyhow::Result<()> {
        let seen = locked(&self.seen);
        ensure!(seen.looks.len() > 10, "the machines were seen {} times", seen.looks.len());
        for (&version, &begun) in &seen.begun {
            let end = seen.begun.get(&(version + 1)).copied().unwrap_or(usize::MAX);
            for part in PARTS {
                for look in &seen.looks {
                    look.follows(part, version, begun..end)
                        .with_context(|| format!("{part} to {}: {look:?}", CHAIN[version]))?;
                }
            }
        }
        Ok(())
    }

    /// The machines of each part that there ever were, by what identifies them.
    pub fn ever(&self) -> BTreeMap<&'static str, BTreeSet<String>> {
        let mut ever: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
        for known in locked(&self.seen).looks.iter().flat_map(|look| &look.machines) {
            ever.entry(known.part).or_default().insert(known.uid.clone());
        }
        ever
    }
}

fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Look {
    /// Of the upgrade to a version, whose commits have these numbers.
    fn follows(&self, part: &str, version: usize, commits: std::ops::Range<usize>) -> anyhow::Result<()> {
        let is_of = |stage: &str| stage.split('/').next() == Some(part);
        let numbered = self.after.iter().enumerate();
        let asked =
            numbered.filter(|(number, stage)| commits.contains(number) && is_of(stage)).map(|(at, _)| at).next();
        let machines = || self.machines.iter().filter(|known| known.part == part);
        let early = machines().find(|known| known.version == version && asked.is_none());
        ensure!(early.is_none(), "begun before its commit: {early:?}");
        // Committed behind it before this was looked at: whatever was seen is younger than what opened the gate.
        let late = asked.filter(|asked| self.before > asked + 1);
        let old = machines().find(|known| known.version < version && late.is_some());
        ensure!(old.is_none(), "a stage was committed behind it while there was {old:?}");
        Ok(())
    }
}

async fn look(client: &Client, repository: &FleetRepository) -> anyhow::Result<Look> {
    let before = repository.stages()?.len();
    let machines = list(client, MACHINE, NAMESPACE).await?;
    let machines = machines.iter().filter_map(known).collect();
    Ok(Look { before, after: repository.stages()?, machines })
}

/// A machine of the control plane or of the group; those of etcd have no version.
fn known(machine: &DynamicObject) -> Option<Known> {
    let of_group = |label: &str| machine.labels().get(label).is_some_and(|name| name == GROUP);
    let part = if machine.labels().contains_key("cluster.x-k8s.io/control-plane") {
        PARTS[0]
    } else {
        of_group("cluster.x-k8s.io/deployment-name").then_some(PARTS[1])?
    };
    let version = machine.data.pointer("/spec/version").and_then(Value::as_str)?;
    let version = CHAIN.iter().position(|known| *known == version)?;
    Some(Known { part, version, uid: machine.uid()?, name: machine.name_any() })
}
