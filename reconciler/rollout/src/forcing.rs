//! Which pod is deleted past its budget next while nodes of a worker group are drained: where the policy lets it, after how
//! long, and never more than it names.
//!
//! How many were, the budgets themselves say: each is counted there before it is deleted, so that whoever dies between the two
//! has forced too few and never too many.

use domain::RolloutId;
use jiff::{SignedDuration, Timestamp};
use policy::ForceDrain;

use crate::eviction::{EvictionAnswer, eviction_answer};
use crate::observation::{DrainReading, DrainedPod, DrainingNode};

/// What is to be done about pods whose eviction is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForceAct<'a> {
    /// None is refused, or not for long enough.
    Nothing,
    /// As many were deleted as the policy lets.
    Spent {
        /// How many.
        pods: u32,
    },
    /// This pod is deleted past its budget.
    Force(ForcedPod<'a>),
}

/// A pod that is deleted past its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForcedPod<'a> {
    /// The pod.
    pub pod: &'a DrainedPod,
    /// The budget that counts it, in the namespace of the pod.
    pub budget: &'a str,
    /// Since when its eviction is refused.
    pub since: Timestamp,
    /// How many pods of the group that budget has counted for this rollout, this one included.
    pub counted: u32,
}

/// What is to be done next for a rule, of the nodes of `group`.
#[must_use]
pub fn next_forced<'a>(
    reading: &'a DrainReading,
    rule: &ForceDrain,
    group: &str,
    rollout: &RolloutId,
    now: Timestamp,
) -> ForceAct<'a> {
    let is_own = |counted: &&crate::observation::ForcedPods| counted.rollout == *rollout && counted.group == group;
    let pods: u32 = reading.forced.iter().filter(is_own).fold(0, |sum, counted| sum.saturating_add(counted.pods));
    let after = SignedDuration::try_from(rule.after).unwrap_or(SignedDuration::MAX);
    let of_group = reading.nodes.iter().filter(|node| node.group.as_deref() == Some(group));
    let refused = of_group.flat_map(|node| {
        let on_node = reading.pods.iter().filter(|pod| pod.pod.node == node.name);
        on_node.filter_map(|pod| Some((pod, refused(pod, node, reading)?)))
    });
    let due = refused.filter(|(_, (_, since))| now.duration_since(*since) >= after);
    let Some((pod, (budget, since))) = due.min_by_key(|(pod, (_, since))| (*since, &pod.pod.namespace, &pod.pod.name))
    else {
        return ForceAct::Nothing;
    };
    if pods >= rule.pods {
        return ForceAct::Spent { pods };
    }
    let is_it =
        |counted: &&crate::observation::ForcedPods| counted.namespace == pod.pod.namespace && counted.budget == budget;
    let known = reading.forced.iter().filter(is_own).find(is_it).map_or(0, |counted| counted.pods);
    ForceAct::Force(ForcedPod { pod, budget, since, counted: known.saturating_add(1) })
}

