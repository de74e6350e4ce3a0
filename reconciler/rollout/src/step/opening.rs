//! What opens a stage, and what stands in its way.

use jiff::Timestamp;

use crate::effect::Effect;
use crate::ledger::{Ledger, LedgerState};
use crate::plan::{Plan, StagePlan, StageState, StageTime};
use crate::stage::StageId;
use crate::verdict::{Evidence, Reason};
use crate::world::World;
use policy::{Begin, Closed, StagePolicy};

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

/// Why a stage may not begin now by windows and freezes, and when it may, as far as that is known; none where it may. `ledger` is that of its
/// cluster.
#[must_use]
pub fn closed_windows(
    plan: &Plan,
    next: &StagePlan,
    ledger: Option<&Ledger>,
    now: Timestamp,
) -> Option<(Reason, Option<Timestamp>)> {
    let windows = &next.policy.windows;
    if windows.is_empty() {
        return None;
    }
    let time = if windows.ask_how_long() { StageTime::of(next, ledger) } else { StageTime::Unknown };
    let name = next.stage.to_string();
    let begin = Begin { stage: &name, goes_back: plan.rollback.is_some(), takes: time.known() };
    let closed = windows.closed(now, begin)?;
    let opens = windows.next_begin(now, begin);
    let reason = match closed {
        Closed::Outside if windows.ask_how_long() && opens.is_none() => fits_nowhere(&name, time),
        Closed::Outside => Reason::new("outside of the maintenance windows"),
        Closed::Frozen(reason, until) => {
            let help =
                "`except` of that freeze names what begins all the same; pushed now, it counts for the next rollout";
            Reason::new(format!("frozen until {until}: {reason}")).help(help)
        }
        Closed::TooLate(_) if opens.is_none() => fits_nowhere(&name, time),
        Closed::TooLate(closes) => {
            let what = match time {
                StageTime::Unknown => format!("too near the end of the window at {closes}: {time}"),
                StageTime::Past(..) | StageTime::Given(_) => {
                    format!("it would not be over when the window closes at {closes}: {time}")
                }
            };
            Reason::new(what).help("it begins in the next window; `estimate` of the stage says how long it takes")
        }
    };
    Some((reason, opens))
}

fn fits_nowhere(stage: &str, time: StageTime) -> Reason {
    let reason = Reason::new(format!("stage {stage} fits into no window in sight: {time}"));
    reason.help("make a window longer, its `margin` shorter, or write `mustFit: false`")
}

/// Stages to come that fit into no window, each with the reason: the rollout would stand still before it.
#[must_use]
pub fn fitting_nowhere(plan: &Plan, ledger: Option<&Ledger>, now: Timestamp) -> Vec<Reason> {
    let open = plan.stages.iter().filter(|stage| {
        matches!(stage.state, StageState::Pending | StageState::Blocked) && !stage.stage.is_without_commit()
    });
    let never = open.filter_map(|stage| {
        let windows = &stage.policy.windows;
        let time = StageTime::of(stage, ledger);
        let name = stage.stage.to_string();
        let begin = Begin { stage: &name, goes_back: plan.rollback.is_some(), takes: time.known() };
        let is_asked = windows.ask_how_long() && stage.carried_by.is_none();
        (is_asked && windows.next_begin(now, begin).is_none()).then(|| fits_nowhere(&name, time))
    });
    never.collect()
}

/// Why something is not to be merged yet, in words; none where the stage may begin.
#[must_use]
pub fn outside_windows(plan: &Plan, next: &StagePlan, ledger: Option<&Ledger>, now: Timestamp) -> Option<String> {
    let (reason, opens) = closed_windows(plan, next, ledger, now)?;
    let next = match opens {
        Some(opens) => format!("the next maintenance window opens at {opens}"),
        None => "no maintenance window opens any more".to_owned(),
    };
    let is_plain = reason.message == "outside of the maintenance windows";
    Some(if is_plain { next } else { format!("{}; {next}", reason.message) })
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
