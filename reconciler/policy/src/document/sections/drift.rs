//! `drift`: what others may write into objects of the deploy branch, past git, without being told of.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yaml::Node;

use crate::document::pattern::data::DataPattern;
use crate::document::read::Reader;
use crate::document::schema::every_field_is_optional;

/// What is no drift, in the words of Flux (`ignore`, `paths`) and Argo CD (`managedFieldsManagers`).
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct DriftPolicy {
    /// What is ignored.
    pub ignore: Vec<DriftIgnore>,
}

/// Fields of objects that somebody else may write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct DriftIgnore {
    /// The objects, as `deleteData` names them; all of them when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub object: Option<DataPattern>,
    /// JSON pointers: each is a field and what is below it; every field where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub paths: Vec<FieldPointer>,
    /// Who may write them; anybody where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managers: Vec<String>,
}

/// A JSON pointer (RFC 6901), such as `/spec/replicas`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FieldPointer(Vec<String>);

/// A text is not a JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid JSON pointer; write it as /spec/replicas, with ~1 for a / in a name")]
pub struct FieldPointerError(String);

impl TryFrom<String> for FieldPointer {
    type Error = FieldPointerError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let segments = text.strip_prefix('/').map(|rest| {
            let segment = |part: &str| part.replace("~1", "/").replace("~0", "~");
            rest.split('/').map(segment).collect::<Vec<_>>()
        });
        match segments {
            // Everything there is would be no exception.
            Some(segments) if segments.iter().all(|segment| !segment.is_empty()) => Ok(Self(segments)),
            Some(_) | None => Err(FieldPointerError(text)),
        }
    }
}

impl From<FieldPointer> for String {
    fn from(pointer: FieldPointer) -> Self {
        pointer.to_string()
    }
}

impl fmt::Display for FieldPointer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| write!(formatter, "/{}", part.replace('~', "~0").replace('/', "~1")))
    }
}

impl FieldPointer {
    /// Whether a field of a drift is the one that is named, or is below it. A drift names fields as `spec.replicas`, and items
    /// of lists as `containers[name=manager]` or `args[0]`: an item counts by its index, or, with `*`, as any of them.
    #[must_use]
    pub fn covers(&self, field: &str) -> bool {
        let mut rest = field;
        for segment in &self.0 {
            let Some(next) = after(segment, rest) else { return false };
            rest = next;
        }
        rest.is_empty() || rest.starts_with(['.', '['])
    }
}

/// What follows this segment at the beginning of a field.
fn after<'f>(segment: &str, field: &'f str) -> Option<&'f str> {
    if let Some(item) = field.strip_prefix('[') {
        let (item, rest) = item.split_once(']')?;
        let named = item.split_once('=').map_or(item, |(_, name)| name);
        return (segment == "*" || segment == item || segment == named).then_some(rest);
    }
    let field = field.strip_prefix('.').unwrap_or(field);
    let rest = field.strip_prefix(segment)?;
    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}

impl DriftIgnore {
    /// Whether everything that it ignores is ignored by `wider` as well.
    #[must_use]
    pub fn is_within(&self, wider: &Self) -> bool {
        let begins = |path: &FieldPointer| wider.paths.iter().any(|known| path.0.starts_with(&known.0));
        let of_paths = !self.paths.is_empty() && self.paths.iter().all(begins);
        let of_managers =
            !self.managers.is_empty() && self.managers.iter().all(|manager| wider.managers.contains(manager));
        (wider.object.is_none() || wider.object == self.object)
            && (wider.paths.is_empty() || of_paths)
            && (wider.managers.is_empty() || of_managers)
    }

    /// Whether what this manager has written into a field of an object is ignored.
    #[must_use]
    pub fn covers(&self, (kind, namespace, name): (&str, Option<&str>, &str), field: &str, manager: &str) -> bool {
        self.object.as_ref().is_none_or(|object| object.matches(kind, namespace, name))
            && (self.paths.is_empty() || self.paths.iter().any(|path| path.covers(field)))
            && (self.managers.is_empty() || self.managers.iter().any(|known| known == manager))
    }
}

const DRIFT: [&str; 1] = ["ignore"];
const IGNORE: [&str; 3] = ["object", "paths", "managers"];

