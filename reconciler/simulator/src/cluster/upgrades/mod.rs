//! Upgrades on the machines that are there: the controller of `in-place`, and all that it meets.
//!
//! What is decided is decided by the package `in-place`, as in a real cluster: the order of machines, the pause of an
//! owner with its change, what Cluster API is answered. Owners, nodes and their upgraders are simulated.

mod fault;
mod invariant;
mod node;
mod observed;
mod owner;
mod perform;
mod world;

use std::{collections::BTreeMap, time::Duration};

use in_place::{
    hooks::OnDecline,
    objects::{GroupUpgrade, NodeUpgrade},
    order::{Driver, Pause, decide},
};

use super::{Event, State, machine::Owner};
use crate::{clock::Moment, shape::MachineStrategy};

pub use fault::UpgradeFault;
pub(super) use node::NodeTruth;
use node::Upgrader;
pub(super) use owner::Way;

/// Between two turns of the controller.
const PACE: Duration = Duration::from_secs(5);

/// What the controller does wrong. A simulated cluster has none, unless it was told so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeDefect {
    /// A node counts as proven the moment that its steps are done.
    SkipsSoak,
    /// The last step leaves the cordon, and nobody minds.
    ForgetsUncordon,
    /// The next machine begins while one is under way.
    UpgradesTwoAtOnce,
    /// The owner goes on as soon as its machines are upgraded, before they say so.
    ResumesEarly,
    /// The lead of etcd stays where it is.
    KeepsLeader,
    /// `MachineHealthChecks` look on.
    LeavesHealthChecks,
}

impl UpgradeDefect {
    /// Every defect.
    pub const ALL: [Self; 6] = [
        Self::SkipsSoak,
        Self::ForgetsUncordon,
        Self::UpgradesTwoAtOnce,
        Self::ResumesEarly,
        Self::KeepsLeader,
        Self::LeavesHealthChecks,
    ];
}

/// What upgrades in place are made of in a cluster.
#[derive(Debug, Clone)]
pub(super) struct Upgrades {
    pub(super) driver: Driver,
    on_decline: OnDecline,
    nodes: Vec<NodeUpgrade>,
    groups: Vec<GroupUpgrade>,
    /// The Pods of upgraders, by the name of their upgrade.
    pods: BTreeMap<String, Upgrader>,
    /// Pauses of owners, by the name of the owner.
    pauses: BTreeMap<String, Pause>,
    /// Pauses of `MachineHealthChecks`, by name.
    checks: BTreeMap<&'static str, Pause>,
    /// Owners whose newest `MachineSet` says what they say.
    adopted: BTreeMap<String, bool>,
    etcd_leader: Option<String>,
    /// Objects made so far.
    made: u64,
    /// Until when extension and controller are away.
    away_until: Option<Moment>,
    /// How many actions the controller does before it is killed.
    killed_after: Option<usize>,
    /// Whether a machine may be replaced: somebody deleted one, or it was declined.
    replaces: bool,
    defect: Option<UpgradeDefect>,
    violations: Vec<String>,
}

impl Upgrades {
    pub(super) fn new(strategy: MachineStrategy) -> Option<Self> {
        let MachineStrategy::InPlace { driver, on_decline } = strategy else { return None };
        Some(Self {
            driver,
            on_decline,
            nodes: Vec::new(),
            groups: Vec::new(),
            pods: BTreeMap::new(),
            pauses: BTreeMap::new(),
            checks: world::CHECKS.into_iter().map(|name| (name, Pause::None)).collect(),
            adopted: BTreeMap::new(),
            etcd_leader: None,
            made: 0,
            away_until: None,
            killed_after: None,
            replaces: false,
            defect: None,
            violations: Vec::new(),
        })
    }

    fn uid(&mut self) -> String {
        self.made += 1;
        format!("uid-{}", self.made)
    }

    /// Whether extension and controller answer.
    fn answers(&self, now: Moment) -> bool {
        self.away_until.is_none_or(|until| until <= now)
    }

    /// Whether nothing is left to do or to look at.
    fn is_quiet(&self) -> bool {
        let is_over = |upgrade: &NodeUpgrade| upgrade.status.completed;
        self.pods.is_empty()
            && self.nodes.iter().all(is_over)
            && self.groups.iter().all(|group| group.status.ready)
            && self.pauses.values().chain(self.checks.values()).all(|pause| *pause == Pause::None)
    }
}

impl State {
    /// A turn of the controller: everything is read anew.
    pub(super) fn turn_upgrades(&mut self) {
        let now = self.now;
        self.plan_in(PACE, Event::UpgradeController);
        let Some(upgrades) = &self.upgrades else { return };
        if !upgrades.answers(now) || upgrades.is_quiet() && !self.wants_upgrades() {
            return;
        }
        let Some(world) = self.upgrade_world() else { return };
        let mut actions = decide(&world, now.timestamp());
        self.distort_upgrades(&world, &mut actions);
        let killed_after = self.upgrades.as_mut().and_then(|upgrades| upgrades.killed_after.take());
        let done = killed_after.unwrap_or(usize::MAX);
        for action in actions.into_iter().take(done) {
            self.perform_upgrade(&world, action);
            self.check_upgrades();
        }
        if killed_after.is_some() {
            let back_in = self.random.between(Duration::from_secs(5), Duration::from_secs(40));
            self.upgrades.iter_mut().for_each(|upgrades| upgrades.away_until = Some(now + back_in));
        }
    }

    /// Whether a machine is not what its owner wants, or Cluster API waits for one.
    fn wants_upgrades(&self) -> bool {
        self.machines.iter().any(|machine| {
            let spec = self.owner_spec(machine.owner);
            machine.node.updating
                || machine.node.cordon.is_some()
                || spec.is_some_and(|spec| !machine.is(&spec.version, &spec.template))
        })
    }

    /// Whether our controller has the machines of this cluster upgraded.
    fn is_driven_by_controller(&self) -> bool {
        self.upgrades.as_ref().is_some_and(|upgrades| upgrades.driver == Driver::Controller)
    }

    /// What owners want of their machines.
    fn owner_spec(&self, owner: Owner) -> Option<&crate::desired::DesiredMachines> {
        match owner {
            Owner::ControlPlane => self.control_plane.as_ref().map(|known| &known.spec),
            Owner::Workers(index) => self.workers.get(index).map(|known| &known.spec),
            Owner::Etcd => None,
        }
    }
}
