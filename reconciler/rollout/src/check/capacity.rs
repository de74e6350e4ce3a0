//! Whether a new node group holds the pods of the one that it replaces.
//!
//! By what pods ask for, as a scheduler counts it: the largest first, each on the first node that has room. Where pods may go
//! by labels, taints and zones is not looked at.

use std::collections::BTreeSet;

use policy::CheckName;

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};
use crate::expectation::{NewGroup, ReplacedGroup};
use crate::observation::{EvictedPod, Inspection, NodeRoom, Resources};

pub(super) const CHECK: Check = Check {
    name: CheckName::Capacity,
    looks_at: "whether a new node group of EKS holds what the pods of the old one ask for",
    severity: CheckSeverity::Blocking,
    remedy: "raise desiredCapacity or maxSize of the group, or choose larger instances",
    judge,
};

/// How many pods a finding names.
const NAMED: usize = 3;

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    judged.expectation.replaced_groups.iter().filter_map(|group| of(group, judged)).collect()
}

fn of(group: &ReplacedGroup, judged: &Judged<'_>) -> Option<CheckFinding> {
    let rooms = &judged.inspection.rooms;
    let pods = pods_of(&group.name, judged.inspection);
    if pods.is_empty() {
        return None;
    }
    let stays = |room: &&NodeRoom| {
        let goes = |known: &ReplacedGroup| room.group.as_deref() == Some(known.name.as_str());
        room.takes_pods && !judged.expectation.replaced_groups.iter().any(goes)
    };
    let staying: Vec<Resources> = rooms.iter().filter(stays).map(|room| room.allocatable.without(room.used)).collect();
    let Some(by) = &group.by else {
        let left = left_over(&pods, &staying);
        let message = format!("goes without another in its place, and no node has room for {}", named(&left));
        return (!left.is_empty()).then(|| CheckFinding::fail(message).on(object(&group.name)));
    };
    let Some(new) = room_of(by, &group.name, rooms) else {
        let message = format!(
            "nobody tells how much a node of it has room for ({}): none of that type runs",
            if by.instance_types.is_empty() {
                "no instance type is named".to_owned()
            } else {
                by.instance_types.join(", ")
            }
        );
        return Some(CheckFinding::unreadable(message).on(object(&by.name)));
    };
    let nodes = |count: u32| vec![new; usize::try_from(count).unwrap_or(usize::MAX).min(pods.len())];
    let left = left_over(&pods, &nodes(by.desired));
    if left.is_empty() {
        return None;
    }
    if left_over(&pods, &nodes(by.most)).is_empty() {
        let message = format!(
            "begins with {} nodes, which have no room for {}: an autoscaler may raise it up to {}",
            by.desired,
            named(&left),
            by.most
        );
        return Some(CheckFinding::warn(message).on(object(&by.name)));
    }
    let all: Vec<Resources> = nodes(by.most).into_iter().chain(staying).collect();
    let left = left_over(&pods, &all);
    let message = format!("may have {} nodes, which do not hold all pods of {}", by.most, group.name);
    Some(if left.is_empty() {
        CheckFinding::warn(format!("{message}: nodes of other groups have room for the rest")).on(object(&by.name))
    } else {
        CheckFinding::fail(format!("{message}: there is no room for {}", named(&left))).on(object(&by.name))
    })
}

fn object(group: &str) -> FoundObject {
    FoundObject { kind: "NodeGroup".to_owned(), namespace: None, name: group.to_owned() }
}

/// The pods that a drain of a group evicts.
pub(super) fn pods_of<'a>(group: &str, inspection: &'a Inspection) -> Vec<&'a EvictedPod> {
    let rooms = inspection.rooms.iter().filter(|room| room.group.as_deref() == Some(group));
    let nodes: BTreeSet<&str> = rooms.map(|room| room.node.as_str()).collect();
    inspection.evicted.iter().filter(|pod| nodes.contains(pod.node.as_str())).collect()
}

/// What a node of a new group has room for beside what runs on each node; none where no node of its types runs.
fn room_of(by: &NewGroup, old: &str, rooms: &[NodeRoom]) -> Option<Resources> {
    let is_of = |room: &&NodeRoom| room.group.as_deref() == Some(old);
    let kept = rooms.iter().filter(is_of).map(|room| room.kept).max_by_key(|kept| (kept.cpu, kept.memory));
    let smallest = |name: &String| {
        // A node that has not said what it gives tells nothing.
        let tells = |room: &&NodeRoom| room.instance_type.as_ref() == Some(name) && room.allocatable.pods > 0;
        let of_type = rooms.iter().filter(tells);
        of_type.map(|room| room.allocatable).min_by_key(|given| (given.memory, given.cpu))
    };
    let of_types: Option<Vec<Resources>> = by.instance_types.iter().map(smallest).collect();
    let given = of_types?.into_iter().min_by_key(|given| (given.memory, given.cpu))?;
    Some(given.without(kept.unwrap_or_default()))
}