impl Reader<'_> {
    pub(in crate::document) fn drift(&mut self, node: &Node) -> DriftPolicy {
        let mut drift = DriftPolicy::default();
        for entry in self.mapping(node, "drift").into_iter().flatten() {
            match entry.key.as_str() {
                "ignore" => {
                    if !entry.value.is_null() && entry.value.as_sequence().is_none() {
                        self.problem(entry.value.span, "drift.ignore must be a list", None);
                    }
                    let items = entry.value.as_sequence().unwrap_or_default();
                    drift.ignore = items.iter().filter_map(|item| self.drift_ignore(item)).collect();
                }
                _ => self.unknown(entry, "drift", &DRIFT),
            }
        }
        drift
    }

    /// One of them; none where something is wrong with it, so that it ignores nothing.
    fn drift_ignore(&mut self, node: &Node) -> Option<DriftIgnore> {
        let (mut object, mut paths, mut managers) = (None, Vec::new(), Vec::new());
        let mut is_usable = true;
        let fields = self.mapping(node, "drift.ignore")?;
        for entry in fields {
            let value = &entry.value;
            is_usable &= match entry.key.as_str() {
                "object" => {
                    object = self.data_pattern(value, "drift.ignore.object");
                    object.is_some()
                }
                "paths" => {
                    let texts = self.some_texts(value, "drift.ignore.paths");
                    let wanted = texts.len();
                    for text in texts {
                        match FieldPointer::try_from(text) {
                            Ok(path) => paths.push(path),
                            Err(error) => self.problem(value.span, format!("drift.ignore.paths: {error}"), None),
                        }
                    }
                    wanted > 0 && paths.len() == wanted
                }
                "managers" => {
                    managers = self.some_texts(value, "drift.ignore.managers");
                    !managers.is_empty()
                }
                _ => {
                    self.unknown(entry, "drift.ignore", &IGNORE);
                    false
                }
            };
        }
        if fields.get("paths").is_none() && fields.get("managers").is_none() {
            let message = "drift.ignore names neither paths nor managers, so it ignores nothing";
            let hint = "name fields (`paths: [/spec/replicas]`), or who writes them (`managers: [vpa-updater]`)";
            self.problem(node.span, message, Some(hint.to_owned()));
            return None;
        }
        is_usable.then_some(DriftIgnore { object, paths, managers })
    }

    /// Texts of which there is at least one.
    fn some_texts(&mut self, node: &Node, place: &str) -> Vec<String> {
        let texts = self.texts(node, place);
        if node.is_null() || node.as_sequence().is_some_and(<[Node]>::is_empty) {
            self.problem(node.span, format!("{place} must be a list that is not empty"), None);
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use domain::RepoPath;

    use super::*;

    fn read(text: &str) -> (Vec<DriftIgnore>, Vec<String>) {
        let (policy, problems) = crate::read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        let told = |problem: &domain::Problem| {
            format!("{}: {}; {}", problem.line.unwrap_or(0), problem.message, problem.hint.clone().unwrap_or_default())
        };
        (policy.drift_ignores("mgmt"), problems.iter().map(told).collect())
    }

    #[test]
    fn levels_name_objects_fields_and_managers_that_are_ignored() {
        let text = "drift: {ignore: [{object: Deployment/capi-system/*, paths: [/spec/replicas]}]}\n\
                    clusters: {mgmt: {drift: {ignore: [{managers: [vpa-updater]}]}}, other: {drift: {ignore: [{managers: [x]}]}}}\n";
        let (ignores, problems) = read(text);
        assert_eq!(problems, [""; 0]);
        let covers = |object: (&str, Option<&str>, &str), field: &str, manager: &str| {
            ignores.iter().any(|ignore| ignore.covers(object, field, manager))
        };
        let deployment = ("Deployment", Some("capi-system"), "capi-controller-manager");
        assert!(covers(deployment, "spec.replicas", "kubectl-scale"));
        assert!(!covers(deployment, "spec.replicasOther", "kubectl-scale"));
        assert!(!covers(deployment, "spec.paused", "kubectl-edit"));
        assert!(!covers(("Deployment", Some("eksa-system"), "a"), "spec.replicas", "kubectl-scale"));
        assert!(covers(deployment, "spec.paused", "vpa-updater"));
        assert!(!covers(deployment, "spec.paused", "x"));
    }

    #[test]
    fn pointers_name_fields_with_items_of_lists() {
        let covers = |pointer: &str, field: &str| FieldPointer::try_from(pointer.to_owned()).unwrap().covers(field);
        for (pointer, field, expected) in [
            ("/spec/template", "spec.template.spec.containers[name=manager].image", true),
            ("/spec/containers/*/image", "spec.containers[name=manager].image", true),
            ("/spec/containers/manager/image", "spec.containers[name=manager].image", true),
            ("/spec/containers/0/image", "spec.containers[0].image", true),
            ("/spec/containers/1/image", "spec.containers[0].image", false),
            ("/metadata/annotations/example.com~1owner", "metadata.annotations.example.com/owner", true),
            ("/spec/replicas/x", "spec.replicas", false),
            ("/spec", "specification", false),
        ] {
            assert_eq!(covers(pointer, field), expected, "{pointer} {field}");
        }
    }

    #[test]
    fn a_rule_that_is_not_whole_ignores_nothing_and_says_why() {
        for (rule, expected) in [
            ("{object: Deployment/a/b}", "names neither paths nor managers"),
            ("{paths: [spec.replicas]}", "\"spec.replicas\" is not a valid JSON pointer"),
            ("{paths: [/]}", "\"/\" is not a valid JSON pointer"),
            ("{paths: []}", "drift.ignore.paths must be a list that is not empty"),
            ("{managers: null}", "drift.ignore.managers must be a list that is not empty"),
            ("{paths: /spec}", "drift.ignore.paths must be a list"),
            ("{managers: [a], object: '*'}", "drift.ignore.object: \"*\" is none of Kind/name"),
            ("{manager: [a]}", "did you mean \"managers\"?"),
            ("x", "drift.ignore must be a mapping"),
        ] {
            let (ignores, problems) = read(&format!("drift:\n  ignore:\n  - {rule}\n"));
            assert_eq!(ignores, [], "{rule}");
            assert!(problems.iter().all(|problem| problem.starts_with("3: ")), "{rule}: {problems:?}");
            assert!(problems.iter().any(|problem| problem.contains(expected)), "{rule}: {problems:?}");
        }
    }
}
