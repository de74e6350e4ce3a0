//! What the installed roles grant, and whether it was made use of.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use tests::servers::manifests::kind;

/// One verb on one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    group: String,
    /// `*` for all of the group; subresources with a slash.
    resource: String,
    verb: String,
    /// The only object, where there is one.
    name: Option<String>,
    /// The only namespace, where there is one.
    namespace: Option<String>,
}

impl fmt::Display for Grant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(formatter, ".{}", self.group)?;
        }
        self.name.iter().try_for_each(|name| write!(formatter, " {name}"))
    }
}

impl Grant {
    /// Those of every rule in `ClusterRole`s and `Role`s.
    pub fn of(manifests: &[Value]) -> BTreeSet<Self> {
        let roles = manifests.iter().filter(|object| ["ClusterRole", "Role"].contains(&kind(object)));
        let rules = roles.flat_map(|role| {
            let namespace = role["metadata"]["namespace"].as_str();
            role["rules"].as_array().into_iter().flatten().map(move |rule| (namespace, rule))
        });
        rules.flat_map(|(namespace, rule)| Self::of_rule(namespace, rule)).collect()
    }

    fn of_rule(namespace: Option<&str>, rule: &Value) -> Vec<Self> {
        let texts = |field: &str| -> Vec<String> {
            rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let names = texts("resourceNames");
        let names: Vec<Option<String>> =
            if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
        let mut grants = Vec::new();
        for group in texts("apiGroups") {
            for resource in texts("resources") {
                for verb in texts("verbs") {
                    grants.extend(names.iter().map(|name| Self {
                        group: group.clone(),
                        resource: resource.clone(),
                        verb: verb.clone(),
                        name: name.clone(),
                        namespace: namespace.map(str::to_owned),
                    }));
                }
            }
        }
        grants
    }

    /// Whether a request of the audit log needs this grant.
    pub fn allows(&self, request: &Value) -> bool {
        let object = &request["objectRef"];
        let text = |field: &str| object[field].as_str();
        let resource = text("resource").unwrap_or_default();
        let resource = text("subresource").map_or_else(|| resource.to_owned(), |sub| format!("{resource}/{sub}"));
        request["verb"] == *self.verb
            && text("apiGroup").unwrap_or_default() == self.group
            && (self.resource == "*" || self.resource == resource)
            && self.name.as_deref().is_none_or(|name| text("name") == Some(name))
            && self.namespace.as_deref().is_none_or(|namespace| text("namespace") == Some(namespace))
    }
}
