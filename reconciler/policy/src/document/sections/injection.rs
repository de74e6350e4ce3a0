//! Sidecars that a team has put into its pods, besides those that Stepgate knows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yaml::Node;

use crate::document::read::Reader;

/// A sidecar that pods ask for: by a word of their own, or of their namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct InjectionRule {
    /// What it is called in reports.
    pub name: String,
    /// Annotations of a pod that ask for it, each by itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels of a pod that do.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Labels of a namespace that do for its pods, where these say nothing else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespace_labels: BTreeMap<String, String>,
    /// The containers that a pod has then.
    pub containers: Vec<String>,
}

const FIELDS: [&str; 5] = ["name", "annotations", "labels", "namespaceLabels", "containers"];

impl Reader<'_> {
    pub(in crate::document) fn injection(&mut self, node: &Node) -> Vec<InjectionRule> {
        if !node.is_null() && node.as_sequence().is_none() {
            self.problem(node.span, "injection must be a list", None);
        }
        let items = node.as_sequence().unwrap_or_default();
        items.iter().filter_map(|item| self.injection_rule(item)).collect()
    }

    /// One of them; none where something is missing without which it says nothing.
    fn injection_rule(&mut self, node: &Node) -> Option<InjectionRule> {
        let mut rule = InjectionRule::default();
        for entry in self.mapping(node, "injection")? {
            let value = &entry.value;
            match entry.key.as_str() {
                "name" => rule.name = self.text(value, "injection.name").unwrap_or_default(),
                "annotations" => rule.annotations = self.variables(value, "injection.annotations"),
                "labels" => rule.labels = self.variables(value, "injection.labels"),
                "namespaceLabels" => rule.namespace_labels = self.variables(value, "injection.namespaceLabels"),
                "containers" => rule.containers = self.texts(value, "injection.containers"),
                _ => self.unknown(entry, "injection", &FIELDS),
            }
        }
        let asks = !(rule.annotations.is_empty() && rule.labels.is_empty() && rule.namespace_labels.is_empty());
        for (is_there, missing, help) in [
            (!rule.name.is_empty(), "name", "name the injector: `name: datadog`"),
            (asks, "annotations, labels or namespaceLabels", "say what asks for it: `labels: {inject: enabled}`"),
            (!rule.containers.is_empty(), "containers", "name the containers that it adds: `containers: [agent]`"),
        ] {
            if !is_there {
                self.problem(node.span, format!("an entry of injection has no {missing}"), Some(help.to_owned()));
            }
        }
        (asks && !rule.name.is_empty() && !rule.containers.is_empty()).then_some(rule)
    }
}

#[cfg(test)]
mod tests {
    use domain::RepoPath;

    use crate::read_policy;

    #[test]
    fn a_rule_says_what_asks_and_what_is_there_then() {
        let read = |text: &str| {
            let (policy, problems) = read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
            (policy.injection, problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>())
        };
        let (rules, problems) =
            read("injection:\n- {name: datadog, annotations: {example.com/inject: true}, containers: [agent]}\n");
        assert_eq!(problems, [""; 0]);
        assert_eq!((rules[0].annotations["example.com/inject"].as_str(), rules[0].containers.len()), ("true", 1));
        for (rule, expected) in [
            ("{annotations: {a: b}, containers: [c]}", "an entry of injection has no name"),
            ("{name: a, containers: [c]}", "an entry of injection has no annotations, labels or namespaceLabels"),
            ("{name: a, labels: {a: b}}", "an entry of injection has no containers"),
            ("{name: a, label: {a: b}, containers: [c]}", "unknown field \"label\" in injection"),
        ] {
            let (rules, problems) = read(&format!("injection:\n- {rule}\n"));
            assert!(rules.is_empty() && problems.iter().any(|it| it == expected), "{rule}: {problems:?}");
        }
        assert!(read("injection: a\n").1[0].contains("injection must be a list"));
    }
}
