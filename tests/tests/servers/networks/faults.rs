//! What goes wrong with the network of one rollout, by a seed.

use std::time::Duration;

use tests::servers::{Gone, Network, Way};

use super::lane::{Fleet, Lane, STAGES};

/// What the program reaches by a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Git,
    Cluster,
    Forge,
}

impl Target {
    /// Its name, below the domain of the tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Cluster => "cluster",
            Self::Forge => "forge",
        }
    }
}

/// What is wrong.
#[derive(Debug, Clone, Copy)]
pub enum Wrong {
    Network(Network),
    Name(Gone),
}

impl Wrong {
    /// Whether nothing can be reached meanwhile.
    pub fn is_outage(self) -> bool {
        matches!(self, Self::Name(_) | Self::Network(Network::Refusing | Network::Closed | Network::HalfOpen))
    }
}

/// Something goes wrong for a while.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub target: Target,
    pub wrong: Wrong,
    /// It begins so long after there are so many commits.
    pub commits: usize,
    pub after: Duration,
    pub lasts: Duration,
}

/// One rollout's faults.
#[derive(Debug)]
pub struct Schedule {
    pub faults: Vec<Fault>,
    /// The program is killed so long after there are so many commits, and begun anew.
    pub kill: Option<(usize, Duration)>,
    /// Before which commit a person pushes to both branches, and so long after the one before.
    pub person: (usize, Duration),
}

/// Most faults of one rollout.
const MOST: usize = 4;

impl Schedule {
    /// None of them.
    pub fn undisturbed() -> Self {
        Self { faults: Vec::new(), kill: None, person: (1, Duration::ZERO) }
    }

    pub fn of(seed: u64, targets: &[Target]) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let faults = (0..random.usize(1..=MOST)).map(|_| fault(&mut random, targets)).collect();
        let mut moment = || (random.usize(1..STAGES.len()), milliseconds(&mut random, 1500));
        let (person, kill) = (moment(), moment());
        Self { faults, kill: random.bool().then_some(kill), person }
    }
}

fn milliseconds(random: &mut fastrand::Rng, most: u64) -> Duration {
    Duration::from_millis(random.u64(0..most))
}

fn fault(random: &mut fastrand::Rng, targets: &[Target]) -> Fault {
    let target = targets[random.usize(..targets.len())];
    // Small numbers are as likely as large ones: of a request's head, and of what comes after it.
    let bytes = 1_usize << random.usize(0..=14);
    let bytes = random.usize(..=bytes);
    let wrong = match random.usize(..11) {
        0 => Wrong::Network(Network::Refusing),
        1 => Wrong::Network(Network::Closed),
        2 | 3 => Wrong::Network(Network::Cut(Way::Request, bytes)),
        4..=6 => Wrong::Network(Network::Cut(Way::Answer, bytes)),
        7 => match random.bool() {
            true => Wrong::Network(Network::Slow(milliseconds(random, 500))),
            false => Wrong::Network(Network::Trickling(1 + bytes / 16, Duration::from_millis(20))),
        },
        8 => Wrong::Network(Network::HalfOpen),
        9 => Wrong::Network(Network::Silent),
        _ => Wrong::Name(if random.bool() { Gone::Unknown } else { Gone::Unanswered }),
    };
    // Some last longer than anybody waits for an answer.
    let most = if random.u8(..4) == 0 { 5000 } else { 1500 };
    Fault {
        target,
        wrong,
        commits: random.usize(1..STAGES.len()),
        after: milliseconds(random, 1500),
        lasts: Duration::from_millis(100) + milliseconds(random, most),
    }
}

/// What came of the faults.
#[derive(Debug, Default)]
pub struct Disturbance {
    /// Of each outage how long it lasted, and how many connections were made meanwhile.
    pub outages: Vec<(Fault, Duration, usize)>,
}

impl Lane {
    /// From now on this is wrong.
    pub fn go(&self, target: Target, wrong: Wrong) -> anyhow::Result<()> {
        match wrong {
            Wrong::Network(network) => self.proxy(target).is(network),
            Wrong::Name(gone) => self.names.forget(target.name(), gone)?,
        }
        Ok(())
    }

    /// Brings about each fault in its time, and mends it.
    pub async fn disturb(&self, fleet: &Fleet, faults: &[Fault]) -> anyhow::Result<Disturbance> {
        let all = faults.iter().map(|fault| self.go_wrong(fleet, *fault));
        let outages = futures::future::try_join_all(all).await?.into_iter().flatten().collect();
        Ok(Disturbance { outages })
    }

    async fn go_wrong(&self, fleet: &Fleet, fault: Fault) -> anyhow::Result<Option<(Fault, Duration, usize)>> {
        fleet.has_committed(fault.commits).await?;
        // The moment of it is the point.
        tokio::time::sleep(fault.after).await;
        let proxy = self.proxy(fault.target);
        let (before, begun) = (proxy.connections(), tokio::time::Instant::now());
        self.go(fault.target, fault.wrong)?;
        // How long it lasts is the fault.
        tokio::time::sleep(fault.lasts).await;
        let made = proxy.connections() - before;
        match fault.wrong {
            Wrong::Network(_) => proxy.is(Network::Sound),
            Wrong::Name(_) => drop(self.names.know(fault.target.name())?),
        }
        Ok(fault.wrong.is_outage().then(|| (fault, begun.elapsed(), made)))
    }
}
