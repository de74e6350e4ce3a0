//! From a cluster's standing to a status that kstatus understands.

use jiff::Timestamp;
use rollout::{AddonStanding, TanzuPhase, TanzuStanding};

use super::{RolloutAddon, RolloutCondition, RolloutStatus, RolloutTanzu};

/// Texts of a status end here.
const LONGEST: usize = 1024;

/// Where a cluster stands, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutView {
    /// The cluster.
    pub cluster: String,
    /// `done`, `waiting`, `held`, `blocked` or `failed`.
    pub state: &'static str,
    /// The stage concerned.
    pub stage: Option<String>,
    /// One line.
    pub message: String,
    /// What helps.
    pub help: Option<String>,
    /// The newest commit made for it.
    pub commit: Option<String>,
    /// Machines that are kept from being drained, each with the command that lets it go; an event each.
    pub kept: Vec<String>,
    /// Where a cluster of Tanzu stands; none of others, and where it was not read.
    pub tanzu: Option<TanzuStanding>,
}

impl RolloutView {
    /// The status after `before`. What is as it was keeps its time, and its text where only numbers in it have moved on.
    pub(super) fn status(
        &self,
        before: Option<&RolloutStatus>,
        generation: Option<i64>,
        emergencies: Option<Vec<String>>,
        now: Timestamp,
    ) -> RolloutStatus {
        let now = format!("{now:.0}");
        let same = before.filter(|_| !self.is_transition(before));
        let told = same.filter(|before| without_numbers(&before.message) == without_numbers(&self.message));
        let message = told.map_or_else(|| shortened(&self.message), |before| before.message.clone());
        let conditions = ["Ready", "Reconciling", "Stalled"].map(|kind| {
            let status = self.condition(kind);
            let known = before.and_then(|before| before.conditions.iter().find(|known| known.kind == kind));
            let since = known.filter(|known| known.status == status).map(|known| known.last_transition_time.clone());
            RolloutCondition {
                kind: kind.to_owned(),
                status: status.to_owned(),
                reason: self.reason().to_owned(),
                message: message.clone(),
                last_transition_time: since.unwrap_or_else(|| now.clone()),
                observed_generation: generation,
            }
        });
        RolloutStatus {
            observed_generation: generation,
            state: self.state.to_owned(),
            stage: self.stage.clone(),
            since: same.and_then(|before| before.since.clone()).or(Some(now)),
            message,
            help: self.help.as_deref().map(shortened),
            commit: self.commit.clone().or_else(|| before.and_then(|before| before.commit.clone())),
            emergencies,
            tanzu: self.tanzu(before),
            conditions: conditions.to_vec(),
        }
    }

    /// Where a cluster of Tanzu stands; what was told before where it was not read since.
    fn tanzu(&self, before: Option<&RolloutStatus>) -> Option<RolloutTanzu> {
        let known = before.and_then(|before| before.tanzu.clone());
        let Some(standing) = &self.tanzu else { return known };
        let phase = standing.phase.map(TanzuPhase::as_str).map(str::to_owned);
        let addon = |addon: &AddonStanding| RolloutAddon {
            name: addon.name.clone(),
            version: addon.version.clone(),
            status: addon.status.as_str().to_owned(),
            last_error_message: addon.last_error_message.as_deref().map(shortened),
        };
        let phase = phase.or_else(|| known.and_then(|known| known.phase));
        Some(RolloutTanzu { phase, summary: standing.summary(), addons: standing.addons.iter().map(addon).collect() })
    }

    /// Whether the cluster has come to another state or stage.
    pub(super) fn is_transition(&self, before: Option<&RolloutStatus>) -> bool {
        before.is_none_or(|before| before.state != self.state || before.stage != self.stage)
    }

