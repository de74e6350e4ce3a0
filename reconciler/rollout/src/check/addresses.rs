//! Whether subnets have addresses for the nodes and pods of new node groups, by what the VPC CNI holds in reserve.
//!
//! By `aws/amazon-vpc-cni-k8s`, `docs/eni-and-ip-target.md`: of an instance with E interfaces of S + 1 addresses each, the
//! first address of an interface is its own. Old nodes keep theirs until they are gone.

use policy::CheckName;

use super::capacity::pods_of;
use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};
use crate::expectation::{NewGroup, ReplacedGroup};
use crate::observation::{EksInstanceType, EksSubnet, NodeRoom, VpcCni};

pub(super) const CHECK: Check = Check {
    name: CheckName::Addresses,
    looks_at: "free addresses of the subnets, and what new node groups take of them by the settings of the VPC CNI",
    severity: CheckSeverity::Blocking,
    remedy: "free addresses, add subnets, or lower WARM_ENI_TARGET, WARM_IP_TARGET and MINIMUM_IP_TARGET of aws-node",
    judge,
};

/// Addresses that EKS takes in the subnets of the cluster while it replaces the API servers.
const OF_CONTROL_PLANE: u64 = 5;

/// Addresses of a delegated prefix.
const PREFIX: u64 = 16;

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    let groups = &judged.expectation.replaced_groups;
    if groups.is_empty() {
        return Vec::new();
    }
    let reading = judged.observation.eks.as_ref();
    let unread = ["subnets", "instance types"].into_iter().filter_map(|what| {
        let reason = reading?.unread.get(what)?;
        let remedy = "allow ec2:DescribeSubnets and ec2:DescribeInstanceTypes to the role that Stepgate's process has";
        Some(CheckFinding::unknown(format!("{what} could not be read: {reason}")).remedy(remedy))
    });
    let mut findings: Vec<CheckFinding> = unread.collect();
    let read = reading.and_then(|reading| Some((reading.subnets.as_deref()?, reading.instance_types.as_deref())));
    // What AWS says counts, and so does that it did not say it.
    let given = judged.expectation.given_addresses.as_ref().filter(|_| findings.is_empty());
    let given = given.map(|given| (given.subnets.as_slice(), Some(given.instance_types.as_slice())));
    let Some((subnets, types)) = read.or(given) else { return findings };
    if let (Some(types), Some(cni)) = (types, judged.inspection.vpc_cni) {
        for group in groups {
            let Some(by) = &group.by else { continue };
            findings.extend(of(group, by, (subnets, types, cni), judged));
        }
    }
    let of_cluster: Vec<&EksSubnet> = subnets.iter().filter(|subnet| subnet.of_cluster).collect();
    let free: u64 = of_cluster.iter().map(|subnet| subnet.free).sum();
    if !of_cluster.is_empty() && free < OF_CONTROL_PLANE {
        let message = format!(
            "the subnets of the cluster have {free} free addresses, and its control plane takes up to {OF_CONTROL_PLANE}"
        );
        findings.push(CheckFinding::fail(message));
    }
    findings
}

