//! Marks that tell the control plane's controller which machine goes when.

use std::time::Duration;

use jiff::Timestamp;
use rollout::{MarkChange, MarkKind, Marked};

use super::{SimulatedCluster, State};

impl SimulatedCluster {
    /// Sets marks of machines at `at`, and takes them away.
    pub fn order_machines(&mut self, changes: &[MarkChange], at: Timestamp) {
        self.advance(at);
        for state in [Some(&mut self.state), self.view.shadow()].into_iter().flatten() {
            changes.iter().for_each(|change| state.mark(change));
        }
    }
}

impl State {
    fn mark(&mut self, change: &MarkChange) {
        let Some(machine) = self.machines.iter_mut().find(|machine| machine.name == change.machine) else { return };
        let marked = change.mark.clone().map(|mark| Marked::Us { mark });
        match change.kind {
            MarkKind::DeleteFirst => machine.delete_first = marked,
            MarkKind::Brake => machine.brake = marked,
        }
        // A machine that may be drained again is.
        let (id, goes_on) = (machine.id, machine.deleting && machine.brake.is_none());
        if goes_on {
            self.plan_machine(id, Duration::from_secs(1));
        }
    }
}