    fn condition(&self, kind: &str) -> &'static str {
        let stalled = matches!(self.state, "held" | "blocked");
        let holds = match kind {
            "Ready" => self.state == "done",
            "Stalled" => stalled,
            _ => self.state != "done" && !stalled,
        };
        if holds { "True" } else { "False" }
    }

    /// One word for conditions and events.
    pub(super) fn reason(&self) -> &'static str {
        match self.state {
            "done" => "ReconciliationSucceeded",
            // Everything is committed, and Flux fails at it.
            "held" if self.stage.is_none() => "HealthCheckFailed",
            "held" => "GateFailed",
            "blocked" => "PreCheckFailed",
            "failed" => "ReconciliationFailed",
            _ => "Waiting",
        }
    }

    pub(super) fn event_type(&self) -> &'static str {
        if matches!(self.state, "done" | "waiting") { "Normal" } else { "Warning" }
    }

    pub(super) fn event_message(&self) -> String {
        let stage = self.stage.as_ref().map(|stage| format!("stage {stage}: ")).unwrap_or_default();
        shortened(&format!("{stage}{}", self.message))
    }
}

/// What one event says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// `Normal` or `Warning`.
    pub(super) kind: &'static str,
    /// One word.
    pub(super) reason: &'static str,
    /// One line.
    pub(super) message: String,
}

/// What to tell of a cluster of Tanzu that has come to another phase since `before`.
pub(super) fn of_phase(before: Option<&RolloutStatus>, now: &RolloutStatus) -> Option<Told> {
    let phase = |status: &RolloutStatus| status.tanzu.as_ref().and_then(|tanzu| tanzu.phase.clone());
    let (known, seen) = (before.and_then(phase), phase(now)?);
    if known.as_ref() == Some(&seen) {
        return None;
    }
    let kind = if matches!(seen.as_str(), "updateFailed" | "failed") { "Warning" } else { "Normal" };
    let message = known.map_or_else(|| seen.clone(), |known| format!("{known} to {seen}"));
    Some(Told { kind, reason: "PhaseChanged", message })
}

/// What to tell of objects that the guard lets anybody change since `before`, or no more.
pub(super) fn of_emergencies(before: Option<&RolloutStatus>, now: &RolloutStatus) -> Vec<Told> {
    let known = before.and_then(|before| before.emergencies.as_deref()).unwrap_or_default();
    // Without the guard there is nothing that could be back on.
    let Some(now) = now.emergencies.as_deref() else { return Vec::new() };
    let told =
        |kind, reason, what: &str, line: &String| Told { kind, reason, message: shortened(&format!("{what} {line}")) };
    let begun = now.iter().filter(|line| !known.contains(line));
    let ended = known.iter().filter(|line| !now.contains(line));
    let begun = begun.map(|line| told("Warning", "GuardOverridden", "the guard lets anybody change", line));
    begun.chain(ended.map(|line| told("Normal", "GuardRestored", "the guard is back on", line))).collect()
}

fn without_numbers(text: &str) -> String {
    text.chars().filter(|character| !character.is_ascii_digit()).collect()
}

pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(state: &'static str, message: &str) -> RolloutView {
        RolloutView {
            cluster: "prod".to_owned(),
            state,
            stage: Some("capi".to_owned()),
            message: message.to_owned(),
            help: None,
            commit: None,
            kept: Vec::new(),
            tanzu: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn kstatus_reads_every_state() {
        for (state, expected) in [
            ("done", ["True", "False", "False"]),
            ("waiting", ["False", "True", "False"]),
            ("failed", ["False", "True", "False"]),
            ("held", ["False", "False", "True"]),
            ("blocked", ["False", "False", "True"]),
        ] {
            let status = view(state, "a").status(None, Some(3), None, at(0));
            let seen: Vec<_> = status.conditions.iter().map(|condition| condition.status.as_str()).collect();
            assert_eq!(seen, expected, "{state}");
            assert!(status.conditions.iter().all(|condition| condition.observed_generation == Some(3)));
        }
    }

    #[test]
    fn what_stays_keeps_its_time_and_a_counting_message_is_no_change() {
        let first = view("waiting", "healthy for 3 of 60 s of soak").status(None, Some(1), None, at(0));
        let again = view("waiting", "healthy for 12 of 60 s of soak").status(Some(&first), Some(1), None, at(30));
        assert_eq!(first, again);
        let other = view("waiting", "1 of 2 available").status(Some(&first), Some(1), None, at(40));
        assert_eq!(
            (other.since.as_deref(), other.message.as_str()),
            (Some("1970-01-01T00:00:00Z"), "1 of 2 available")
        );
        let held = view("held", "timeout").status(Some(&other), Some(1), None, at(50));
        assert_eq!(held.since.as_deref(), Some("1970-01-01T00:00:50Z"));
        assert_eq!(held.conditions[0].last_transition_time, "1970-01-01T00:00:00Z");
        assert_eq!(held.conditions[2].last_transition_time, "1970-01-01T00:00:50Z");
    }

    #[test]
    fn flux_that_fails_at_a_cluster_that_was_done_is_told_and_so_is_its_end() {
        let seen = |state, before: Option<&RolloutStatus>| {
            let view = RolloutView { stage: None, ..view(state, "Kustomization flux-system/prod-capi: denied") };
            assert!(view.is_transition(before), "{state}");
            view.status(before, Some(1), None, at(0))
        };
        let told = |status: &RolloutStatus| {
            let ready = status.conditions.iter().find(|condition| condition.kind == "Ready").unwrap();
            (status.state.clone(), ready.status.clone(), ready.reason.clone())
        };
        let done = seen("done", None);
        let held = seen("held", Some(&done));
        assert_eq!(told(&held), ("held".to_owned(), "False".to_owned(), "HealthCheckFailed".to_owned()));
        let again = seen("done", Some(&held));
        assert_eq!(told(&again), ("done".to_owned(), "True".to_owned(), "ReconciliationSucceeded".to_owned()));
    }

    #[test]
    fn what_the_guard_lets_pass_is_told_once_and_so_is_its_end() {
        let seen = |emergencies: Option<&[&str]>, before: Option<&RolloutStatus>| {
            let emergencies = emergencies.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect());
            view("done", "a").status(before, Some(1), emergencies, at(0))
        };
        let told = |before: Option<&RolloutStatus>, now: &RolloutStatus| {
            let told = of_emergencies(before, now).into_iter();
            told.map(|told| format!("{} {}", told.reason, told.message)).collect::<Vec<_>>()
        };
        let first = seen(Some(&["Cluster a/b: full"]), None);
        assert_eq!(told(None, &first), ["GuardOverridden the guard lets anybody change Cluster a/b: full"]);
        assert!(told(Some(&first), &first).is_empty() && told(Some(&first), &seen(None, Some(&first))).is_empty());
        let over = seen(Some(&[]), Some(&first));
        assert_eq!(told(Some(&first), &over), ["GuardRestored the guard is back on Cluster a/b: full"]);
    }

    #[test]
    fn the_phase_of_a_cluster_of_tanzu_is_told_when_it_changes_and_kept_where_it_is_not_read() {
        let seen = |phase: Option<TanzuPhase>, before: Option<&RolloutStatus>| {
            let addon = AddonStanding {
                name: "antrea".to_owned(),
                version: Some("v1.13.3".to_owned()),
                status: rollout::TanzuAddonState::Error,
                last_error_message: Some("denied".to_owned()),
            };
            let tanzu = Some(TanzuStanding { phase, addons: vec![addon] });
            RolloutView { tanzu, ..view("waiting", "a") }.status(before, Some(1), None, at(0))
        };
        let told = |before: Option<&RolloutStatus>, now: &RolloutStatus| {
            of_phase(before, now).map(|told| format!("{} {}", told.kind, told.message))
        };
        let updating = seen(Some(TanzuPhase::Updating), None);
        assert_eq!(told(None, &updating).as_deref(), Some("Normal updating"));
        assert_eq!(updating.tanzu.as_ref().unwrap().summary, "1 error");
        let unread = view("waiting", "a").status(Some(&updating), Some(1), None, at(0));
        assert_eq!((told(Some(&updating), &unread), &unread), (None, &updating));
        assert_eq!(seen(None, Some(&updating)), updating);
        let failed = seen(Some(TanzuPhase::UpdateFailed), Some(&updating));
        assert_eq!(told(Some(&updating), &failed).as_deref(), Some("Warning updating to updateFailed"));
    }

    #[test]
    fn a_status_has_an_end() {
        assert!(view("held", &"x".repeat(100_000)).status(None, None, None, at(0)).message.len() < 2 * LONGEST);
    }
}
