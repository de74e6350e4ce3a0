//! The upgrades of a chain, one after the other, each with its faults.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tests::continuous::cell::Components;
use tests::continuous::fault::Fault;
use tests::continuous::matrix::CHAIN;
use tests::continuous::progress::{Event, Teller};
use tests::servers::{FleetRepository, Process};
use tests::waiting::until_within;

use super::bed::Bed;
use super::cluster::{FILE, Wanted};
use super::components;
use super::harm::Harmed;
use super::watch::Watch;
use crate::ending::End;
use crate::external_etcd::bench::{Bench, CLUSTER};

/// How long one upgrade of the chain may take: on an idle machine one to three minutes.
const LIMIT: Duration = Duration::from_secs(900);

pub struct Upgrades<'a> {
    pub bed: &'a mut Bed,
    pub controller: &'a mut Process,
    pub watch: &'a Watch,
    pub teller: &'a Teller,
    pub faults: Vec<Fault>,
}

impl Upgrades<'_> {
    /// From each version to the next; what the cluster is like in the end.
    pub async fn all(&mut self) -> anyhow::Result<Wanted> {
        let mut wanted = Wanted::first(self.bed.cell);
        if self.bed.cell.components == Components::Before {
            self.teller.tell(Event::Upgrade("the next components".to_owned()))?;
            self.components().await?;
            self.teller.tell(Event::Upgraded("the next components".to_owned()))?;
        }
        for version in 1..CHAIN.len() {
            wanted.version = version;
            let to = wanted.kubernetes();
            self.teller.tell(Event::Upgrade(to.to_owned()))?;
            if let Err(error) = self.one(&mut wanted).await {
                let why = self.bed.scene.why(CLUSTER).await.map(|why| why.to_string()).unwrap_or_default();
                return Err(error.context(format!("to {to}")).context(format!("stepgate why: {why}")));
            }
            self.watch.has_told(self.bed.scene.repository.stages()?.len()).await?;
            self.teller.tell(Event::Upgraded(to.to_owned()))?;
        }
        Ok(wanted)
    }

    /// The next bundle is pushed, in a rollout of its own.
    async fn components(&mut self) -> anyhow::Result<()> {
        let scene = &self.bed.scene;
        let (path, text) = components::next()?;
        scene.repository.push("Take the next bundle", &[(path, &text)])?;
        let end = End::rendered(scene, CLUSTER).await?;
        reached(&scene.repository, &end).await
    }

    /// The next version is pushed, and everything comes to its end, whatever goes wrong meanwhile.
    async fn one(&mut self, wanted: &mut Wanted) -> anyhow::Result<()> {
        let Bed { cell, scene, provider, etcd, in_place, .. } = &mut *self.bed;
        let repository = scene.repository.clone();
        let begun = repository.stages()?.len();
        self.watch.upgrade_begins(wanted.version, begun);
        let version = wanted.kubernetes();
        let mut files = vec![(FILE, wanted.text(provider)?)];
        if cell.components == Components::Together && wanted.version == 1 {
            files.push(components::next()?);
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        repository.push(&format!("Kubernetes {version}"), &files)?;
        let mut end = End::rendered(scene, CLUSTER).await?;

        let mut more = None;
        if wanted.version == 1 && wanted.grow() {
            more = Some((wanted.text(provider)?, End::render(scene, CLUSTER)));
        }
        let told = repository.clone();
        let course = async move {
            if let Some((file, render)) = more {
                committed(&told, begun, "control-plane").await?;
                told.push("Another number of machines", &[(FILE, &file)])?;
                end = End::of(render, CLUSTER).await?;
            }
            reached(&told, &end).await
        };
        let faults = self.faults.iter().filter(|fault| fault.hop + 1 == wanted.version).copied().collect();
        let is_over = AtomicBool::new(false);
        let mut harmed = Harmed {
            controller: self.controller,
            server: &mut scene.server,
            managers: &mut provider.managers,
            flux: &mut scene.flux,
            extension: in_place.as_mut().map(|in_place| &mut in_place.extension),
            git: &scene.git,
            repository: &repository,
            teller: self.teller,
        };
        let both = async {
            let course = async {
                let reached = course.await;
                is_over.store(true, Ordering::Relaxed);
                reached
            };
            tokio::try_join!(course, harmed.all(faults, begun, &is_over)).map(drop)
        };
        match etcd {
            Some(etcd) => {
                tokio::select! {
                    ended = Box::pin(both) => ended,
                    () = follow(etcd, version) => Ok(()),
                }
            }
            None => Box::pin(both).await,
        }
    }
}

/// Stands in for the controller of an external etcd, which asks again what the API server does not answer.
async fn follow(etcd: &mut Bench, version: &str) {
    loop {
        if let Err(error) = etcd.follow(version).await {
            println!("etcd's controller: {error:#}");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn committed(repository: &FleetRepository, begun: usize, stage: &str) -> anyhow::Result<()> {
    let is_committed = async || Ok(repository.stages()?[begun..].iter().any(|known| known == stage).then_some(()));
    until_within(&format!("{stage} is committed"), LIMIT, is_committed).await
}

/// Waits until the deploy branch is as the source branch has it, and its ledger is closed.
async fn reached(repository: &FleetRepository, end: &End) -> anyhow::Result<()> {
    let mut missing = None;
    let is_reached = async || {
        missing = end.missing(repository)?;
        Ok(missing.is_none().then_some(()))
    };
    let waited = until_within("the upgrade is over", LIMIT, is_reached).await;
    waited.with_context(|| missing.unwrap_or_default())
}
