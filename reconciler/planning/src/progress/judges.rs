//! Who approves a wave by the policies of before: whoever pushes does not lower the bar that judges the push.

use std::sync::Arc;

use policy::{ApprovalRules, Policy, Roster, Wave, WaveApproval};
use rollout::{WaveAsks, WaveQuestion};

use crate::people::roster;
use crate::policies::{Befores, Field};

/// What policies of before ask of the wave of a cluster, and who is who for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaveJudges {
    asked: Vec<(WaveQuestion, ApprovalRules)>,
    roster: Option<Arc<Roster>>,
}

impl WaveJudges {
    /// Those of a cluster.
    pub fn of(cluster: &str, befores: &Befores, roster: &Arc<Roster>) -> Self {
        let asked = befores.of(Field::Approval).filter_map(|before| {
            let policy = &before.policy;
            let wave = policy.wave_of(cluster).and_then(|place| policy.waves.get(place))?;
            asked(policy, wave)
        });
        Self { asked: asked.collect(), roster: Some(Arc::clone(roster)) }
    }

    /// Whether any of them asks anything.
    pub(super) fn asks(&self) -> bool {
        !self.asked.is_empty()
    }
}

/// What is asked of a wave: by the newest policy, and by those of before that count for any of its clusters.
pub(super) fn wave_asks<'a>(policy: &Policy, wave: &Wave, clusters: impl Iterator<Item = &'a WaveJudges>) -> WaveAsks {
    let mut asks = WaveAsks::default();
    if let Some((question, rules)) = asked(policy, wave) {
        asks.ask(question, &rules);
    }
    let judges: Vec<&WaveJudges> = clusters.collect();
    for (question, rules) in judges.iter().flat_map(|judges| &judges.asked) {
        asks.ask(*question, rules);
    }
    if asks.before.is_some() || asks.after.is_some() {
        asks.know(&roster(policy));
        judges.iter().filter_map(|judges| judges.roster.as_deref()).for_each(|roster| asks.know(roster));
    }
    asks
}

fn asked(policy: &Policy, wave: &Wave) -> Option<(WaveQuestion, ApprovalRules)> {
    let question = match wave.approval {
        WaveApproval::None => return None,
        WaveApproval::Before => WaveQuestion::Before,
        WaveApproval::After => WaveQuestion::After,
    };
    Some((question, policy.wave_approvers(wave)))
}
