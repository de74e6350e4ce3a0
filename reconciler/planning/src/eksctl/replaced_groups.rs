//! Node groups of eksctl that go, and what is made in their place.

use overlays::ClusterKind;
use overlays::eksctl::{node_groups, stem};
use rollout::{EksInstanceType, EksSubnet, GivenAddresses, NewGroup, ReplacedGroup};
use yaml::Node;

use crate::plan::Facts;

/// How many nodes eksctl gives a group that says nothing of it.
const NODES: u32 = 2;

/// Of which type it makes nodes then.
const INSTANCE_TYPE: &str = "m5.large";

/// The groups that are deployed and not wanted any more, each with its successor; none of clusters of other kinds.
pub(crate) fn replaced_groups(facts: &Facts<'_>) -> Vec<ReplacedGroup> {
    match (facts.cluster.kind, facts.deployed) {
        (ClusterKind::Eksctl, Some(deployed)) => between(&deployed.node, &facts.cluster.node),
        _ => Vec::new(),
    }
}

fn between(deployed: &Node, wanted: &Node) -> Vec<ReplacedGroup> {
    let is_in = |root: &Node, name: &str| node_groups(root).any(|(_, known, _)| known == name);
    let gone = node_groups(deployed).filter(|(_, name, _)| !is_in(wanted, name));
    let replaced = gone.map(|(_, name, _)| {
        let own = stem(deployed, name);
        let successor = node_groups(wanted).find(|(_, new, _)| !is_in(deployed, new) && stem(wanted, new) == own);
        ReplacedGroup { name: name.to_owned(), by: successor.map(|(_, new, item)| new_group(new, item)) }
    });
    replaced.collect()
}

fn new_group(name: &str, item: &Node) -> NewGroup {
    let count = |key: &str| item.get(key).and_then(Node::as_i64).and_then(|count| u32::try_from(count).ok());
    let desired = count("desiredCapacity").or_else(|| count("minSize")).unwrap_or(NODES);
    let text = |node: &Node| node.scalar_text().map(std::borrow::Cow::into_owned);
    let of = |path: &[&str]| item.at(path).and_then(Node::as_sequence).unwrap_or_default().iter().filter_map(text);
    let mut instance_types: Vec<String> = item.get("instanceType").and_then(text).into_iter().collect();
    instance_types.retain(|name| name != "mixed");
    instance_types.extend(of(&["instanceTypes"]).chain(of(&["instancesDistribution", "instanceTypes"])));
    // Whoever names none gets this one from eksctl, unless something else chooses.
    let chooses = ["instanceSelector", "launchTemplate"].iter().any(|key| item.get(key).is_some());
    if instance_types.is_empty() && !chooses {
        instance_types.push(INSTANCE_TYPE.to_owned());
    }
    NewGroup { name: name.to_owned(), instance_types, desired, most: count("maxSize").unwrap_or(desired).max(desired) }
}

/// What the team says of free addresses, with the groups whose successors name their subnets.
pub(crate) fn given_addresses(facts: &Facts<'_>) -> Option<GivenAddresses> {
    let given = facts.newest.given_addresses(&facts.cluster.name)?;
    let replaced = replaced_groups(facts);
    let of_subnet = |id: &str| {
        let names = |group: &&ReplacedGroup| {
            let by = group.by.as_ref().map(|by| by.name.as_str());
            let item = node_groups(&facts.cluster.node).find(|(_, name, _)| Some(*name) == by).map(|(.., item)| item);
            let subnets = item.and_then(|item| item.get("subnets")?.as_sequence()).unwrap_or_default();
            subnets.iter().any(|subnet| subnet.as_str() == Some(id))
        };
        replaced.iter().filter(names).map(|group| group.name.clone()).collect()
    };
    let subnets = given.subnets.iter().map(|(id, free)| EksSubnet {
        id: id.clone(),
        free: u64::from(*free),
        groups: of_subnet(id),
        of_cluster: true,
    });
    let types = given.instance_types.iter().map(|(name, given)| EksInstanceType {
        name: name.clone(),
        interfaces: u64::from(given.interfaces),
        addresses: u64::from(given.addresses),
    });
    Some(GivenAddresses { subnets: subnets.collect(), instance_types: types.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(deployed: &str, wanted: &str) -> Vec<ReplacedGroup> {
        let read = |groups: &str| overlays::objects_of(format!("managedNodeGroups: {groups}\n").as_bytes()).remove(0);
        between(&read(deployed), &read(wanted))
    }

    #[test]
    fn a_group_is_replaced_by_the_new_one_of_its_stem() {
        let by = |name: &str, types: &[&str], desired: u32, most: u32| {
            let instance_types = types.iter().map(|it| (*it).to_owned()).collect();
            Some(NewGroup { name: name.to_owned(), instance_types, desired, most })
        };
        let of = |name: &str, by: Option<NewGroup>| ReplacedGroup { name: name.to_owned(), by };
        let new = "[{name: ng-1-32, instanceType: m5.large, desiredCapacity: 3, maxSize: 9}, {name: kept}]";
        assert_eq!(
            replaced("[{name: ng-1-31}, {name: kept}]", new),
            [of("ng-1-31", by("ng-1-32", &["m5.large"], 3, 9))]
        );
        let new = "[{name: ng-1-31-gen2, instanceTypes: [a1.large, b1.large], minSize: 1}]";
        let rebuilt = by("ng-1-31-gen2", &["a1.large", "b1.large"], 1, 1);
        assert_eq!(replaced("[{name: ng-1-31}]", new), [of("ng-1-31", rebuilt)]);
        assert_eq!(replaced("[{name: ng-1-31}]", "[{name: other-1-31}]"), [of("ng-1-31", None)]);
        assert_eq!(replaced("[{name: ng-1-31}]", "[{name: ng-1-31}]"), []);
        let plain = by("ng-1-32", &["m5.large"], 2, 2);
        assert_eq!(replaced("[{name: ng-1-31}]", "[{name: ng-1-32}]"), [of("ng-1-31", plain)]);
        let chosen = "[{name: ng-1-32, launchTemplate: {id: lt-1}, desiredCapacity: 1}]";
        assert_eq!(replaced("[{name: ng-1-31}]", chosen), [of("ng-1-31", by("ng-1-32", &[], 1, 1))]);
    }
}
