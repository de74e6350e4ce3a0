//! The webhooks of a configuration: what serves each of them, and which requests it is called for.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use kube::core::DynamicObject;
use serde_json::Value;

use crate::objects;

/// Labels of an object.
pub(super) type Labels = BTreeMap<String, String>;

/// So long an API server may take to notice what changed in a configuration. Until then it does not call what is new in it.
const NOTICED: SignedDuration = SignedDuration::from_secs(5);

/// The group of the objects for which no webhook is called, since nobody could mend a webhook that does not answer otherwise.
const EXEMPT: &str = "admissionregistration.k8s.io/";

/// cert-manager's annotations that ask for an authority.
const INJECTED: &str = "cert-manager.io/inject-";

/// What serves a webhook. Several webhooks of one configuration are served by one program, as a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Backend {
    Service { namespace: String, name: String, port: i64 },
    Url(String),
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service { namespace, name, .. } => write!(formatter, "Service {namespace}/{name}"),
            Self::Url(url) => formatter.write_str(url),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
        }
    }
}

/// A resource that a rule names in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) api_version: String,
    pub(super) plural: String,
}

/// A request, as far as webhooks are chosen by it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admission<'a> {
    pub(super) target: &'a Target,
    pub(super) operation: Operation,
    /// The labels of the object's namespace; none for an object without one, and where they are not known.
    pub(super) namespace: Option<&'a Labels>,
    pub(super) namespaced: bool,
    pub(super) labels: &'a Labels,
}

/// One webhook.
#[derive(Debug, Clone)]
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) backend: Backend,
    /// Whether it changes objects, and not only checks them.
    pub(super) mutates: bool,
    /// Whether what it is called for is refused while nothing answers.
    pub(super) fails_closed: bool,
    /// Whether it has `matchConditions`, which may leave a request out.
    pub(super) conditional: bool,
    /// Whether an authority is still to be written into its configuration.
    pub(super) lacks_authority: bool,
    /// Why a request that is accepted proves nothing about it, whatever the request; none where it may prove something.
    unprovable: Option<&'static str>,
    rules: Vec<Rule>,
    pub(super) namespaces: Value,
    pub(super) objects: Value,
}

#[derive(Debug, Clone)]
struct Rule {
    groups: Vec<String>,
    versions: Vec<String>,
    operations: Vec<String>,
    resources: Vec<String>,
    scope: String,
}

impl Hook {
    /// Those of a configuration.
    pub(super) fn of(configuration: &DynamicObject, mutates: bool) -> Vec<Self> {
        let annotations = configuration.metadata.annotations.as_ref();
        let is_injected = annotations.is_some_and(|known| known.keys().any(|key| key.starts_with(INJECTED)));
        let hook = |hook: &Value| {
            let text = |path: &str| hook.pointer(path).and_then(Value::as_str);
            let backend = match (text("/clientConfig/service/name"), text("/clientConfig/url")) {
                (Some(name), _) => Backend::Service {
                    namespace: text("/clientConfig/service/namespace").unwrap_or_default().to_owned(),
                    name: name.to_owned(),
                    port: hook.pointer("/clientConfig/service/port").and_then(Value::as_i64).unwrap_or(443),
                },
                (None, Some(url)) => Backend::Url(url.to_owned()),
                (None, None) => return None,
            };
            let conditions = hook.get("matchConditions").and_then(Value::as_array);
            let fails_closed = text("/failurePolicy").is_none_or(|policy| policy == "Fail");
            let conditional = conditions.is_some_and(|conditions| !conditions.is_empty());
            let unprovable = if !fails_closed {
                Some("failurePolicy Ignore lets requests pass without it")
            } else if conditional {
                Some("its matchConditions may leave a request out")
            } else {
                None
            };
            Some(Self {
                name: text("/name").unwrap_or_default().to_owned(),
                lacks_authority: is_injected && text("/clientConfig/caBundle").unwrap_or_default().is_empty(),
                backend,
                mutates,
                fails_closed,
                conditional,
                unprovable,
                rules: list(hook, "rules").iter().map(Rule::of).collect(),
                namespaces: hook.get("namespaceSelector").cloned().unwrap_or_default(),
                objects: hook.get("objectSelector").cloned().unwrap_or_default(),
            })
        };
        list(&configuration.data, "webhooks").iter().filter_map(hook).collect()
    }

