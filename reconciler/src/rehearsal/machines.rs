//! The machines that come and go in a rehearsal.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use rollout::Machine;
use serde::Serialize;

/// A machine that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineReport {
    /// What made it: the name of a `KubeadmControlPlane`, a `MachineDeployment` or an `EtcdadmCluster`.
    pub of: String,
    /// Which one of these it is, in the order in which they were made, from 1.
    pub number: usize,
    /// When it was made, in seconds from the beginning.
    pub made: i64,
    /// When it ran, in seconds from the beginning; null where it never did.
    pub ran: Option<i64>,
    /// How many old ones were left at the end of its start, where it ran.
    pub old_left: Option<usize>,
}

/// Watches machines from one moment to the next.
pub(super) struct MachineWatch {
    begun: Timestamp,
    before: BTreeSet<String>,
    made: BTreeMap<String, MachineReport>,
}

impl MachineWatch {
    /// A watch whose machines are those of before.
    pub(super) fn new(begun: Timestamp, machines: &[Machine]) -> Self {
        let before = machines.iter().map(|machine| machine.name.clone()).collect();
        Self { begun, before, made: BTreeMap::new() }
    }

    /// Looks at the machines once more.
    pub(super) fn look(&mut self, now: Timestamp, machines: &[Machine]) {
        let since = |time: Timestamp| time.duration_since(self.begun).max(SignedDuration::ZERO).as_secs();
        for machine in machines.iter().filter(|machine| !self.before.contains(&machine.name)) {
            let of = machine.owner.clone().unwrap_or_default();
            let number = self.made.values().filter(|known| known.of == of).count() + 1;
            let made = since(machine.created_at.unwrap_or(now));
            let known = self.made.entry(machine.name.clone());
            let known = known.or_insert(MachineReport { of, number, made, ran: None, old_left: None });
            let runs = machine.phase.as_deref() == Some("Running") && is_ready(machine);
            if runs && known.ran.is_none() {
                known.ran = Some(since(now));
                let old = machines.iter().filter(|other| {
                    other.owner == machine.owner && self.before.contains(&other.name) && !other.deleting
                });
                known.old_left = Some(old.count());
            }
        }
    }

    /// Those that were made, in that order.
    pub(super) fn made(self) -> Vec<MachineReport> {
        let mut made: Vec<MachineReport> = self.made.into_values().collect();
        made.sort_by_key(|machine| (machine.made, machine.number));
        made
    }
}

fn is_ready(machine: &Machine) -> bool {
    machine.conditions.get("Ready").is_some_and(|ready| ready.status == rollout::ConditionStatus::True)
}
