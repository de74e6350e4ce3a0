//! Sidecars that others put into pods: who asks for one, and whether it is there.
//!
//! The webhooks that put them in are often skipped while their own pods move (`failurePolicy: Ignore`): a pod that is made in
//! that moment runs without, and nothing tells so.

use std::collections::{BTreeMap, BTreeSet};

use policy::InjectionRule;
use serde_json::Value;

use super::Injection;

/// Injectors that are known without being named.
pub const BUILT_IN: [&str; 3] = ["vault", "istio", "linkerd"];

/// Namespaces into which Istio puts nothing, whatever they ask for.
const NEVER: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "local-path-storage"];

/// What tells whether a pod asks for sidecars, and has them.
#[derive(Debug, Clone, Copy)]
pub struct InjectedPod<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Labels of the namespace.
    pub namespace_labels: &'a BTreeMap<String, String>,
    /// Annotations of the namespace.
    pub namespace_annotations: &'a BTreeMap<String, String>,
    /// Labels of the pod.
    pub labels: &'a BTreeMap<String, String>,
    /// Annotations of the pod.
    pub annotations: &'a BTreeMap<String, String>,
    /// Names of its containers, init containers included.
    pub containers: &'a BTreeSet<String>,
    /// Whether it shares the network of its node.
    pub host_network: bool,
}

impl<'a> InjectedPod<'a> {
    fn label(&self, key: &str) -> Option<&'a str> {
        self.labels.get(key).map(String::as_str)
    }

    fn annotation(&self, key: &str) -> Option<&'a str> {
        self.annotations.get(key).map(String::as_str)
    }

    fn absent<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Vec<String> {
        names
            .into_iter()
            .filter(|name| !self.containers.contains(*name))
            .map(|name| format!("container {name}"))
            .collect()
    }
}

/// The sidecars that a pod asks for, each with what is missing of it.
#[must_use]
pub fn wanted_injections(pod: &InjectedPod<'_>, rules: &[InjectionRule]) -> Vec<Injection> {
    let built_in = [("vault", vault(pod)), ("istio", istio(pod)), ("linkerd", linkerd(pod))];
    let named = rules.iter().map(|rule| (rule.name.as_str(), by_rule(pod, rule)));
    let wanted = built_in.into_iter().chain(named).filter_map(|(injector, missing)| Some((injector, missing?)));
    wanted.map(|(injector, missing)| Injection { injector: injector.to_owned(), missing }).collect()
}

/// What is missing of what Vault's agent injector puts in; none where nothing is asked for.
fn vault(pod: &InjectedPod<'_>) -> Option<Vec<String>> {
    let says = |name: &str| pod.annotation(&format!("vault.hashicorp.com/{name}"));
    let is_on = |name: &str| says(name).is_some_and(is_true);
    if !is_on("agent-inject") {
        return None;
    }
    let mut missing = Vec::new();
    if says("agent-inject-status") != Some("injected") {
        missing.push("annotation vault.hashicorp.com/agent-inject-status".to_owned());
    }
    if says("agent-pre-populate").is_none_or(is_true) {
        missing.extend(pod.absent(["vault-agent-init"]));
    }
    if !is_on("agent-pre-populate-only") {
        missing.extend(pod.absent(["vault-agent"]));
    }
    Some(missing)
}

/// The same of Istio: the pod's own word counts before that of its namespace, and `istio-injection` before `istio.io/rev`.
fn istio(pod: &InjectedPod<'_>) -> Option<Vec<String>> {
    const INJECT: &str = "sidecar.istio.io/inject";
    const STATUS: &str = "sidecar.istio.io/status";
    let of_namespace = |key: &str| pod.namespace_labels.get(key).map(String::as_str);
    if pod.host_network || NEVER.contains(&pod.namespace) {
        return None;
    }
    let has_revision = of_namespace("istio.io/rev").is_some() || pod.label("istio.io/rev").is_some();
    let by_namespace = match of_namespace("istio-injection") {
        Some("enabled") => true,
        Some("disabled") => false,
        _ => has_revision && of_namespace("istio.io/dataplane-mode") != Some("ambient"),
    };
    if of_namespace("istio-injection") == Some("disabled") {
        return None;
    }
    let wanted = match pod.label(INJECT).or_else(|| pod.annotation(INJECT)) {
        Some(word) => is_true(word),
        None => by_namespace,
    };
    if !wanted {
        return None;
    }
    let status = pod.annotation(STATUS);
    let mut missing: Vec<String> = status.is_none().then(|| format!("annotation {STATUS}")).into_iter().collect();
    // Native sidecars stand among the init containers; the status names whatever was put in.
    let status: Value = status.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let named = ["containers", "initContainers"].into_iter().filter_map(|key| status.get(key)?.as_array());
    let named: Vec<&str> = named.flatten().filter_map(Value::as_str).collect();
    missing.extend(pod.absent(if named.is_empty() { vec!["istio-proxy"] } else { named }));
    Some(missing)
}

/// The same of Linkerd.
fn linkerd(pod: &InjectedPod<'_>) -> Option<Vec<String>> {
    const INJECT: &str = "linkerd.io/inject";
    const PROOF: &str = "linkerd.io/proxy-version";
    let of_namespace = pod.namespace_annotations.get(INJECT).map(String::as_str);
    let word = pod.annotation(INJECT).or(of_namespace)?;
    if !matches!(word, "enabled" | "ingress") || pod.host_network {
        return None;
    }
    let unproven = pod.annotation(PROOF).is_none().then(|| format!("annotation {PROOF}"));
    Some(unproven.into_iter().chain(pod.absent(["linkerd-proxy"])).collect())
}

/// The same of an injector that `stepgate.yaml` names.
fn by_rule(pod: &InjectedPod<'_>, rule: &InjectionRule) -> Option<Vec<String>> {
    let holds = |(key, value): (&String, &String), of: &BTreeMap<String, String>| of.get(key) == Some(value);
    let by_pod = rule.annotations.iter().any(|asked| holds(asked, pod.annotations))
        || rule.labels.iter().any(|asked| holds(asked, pod.labels));
    let by_namespace = rule.namespace_labels.iter().any(|asked| holds(asked, pod.namespace_labels));
    // The pod's own word against it counts before that of its namespace.
    let differs = |asked: &BTreeMap<String, String>, of: &BTreeMap<String, String>| {
        asked.iter().any(|(key, value)| of.get(key).is_some_and(|known| known != value))
    };
    let is_refused = differs(&rule.annotations, pod.annotations) || differs(&rule.labels, pod.labels);
    (by_pod || (by_namespace && !is_refused)).then(|| pod.absent(rule.containers.iter().map(String::as_str)))
}

/// Whether a word means yes, as Go reads it.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}
