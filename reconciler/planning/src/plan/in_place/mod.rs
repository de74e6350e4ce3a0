//! Whether the machines of a stage stay and are upgraded in place, as the policy or the specification wants, and what follows.
//!
//! Cluster API replaces silently whatever cannot be done in place. So the plan asks before anything starts, by the same claims that the
//! extension answers Cluster API with.

mod check;
mod cluster_api;
mod driver;
mod eks_anywhere;
mod owner;
mod upgrader;

pub use check::problems;

use bundles::Version;
use overlays::{ClusterKind, ClusterSpec, Fleet};
use policy::{MachinePolicy, OnDecline, RolloutStrategy};
use rollout::check::PlannedImage;
use rollout::{Block, Risk, RiskKind, StageId, StageName, StagePlan};
use yaml::Node;

use self::upgrader::Upgrader;
use super::{Facts, nodes, plural, policy_in_force};
use crate::stage_tree::StageTree;

/// The code of what keeps a stage from beginning.
const CODE: &str = "in-place";

/// What the plan says of a stage whose machines are to be upgraded in place.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    pub(super) reasons: Vec<String>,
    pub(super) risks: Vec<Risk>,
    pub(super) one_way: Vec<String>,
    pub(super) blocks: Vec<Block>,
    /// What nodes pull for it.
    pub(super) image: Option<PlannedImage>,
    /// The namespace in which Cluster API has to ask, so that machines stay.
    pub(super) asked_in: Option<String>,
}

/// The machines of a stage before and after it.
struct Sides<'a> {
    cluster: &'a ClusterSpec,
    stage: &'a StageName,
    before: Vec<Node>,
    after: Vec<Node>,
    /// The version of Cluster API that manages the cluster, where the fleet has it.
    cluster_api: Option<Version>,
    /// What the fleet has in the directories of other clusters; read where it is asked for alone.
    fleet: &'a Fleet,
}

/// What nobody can mean, and what to do about it.
#[derive(Debug, PartialEq)]
struct Contradiction {
    message: String,
    help: String,
}

impl Contradiction {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

/// What a specification itself says, and what of it stands in the way.
#[derive(Debug, Default, PartialEq)]
struct Found {
    /// Whether it asks for machines that stay, and what it says should happen otherwise.
    asks: Option<OnDecline>,
    /// Why that is contradicted: held in any case, since nobody can tell what is meant.
    contradictions: Vec<Contradiction>,
    /// Who upgrades them, in words.
    driven: Option<String>,
    /// The namespace in which Cluster API has to ask by its hooks.
    asked_in: Option<String>,
    /// Why machines would be replaced all the same.
    declined: Vec<String>,
    /// With what nodes are upgraded.
    upgrader: Upgrader,
    /// What does not come back.
    one_way: Vec<String>,
    /// Files that the node upgrader writes besides the release.
    written: Vec<String>,
}

/// Nothing where machines roll, as they do by default.
pub(super) fn outlook(facts: &Facts<'_>, part: &StageTree, machines: u32) -> Outlook {
    let has_machines = matches!(part.stage.name, StageName::ControlPlane | StageName::Workers(_));
    if !has_machines || !part.is_moved() || super::gone_group(facts, part).is_some() {
        return Outlook::default();
    }
    let policy = policy_in_force(facts, &part.stage.to_string()).machines;
    let sides = Sides {
        cluster: facts.cluster,
        stage: &part.stage.name,
        before: nodes(&part.before),
        after: nodes(&part.after),
        cluster_api: driver::cluster_api_of(facts.fleet, facts.cluster),
        fleet: facts.fleet,
    };
    decide(&part.stage, &policy, machines, sides.found(&policy))
}

impl Sides<'_> {
    fn found(&self, policy: &MachinePolicy) -> Found {
        match self.cluster.kind {
            ClusterKind::EksAnywhere => eks_anywhere::found(self, policy),
            ClusterKind::ClusterApi => cluster_api::found(self, policy),
            ClusterKind::ClusterClass | ClusterKind::Tanzu | ClusterKind::Eksctl => Found {
                declined: vec!["machines of such a cluster are not upgraded in place".to_owned()],
                ..Found::default()
            },
        }
    }
}

fn decide(stage: &StageId, policy: &MachinePolicy, machines: u32, found: Found) -> Outlook {
    let mut outlook = Outlook::default();
    let block = |message: String, help: &str| Block {
        code: CODE.to_owned(),
        stage: Some(stage.clone()),
        message,
        help: help.to_owned(),
    };
    let on_decline = match (policy.strategy, found.asks) {
        (None | Some(RolloutStrategy::Rolling), None) => return outlook,
        (Some(RolloutStrategy::Rolling), Some(_)) => {
            outlook.blocks.push(block(
                "stepgate.yaml says strategy: rolling, and the specification asks for machines that are upgraded in place"
                    .to_owned(),
                "take one of the two out",
            ));
            return outlook;
        }
        (Some(RolloutStrategy::InPlace), _) => policy.on_decline,
        (None, Some(own)) => own,
    };
    outlook.blocks.extend(found.contradictions.into_iter().map(|it| block(it.message, &it.help)));
    let counted = format!("{machines} machine{}", plural(machines as usize));
    if found.declined.is_empty() {
        outlook.blocks.extend(found.upgrader.missing.map(|it| block(it.message, &it.help)));
        outlook.image = found.upgrader.image;
        outlook.asked_in = found.asked_in;
        // What does not begin is not said to be done.
        if !outlook.blocks.is_empty() {
            return outlook;
        }
        let stay = if machines == 1 { "stays, and is upgraded" } else { "stay, and are upgraded one after another" };
        let driven = found.driven.map(|driven| format!("; {driven}")).unwrap_or_default();
        outlook.reasons.push(format!("{}{counted} {stay}{driven}", StagePlan::IN_PLACE));
        outlook.reasons.extend(found.upgrader.reason.map(|it| format!("{}with {it}", StagePlan::IN_PLACE)));
        if !found.written.is_empty() {
            outlook.reasons.push(format!("{}with {}", StagePlan::IN_PLACE, found.written.join(", ")));
        }
        outlook.one_way = found.one_way;
        outlook.risks.extend(felt(stage, machines).map(|text| Risk::new(RiskKind::Other, text)));
        return outlook;
    }
    let why = found.declined.join("; ");
    match on_decline {
        OnDecline::Hold => outlook.blocks.push(block(
            format!("machines would be replaced instead of upgraded in place: {why}"),
            "take that change out, or let machines be replaced: inPlace: {onDecline: replace} for this stage in stepgate.yaml",
        )),
        OnDecline::Replace => outlook.reasons.push(format!("{}{why}: {counted}", StagePlan::REPLACE)),
    }
    outlook
}

/// What workloads feel of machines that nothing stands in for.
fn felt(stage: &StageId, machines: u32) -> Option<String> {
    match (&stage.name, machines) {
        (StageName::ControlPlane, 1) => Some(
            "the only control-plane machine is upgraded in place: its API server is away meanwhile, and what runs there \
             waits until it is back"
                .to_owned(),
        ),
        (StageName::Workers(group), 1) => Some(format!(
            "the only machine of {group} is drained and upgraded in place: what may run nowhere else waits until it is back"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
