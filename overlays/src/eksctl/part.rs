//! A `ClusterConfig` with what one command of eksctl is about, and nothing else that it would look at.

use yaml::Node;

use super::GROUP_LISTS;

/// What is left of the lists that eksctl goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigPart<'a> {
    /// Nothing: the cluster itself.
    ControlPlane,
    /// This node group.
    NodeGroup(&'a str),
    /// This add-on.
    Addon(&'a str),
}

/// The lists of a `ClusterConfig` that commands other than Stepgate's are for.
const OTHER_LISTS: [&str; 4] =
    ["fargateProfiles", "iamIdentityMappings", "identityProviders", "podIdentityAssociations"];

/// The same `ClusterConfig` as far as one command needs it, so that it does what its stage is about alone.
#[must_use]
pub fn config_of(root: &Node, part: ConfigPart<'_>) -> Node {
    let mut root = root.clone();
    let Some(mapping) = root.as_mapping_mut() else { return root };
    for list in OTHER_LISTS {
        mapping.remove(list);
    }
    let groups = GROUP_LISTS.into_iter().map(|(list, _)| list);
    for list in groups.chain(["addons"]) {
        let wanted = match part {
            ConfigPart::NodeGroup(name) if list != "addons" => Some(name),
            ConfigPart::Addon(name) if list == "addons" => Some(name),
            ConfigPart::ControlPlane | ConfigPart::NodeGroup(_) | ConfigPart::Addon(_) => None,
        };
        let items = mapping.remove(list).and_then(|mut node| node.as_sequence_mut().map(std::mem::take));
        let is_it = |item: &Node| item.get("name").and_then(Node::as_str) == wanted && wanted.is_some();
        let kept: Vec<Node> = items.into_iter().flatten().filter(is_it).collect();
        if !kept.is_empty() {
            mapping.insert(list, Node::from(kept));
        }
    }
    root
}

/// The node groups that name a file of the machine that eksctl runs on.
pub fn groups_with_files(root: &Node) -> impl Iterator<Item = &str> {
    let names_file = |item: &Node| item.at(&["ssh", "publicKeyPath"]).is_some_and(|path| !path.is_null());
    super::node_groups(root).filter(move |(_, _, item)| names_file(item)).map(|(_, name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(part: ConfigPart<'_>, expected: &str) {
        let text = "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata:\n  name: shop\n\
                    addons:\n- name: coredns\n- name: vpc-cni\nnodeGroups:\n- name: own\n\
                    managedNodeGroups:\n- name: a-1-31\n- minSize: 2\n  name: a-1-32\nfargateProfiles:\n- name: f\n";
        let read = |text: &str| yaml::parse(text, &yaml::Limits::default()).unwrap().remove(0).root;
        let head = "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata:\n  name: shop\n";
        assert_eq!(yaml::emit(&config_of(&read(text), part)), yaml::emit(&read(&format!("{head}{expected}"))));
    }

    #[test]
    fn a_command_sees_its_own_group_or_addon_alone() {
        check(ConfigPart::ControlPlane, "");
        check(ConfigPart::NodeGroup("a-1-32"), "managedNodeGroups:\n- minSize: 2\n  name: a-1-32\n");
        check(ConfigPart::NodeGroup("own"), "nodeGroups:\n- name: own\n");
        check(ConfigPart::Addon("vpc-cni"), "addons:\n- name: vpc-cni\n");
        check(ConfigPart::Addon("own"), "");
    }
}