fn of(
    group: &ReplacedGroup,
    by: &NewGroup,
    (subnets, types, cni): (&[EksSubnet], &[EksInstanceType], VpcCni),
    judged: &Judged<'_>,
) -> Option<CheckFinding> {
    let object = FoundObject { kind: "NodeGroup".to_owned(), namespace: None, name: by.name.clone() };
    let known: Option<Vec<&EksInstanceType>> =
        by.instance_types.iter().map(|name| types.iter().find(|known| known.name == *name)).collect();
    // Of several types, the one with the most addresses takes the most.
    let Some(instance) = known.into_iter().flatten().max_by_key(|it| it.interfaces.saturating_mul(it.addresses)) else {
        let message = match by.instance_types.first() {
            None => "how many addresses its instances take is not known: their types are chosen by something else"
                .to_owned(),
            Some(name) => {
                format!("how many addresses an instance {name} takes is not known: addresses.instanceTypes has none")
            }
        };
        return Some(CheckFinding::unreadable(message).on(object));
    };
    let nodes = u64::from(by.desired);
    let moved: u64 = pods_of(&group.name, judged.inspection).iter().map(|pod| pod.requests.addresses).sum();
    let is_of = |room: &&NodeRoom| room.group.as_deref() == Some(group.name.as_str());
    let kept = judged.inspection.rooms.iter().filter(is_of).map(|room| room.kept.addresses).max().unwrap_or(0);
    let pods = moved.div_ceil(nodes.max(1)).saturating_add(kept);
    let each = held(cni, instance, pods);
    let needed = nodes.saturating_mul(each);
    let of_group: Vec<&EksSubnet> = subnets.iter().filter(|subnet| subnet.groups.contains(&group.name)).collect();
    let of_group = if of_group.is_empty() { subnets.iter().filter(|it| it.of_cluster).collect() } else { of_group };
    if of_group.is_empty() {
        return Some(CheckFinding::unknown("which subnets its nodes are in is not known").on(object));
    }
    let free: u64 = of_group.iter().map(|subnet| subnet.free).sum();
    let told =
        format!("takes {needed} addresses ({nodes} {} with {pods} pods and {each} addresses each)", instance.name);
    if needed > free {
        let message = format!("{told}, and its subnets have {free}");
        return Some(CheckFinding::fail(message).on(object));
    }
    let spread = needed.div_ceil(u64::try_from(of_group.len()).unwrap_or(1).max(1));
    let tight = of_group.iter().find(|subnet| subnet.free < spread)?;
    let message = format!("{told}, and {} of them are free in {}, where {spread} may be taken", tight.free, tight.id);
    Some(CheckFinding::warn(message).on(object))
}

