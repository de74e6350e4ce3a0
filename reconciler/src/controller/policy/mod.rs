//! The team's policy as plans and gates use it.

mod before;
mod confirm;
#[cfg(test)]
mod interleavings;

use overlays::Policy;
use rollout::{MaintenanceWindow, PlanPolicy, StageName, StagePolicy, UnknownTimeZone, Week, Weekday, WindowDay};

pub use before::{Before, Befores, Field};
pub use confirm::{Change, Pushed, changes, confirmations, may_ask_people};

use super::people;

/// Stages by which settings are compared that may differ from stage to stage.
const STAGES: [&str; 12] = [
    "preflight",
    "backup",
    "bundle",
    "cert-manager",
    "capi",
    "eks-a",
    "cilium",
    "flux",
    "etcd",
    "control-plane",
    "workers",
    "verify",
];

/// What a team has decided about stages, in the form that plans use.
pub(super) fn plan_policy(policy: &Policy, cluster: &str) -> PlanPolicy {
    let of = |stage: &StageName| stage_policy(policy, cluster, &stage.to_string());
    PlanPolicy {
        allow_downgrade: policy.allows_downgrade(cluster),
        preflight: of(&StageName::Preflight),
        backup: of(&StageName::Backup),
        backup_maximum_age: policy.backup.max_age,
        verify: of(&StageName::Verify),
    }
}

/// The policy in force for a stage, in the form that gates use.
pub(super) fn stage_policy(policy: &Policy, cluster: &str, stage: &str) -> StagePolicy {
    let effective = policy.effective(cluster, stage);
    StagePolicy {
        soak: effective.soak,
        timeout: effective.timeout,
        approval: match effective.approval {
            overlays::Approval::None => rollout::Approval::None,
            overlays::Approval::Rollout => rollout::Approval::Rollout,
            overlays::Approval::Stage => rollout::Approval::Stage,
        },
        approvers: people::rules(&effective.approvers),
        on_failure: on_failure(effective.on_failure),
        on_stale_merge: on_failure(effective.on_stale_merge),
        retries: effective.retries,
        accept_edits: effective.accept_edits,
        windows: windows(policy, cluster).into(),
        ..StagePolicy::default()
    }
}

/// The windows of a cluster. One that cannot be used blocks the plan.
fn windows(policy: &Policy, cluster: &str) -> Vec<MaintenanceWindow> {
    policy.windows(cluster).iter().filter_map(|known| window(known).ok()).collect()
}

fn on_failure(wanted: overlays::OnFailure) -> rollout::OnFailure {
    match wanted {
        overlays::OnFailure::Hold => rollout::OnFailure::Hold,
        overlays::OnFailure::Revert => rollout::OnFailure::Revert,
    }
}

pub(super) fn window(window: &overlays::Window) -> Result<MaintenanceWindow, UnknownTimeZone> {
    const DAYS: [Weekday; 7] = [
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
        Weekday::Sunday,
    ];
    let day = |day: &overlays::WindowDay| {
        let week = match day.week {
            overlays::Week::Every => Week::Every,
            overlays::Week::First => Week::First,
            overlays::Week::Second => Week::Second,
            overlays::Week::Third => Week::Third,
            overlays::Week::Fourth => Week::Fourth,
            overlays::Week::Last => Week::Last,
        };
        let weekday = DAYS.get(usize::from(day.weekday).checked_sub(1)?)?;
        Some(WindowDay { week, weekday: *weekday })
    };
    Ok(MaintenanceWindow {
        days: window.days.iter().filter_map(day).collect(),
        from: window.from,
        to: window.to,
        time_zone: window.time_zone.parse()?,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_fleets_settings_reach_stages_without_a_part_in_git() {
        let seconds = |policy: &Policy| {
            let plan = plan_policy(policy, "mgmt");
            [&plan.preflight, &plan.backup, &plan.verify].map(|stage| stage.soak.as_secs())
        };
        assert_eq!(seconds(&Policy::default()), [0, 0, 120]);
        let mut policy = Policy::default();
        policy.settings.soak = Some(Duration::from_secs(7));
        assert_eq!(seconds(&policy), [7, 7, 7]);
        policy.stages.entry("verify".to_owned()).or_default().soak = Some(Duration::from_secs(9));
        assert_eq!(seconds(&policy), [7, 7, 9]);
    }
}
