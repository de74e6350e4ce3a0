//! Objects of upgrades as gates and `why` read them.

use in_place::objects::{Condition, GroupUpgrade, NodeUpgrade};
use rollout::{InPlaceState, InPlaceUpgrade};

use super::State;

impl State {
    /// What upgrades in place tell of machines that go to their version.
    pub(in crate::cluster) fn observed_upgrades(&self) -> Vec<InPlaceUpgrade> {
        let Some(upgrades) = &self.upgrades else { return Vec::new() };
        let goes_to = |version: &str| {
            let owners = self.control_plane.iter().map(|known| &known.spec.version);
            let mut wanted = owners.chain(self.workers.iter().map(|known| &known.spec.version));
            wanted.any(|known| known == version)
        };
        let groups = upgrades.groups.iter().map(|known| self.group(known));
        let nodes = upgrades.nodes.iter().map(|known| self.node(known));
        groups.chain(nodes).filter(|known| goes_to(&known.version)).collect()
    }

    fn group(&self, known: &GroupUpgrade) -> InPlaceUpgrade {
        let status = &known.status;
        let all = status.upgraded.saturating_add(status.require_upgrade);
        InPlaceUpgrade {
            kind: known.kind.as_str().to_owned(),
            namespace: self.namespace.clone(),
            name: known.name.clone(),
            resource: known.kind.as_str().to_lowercase(),
            version: known.spec.kubernetes_version.to_string(),
            state: state(status.ready, &status.conditions),
            told: format!("{} of {all} machines are upgraded; {}", status.upgraded, status.message),
            started: None,
            finished: None,
        }
    }

    fn node(&self, known: &NodeUpgrade) -> InPlaceUpgrade {
        let status = &known.status;
        InPlaceUpgrade {
            kind: String::from("NodeKubeadmUpgrade"),
            namespace: self.namespace.clone(),
            name: known.name.clone(),
            resource: String::from("nodekubeadmupgrade"),
            version: known.spec.kubernetes_version.to_string(),
            state: state(status.completed, &status.conditions),
            told: format!("node {}: {}", known.spec.node, status.message),
            started: status.started,
            finished: status.finished,
        }
    }
}

fn state(is_done: bool, conditions: &[Condition]) -> InPlaceState {
    let is_stalled = conditions.iter().any(|known| known.kind == "Stalled" && known.status == "True");
    match (is_done, is_stalled) {
        (true, _) => InPlaceState::Done,
        (false, true) => InPlaceState::Failed,
        (false, false) => InPlaceState::Underway,
    }
}
