//! What is said while something cannot be reached, how often it is asked for meanwhile, and how soon a rollout goes on afterwards.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tests::servers::{DOMAIN, Gitea, Gone, Network, Process, isolated};
use tests::waiting::until;
use tokio::time::Instant;

use super::NEEDED;
use super::ending::impatient;
use super::faults::{Target, Wrong};
use super::lane::{CLUSTER, Fleet, Host, Lane, STAGES};

/// How networks and names go away.
const OUTAGES: [Wrong; 3] =
    [Wrong::Network(Network::Closed), Wrong::Network(Network::HalfOpen), Wrong::Name(Gone::Unknown)];

/// How long each is looked at.
const WINDOW: Duration = Duration::from_secs(6);

/// The time between two passes, in seconds.
const INTERVAL: u64 = 5;

/// Connections that an outage may begin with: what was under way is tried again, and so is what a person asks for.
const AT_ONCE: usize = 10;

/// Connections a second that may be made in vain.
const MOST_A_SECOND: f64 = 1.0;

/// How soon it goes on afterwards: the time of requests that are still waited for, of one pass, and what a busy machine takes.
const RECOVERY: Duration = Duration::from_secs(30);

/// The log from a place on.
fn log_from(fleet: &Fleet, place: usize) -> anyhow::Result<String> {
    let log = std::fs::read(fleet.folder.join("stepgate.log"))?;
    Ok(String::from_utf8_lossy(log.get(place..).unwrap_or_default()).into_owned())
}

impl Lane {
    /// What a person is told who asks.
    async fn told(&self, fleet: &Fleet) -> anyhow::Result<String> {
        let mut command = impatient(self.command(fleet, &["why", CLUSTER]));
        command.env("XDG_CACHE_HOME", fleet.folder.join("cache-of-alice"));
        let output = tokio::process::Command::from(command).output().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(format!("{}{}", text(&output.stdout), text(&output.stderr)))
    }

    async fn is_out(&self, fleet: &Fleet, target: Target, wrong: Wrong) -> anyhow::Result<()> {
        let host = format!("{}.{DOMAIN}", target.name());
        let place = log_from(fleet, 0)?.len();
        let (begun, before) = (Instant::now(), self.proxy(target).connections());
        self.go(target, wrong)?;
        if matches!(wrong, Wrong::Name(_)) {
            // Whoever is connected needs no name.
            self.proxy(target).cut();
        }
        let named = async || Ok(log_from(fleet, place)?.contains(&host).then_some(()));
        until(&format!("{host} is named in the log: {wrong:?}"), named).await?;
        let took = begun.elapsed();
        let told = self.told(fleet).await?;
        ensure!(told.contains(&host), "{wrong:?}: {told}");
        tokio::time::sleep_until(begun + WINDOW).await;
        let (made, lasted) = (self.proxy(target).connections() - before, begun.elapsed());
        println!("{target:?} {wrong:?}: named after {took:?}, {made} connections in {lasted:?}");
        let most = AT_ONCE + (MOST_A_SECOND * lasted.as_secs_f64()) as usize;
        ensure!(made <= most, "{made} connections in {lasted:?}: {target:?} {wrong:?}\n{}", log_from(fleet, place)?);
        self.mend()
    }

    async fn merge_one(&self) -> anyhow::Result<()> {
        let Host::Forge(gitea) = &self.host else { anyhow::bail!("there is no forge") };
        let open = async || {
            let pulls = gitea.read("pulls?state=open&limit=50").await?;
            Ok(pulls.get(0).and_then(|pull| pull.get("number")).and_then(Value::as_u64))
        };
        let number = until("a pull request is open", open).await?;
        gitea.merge("alice", number, "merge").await
    }
}

#[test]
fn what_cannot_be_reached_is_named_and_asked_for_seldom() {
    let name = "networks::outages::what_cannot_be_reached_is_named_and_asked_for_seldom";
    isolated(name, &[NEEDED, Gitea::NEEDED].concat(), async |programs| {
        let lane = Lane::start(&programs, true).await?;
        let fleet = lane.fleet("outages").await?;
        let interval = INTERVAL.to_string();
        let arguments = ["run", "--listen", "off", "--health-address", "off", "--interval", &interval];
        let process = Process::start(&fleet.folder, "stepgate", impatient(lane.command(&fleet, &arguments)))?;
        let course = async {
            for (target, commits) in [(Target::Git, 1), (Target::Forge, 2)] {
                let proposed = async || Ok((!fleet.repository.proposed()?.is_empty()).then_some(()));
                until("a stage is proposed", proposed).await?;
                for wrong in OUTAGES {
                    lane.is_out(&fleet, target, wrong).await?;
                    if target == Target::Forge {
                        lane.is_out(&fleet, Target::Cluster, wrong).await?;
                    }
                }
                let mended = Instant::now();
                lane.merge_one().await?;
                fleet.has_committed(commits + 1).await?;
                println!("went on after {:?}", mended.elapsed());
                ensure!(mended.elapsed() < RECOVERY * 4, "{:?}", mended.elapsed());
            }
            fleet.has_committed(STAGES.len()).await
        };
        tokio::select! {
            done = course => done.with_context(|| process.last_lines())?,
            end = lane.carry_out(&fleet) => match end? {},
        }
        lane.folder.done();
        Ok(())
    });
}
