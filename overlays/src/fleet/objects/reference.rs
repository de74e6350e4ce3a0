//! References between objects: what a specification names by kind and name.

use yaml::Node;

use super::field;
use crate::object::ObjectId;

/// What one object says of another that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// API group, where it is said.
    pub group: Option<String>,
    pub kind: String,
    /// Namespace, where it is said; else that of the object that refers.
    pub namespace: Option<String>,
    pub name: String,
}

impl Reference {
    /// The reference that a mapping is; `None` for one without kind or name.
    pub fn of(node: &Node) -> Option<Self> {
        let (kind, name) = (field(node, &["kind"])?, field(node, &["name"])?);
        let version = field(node, &["apiVersion"]);
        let group = version.map(|version| version.split_once('/').map_or("", |(group, _)| group).to_owned());
        let group = group.or_else(|| field(node, &["apiGroup"]));
        Some(Self { group, kind, namespace: field(node, &["namespace"]), name })
    }

    /// How near an object of these coordinates is to what is meant by an object in namespace `from`: 0 is right at it, `None` is not it.
    pub fn distance(&self, from: &str, group: &str, kind: &str, namespace: &str, name: &str) -> Option<u8> {
        // EKS Anywhere itself writes machine configurations without apiVersion.
        let is_group = self.group.as_deref().is_none_or(|wanted| wanted == group || group.is_empty());
        if !is_group || kind != self.kind || name != self.name {
            return None;
        }
        let wanted = self.namespace.as_deref().unwrap_or(from);
        match (wanted, namespace) {
            _ if wanted == namespace => Some(0),
            // It lives outside of namespaces, or whoever applies it says where.
            (_, "") => Some(1),
            ("", "default") => Some(1),
            ("", _) if self.namespace.is_none() => Some(2),
            _ => None,
        }
    }

    /// Whether an object in namespace `from` means this one.
    pub fn means(&self, from: &str, id: &ObjectId) -> bool {
        self.distance(from, &id.group, &id.kind, id.namespace.as_deref().unwrap_or_default(), &id.name).is_some()
    }
}

/// Everything that `node` refers to, in any depth: mappings with kind and name, and the `Secret`s and `ConfigMap`s that fields name by
/// their own name.
pub(crate) fn references(node: &Node) -> Vec<Reference> {
    let mut found = Vec::new();
    collect(node, &mut found);
    found
}

fn collect(node: &Node, found: &mut Vec<Reference>) {
    for entry in node.as_mapping().into_iter().flatten() {
        // Owners are no part of what they own, and status is nobody's wish.
        if matches!(entry.key.as_str(), "ownerReferences" | "status") {
            continue;
        }
        match Reference::of(&entry.value) {
            Some(reference) => found.push(reference),
            None => found.extend(by_key(&entry.key, &entry.value)),
        }
        collect(&entry.value, found);
    }
    for item in node.as_sequence().unwrap_or_default() {
        found.extend(Reference::of(item));
        collect(item, found);
    }
}

/// A Secret or ConfigMap that a field names without its kind.
fn by_key(key: &str, value: &Node) -> Option<Reference> {
    let lower = key.to_ascii_lowercase();
    let kind = if lower.contains("secret") || lower.ends_with("credentialsref") {
        "Secret"
    } else if lower.contains("configmap") {
        "ConfigMap"
    } else {
        return None;
    };
    let name = match value.as_mapping() {
        Some(_) => field(value, &["name"])?,
        None if lower.ends_with("name") => super::scalar(value)?,
        None => return None,
    };
    Some(Reference { group: Some(String::new()), kind: kind.to_owned(), namespace: field(value, &["namespace"]), name })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let documents = yaml::parse(text, &yaml::Limits::default()).unwrap();
        let found = references(&documents.first().unwrap().root);
        found.into_iter().map(|it| format!("{:?} {} {:?} {}", it.group, it.kind, it.namespace, it.name)).collect()
    }

    #[test]
    fn references_of_every_form_are_found() {
        for (text, expected) in [
            ("a: {infraRef: {apiVersion: x/v1, kind: K, name: n}}", "Some(\"x\") K None n"),
            ("a: {ref: {apiGroup: x, kind: K, name: n, namespace: s}}", "Some(\"x\") K Some(\"s\") n"),
            ("a: {ref: {kind: K, name: n}}", "None K None n"),
            ("resources: [{kind: ConfigMap, name: n}]", "None ConfigMap None n"),
            ("addressesFromPools: [{apiGroup: ipam, kind: Pool, name: n}]", "Some(\"ipam\") Pool None n"),
            ("contentFrom: {secret: {name: n, key: k}}", "Some(\"\") Secret None n"),
            ("credentialsRef: {name: n}", "Some(\"\") Secret None n"),
            ("secretName: n", "Some(\"\") Secret None n"),
            ("configMapRef: {name: n, namespace: s}", "Some(\"\") ConfigMap Some(\"s\") n"),
        ] {
            assert_eq!(of(text), [expected], "{text}");
        }
        assert!(of("metadata: {ownerReferences: [{kind: K, name: n}]}").is_empty());
    }

    #[test]
    fn a_reference_means_an_object_of_its_namespace() {
        let reference = |namespace: Option<&str>| Reference {
            group: None,
            kind: "K".to_owned(),
            namespace: namespace.map(str::to_owned),
            name: "n".to_owned(),
        };
        for (said, from, at, expected) in [
            (None, "a", "a", Some(0)),
            (None, "a", "b", None),
            (None, "a", "", Some(1)),
            (None, "", "default", Some(1)),
            (None, "", "a", Some(2)),
            (Some("b"), "a", "b", Some(0)),
            (Some("b"), "a", "a", None),
        ] {
            assert_eq!(reference(said).distance(from, "g", "K", at, "n"), expected, "{said:?} {from} {at}");
        }
        assert_eq!(reference(None).distance("a", "g", "L", "a", "n"), None);
    }
}