    /// Why no request proves by being accepted that it was called; none where one may.
    pub(super) fn unprovable(&self) -> Option<&'static str> {
        self.unprovable
    }

    /// Whether its rules name this operation on this resource.
    pub(super) fn is_for(&self, target: &Target, operation: Operation) -> bool {
        !target.api_version.starts_with(EXEMPT)
            && self.rules.iter().any(|rule| rule.allows(target, operation) && rule.targets().contains(target))
    }

    /// The resources that its rules name in full, in their order.
    pub(super) fn targets(&self) -> Vec<Target> {
        self.rules.iter().flat_map(Rule::targets).collect()
    }

    /// Whether rules and selectors choose it for this request. What its conditions say is not known.
    pub(super) fn is_chosen(&self, admission: &Admission<'_>) -> bool {
        let Admission { target, operation, namespace, namespaced, labels } = *admission;
        let of_namespace = match (target.api_version.as_str(), target.plural.as_str()) {
            ("v1", "namespaces") => Some(labels),
            _ => namespace,
        };
        let is_in = match of_namespace {
            Some(labels) => objects::admits(&self.namespaces, Some(labels)),
            // Objects without a namespace are never left out by one.
            None => !namespaced || objects::is_empty_selector(&self.namespaces),
        };
        let is_named = |rule: &Rule| rule.allows(target, operation) && rule.is_in_scope(namespaced);
        !target.api_version.starts_with(EXEMPT)
            && is_in
            && objects::admits(&self.objects, Some(labels))
            && self.rules.iter().any(is_named)
    }

    /// Whether this request cannot have been accepted without a call of it.
    pub(super) fn is_proven_by(&self, admission: &Admission<'_>) -> bool {
        self.unprovable.is_none() && self.is_chosen(admission)
    }
}

impl Rule {
    fn of(rule: &Value) -> Self {
        let texts = |key: &str| list(rule, key).iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
        Self {
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            operations: texts("operations"),
            resources: texts("resources"),
            scope: rule.get("scope").and_then(Value::as_str).unwrap_or("*").to_owned(),
        }
    }

    fn allows(&self, target: &Target, operation: Operation) -> bool {
        let names = |known: &[String], wanted: &str| known.iter().any(|known| known == wanted || known == "*");
        let (group, version) = target.api_version.split_once('/').unwrap_or(("", &target.api_version));
        // `pods/*` means the resource and all that is below it.
        let is_resource = self.resources.iter().any(|known| {
            let (resource, below) = known.split_once('/').unwrap_or((known, "*"));
            (resource == "*" || resource == target.plural) && below == "*"
        });
        names(&self.groups, group)
            && names(&self.versions, version)
            && names(&self.operations, operation.text())
            && is_resource
    }

    fn is_in_scope(&self, namespaced: bool) -> bool {
        match self.scope.as_str() {
            "Namespaced" => namespaced,
            "Cluster" => !namespaced,
            _ => true,
        }
    }

