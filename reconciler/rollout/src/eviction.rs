//! What an API server answers to an eviction, in the order in which it judges one, and which nodes are being drained.
//!
//! `kubernetes/pkg/registry/core/pod/storage/eviction.go`. The forecast before a rollout and the words during one both rest on
//! it, and a test holds it against a real server.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::observation::{
    ConditionStatus, DisruptionBudget, DrainingNode, EvictedPod, Machine, Node, NodeOrigin, Observation,
};

/// What an API server answers to an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionAnswer<'a> {
    /// The pod goes.
    Goes,
    /// 429 of a budget that lets none go now.
    Refused(&'a DisruptionBudget),
    /// 429 of a budget whose status is not of its specification; its controller mends that in a moment.
    Stale(&'a DisruptionBudget),
    /// 500 as long as several budgets select the pod: it never passes by itself.
    SeveralBudgets(&'a [String]),
}

/// The answer to the eviction of a pod. What has ended, waits for a node or is being deleted goes whatever budgets say.
///
/// A budget that selects the pod and is not among `budgets` is taken as one that refuses nothing.
#[must_use]
pub fn eviction_answer<'a>(
    pod: &'a EvictedPod,
    goes_at_once: bool,
    budgets: impl IntoIterator<Item = &'a DisruptionBudget>,
) -> EvictionAnswer<'a> {
    if goes_at_once {
        return EvictionAnswer::Goes;
    }
    let name = match pod.budgets.as_slice() {
        [] => return EvictionAnswer::Goes,
        [name] => name,
        several => return EvictionAnswer::SeveralBudgets(several),
    };
    let is_it = |known: &&DisruptionBudget| known.namespace == pod.namespace && known.name == *name;
    match budgets.into_iter().find(is_it) {
        None => EvictionAnswer::Goes,
        Some(budget) => of_budget(pod, budget),
    }
}

fn of_budget<'a>(pod: &EvictedPod, budget: &'a DisruptionBudget) -> EvictionAnswer<'a> {
    if !pod.ready {
        // What is broken does not count: it goes where the budget says so, or where enough others are well.
        let enough = budget.healthy >= budget.desired && budget.desired > 0;
        if budget.always_allows_unhealthy || enough {
            return EvictionAnswer::Goes;
        }
    }
    if budget.is_stale {
        EvictionAnswer::Stale(budget)
    } else if budget.allowed == 0 {
        EvictionAnswer::Refused(budget)
    } else {
        EvictionAnswer::Goes
    }
}

/// The worker group of a Machine; none of one that belongs to none.
fn group_of(machine: &Machine, observation: &Observation) -> Option<String> {
    let owner = machine.owner.as_ref()?;
    let mut deployments = observation.machine_deployments.iter();
    let of = deployments.find(|known| known.namespace == machine.namespace && known.name == *owner)?;
    of.group.as_ref().map(ToString::to_string)
}

/// The nodes that are being drained: their Machine is being deleted or updated in place, or they are cordoned and no Machine
/// stands for them. A Machine that is kept from being drained is not.
#[must_use]
pub fn drained_nodes(observation: &Observation) -> Vec<DrainingNode> {
    let machines: BTreeMap<&str, &Machine> =
        observation.machines.iter().filter_map(|machine| Some((machine.node.as_deref()?, machine))).collect();
    let since = |node: &Node| -> Option<Option<Timestamp>> {
        match machines.get(node.name.as_str()) {
            Some(machine) if machine.deleting => machine.brake.is_none().then_some(machine.deleted_at),
            Some(machine) => {
                let updating = machine.conditions.get("Updating").map(|condition| condition.status);
                (node.unschedulable && updating == Some(ConditionStatus::True)).then_some(None)
            }
            None => node.unschedulable.then_some(node.unschedulable_since),
        }
    };
    let draining = observation.nodes.iter().filter_map(|node| {
        let is_reachable = node.ready != ConditionStatus::Unknown;
        let group = match &node.origin {
            Some(NodeOrigin::Group(group)) => Some(group.clone()),
            _ => machines.get(node.name.as_str()).and_then(|machine| group_of(machine, observation)),
        };
        Some(DrainingNode { name: node.name.clone(), since: since(node)?, is_reachable, group })
    });
    draining.collect()
}
