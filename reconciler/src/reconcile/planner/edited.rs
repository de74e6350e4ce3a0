//! A cluster's plan with what people changed of what is proposed.

use std::sync::Arc;

use rollout::LedgerState;

use super::context::Context;
use super::making::Planned;
use super::{ClusterView, FleetReading, PlanError, Planner};
use planning::edits::Edit;

impl Planner {
    /// The view with these edits of what is proposed; what is running stays as it was planned.
    ///
    /// # Errors
    /// [`PlanError`] concerns this cluster alone.
    pub fn edited_view(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        edits: &[Edit],
    ) -> Result<ClusterView, PlanError> {
        let base = self.base(reading, &view.name, &view.directory, view.base.as_ref());
        let context = reading.context(&view.name, &view.directory, &base, &view.befores);
        let context = Context { proposed: edits, ..context };
        let Planned { plan, parts, kustomizations, reaches_far } =
            self.plan(&context, &reading.source, &view.cluster)?;
        let ledger = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running);
        let running = match ledger.filter(|ledger| ledger.plan != plan.digest) {
            Some(ledger) if ledger.plan == view.plan.digest => Some((view.plan.clone(), Arc::clone(&view.parts))),
            Some(_) => view.running.clone(),
            None => None,
        };
        Ok(ClusterView { plan, parts, kustomizations, reaches_far, running, ..view.clone() })
    }
}
