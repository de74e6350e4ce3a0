//! The faults of a run, made when their moments come.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tests::continuous::fault::{Fault, Harm};
use tests::continuous::progress::{Event, Teller};
use tests::servers::{ApiServer, ClusterApi, FleetRepository, Flux, GitServer, Process};
use tokio::time::{Instant, sleep};

/// How often it is looked whether a moment has come.
const LOOK: Duration = Duration::from_millis(100);

/// What things are done to.
pub struct Harmed<'a> {
    pub controller: &'a mut Process,
    pub server: &'a mut ApiServer,
    pub managers: &'a mut ClusterApi,
    pub flux: &'a mut Flux,
    /// What upgrades machines in place, where they are.
    pub extension: Option<&'a mut Process>,
    pub git: &'a GitServer,
    pub repository: &'a FleetRepository,
    pub teller: &'a Teller,
}

impl Harmed<'_> {
    /// Makes these faults of an upgrade that began after so many commits, one after the other, until it is over. Whatever was killed runs again
    /// in the end, and so does what has ended by itself meanwhile: managers end that do not find the API server when they start.
    pub async fn all(&mut self, faults: Vec<Fault>, begun: usize, is_over: &AtomicBool) -> anyhow::Result<()> {
        // When it was seen first that there were so many commits.
        let mut seen = vec![Instant::now()];
        for fault in faults {
            let is_due = loop {
                let made = self.repository.stages()?.len().saturating_sub(begun);
                seen.resize_with(seen.len().max(made + 1), Instant::now);
                if is_over.load(Ordering::Relaxed) {
                    break false;
                }
                if seen.get(fault.commits).is_some_and(|since| since.elapsed() >= fault.after) {
                    break true;
                }
                self.revive()?;
                sleep(LOOK).await;
            };
            let event = if is_due { Event::Fault(fault.to_string()) } else { Event::NotMade(fault.to_string()) };
            self.teller.tell(event)?;
            if is_due {
                self.make(fault).await?;
            }
        }
        while !is_over.load(Ordering::Relaxed) {
            self.revive()?;
            sleep(LOOK).await;
        }
        Ok(())
    }

    fn revive(&mut self) -> anyhow::Result<()> {
        let ClusterApi { core, bootstrap, control_plane, infrastructure } = &mut *self.managers;
        let Flux { source, kustomize, .. } = &mut *self.flux;
        let programs = [core, bootstrap, control_plane, infrastructure, source, kustomize, &mut *self.controller];
        for program in programs.into_iter().chain(self.extension.as_deref_mut()) {
            if program.revive()? {
                self.teller.tell(Event::Revived(program.name().to_owned()))?;
            }
        }
        Ok(())
    }

    async fn make(&mut self, Fault { harm, lasts, .. }: Fault) -> anyhow::Result<()> {
        match harm {
            Harm::KillController => killed(self.controller, lasts).await,
            Harm::StallController => stalled(self.controller, lasts).await,
            Harm::KillApiServer => {
                killed(&mut self.server.server, lasts).await?;
                self.server.wait_until_ready().await
            }
            Harm::StallApiServer => {
                stalled(&self.server.server, lasts).await?;
                self.server.wait_until_ready().await
            }
            Harm::KillCore => killed(&mut self.managers.core, lasts).await,
            Harm::KillControlPlane => killed(&mut self.managers.control_plane, lasts).await,
            Harm::KillBootstrap => killed(&mut self.managers.bootstrap, lasts).await,
            Harm::StallControlPlane => stalled(&self.managers.control_plane, lasts).await,
            Harm::StallInfrastructure => stalled(&self.managers.infrastructure, lasts).await,
            Harm::KillKustomize => killed(&mut self.flux.kustomize, lasts).await,
            Harm::StallSource => stalled(&self.flux.source, lasts).await,
            Harm::KillExtension => match &mut self.extension {
                Some(extension) => killed(extension, lasts).await,
                None => Ok(()),
            },
            Harm::HoldGit => {
                self.git.hold(true);
                sleep(lasts).await;
                self.git.hold(false);
                Ok(())
            }
            Harm::Push => self.repository.push("Note something", &[("notes.md", &note())]).map(drop),
        }
    }
}

/// A text that was not there before.
fn note() -> String {
    format!("Seen at {}.\n", jiff::Timestamp::now())
}

// A fault lasts as long as its seed says: nothing is waited for.
async fn killed(process: &mut Process, lasts: Duration) -> anyhow::Result<()> {
    process.kill()?;
    sleep(lasts).await;
    process.restart()
}

async fn stalled(process: &Process, lasts: Duration) -> anyhow::Result<()> {
    process.stall()?;
    sleep(lasts).await;
    process.resume()
}