    fn targets(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        for group in &self.groups {
            for version in &self.versions {
                for resource in &self.resources {
                    let plural = resource.trim_end_matches("/*");
                    let is_exact = ![group.as_str(), version, plural].into_iter().any(|part| part.contains('*'));
                    if is_exact && !plural.contains('/') {
                        let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
                        targets.push(Target { api_version, plural: plural.to_owned() });
                    }
                }
            }
        }
        targets
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether a configuration was written so lately that it may not be in force: requests are accepted then without a call of what is new.
pub(super) fn is_recent(configuration: &DynamicObject, at: Timestamp) -> bool {
    let metadata = &configuration.metadata;
    let written = metadata.managed_fields.iter().flatten().filter_map(|entry| entry.time.as_ref());
    let mut times =
        metadata.creation_timestamp.iter().chain(written).filter_map(|time| time.0.to_string().parse().ok());
    times.any(|written: Timestamp| at.duration_since(written) < NOTICED)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT: &str = "2026-03-01T12:00:00Z";

    fn hooks(hooks: &Value) -> Vec<Hook> {
        Hook::of(&serde_json::from_value(json!({"metadata": {"name": "x"}, "webhooks": hooks})).unwrap(), false)
    }

    fn hook(more: &Value) -> Hook {
        let mut hook = json!({"name": "a.b", "clientConfig": {"service": {"namespace": "n", "name": "s"}},
            "rules": [{"apiGroups": ["a.b"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"]}]});
        hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        hooks(&json!([hook])).remove(0)
    }

    fn target(api_version: &str, plural: &str) -> Target {
        Target { api_version: api_version.to_owned(), plural: plural.to_owned() }
    }

    fn labels(of: &[(&str, &str)]) -> Labels {
        of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_resources_that_are_named_in_full_are_tried() {
        let rule = |groups: Value, resources: Value| json!({"apiGroups": groups, "apiVersions": ["v1"], "resources": resources, "operations": ["*"]});
        let hook = hook(&json!({"rules": [rule(json!(["*"]), json!(["pods"])), rule(json!(["a.b"]), json!(["*/*"])),
            rule(json!(["a.b"]), json!(["things", "things/status", "others/*"])), rule(json!([""]), json!(["nodes"]))]}));
        assert_eq!(hook.targets(), [target("a.b/v1", "things"), target("a.b/v1", "others"), target("v1", "nodes")]);
    }

    /// A request to create a thing in a namespace: whether it is chosen, and whether being accepted proves a call.
    #[track_caller]
    fn check(more: &Value, expected: (bool, bool)) {
        let (namespace, own) = (labels(&[("kubernetes.io/metadata.name", "default")]), labels(&[]));
        let target = target("a.b/v1", "things");
        let admission = Admission {
            target: &target,
            operation: Operation::Create,
            namespace: Some(&namespace),
            namespaced: true,
            labels: &own,
        };
        let hook = hook(more);
        assert_eq!((hook.is_chosen(&admission), hook.is_proven_by(&admission)), expected, "{more}");
    }

    #[test]
    fn a_request_that_may_pass_a_webhook_by_proves_nothing() {
        let is_in = |operator: &str| json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": operator, "values": ["default"]}]});
        let rules = |rule: Value| json!({"rules": [rule]});
        for (more, expected) in [
            (json!({}), (true, true)),
            (
                json!({"failurePolicy": "Fail", "namespaceSelector": {}, "objectSelector": {}, "matchConditions": []}),
                (true, true),
            ),
            (json!({"failurePolicy": "Ignore"}), (true, false)),
            (json!({"matchConditions": [{"name": "x", "expression": "false"}]}), (true, false)),
            (json!({"namespaceSelector": is_in("In")}), (true, true)),
            (json!({"namespaceSelector": is_in("NotIn")}), (false, false)),
            (json!({"objectSelector": {"matchLabels": {"a": "b"}}}), (false, false)),
            (json!({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}), (true, true)),
            (
                rules(json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]})),
                (true, true),
            ),
            (
                rules(
                    json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"], "scope": "Cluster"}),
                ),
                (false, false),
            ),
            (
                rules(
                    json!({"apiGroups": ["a.b"], "apiVersions": ["v2"], "resources": ["things"], "operations": ["*"]}),
                ),
                (false, false),
            ),
            (
                rules(
                    json!({"apiGroups": ["a.b"], "apiVersions": ["v1"], "resources": ["things/status"], "operations": ["*"]}),
                ),
                (false, false),
            ),
            (
                rules(
                    json!({"apiGroups": ["a.b"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["UPDATE"]}),
                ),
                (false, false),
            ),
        ] {
            check(&more, expected);
        }
    }

    #[test]
    fn a_configuration_that_was_written_a_moment_ago_may_not_be_in_force_yet() {
        let recent = |metadata: &Value| {
            is_recent(&serde_json::from_value(json!({"metadata": metadata})).unwrap(), AT.parse().unwrap())
        };
        let written = |time: &str| json!({"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "x", "operation": "Update", "time": time}]});
        assert!(!recent(&written("2026-03-01T11:59:55Z")) && !recent(&json!({})));
        for metadata in
            [written("2026-03-01T11:59:57Z"), json!({"creationTimestamp": AT}), written("2026-03-01T13:00:00Z")]
        {
            assert!(recent(&metadata), "{metadata}");
        }
    }

    #[test]
    fn no_webhook_is_called_for_configurations_of_webhooks() {
        let rule = json!({"apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["v1"],
            "resources": ["validatingwebhookconfigurations"], "operations": ["*"]});
        let hook = hook(&json!({"rules": [rule]}));
        assert!(hook.targets().iter().all(|target| !hook.is_for(target, Operation::Update)));
    }

    #[test]
    fn namespaces_are_chosen_by_their_own_labels_and_what_has_none_by_no_selector() {
        let selector = json!({"matchLabels": {"a": "b"}});
        let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]});
        let hook = hook(&json!({"namespaceSelector": selector, "rules": [rule]}));
        let chosen = |plural: &str, own: &[(&str, &str)]| {
            let (target, labels) = (target("v1", plural), labels(own));
            hook.is_chosen(&Admission {
                target: &target,
                operation: Operation::Update,
                namespace: None,
                namespaced: false,
                labels: &labels,
            })
        };
        assert_eq!(
            [chosen("namespaces", &[]), chosen("namespaces", &[("a", "b")]), chosen("nodes", &[])],
            [false, true, true]
        );
    }
}
