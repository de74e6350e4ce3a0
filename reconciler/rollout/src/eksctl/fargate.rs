//! Which workload on Fargate is restarted next: one after another, each waited for.

use crate::observation::{FargateReading, FargateWorkload};
use domain::RolloutId;

/// What is to be done about workloads on old nodes of Fargate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FargateAct<'a> {
    /// Nothing that a restart would change.
    Nothing,
    /// One that was restarted is not done.
    WaitFor(&'a FargateWorkload),
    /// This one is restarted.
    Restart(&'a FargateWorkload),
}

/// What is to be done next for a rollout. A workload is restarted once, and not while its pods are not ready.
#[must_use]
pub fn next_restart<'a>(reading: &'a FargateReading, rollout: &RolloutId) -> FargateAct<'a> {
    let is_restarted = |workload: &&FargateWorkload| workload.restarted_for.as_deref() == Some(rollout.as_str());
    let is_underway = |workload: &&FargateWorkload| !workload.is_settled || workload.old_pods > 0;
    if let Some(workload) = reading.workloads.iter().filter(is_restarted).find(is_underway) {
        return FargateAct::WaitFor(workload);
    }
    // Of what is not known, nothing can be waited for.
    if !reading.unread.is_empty() {
        return FargateAct::Nothing;
    }
    let is_next = |workload: &&FargateWorkload| {
        workload.old_pods > 0 && workload.is_settled && workload.cannot_roll.is_none() && !is_restarted(workload)
    };
    reading.workloads.iter().find(is_next).map_or(FargateAct::Nothing, FargateAct::Restart)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(name: &str, old_pods: u32) -> FargateWorkload {
        FargateWorkload {
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            old_pods,
            is_settled: true,
            cannot_roll: None,
            refused: None,
            restarted_for: None,
        }
    }

    #[track_caller]
    fn check(workloads: Vec<FargateWorkload>, expected: &str) {
        let reading = FargateReading { workloads, ..FargateReading::default() };
        let act = match next_restart(&reading, &"aaaaaaaaaaaa".parse().unwrap()) {
            FargateAct::Nothing => "nothing".to_owned(),
            FargateAct::WaitFor(workload) => format!("wait {}", workload.name),
            FargateAct::Restart(workload) => format!("restart {}", workload.name),
        };
        assert_eq!(act, expected);
    }

    #[test]
    fn one_workload_is_restarted_after_another() {
        let restarted = |name: &str, old_pods: u32, is_settled: bool| FargateWorkload {
            restarted_for: Some("aaaaaaaaaaaa".to_owned()),
            is_settled,
            ..workload(name, old_pods)
        };
        check(vec![workload("a", 0), workload("b", 1), workload("c", 1)], "restart b");
        check(vec![restarted("b", 1, true), workload("c", 1)], "wait b");
        check(vec![restarted("b", 0, false), workload("c", 1)], "wait b");
        check(vec![restarted("b", 0, true), workload("c", 1)], "restart c");
        check(vec![restarted("b", 0, true), restarted("c", 0, true)], "nothing");
    }

    #[test]
    fn what_a_restart_would_not_mend_is_left_alone() {
        let before = FargateWorkload { restarted_for: Some("bbbbbbbbbbbb".to_owned()), ..workload("a", 1) };
        check(vec![before], "restart a");
        check(vec![FargateWorkload { is_settled: false, ..workload("a", 1) }, workload("b", 1)], "restart b");
        check(vec![FargateWorkload { cannot_roll: Some("is paused".to_owned()), ..workload("a", 1) }], "nothing");
    }
}