/// The pods for which these nodes have no room.
fn left_over<'a>(pods: &[&'a EvictedPod], rooms: &[Resources]) -> Vec<&'a EvictedPod> {
    let mut rooms = rooms.to_vec();
    let mut pods = pods.to_vec();
    pods.sort_by_key(|pod| std::cmp::Reverse((pod.requests.memory, pod.requests.cpu)));
    let has_no_room = |pod: &&EvictedPod| match rooms.iter_mut().find(|room| room.holds(pod.requests)) {
        Some(room) => {
            *room = room.without(pod.requests);
            false
        }
        None => true,
    };
    pods.into_iter().filter(has_no_room).collect()
}

fn named(pods: &[&EvictedPod]) -> String {
    let mut text: Vec<String> =
        pods.iter().take(NAMED).map(|pod| format!("pod {}/{}", pod.namespace, pod.name)).collect();
    let more = pods.len().saturating_sub(NAMED);
    if more > 0 {
        text.push(format!("{more} more"));
    }
    text.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{CheckStatus, outcomes};
    use crate::expectation::ChecksExpectation;
    use crate::observation::Observation;

    fn resources(cpu: u64, memory: u64, pods: u64) -> Resources {
        Resources { cpu, memory, pods, addresses: pods }
    }

    fn room(node: &str, group: &str, used: Resources) -> NodeRoom {
        NodeRoom {
            node: node.to_owned(),
            group: Some(group.to_owned()),
            instance_type: Some("m5.large".to_owned()),
            takes_pods: true,
            allocatable: resources(2000, 8000, 10),
            used,
            kept: resources(100, 500, 2),
        }
    }

    fn pod(number: u64, cpu: u64) -> EvictedPod {
        EvictedPod {
            namespace: "shop".to_owned(),
            name: format!("web-{number}"),
            node: "old-1".to_owned(),
            has_controller: true,
            ready: true,
            local_data: false,
            drain_ends: false,
            grace: 30,
            requests: resources(cpu, 100, 1),
            budgets: Vec::new(),
        }
    }

    #[track_caller]
    fn check(pods: &[u64], by: Option<(&str, u32, u32)>, status: CheckStatus, says: &str) {
        let by = by.map(|(instance, desired, most)| NewGroup {
            name: "ng-1-32".to_owned(),
            instance_types: vec![instance.to_owned()],
            desired,
            most,
        });
        let used = resources(1500, 1000, 5);
        let observation = Observation {
            inspection: Some(Inspection {
                evicted: (0..).zip(pods).map(|(number, cpu)| pod(number, *cpu)).collect(),
                rooms: vec![room("old-1", "ng-1-31", used), room("other-1", "other", used)],
                ..Inspection::default()
            }),
            ..Observation::empty(jiff::Timestamp::UNIX_EPOCH)
        };
        let replaced_groups = vec![ReplacedGroup { name: "ng-1-31".to_owned(), by }];
        let expectation = ChecksExpectation { replaced_groups, ..ChecksExpectation::default() };
        let outcomes = outcomes(&expectation, &observation);
        let outcome = outcomes.into_iter().find(|outcome| outcome.check == CheckName::Capacity).unwrap();
        let said: Vec<String> = outcome.findings.iter().map(ToString::to_string).collect();
        assert_eq!(outcome.status, status, "{said:?}");
        assert!(said.iter().any(|line| line.contains(says)) || says.is_empty(), "{said:?}");
        assert!(!outcome.waits(), "nothing waits for what no cluster tells");
    }

    #[test]
    fn pods_that_a_new_group_has_no_room_for_are_named() {
        use CheckStatus::{Fail, Pass, Unknown, Warn};
        // A node of 2000 has 100 for what runs on each: 1900 are left.
        check(&[900, 900], Some(("m5.large", 1, 1)), Pass, "");
        check(&[1000, 1000], Some(("m5.large", 2, 2)), Pass, "");
        check(&[1000, 1000], Some(("m5.large", 1, 3)), Warn, "an autoscaler may raise it up to 3");
        check(&[1800, 400], Some(("m5.large", 1, 1)), Warn, "nodes of other groups have room for the rest");
        check(&[1800, 600], Some(("m5.large", 1, 1)), Fail, "there is no room for pod shop/web-1");
        check(&[100], Some(("c7g.large", 1, 1)), Unknown, "none of that type runs");
        check(&[400], None, Pass, "");
        check(&[600], None, Fail, "NodeGroup ng-1-31: goes without another in its place");
        check(&[], Some(("m5.large", 0, 0)), Pass, "");
    }
}
