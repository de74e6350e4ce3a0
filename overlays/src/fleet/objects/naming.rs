//! Which clusters an object names: by field, label, selector or reference.

use yaml::Node;

use super::reference::Reference;
use super::{FoundObject, field, scalar};

/// The label that Cluster API puts on whatever belongs to a cluster.
pub(in crate::fleet) const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

/// The names of the clusters that an object says it belongs to, each with its namespace where that is another than the object's.
pub(in crate::fleet) fn named(object: &FoundObject) -> Vec<(String, Option<String>)> {
    let mut names: Vec<(String, Option<String>)> = Vec::new();
    let mut add = |name: Option<String>, namespace: Option<String>| {
        if let Some(name) = name
            && !names.contains(&(name.clone(), namespace.clone()))
        {
            names.push((name, namespace));
        }
    };
    add(field(&object.node, &["spec", "clusterName"]), None);
    for map in ["labels", "annotations"] {
        add(object.node.at(&["metadata", map]).and_then(|map| scalar(map.get(CLUSTER_NAME)?)), None);
    }
    for owner in object.node.at(&["metadata", "ownerReferences"]).and_then(Node::as_sequence).unwrap_or_default() {
        if let Some(reference) = Reference::of(owner).filter(is_cluster) {
            add(Some(reference.name), reference.namespace);
        }
    }
    if let Some(spec) = object.node.get("spec") {
        below(spec, &mut add);
    }
    names
}

fn is_cluster(reference: &Reference) -> bool {
    let is_group = matches!(
        reference.group.as_deref(),
        None | Some("" | "cluster.x-k8s.io" | "anywhere.eks.amazonaws.com" | "run.tanzu.vmware.com")
    );
    is_group && matches!(reference.kind.as_str(), "Cluster" | "TanzuKubernetesCluster")
}

fn below(node: &Node, add: &mut dyn FnMut(Option<String>, Option<String>)) {
    for entry in node.as_mapping().into_iter().flatten() {
        match Reference::of(&entry.value) {
            Some(reference) if is_cluster(&reference) => add(Some(reference.name), reference.namespace),
            Some(_) => {}
            None if entry.key == "clusterRef" => {
                add(field(&entry.value, &["name"]), field(&entry.value, &["namespace"]));
            }
            None if entry.key == "matchLabels" => add(entry.value.get(CLUSTER_NAME).and_then(scalar), None),
            None => {}
        }
        below(&entry.value, add);
    }
    for item in node.as_sequence().unwrap_or_default() {
        if let Some(reference) = Reference::of(item).filter(is_cluster) {
            add(Some(reference.name), reference.namespace);
        }
        below(item, add);
    }
}

/// The selector by which an object chooses clusters.
pub(in crate::fleet) fn selector(object: &FoundObject) -> Option<&Node> {
    object.node.at(&["spec", "clusterSelector"]).filter(|selector| selector.as_mapping().is_some())
}

/// Whether a label selector chooses an object with the labels of `node`.
pub(in crate::fleet) fn selects(selector: &Node, node: &Node) -> bool {
    let labels = node.at(&["metadata", "labels"]);
    let label = |key: &str| labels.and_then(|labels| scalar(labels.get(key)?));
    let all = selector.get("matchLabels").and_then(Node::as_mapping).into_iter().flatten();
    let mut all = all.map(|entry| scalar(&entry.value).is_some_and(|wanted| label(&entry.key) == Some(wanted)));
    let expressions = selector.get("matchExpressions").and_then(Node::as_sequence).unwrap_or_default();
    let mut expressions = expressions.iter().map(|expression| {
        let value = field(expression, &["key"]).and_then(|key| label(&key));
        let values = expression.get("values").and_then(Node::as_sequence).unwrap_or_default();
        let among = || values.iter().any(|known| scalar(known) == value);
        match field(expression, &["operator"]).as_deref() {
            Some("In") => value.is_some() && among(),
            Some("NotIn") => value.is_none() || !among(),
            Some("Exists") => value.is_some(),
            Some("DoesNotExist") => value.is_none(),
            _ => false,
        }
    });
    all.all(|matches| matches) && expressions.all(|matches| matches)
}

/// Whether a name can be a cluster's: names become folders and branch names, so they are DNS-1123 labels with dots.
pub(in crate::fleet) fn is_name(name: &str) -> bool {
    let edge = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
    name.len() <= 253
        && name.starts_with(edge)
        && name.ends_with(edge)
        && !name.contains("..")
        && name.chars().all(|character| edge(character) || matches!(character, '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> Node {
        yaml::parse(text, &yaml::Limits::default()).unwrap().remove(0).root
    }

    #[test]
    fn selectors_choose_by_labels() {
        let cluster = node("metadata: {labels: {cni: calico, tier: '1'}}");
        for (selector, expected) in [
            ("matchLabels: {cni: calico}", true),
            ("matchLabels: {cni: cilium}", false),
            ("matchLabels: {cni: calico, other: a}", false),
            ("matchLabels: {tier: 1}", true),
            ("matchExpressions: [{key: cni, operator: In, values: [a, calico]}]", true),
            ("matchExpressions: [{key: cni, operator: NotIn, values: [a, calico]}]", false),
            ("matchExpressions: [{key: other, operator: NotIn, values: [a]}]", true),
            ("matchExpressions: [{key: cni, operator: Exists}]", true),
            ("matchExpressions: [{key: cni, operator: DoesNotExist}]", false),
            ("matchExpressions: [{key: cni, operator: Unknown}]", false),
            ("{}", true),
        ] {
            assert_eq!(selects(&node(selector), &cluster), expected, "{selector}");
        }
    }
}
