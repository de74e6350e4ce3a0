//! What goes wrong in a run, and when: it follows from the seed and the cell.

use std::fmt;
use std::time::Duration;

use super::cell::{Cell, Etcd, Strategy};

/// What is done to a server, or beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Harm {
    /// Stepgate is killed as by a power cut, and another process goes on at once.
    KillController,
    /// Stepgate stands still.
    StallController,
    /// The API server is killed, and comes back.
    KillApiServer,
    /// The API server stands still.
    StallApiServer,
    /// Cluster API's manager of clusters and machines is killed, and comes back.
    KillCore,
    /// The manager of control planes is killed, and comes back.
    KillControlPlane,
    /// The manager of machines' configuration is killed, and comes back.
    KillBootstrap,
    /// The manager of control planes stands still.
    StallControlPlane,
    /// What makes machines stands still.
    StallInfrastructure,
    /// Flux' kustomize-controller is killed, and comes back.
    KillKustomize,
    /// Flux' source-controller stands still.
    StallSource,
    /// What upgrades machines in place is killed, and comes back.
    KillExtension,
    /// The git server answers nobody.
    HoldGit,
    /// A person pushes a file that concerns no cluster.
    Push,
}

impl Harm {
    /// Every kind with how often it is drawn beside the others.
    const WEIGHTS: [(Self, u32); 14] = [
        (Self::KillController, 8),
        (Self::StallController, 1),
        (Self::KillApiServer, 2),
        (Self::StallApiServer, 2),
        (Self::KillCore, 2),
        (Self::KillControlPlane, 2),
        (Self::KillBootstrap, 1),
        (Self::StallControlPlane, 1),
        (Self::StallInfrastructure, 1),
        (Self::KillKustomize, 1),
        (Self::StallSource, 1),
        (Self::KillExtension, 4),
        (Self::HoldGit, 1),
        (Self::Push, 2),
    ];

    /// What it is, for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::KillController => "kill of the controller",
            Self::StallController => "pause of the controller",
            Self::KillApiServer => "kill of kube-apiserver",
            Self::StallApiServer => "pause of kube-apiserver",
            Self::KillCore => "kill of Cluster API's core manager",
            Self::KillControlPlane => "kill of the control plane's manager",
            Self::KillBootstrap => "kill of the bootstrap manager",
            Self::StallControlPlane => "pause of the control plane's manager",
            Self::StallInfrastructure => "pause of the infrastructure's manager",
            Self::KillKustomize => "kill of kustomize-controller",
            Self::StallSource => "pause of source-controller",
            Self::KillExtension => "kill of the extension",
            Self::HoldGit => "silence of the git server",
            Self::Push => "push of another file",
        }
    }

    /// Whether a cell can bear it. The stand-in for the controller of an external etcd loses its place when requests of its own fail, as no real
    /// controller does.
    fn suits(self, cell: Cell) -> bool {
        match self {
            Self::KillApiServer => cell.etcd == Etcd::Stacked,
            Self::KillExtension => cell.strategy == Strategy::InPlace,
            Self::StallInfrastructure => cell.strategy == Strategy::Rolling,
            _ => true,
        }
    }

    fn lasts(self, random: &mut fastrand::Rng) -> Duration {
        let longest = match self {
            Self::Push => return Duration::ZERO,
            Self::KillController => 500,
            // Who asks waits for it: longer than one request may take, shorter than what gives up for good.
            Self::StallApiServer | Self::StallController => 12_000,
            _ => 8_000,
        };
        Duration::from_millis(random.u64(0..longest))
    }
}

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// In which upgrade of the chain, counted from zero.
    pub hop: usize,
    /// After how many commits of that upgrade.
    pub commits: usize,
    /// How long after the last of these.
    pub after: Duration,
    /// What it is.
    pub harm: Harm,
    /// How long it lasts.
    pub lasts: Duration,
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hop, commits, after, harm, lasts } = self;
        write!(to, "{} in upgrade {}, {:.1} s after commit {commits}", harm.words(), hop + 1, after.as_secs_f64())?;
        if lasts.is_zero() { Ok(()) } else { write!(to, ", for {:.1} s", lasts.as_secs_f64()) }
    }
}

/// How many faults an upgrade of the chain has.
const FAULTS: std::ops::RangeInclusive<usize> = 2..=5;

/// After how many commits of an upgrade a fault may come: fewer than the shortest one has.
const COMMITS: std::ops::RangeInclusive<usize> = 0..=2;

/// The longest time between a commit and a fault, in milliseconds: so long a stage takes at least where machines are replaced.
const LONGEST: u64 = 20_000;

/// The faults of a seed for so many upgrades in a chain, in the order in which they come.
#[must_use]
pub fn faults(seed: u64, cell: Cell, hops: usize) -> Vec<Fault> {
    let mut random = fastrand::Rng::with_seed(seed);
    let kinds: Vec<(Harm, u32)> = Harm::WEIGHTS.into_iter().filter(|(harm, _)| harm.suits(cell)).collect();
    let mut faults = Vec::new();
    for hop in 0..hops {
        for _ in 0..random.usize(FAULTS) {
            let Some(harm) = drawn(&kinds, &mut random) else { continue };
            let (commits, after) = (random.usize(COMMITS), Duration::from_millis(random.u64(0..LONGEST)));
            let lasts = harm.lasts(&mut random);
            faults.push(Fault { hop, commits, after, harm, lasts });
        }
    }
    faults.sort_by_key(|fault| (fault.hop, fault.commits, fault.after));
    faults
}

fn drawn(kinds: &[(Harm, u32)], random: &mut fastrand::Rng) -> Option<Harm> {
    let all: u32 = kinds.iter().map(|(_, weight)| weight).sum();
    let mut place = random.u32(0..all.max(1));
    kinds.iter().find_map(|(harm, weight)| {
        let is_it = place < *weight;
        place = place.saturating_sub(*weight);
        is_it.then_some(*harm)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::continuous::matrix::offered;

    #[test]
    fn a_seed_gives_the_same_faults_again() {
        let cell = offered()[0];
        assert_eq!(faults(7, cell, 2), faults(7, cell, 2));
        assert_ne!(faults(7, cell, 2), faults(8, cell, 2));
        let told = faults(7, cell, 2)[0].to_string();
        assert!(told.contains(" in upgrade 1, ") && told.contains(" s after commit "), "{told}");
    }

    #[test]
    fn every_kind_comes_where_its_cell_can_bear_it() {
        for cell in offered() {
            let drawn: Vec<Fault> = (0..400).flat_map(|seed| faults(seed, cell, 2)).collect();
            let kinds: BTreeSet<Harm> = drawn.iter().map(|fault| fault.harm).collect();
            let suiting = Harm::WEIGHTS.iter().filter(|(harm, _)| harm.suits(cell)).map(|(harm, _)| *harm);
            assert_eq!(kinds, suiting.collect(), "{cell}");
            for seed in 0..50 {
                let faults = faults(seed, cell, 2);
                assert!(faults.is_sorted_by_key(|fault| (fault.hop, fault.commits, fault.after)), "{faults:?}");
                assert!((4..=10).contains(&faults.len()), "{faults:?}");
            }
        }
    }
}
