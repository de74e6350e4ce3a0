//! Where a wave stands.

use jiff::Timestamp;
use overlays::Fleet;
use planning::progress::{WaveProgress, plain_waves};
use policy::{First, WaveApproval, format_duration};
use rollout::{Standing, WaveMember, WaveState, places, ranked, tolerated_failures};
use serde::Serialize;

/// Where a wave stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveReport {
    /// Its name.
    pub wave: String,
    /// `ahead`, `under way`, `stopped`, `soaking`, `done with exceptions`, `waits for approval` or `done`; `paused` where its clusters stand still.
    pub state: String,
    /// Whether somebody has to approve it now.
    pub waits_for_approval: bool,
    /// How many clusters belong to it.
    pub clusters: usize,
    /// How many of them are done.
    pub done: usize,
    /// Those whose rollout is on the way.
    pub under_way: Vec<String>,
    /// Those that are held, were taken back, or broke after their end.
    pub failed: Vec<FailedInWave>,
    /// Those that it goes without.
    pub skipped: Vec<SkippedInWave>,
    /// How many may be under way at once.
    pub places: usize,
    /// How many may fail before it is stopped.
    pub tolerated_failures: usize,
    /// When its state ends by itself, RFC 3339; null where it does not.
    pub until: Option<String>,
    /// What helps; null where nothing is to be done.
    pub advice: Option<String>,
    /// All of it in one line.
    pub line: String,
}

/// A cluster of a wave that has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedInWave {
    /// The cluster.
    pub cluster: String,
    /// What has become of it.
    pub why: String,
}

/// A cluster that a wave goes without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkippedInWave {
    /// The cluster.
    pub cluster: String,
    /// Why.
    pub reason: String,
    /// Until when, RFC 3339.
    pub until: String,
    /// Who answers for it.
    pub by: String,
}

impl WaveReport {
    /// Where it stands at `now`.
    #[must_use]
    pub fn of(progress: &WaveProgress, now: Timestamp) -> Self {
        let WaveProgress { wave, state, members } = progress;
        let skipped: Vec<SkippedInWave> = members
            .iter()
            .filter_map(|member| {
                let lease = wave.skipped(member.cluster.as_str(), now)?;
                let (reason, by) = (lease.reason.clone(), lease.by.clone());
                Some(SkippedInWave { cluster: member.cluster.to_string(), reason, until: lease.until.to_string(), by })
            })
            .collect();
        let is_skipped = |name: &str| skipped.iter().any(|skip| skip.cluster == name);
        let active = || members.iter().filter(|member| !is_skipped(member.cluster.as_str()));
        let under_way = active().filter(|member| matches!(member.standing, Standing::UnderWay { .. }));
        let failed = active().filter_map(|member| match &member.standing {
            Standing::Failed { why, .. } => {
                Some(FailedInWave { cluster: member.cluster.to_string(), why: why.clone() })
            }
            _ => None,
        });
        let pause = wave.paused.is_on(now).then(|| wave.paused.ends());
        let until = match (pause, state) {
            (Some(ends), _) => (ends < Timestamp::MAX).then_some(ends),
            (None, WaveState::Soaking(until)) => Some(*until),
            (None, _) => None,
        };
        let advice = match state {
            WaveState::Stopped(reason) | WaveState::DoneWithExceptions(reason) | WaveState::Unapproved(reason) => {
                reason.help.clone()
            }
            _ => None,
        };
        let mut report = Self {
            wave: wave.name.clone(),
            state: if pause.is_some() { "paused".to_owned() } else { state.word().to_owned() },
            waits_for_approval: matches!(state, WaveState::Unapproved(_)),
            clusters: members.len(),
            done: active().filter(|member| matches!(member.standing, Standing::Done { .. })).count(),
            under_way: under_way.map(|member| member.cluster.to_string()).collect(),
            failed: failed.collect(),
            places: places(wave, members.len()),
            tolerated_failures: tolerated_failures(wave, members.len()),
            until: until.as_ref().map(Timestamp::to_string),
            advice,
            line: String::new(),
            skipped,
        };
        report.line = report.told(state);
        report
    }

    fn told(&self, state: &WaveState) -> String {
        let mut line = format!("wave {}: {}, {} of {} done", self.wave, self.state, self.done, self.clusters);
        if !self.under_way.is_empty() {
            let (count, places) = (self.under_way.len(), self.places);
            line.push_str(&format!("; {count} of {places} places taken by {}", self.under_way.join(", ")));
        }
        match state {
            WaveState::Stopped(reason) | WaveState::DoneWithExceptions(reason) | WaveState::Unapproved(reason) => {
                line.push_str(&format!("; {}", reason.message));
            }
            _ if !self.failed.is_empty() => {
                let failed = self.failed.iter().map(|it| format!("{} ({})", it.cluster, it.why));
                line.push_str(&format!("; failed: {}", failed.collect::<Vec<_>>().join(", ")));
            }
            _ => {}
        }
        for skip in &self.skipped {
            line.push_str(&format!("; without {} until {} by {}: {}", skip.cluster, skip.until, skip.by, skip.reason));
        }
        if let Some(until) = &self.until {
            line.push_str(&format!("; until {until}"));
        }
        line
    }
}

