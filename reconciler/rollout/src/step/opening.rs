//! What opens a stage, and what stands in its way.

use jiff::Timestamp;

use crate::effect::Effect;
use crate::ledger::LedgerState;
use crate::plan::StagePlan;
use crate::stage::StageId;
use crate::verdict::{Evidence, Reason};
use crate::world::World;
use policy::StagePolicy;

/// How a plan comes to its next stage.
#[derive(Debug)]
pub(super) enum Opening {
    /// It is the one the ledger is running.
    Continue,
    /// No rollout is running.
    Fresh,
    /// It takes over from another rollout whose running stage has passed with this evidence.
    After(Evidence),
    /// It takes over from another rollout whose running stage has failed for these reasons.
    Repair(Vec<Reason>),
}

/// What opens the next stage, once nothing is in its way.
#[derive(Debug)]
pub(super) enum Key {
    /// The gate before it passed.
    Evidence(Evidence),
    /// The gate before it failed, and this stage is the repair.
    Repair(Vec<Reason>),
}

/// The effects that stand in the way.
pub(super) type Stop = Vec<Effect>;

/// None inside of a maintenance window, else when the next one opens, as far as that is known.
#[must_use]
pub fn closed_windows(next: &StagePlan, now: Timestamp) -> Option<Option<Timestamp>> {
    let windows = &next.policy.windows;
    (!windows.contains(now)).then(|| windows.next(now))
}

/// Why something is not to be merged yet, in words; none inside of a maintenance window.
#[must_use]
pub fn outside_windows(next: &StagePlan, now: Timestamp) -> Option<String> {
    closed_windows(next, now).map(|opens| match opens {
        Some(opens) => format!("the next maintenance window opens at {opens}"),
        None => "no maintenance window opens any more".to_owned(),
    })
}

/// Somebody has stopped the cluster for a while: nothing goes on, and nothing is gone back from, until that ends. None where there is nothing to do.
pub(super) fn held_by_people(world: &World, next: Option<&StageId>, now: Timestamp) -> Option<Vec<Effect>> {
    let ledger = world.ledger.as_deref().filter(|ledger| ledger.state == LedgerState::Running);
    let stage = ledger.and_then(|ledger| ledger.stages.last()).map(|record| &record.stage).or(next)?;
    let (kustomization, hold) = world.observation.as_deref()?.hold()?;
    let object = format!("Kustomization {}/{}", kustomization.namespace, kustomization.name);
    let reason = Reason::on(object, format!("held by {} until {}: {}", hold.owner, hold.until, hold.reason));
    let reason =
        reason.field("spec.suspend").help(format!("`stepgate resume {} --yes` ends it before", world.plan.cluster));
    let at = super::next_reading(world, StagePolicy::default().maximum_age, Some(hold.until), now);
    Some(vec![Effect::Observe { confirm: true, at }, wait(stage.clone(), reason, Some(hold.until))])
}

/// A wait of this stage, with its reason.
pub(super) fn wait(stage: StageId, reason: Reason, until: Option<Timestamp>) -> Effect {
    Effect::Wait { stage: Some(stage), reason, until }
}

/// A hold of this stage, with what helps.
pub(super) fn hold(stage: StageId, reasons: Vec<Reason>) -> Effect {
    let help = reasons.iter().find_map(|reason| reason.help.clone());
    let help = help.unwrap_or_else(|| "correct what the reasons name; the rollout goes on by itself".to_owned());
    Effect::Hold { stage, reasons, help }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::harness::RolloutHarness;
    use super::super::{record, step};
    use crate::effect::Effect;
    use crate::observation::Hold;
    use policy::OnFailure;

    #[test]
    fn what_people_hold_neither_goes_on_nor_back_until_they_let_it() {
        let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
        laboratory.policy.on_failure = OnFailure::Revert;
        laboratory.until("commit cert-manager 2");
        let until = laboratory.now + SignedDuration::from_hours(4);
        // Long after its timeout.
        laboratory.now += SignedDuration::from_hours(1);
        let mut read = laboratory.read();
        read.flux.kustomizations[0].suspended = true;
        read.flux.kustomizations[0].hold = Some(Hold { owner: "Ann".into(), reason: "audit".into(), until });
        laboratory.observation = Some(read);
        laboratory.history = record(&laboratory.world(), laboratory.now);
        let effects = step(&laboratory.world(), laboratory.now);
        let [Effect::Observe { at, .. }, Effect::Wait { stage: Some(stage), reason, until: Some(ends) }] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        assert_eq!((stage.to_string().as_str(), *ends), ("cert-manager", until));
        assert!(*at <= laboratory.now + SignedDuration::from_secs(30));
        let said = reason.to_string();
        assert!(said.contains(&format!("held by Ann until {until}: audit")), "{said}");
        assert!(reason.help.as_deref().unwrap().contains("`stepgate resume mgmt --yes`"));
    }
}
