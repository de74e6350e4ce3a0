//! Which fields a `ClusterConfig` has, and what stands in each: eksctl refuses whatever it does not know.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use domain::nearest;
use yaml::{Node, Span, Value};

/// The fields by type, as the file beside this one lists them.
static TYPES: LazyLock<BTreeMap<&'static str, BTreeMap<&'static str, &'static str>>> = LazyLock::new(|| {
    let mut types: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    let mut current = "";
    for line in include_str!("fields.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.strip_prefix("  ") {
            Some(fields) => {
                let fields = fields.split(' ').filter_map(|field| field.split_once(':'));
                types.entry(current).or_default().extend(fields);
            }
            None => current = line,
        }
    }
    types
});

/// Something that eksctl refuses, or reads as something else than is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misread {
    /// Where it is.
    pub span: Span,
    /// What is wrong, with the path of the field.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// Everything in a `ClusterConfig` that eksctl refuses, or reads as something else than is written.
pub(crate) fn misread(root: &Node) -> Vec<Misread> {
    let mut found = Vec::new();
    check(root, "ClusterConfig", "", &mut found);
    found
}

fn check(node: &Node, kind: &str, path: &str, found: &mut Vec<Misread>) {
    if node.is_null() {
        return;
    }
    if let Some(item) = inside(kind, '[', ']') {
        match node.as_sequence() {
            Some(items) => {
                for (index, node) in items.iter().enumerate() {
                    check(node, item, &format!("{path}[{index}]"), found);
                }
            }
            None => found.push(is_not(node, path, "a list")),
        }
        return;
    }
    if let Some(value) = inside(kind, '{', '}') {
        match node.as_mapping() {
            Some(mapping) => {
                mapping.iter().for_each(|entry| check(&entry.value, value, &format!("{path}.{}", entry.key), found));
            }
            None => found.push(is_not(node, path, "a mapping")),
        }
        return;
    }
    match kind {
        "text" => check_text(node, path, found),
        "flag" if !is_flag(node) => found.push(is_not(node, path, "true or false")),
        "integer" if node.as_i64().is_none() => found.push(is_not(node, path, "a whole number")),
        "number" if !matches!(node.value, Value::Int(_) | Value::Uint(_) | Value::Float(_)) => {
            found.push(is_not(node, path, "a number"));
        }
        // A list as in Kubernetes, or what older files have: value and effect by key.
        "taints" => check(node, if node.as_mapping().is_some() { "{text}" } else { "[NodeGroupTaint]" }, path, found),
        _ => {
            if let Some(fields) = TYPES.get(kind) {
                check_fields(node, fields, path, found);
            }
        }
    }
}

fn check_fields(node: &Node, fields: &BTreeMap<&str, &str>, path: &str, found: &mut Vec<Misread>) {
    let Some(mapping) = node.as_mapping() else {
        found.push(is_not(node, path, "a mapping"));
        return;
    };
    for entry in mapping.iter() {
        let path = if path.is_empty() { entry.key.to_string() } else { format!("{path}.{}", entry.key) };
        if let Some(kind) = fields.get(entry.key.as_str()) {
            check(&entry.value, kind, &path, found);
            continue;
        }
        let names: Vec<&str> = fields.keys().copied().collect();
        let hint = match nearest(&entry.key, &names) {
            Some(name) => format!("did you mean {name}?"),
            None if entry.key == "version" => {
                "a node group has no version of its own: it comes from the cluster when the group is created".to_owned()
            }
            None => "remove it, or see `eksctl utils schema` for the fields that there are".to_owned(),
        };
        found.push(Misread {
            span: entry.key_span,
            message: format!("eksctl has no field {path}, and refuses it"),
            hint,
        });
    }
}

/// eksctl makes a text of a number, as it is read: of `1.30` what is left is `1.3`.
fn check_text(node: &Node, path: &str, found: &mut Vec<Misread>) {
    if !node.is_scalar() {
        found.push(is_not(node, path, "a text"));
        return;
    }
    let is_cut = match &node.value {
        Value::Float(number) => node.scalar_text().is_some_and(|text| text != number.to_string()),
        _ => false,
    };
    if is_cut {
        let text = node.scalar_text().unwrap_or_default();
        let message =
            format!("{path}: {text} without quotes is a number, of which eksctl drops what stands for nothing");
        found.push(Misread { span: node.span, message, hint: format!("write \"{text}\"") });
    }
}

/// eksctl reads YAML 1.1, in which these words are flags.
fn is_flag(node: &Node) -> bool {
    let is_plain = |text: &str| node.span.end() - node.span.start() == text.len();
    node.as_bool().is_some() || node.as_str().is_some_and(|text| is_word(text) && is_plain(text))
}

fn is_word(text: &str) -> bool {
    ["yes", "no", "on", "off", "y", "n"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

fn inside(kind: &str, open: char, close: char) -> Option<&str> {
    kind.strip_prefix(open)?.strip_suffix(close)
}

fn is_not(node: &Node, path: &str, what: &str) -> Misread {
    let message = format!("{path} is not {what}, as eksctl asks for");
    Misread { span: node.span, message, hint: "see `eksctl utils schema` for what stands there".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let documents = yaml::parse(text, &yaml::Limits::default()).unwrap();
        let found = misread(&documents[0].root);
        assert_eq!(found.iter().map(|found| found.message.as_str()).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn what_eksctl_refuses_is_named_by_path() {
        check("metadata: {name: a, region: b, version: \"1.30\"}\nmanagedNodeGroups: [{name: a}]\n", &[]);
        check(
            "managedNodeGroups: [{name: a, version: \"1.30\"}]\n",
            &["eksctl has no field managedNodeGroups[0].version, and refuses it"],
        );
        check("nodeGroup: []\n", &["eksctl has no field nodeGroup, and refuses it"]);
        check(
            "nodeGroups: [{desiredCapacity: two}]",
            &["nodeGroups[0].desiredCapacity is not a whole number, as eksctl asks for"],
        );
        check("nodeGroups: {name: a}", &["nodeGroups is not a list, as eksctl asks for"]);
        check(
            "nodeGroups: [{privateNetworking: yes, spot: true}]",
            &["eksctl has no field nodeGroups[0].spot, and refuses it"],
        );
        check(
            "managedNodeGroups: [{spot: \"true\"}]",
            &["managedNodeGroups[0].spot is not true or false, as eksctl asks for"],
        );
        check(
            "vpc: {subnets: {private: {a: {id: s, zone: z}}}}",
            &["eksctl has no field vpc.subnets.private.a.zone, and refuses it"],
        );
        check(
            "iam: {serviceAccounts: [{metadata: [a]}]}",
            &["iam.serviceAccounts[0].metadata is not a mapping, as eksctl asks for"],
        );
    }

    #[test]
    fn a_version_without_quotes_loses_its_zero() {
        check("metadata: {version: 1.31}", &[]);
        check(
            "metadata: {version: 1.30}",
            &["metadata.version: 1.30 without quotes is a number, of which eksctl drops what stands for nothing"],
        );
    }

    #[test]
    fn taints_are_a_list_or_a_mapping() {
        check("nodeGroups: [{taints: {a: \"b:NoSchedule\"}}, {taints: [{key: a, effect: NoSchedule}]}]", &[]);
        check(
            "managedNodeGroups: [{taints: {a: b}}]",
            &["managedNodeGroups[0].taints is not a list, as eksctl asks for"],
        );
    }
}