/// The wave of a cluster and what it says, in words; none of one that belongs to none.
#[must_use]
pub fn wave_told(fleet: &Fleet, cluster: &str, now: Timestamp) -> Option<String> {
    let place = fleet.policy.wave_of(cluster)?;
    let waves = plain_waves(fleet);
    let (wave, members) = waves.get(place)?;
    let size = members.len();
    let after =
        place.checked_sub(1).and_then(|before| waves.get(before)).map(|(before, _)| format!(", after {}", before.name));
    let mut told = vec![
        format!("{}{}", wave.name, after.unwrap_or_default()),
        format!("{} of {size} at once", places(wave, size).min(size)),
        format!("{} may fail", tolerated_failures(wave, size).min(size)),
    ];
    let ranked = ranked(wave, members);
    let names =
        |members: &[&WaveMember]| members.iter().map(|member| member.cluster.as_str()).collect::<Vec<_>>().join(", ");
    match &wave.first {
        First::Named(names) if !names.is_empty() => told.push(format!("first {}", names.join(", "))),
        First::Count(count) if *count > 0 => {
            let count = usize::try_from(*count).unwrap_or(size).min(size);
            told.push(format!("first {}", names(ranked.get(..count).unwrap_or_default())));
        }
        First::Named(_) | First::Count(_) => {}
    }
    if !wave.soak.is_zero() {
        told.push(format!("soaks for {}", format_duration(wave.soak)));
    }
    let approval = match wave.approval {
        WaveApproval::None => None,
        WaveApproval::Before => Some("approved before it begins"),
        WaveApproval::After => Some("approved before the next one begins"),
    };
    told.extend(approval.map(|approval| format!("{approval}: {}", fleet.policy.wave_approvers(wave))));
    if let Some(deadline) = wave.deadline {
        told.push(format!("stops after {}", format_duration(deadline)));
    }
    if let Some(lease) = wave.skipped(cluster, now) {
        told.push(format!("goes without it {lease}"));
    }
    Some(told.join("; "))
}

#[cfg(test)]
mod tests {
    use policy::{Lease, Paused, Share, Skip, Wave};
    use rollout::{Reason, Standing};

    use super::*;

    fn progress(wave: Wave, state: WaveState, standings: [(&str, Standing); 3]) -> WaveProgress {
        let member = |(name, standing): (&str, Standing)| WaveMember {
            cluster: name.parse().unwrap(),
            machines: None,
            standing,
            plan: None,
            is_replanned: false,
        };
        WaveProgress { wave, state, members: standings.into_iter().map(member).collect() }
    }

    #[test]
    fn a_wave_is_told_in_one_line_with_who_keeps_it() {
        let now = Timestamp::UNIX_EPOCH;
        let until: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let lease = |reason: &str| Lease { reason: reason.to_owned(), until, by: "ops".to_owned() };
        let wave = Wave {
            concurrency: Share::Count(2),
            skip: vec![Skip { cluster: "c".to_owned(), lease: lease("racks move") }],
            ..Wave::named("prod")
        };
        let under_way = Standing::UnderWay { started: now, is_known: true };
        let failed = Standing::Failed { started: Some(now), why: "held at capi".to_owned() };
        let done = Standing::Done { started: Some(now), since: Some(now) };
        let stopped = WaveState::Stopped(Reason::new("wave prod is stopped: a (held at capi)").help("mend it"));
        let report = WaveReport::of(
            &progress(wave.clone(), stopped, [("a", failed), ("b", under_way), ("c", done.clone())]),
            now,
        );
        assert_eq!(
            report.line,
            "wave prod: stopped, 0 of 3 done; 1 of 2 places taken by b; wave prod is stopped: a (held at capi); without c until \
             2026-03-01T12:00:00Z by ops: racks move"
        );
        assert_eq!((report.failed.len(), report.tolerated_failures, report.advice.as_deref()), (1, 0, Some("mend it")));
        let paused = Wave { paused: Paused::Until(lease("audit")), skip: Vec::new(), ..wave };
        let all = [("a", done.clone()), ("b", done.clone()), ("c", done)];
        let report = WaveReport::of(&progress(paused, WaveState::Done, all), now);
        assert_eq!((report.state.as_str(), report.done), ("paused", 3));
        assert_eq!(report.line, "wave prod: paused, 3 of 3 done; until 2026-03-01T12:00:00Z");
    }
}
