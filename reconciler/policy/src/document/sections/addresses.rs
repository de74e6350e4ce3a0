//! Free addresses of the subnets of a cluster of EKS, as the team gives them where nobody asks AWS.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use yaml::Node;

use crate::document::read::Reader;

/// The most addresses that a subnet may be given: those of a /8.
const MOST: u32 = 1 << 24;

/// The most interfaces of an instance, and addresses of one of these.
const MOST_OF_INSTANCE: u32 = 1000;

/// Free addresses, and how many instances take of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::document::schema::every_field_is_optional)]
pub struct GivenAddresses {
    /// Free addresses by subnet.
    pub subnets: BTreeMap<String, u32>,
    /// What instances of a type may have.
    pub instance_types: BTreeMap<String, GivenInstanceType>,
}

/// How many addresses an instance may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct GivenInstanceType {
    /// Network interfaces.
    pub interfaces: u32,
    /// Addresses of each.
    pub addresses: u32,
}

const FIELDS: [&str; 2] = ["subnets", "instanceTypes"];
const OF_TYPE: [&str; 2] = ["interfaces", "addresses"];

impl Reader<'_> {
    pub(in crate::document) fn addresses(&mut self, node: &Node) -> GivenAddresses {
        let mut given = GivenAddresses::default();
        for entry in self.mapping(node, "addresses").into_iter().flatten() {
            match entry.key.as_str() {
                "subnets" => {
                    for subnet in self.mapping(&entry.value, "addresses.subnets").into_iter().flatten() {
                        let place = format!("addresses.subnets.{}", subnet.key);
                        let free = self.number(&subnet.value, &place, 0, MOST);
                        given.subnets.extend(free.map(|free| (subnet.key.to_string(), free)));
                    }
                }
                "instanceTypes" => {
                    for kind in self.mapping(&entry.value, "addresses.instanceTypes").into_iter().flatten() {
                        let place = format!("addresses.instanceTypes.{}", kind.key);
                        let known = self.instance_type(&kind.value, &place);
                        given.instance_types.extend(known.map(|known| (kind.key.to_string(), known)));
                    }
                }
                _ => self.unknown(entry, "addresses", &FIELDS),
            }
        }
        given
    }

    fn instance_type(&mut self, node: &Node, place: &str) -> Option<GivenInstanceType> {
        let (mut interfaces, mut addresses) = (None, None);
        for entry in self.mapping(node, place)? {
            let named = format!("{place}.{}", entry.key);
            match entry.key.as_str() {
                "interfaces" => interfaces = self.number(&entry.value, &named, 1, MOST_OF_INSTANCE),
                "addresses" => addresses = self.number(&entry.value, &named, 2, MOST_OF_INSTANCE),
                _ => self.unknown(entry, place, &OF_TYPE),
            }
        }
        for name in OF_TYPE.into_iter().filter(|name| node.get(name).is_none()) {
            let help = "`aws ec2 describe-instance-types` tells both".to_owned();
            self.problem(node.span, format!("{place} has no {name}"), Some(help));
        }
        Some(GivenInstanceType { interfaces: interfaces?, addresses: addresses? })
    }
}

#[cfg(test)]
mod tests {
    use domain::RepoPath;

    use crate::read_policy;

    #[track_caller]
    fn check(text: &str, subnets: &[(&str, u32)], problem: Option<&str>) {
        let text = format!("clusters: {{shop: {{addresses: {text}}}}}\n");
        let (policy, problems) = read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        let problems: Vec<String> = problems.iter().map(|problem| problem.message.clone()).collect();
        assert_eq!(problems.first().map(String::as_str), problem);
        let given = policy.given_addresses("shop").map(|given| given.subnets.clone()).unwrap_or_default();
        assert_eq!(given.iter().map(|(name, free)| (name.as_str(), *free)).collect::<Vec<_>>(), subnets);
    }

    #[test]
    fn free_addresses_are_given_by_subnet_and_type_of_instance() {
        let types = "instanceTypes: {m5.large: {interfaces: 3, addresses: 10}}";
        check(
            &format!("{{subnets: {{subnet-a: 120, subnet-b: 0}}, {types}}}"),
            &[("subnet-a", 120), ("subnet-b", 0)],
            None,
        );
        let negative = "addresses.subnets.subnet-a must be a number from 0 to 16777216";
        check("{subnets: {subnet-a: -1}}", &[], Some(negative));
        let half = "addresses.instanceTypes.m5.large has no addresses";
        check("{instanceTypes: {m5.large: {interfaces: 3}}}", &[], Some(half));
        check("{subnet: {}}", &[], Some("unknown field \"subnet\" in addresses"));
    }
}
