//! The words of announcements.

use jiff::SignedDuration;

use super::Announcement;
use crate::plan::StagePlan;
use crate::rollback::Rollback;
use crate::stage::{StageId, StageName};
use policy::{AnnouncementKind, AnnouncementTemplate, AnnouncementVariable};

pub(super) fn of_rollback(rollback: &Rollback) -> String {
    let because = rollback.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{} takes it back to {rollback}{because}", rollback.by)
}

/// What people will feel of stages, a line each.
pub(super) fn impact<'a>(
    stages: impl IntoIterator<Item = &'a StagePlan>,
    said: &impl Fn(&StageId) -> Option<String>,
) -> Vec<String> {
    let of = |stage: &StagePlan| said(&stage.stage).or_else(|| felt(stage));
    let mut lines: Vec<String> = stages.into_iter().filter_map(of).collect();
    lines.dedup();
    if lines.is_empty() {
        lines.push("nothing is felt: no node is replaced".to_owned());
    }
    lines
}

/// What people will feel of one stage by its kind; none where it is nothing.
fn felt(stage: &StagePlan) -> Option<String> {
    let machines = match (stage.machines, stage.uncounted_machines) {
        (_, true) => "machines are".to_owned(),
        (0, false) => "no machine is".to_owned(),
        (1, false) => "1 machine is".to_owned(),
        (count, false) => format!("{count} machines are"),
    };
    match &stage.stage.name {
        StageName::ControlPlane => {
            Some(format!("the API server answers with short breaks while {machines} replaced in the control plane"))
        }
        StageName::Workers(group) => {
            Some(format!("pods in worker group {group} move to other nodes while {machines} replaced"))
        }
        StageName::Etcd => Some("the API server waits for moments while members of etcd are replaced".to_owned()),
        StageName::Addons => Some("pods of add-ons are made anew".to_owned()),
        StageName::Addon(name) => Some(format!("pods of add-on {name} are made anew")),
        StageName::Fargate => Some("workloads on Fargate are made anew, one after another".to_owned()),
        StageName::Cilium => Some("new connections wait for moments while Cilium restarts on each node".to_owned()),
        StageName::Preflight
        | StageName::Backup
        | StageName::CertManager
        | StageName::Capi
        | StageName::EksA
        | StageName::Bundle
        | StageName::CiliumPreflight
        | StageName::Flux
        | StageName::Templates
        | StageName::Leftovers
        | StageName::Verify => None,
    }
}

impl Announcement {
    /// What it is about, in one line.
    #[must_use]
    pub fn title(&self) -> String {
        let Self { cluster, rollout, kind, .. } = self;
        let again = if self.turn > 1 { format!(" ({}. time)", self.turn) } else { String::new() };
        match (&self.stage, kind) {
            (None, AnnouncementKind::Upcoming) => match self.opens {
                Some(opens) => format!("{cluster}: rollout {rollout} begins when its window opens, at {opens:.0}"),
                None => format!("{cluster}: rollout {rollout} is going to begin"),
            },
            (None, AnnouncementKind::Started) => format!("{cluster}: rollout {rollout} has begun"),
            (None, AnnouncementKind::Waiting) => format!("{cluster}: rollout {rollout} waits for people{again}"),
            (None, AnnouncementKind::Held) => format!("{cluster}: rollout {rollout} is held{again}"),
            (None, AnnouncementKind::Done) => format!("{cluster}: rollout {rollout} is done"),
            (None, AnnouncementKind::RolledBack) => format!("{cluster}: rolled back by rollout {rollout}"),
            (Some(stage), AnnouncementKind::Upcoming) => match self.opens {
                Some(opens) => format!("{cluster}: stage {stage} begins when its window opens, at {opens:.0}"),
                None => format!("{cluster}: stage {stage} is going to begin"),
            },
            (Some(stage), AnnouncementKind::Started) => format!("{cluster}: stage {stage} is rolled out{again}"),
            (Some(stage), AnnouncementKind::Waiting) => format!("{cluster}: stage {stage} waits for people{again}"),
            (Some(stage), AnnouncementKind::Held) => format!("{cluster}: held at stage {stage}{again}"),
            (Some(stage), AnnouncementKind::Done) => format!("{cluster}: stage {stage} has passed{again}"),
            (Some(stage), AnnouncementKind::RolledBack) => format!("{cluster}: stage {stage} is taken back{again}"),
        }
    }

    /// Everything that is told of it, a line each, the title first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.title()];
        lines.extend(self.reasons.iter().map(|reason| format!("why: {reason}")));
        lines.extend(self.help.iter().map(|help| format!("what helps: {help}")));
        lines.extend(self.asked.iter().map(|asked| format!("asked on: {asked}")));
        lines.extend(self.impact.iter().map(|impact| format!("felt: {impact}")));
        lines.extend(self.expected().map(|takes| format!("takes about {takes}, by the last rollout")));
        lines
    }

    /// The text that a template makes of it.
    #[must_use]
    pub fn render(&self, template: &AnnouncementTemplate) -> String {
        template.render(|variable| match variable {
            AnnouncementVariable::Cluster => self.cluster.to_string(),
            AnnouncementVariable::Rollout => self.rollout.to_string(),
            AnnouncementVariable::Stage => {
                self.stage.as_ref().map_or_else(|| "rollout".to_owned(), ToString::to_string)
            }
            AnnouncementVariable::Kind => self.kind.to_string(),
            AnnouncementVariable::Reason => self.reasons.join("; "),
            AnnouncementVariable::Help => self.help.clone().unwrap_or_default(),
            AnnouncementVariable::Impact => self.impact.join("; "),
            AnnouncementVariable::Takes => self.expected().unwrap_or_else(|| "an unknown time".to_owned()),
            AnnouncementVariable::Opens => self.opens.map_or_else(|| "now".to_owned(), |opens| format!("{opens:.0}")),
            AnnouncementVariable::Commit => self.commit.as_ref().map(ToString::to_string).unwrap_or_default(),
            AnnouncementVariable::Asked => self.asked.clone().unwrap_or_default(),
        })
    }

    fn expected(&self) -> Option<String> {
        let duration = SignedDuration::from_secs(self.takes?);
        Some(match (duration.as_hours(), duration.as_mins() % 60) {
            (0, minutes) => format!("{} min", minutes.max(1)),
            (hours, minutes) => format!("{hours} h {minutes} min"),
        })
    }
}