/// How many addresses of its subnet a node with so many pods holds.
fn held(cni: VpcCni, instance: &EksInstanceType, pods: u64) -> u64 {
    let (interfaces, each) = (instance.interfaces.max(1), instance.addresses.saturating_sub(1).max(1));
    let warm = cni.warm_addresses.is_some() || cni.minimum_addresses.is_some();
    let asked = pods.saturating_add(cni.warm_addresses.unwrap_or(0)).max(cni.minimum_addresses.unwrap_or(0));
    if cni.delegates_prefixes {
        let prefixes = match warm {
            true => asked.div_ceil(PREFIX),
            false => pods.div_ceil(PREFIX).saturating_add(cni.warm_prefixes.unwrap_or(1)),
        };
        let prefixes = prefixes.min(interfaces.saturating_mul(each)).max(1);
        return prefixes.saturating_mul(PREFIX).saturating_add(prefixes.div_ceil(each));
    }
    if warm {
        let secondary = asked.min(interfaces.saturating_mul(each));
        return secondary.saturating_add(secondary.div_ceil(each).max(1));
    }
    let wanted = pods.div_ceil(each).saturating_add(cni.warm_interfaces.unwrap_or(1));
    let attached = wanted.min(interfaces).max(1);
    attached.saturating_mul(each).saturating_add(attached)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{CheckStatus, outcomes};
    use crate::expectation::{ChecksExpectation, GivenAddresses};
    use crate::observation::{EksReading, Inspection, Observation, Resources};

    fn t3_small() -> EksInstanceType {
        EksInstanceType { name: "t3.small".to_owned(), interfaces: 3, addresses: 4 }
    }

    #[test]
    fn nodes_hold_the_addresses_that_the_table_of_the_cni_says() {
        let warm = |interfaces: u64| VpcCni { warm_interfaces: Some(interfaces), ..VpcCni::default() };
        let by_address = |target: u64, minimum: Option<u64>| VpcCni {
            warm_addresses: Some(target),
            minimum_addresses: minimum,
            ..VpcCni::default()
        };
        let prefixes = VpcCni { delegates_prefixes: true, ..VpcCni::default() };
        // Secondary addresses and one of each interface.
        for (cni, pods, expected) in [
            (VpcCni::default(), 0, 4),
            (VpcCni::default(), 5, 12),
            (VpcCni::default(), 9, 12),
            (warm(0), 0, 4),
            (warm(2), 0, 8),
            (by_address(1, None), 5, 8),
            (by_address(2, Some(8)), 0, 11),
            (by_address(5, None), 9, 12),
            (prefixes, 5, 33),
            (VpcCni { warm_addresses: Some(5), ..prefixes }, 5, 17),
        ] {
            assert_eq!(held(cni, &t3_small(), pods), expected, "{cni:?} {pods}");
        }
    }

    #[track_caller]
    fn check(free: &[u64], unread: bool, status: CheckStatus, says: &str) {
        let subnet = |(number, free): (usize, &u64)| EksSubnet {
            id: format!("subnet-{number}"),
            free: *free,
            groups: vec!["ng-1-31".to_owned()],
            of_cluster: true,
        };
        let unread = unread.then(|| ("subnets".to_owned(), "AccessDenied".to_owned())).into_iter().collect();
        let reading = EksReading {
            subnets: Some(free.iter().enumerate().map(subnet).collect()),
            instance_types: Some(vec![t3_small()]),
            unread,
            ..EksReading::default()
        };
        let room = NodeRoom {
            node: "old-1".to_owned(),
            group: Some("ng-1-31".to_owned()),
            instance_type: None,
            takes_pods: true,
            allocatable: Resources::default(),
            used: Resources::default(),
            kept: Resources { addresses: 5, ..Resources::default() },
        };
        let observation = Observation {
            eks: Some(reading),
            inspection: Some(Inspection {
                rooms: vec![room],
                vpc_cni: Some(VpcCni::default()),
                ..Inspection::default()
            }),
            ..Observation::empty(jiff::Timestamp::UNIX_EPOCH)
        };
        let by =
            NewGroup { name: "ng-1-32".to_owned(), instance_types: vec!["t3.small".to_owned()], desired: 3, most: 3 };
        let replaced_groups = vec![ReplacedGroup { name: "ng-1-31".to_owned(), by: Some(by) }];
        let expectation = ChecksExpectation { replaced_groups, ..ChecksExpectation::default() };
        let outcomes = outcomes(&expectation, &observation);
        let outcome = outcomes.into_iter().find(|outcome| outcome.check == CheckName::Addresses).unwrap();
        let said: Vec<String> = outcome.findings.iter().map(ToString::to_string).collect();
        assert_eq!(outcome.status, status, "{said:?}");
        assert!(said.iter().any(|line| line.contains(says)) || says.is_empty(), "{said:?}");
    }

    #[test]
    fn subnets_that_are_too_small_are_told_before_the_rollout() {
        use CheckStatus::{Fail, Pass, Unknown, Warn};
        check(&[20, 20], false, Pass, "");
        check(&[20, 17], false, Warn, "17 of them are free in subnet-1, where 18 may be taken");
        let needs = "NodeGroup ng-1-32: takes 36 addresses (3 t3.small with 5 pods and 12 addresses each), and its subnets have 35";
        check(&[20, 15], false, Fail, needs);
        check(&[2, 2], false, Fail, "its control plane takes up to 5");
        check(&[20, 20], true, Unknown, "subnets could not be read: AccessDenied");
    }

    #[test]
    fn addresses_that_are_given_count_where_aws_is_not_asked() {
        let given = |free: u64| {
            let subnet = EksSubnet { id: "subnet-0".to_owned(), free, groups: Vec::new(), of_cluster: true };
            Some(GivenAddresses { subnets: vec![subnet], instance_types: vec![t3_small()] })
        };
        let outcome = |given: Option<GivenAddresses>, eks: Option<EksReading>| {
            let by = NewGroup {
                name: "ng-1-32".to_owned(),
                instance_types: vec!["t3.small".to_owned()],
                desired: 3,
                most: 3,
            };
            let replaced_groups = vec![ReplacedGroup { name: "ng-1-31".to_owned(), by: Some(by) }];
            let inspection = Inspection { vpc_cni: Some(VpcCni::default()), ..Inspection::default() };
            let observation =
                Observation { eks, inspection: Some(inspection), ..Observation::empty(jiff::Timestamp::UNIX_EPOCH) };
            let expectation =
                ChecksExpectation { replaced_groups, given_addresses: given, ..ChecksExpectation::default() };
            let outcomes = outcomes(&expectation, &observation);
            outcomes.into_iter().find(|outcome| outcome.check == CheckName::Addresses).unwrap().status
        };
        assert_eq!(outcome(given(12), None), CheckStatus::Pass);
        assert_eq!(outcome(given(11), None), CheckStatus::Fail);
        assert_eq!(outcome(None, None), CheckStatus::Pass);
        let unread = [("subnets".to_owned(), "AccessDenied".to_owned())].into_iter().collect();
        let denied = EksReading { unread, ..EksReading::default() };
        assert_eq!(outcome(given(12), Some(denied)), CheckStatus::Unknown);
    }
}