/// The budget by which the eviction of a pod is refused, and since when; none where it is not, or that is not known.
fn refused<'a>(pod: &'a DrainedPod, node: &DrainingNode, reading: &'a DrainReading) -> Option<(&'a str, Timestamp)> {
    // Who is ending needs no force, and what its node cannot be heard of is not known to have ended.
    if pod.termination.is_some() || !node.is_reachable {
        return None;
    }
    let goes_at_once = matches!(pod.phase.as_str(), "Succeeded" | "Failed" | "Pending");
    let since = node.since?;
    match eviction_answer(&pod.pod, goes_at_once, &reading.budgets) {
        EvictionAnswer::Goes | EvictionAnswer::Stale(_) => None,
        EvictionAnswer::SeveralBudgets(budgets) => Some((budgets.first()?.as_str(), since)),
        EvictionAnswer::Refused(budget) => Some((&budget.name, budget.refuses_since.map_or(since, |it| it.max(since)))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::observation::{DisruptionBudget, EvictedPod, ForcedPods, Resources, Termination};

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn rollout() -> RolloutId {
        "aaaaaaaaaaaa".parse().unwrap()
    }

    fn node(name: &str, group: &str, since: Option<i64>) -> DrainingNode {
        DrainingNode { name: name.to_owned(), since: since.map(at), is_reachable: true, group: Some(group.to_owned()) }
    }

    fn pod(name: &str, node: &str, budgets: &[&str]) -> DrainedPod {
        DrainedPod {
            pod: EvictedPod {
                namespace: "shop".to_owned(),
                name: name.to_owned(),
                node: node.to_owned(),
                has_controller: true,
                ready: true,
                local_data: false,
                drain_ends: false,
                grace: 30,
                requests: Resources::default(),
                budgets: budgets.iter().map(|name| (*name).to_owned()).collect(),
            },
            owner: "Deployment shop/web".to_owned(),
            phase: "Running".to_owned(),
            termination: None,
            finalizers: Vec::new(),
            serving: None,
        }
    }

    fn budget(refuses_since: Option<i64>) -> DisruptionBudget {
        DisruptionBudget {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            expected: 1,
            healthy: 1,
            desired: 1,
            allowed: 0,
            always_allows_unhealthy: false,
            is_stale: false,
            refuses_since: refuses_since.map(at),
        }
    }

    fn forced(rollout: RolloutId, group: &str, pods: u32) -> ForcedPods {
        ForcedPods { namespace: "shop".to_owned(), budget: "web".to_owned(), rollout, group: group.to_owned(), pods }
    }

    fn reading() -> DrainReading {
        DrainReading {
            nodes: vec![node("a", "ng", Some(0)), node("b", "other", Some(0))],
            pods: vec![pod("web-2", "a", &["web"]), pod("web-1", "a", &["web"]), pod("web-0", "b", &["web"])],
            budgets: vec![budget(Some(0))],
            ..DrainReading::default()
        }
    }

    #[track_caller]
    fn check(reading: &DrainReading, minute: i64, expected: &str) {
        let rule = ForceDrain { group: "ng".to_owned(), after: Duration::from_secs(30 * 60), pods: 2 };
        let said = match next_forced(reading, &rule, "ng", &rollout(), at(minute)) {
            ForceAct::Nothing => "nothing".to_owned(),
            ForceAct::Spent { pods } => format!("spent {pods}"),
            ForceAct::Force(it) => format!("{} past {} since {}: {}", it.pod.pod.name, it.budget, it.since, it.counted),
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn one_pod_after_another_is_forced_once_it_was_refused_for_long() {
        check(&reading(), 29, "nothing");
        check(&reading(), 30, "web-1 past web since 1970-01-01T00:00:00Z: 1");
        let late = DrainReading { budgets: vec![budget(Some(10))], ..reading() };
        check(&late, 39, "nothing");
        check(&late, 40, "web-1 past web since 1970-01-01T00:10:00Z: 1");
        let several = DrainReading { pods: vec![pod("web-1", "a", &["web", "all"])], ..reading() };
        check(&several, 30, "web-1 past web since 1970-01-01T00:00:00Z: 1");
    }

    #[test]
    fn no_more_are_forced_than_the_policy_names() {
        let with = |counted: Vec<ForcedPods>| DrainReading { forced: counted, ..reading() };
        let before = "bbbbbbbbbbbb".parse().unwrap();
        check(&with(vec![forced(rollout(), "ng", 1)]), 30, "web-1 past web since 1970-01-01T00:00:00Z: 2");
        check(&with(vec![forced(rollout(), "ng", 2)]), 30, "spent 2");
        let others = vec![forced(rollout(), "other", 9), forced(before, "ng", 9)];
        check(&with(others), 30, "web-1 past web since 1970-01-01T00:00:00Z: 1");
    }

    #[test]
    fn what_is_not_known_to_be_refused_is_not_forced() {
        check(&DrainReading { nodes: vec![node("a", "ng", None)], ..reading() }, 90, "nothing");
        let unreachable = DrainingNode { is_reachable: false, ..node("a", "ng", Some(0)) };
        check(&DrainReading { nodes: vec![unreachable], ..reading() }, 90, "nothing");
        let stale = DisruptionBudget { is_stale: true, ..budget(Some(0)) };
        check(&DrainReading { budgets: vec![stale], ..reading() }, 90, "nothing");
        let ending = Some(Termination { since: at(1), due: at(2) });
        let ending = DrainedPod { termination: ending, ..pod("web-1", "a", &["web"]) };
        check(&DrainReading { pods: vec![ending], ..reading() }, 90, "nothing");
    }
}
