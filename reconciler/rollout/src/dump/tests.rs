//! Tables of what asks for sidecars, of owners, and of what a comparison leaves out.

use std::collections::{BTreeMap, BTreeSet};

use policy::InjectionRule;

use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

type Pairs<'a> = &'a [(&'a str, &'a str)];

/// What is missing, by injector; of the labels and annotations of a namespace and of a pod, and of its containers.
fn missing(namespace: (Pairs<'_>, Pairs<'_>), pod: (Pairs<'_>, Pairs<'_>), containers: &[&str]) -> Vec<String> {
    let (labels, annotations) = (map(namespace.0), map(namespace.1));
    let (own_labels, own_annotations) = (map(pod.0), map(pod.1));
    let containers: BTreeSet<String> = containers.iter().map(|name| (*name).to_owned()).collect();
    let pod = InjectedPod {
        namespace: "shop",
        namespace_labels: &labels,
        namespace_annotations: &annotations,
        labels: &own_labels,
        annotations: &own_annotations,
        containers: &containers,
        host_network: false,
    };
    let rule = InjectionRule {
        name: "agent".to_owned(),
        annotations: map(&[("example.com/inject", "true")]),
        namespace_labels: map(&[("agents", "on")]),
        containers: vec!["agent".to_owned()],
        ..InjectionRule::default()
    };
    let found = wanted_injections(&pod, &[rule]);
    found.into_iter().map(|it| format!("{}: {}", it.injector, it.missing.join(", "))).collect()
}

#[test]
fn sidecars_are_wanted_by_pods_and_namespaces_as_injectors_read_them() {
    const STATUS: (&str, &str) = ("sidecar.istio.io/status", r#"{"containers":["istio-proxy"],"revision":"default"}"#);
    const NATIVE: (&str, &str) = ("sidecar.istio.io/status", r#"{"initContainers":["istio-init","istio-proxy"]}"#);
    let lost = "istio: annotation sidecar.istio.io/status, container istio-proxy";
    let enabled: Pairs<'_> = &[("istio-injection", "enabled")];
    let revision: Pairs<'_> = &[("istio.io/rev", "1-30")];
    type Case<'a> = ((Pairs<'a>, Pairs<'a>), (Pairs<'a>, Pairs<'a>), &'a [&'a str], &'a [&'a str]);
    let cases: [Case<'_>; 17] = [
        ((&[], &[]), (&[], &[]), &["web"], &[]),
        ((enabled, &[]), (&[], &[]), &["web"], &[lost]),
        ((revision, &[]), (&[], &[]), &["web"], &[lost]),
        ((enabled, &[]), (&[], &[STATUS]), &["web", "istio-proxy"], &["istio: "]),
        ((enabled, &[]), (&[], &[NATIVE]), &["web", "istio-proxy"], &["istio: container istio-init"]),
        ((enabled, &[]), (&[("sidecar.istio.io/inject", "false")], &[]), &["web"], &[]),
        ((&[], &[]), (&[("sidecar.istio.io/inject", "true")], &[]), &["web"], &[lost]),
        ((&[], &[]), (&[("istio.io/rev", "canary")], &[]), &["web"], &[lost]),
        ((&[("istio-injection", "disabled"), ("istio.io/rev", "a")], &[]), (&[], &[]), &["web"], &[]),
        ((&[("istio.io/rev", "a"), ("istio.io/dataplane-mode", "ambient")], &[]), (&[], &[]), &["web"], &[]),
        (
            (&[], &[("linkerd.io/inject", "enabled")]),
            (&[], &[]),
            &["web"],
            &["linkerd: annotation linkerd.io/proxy-version, container linkerd-proxy"],
        ),
        ((&[], &[("linkerd.io/inject", "enabled")]), (&[], &[("linkerd.io/inject", "disabled")]), &["web"], &[]),
        (
            (&[], &[]),
            (&[], &[("vault.hashicorp.com/agent-inject", "true")]),
            &["web"],
            &["vault: annotation vault.hashicorp.com/agent-inject-status, container vault-agent-init, \
               container vault-agent"],
        ),
        (
            (&[], &[]),
            (
                &[],
                &[
                    ("vault.hashicorp.com/agent-inject", "true"),
                    ("vault.hashicorp.com/agent-inject-status", "injected"),
                    ("vault.hashicorp.com/agent-pre-populate-only", "true"),
                ],
            ),
            &["web", "vault-agent-init"],
            &["vault: "],
        ),
        ((&[("agents", "on")], &[]), (&[], &[]), &["web"], &["agent: container agent"]),
        ((&[("agents", "on")], &[]), (&[], &[("example.com/inject", "false")]), &["web"], &[]),
        ((&[], &[]), (&[], &[("example.com/inject", "true")]), &["web", "agent"], &["agent: "]),
    ];
    for (namespace, pod, containers, expected) in cases {
        assert_eq!(missing(namespace, pod, containers), expected, "{namespace:?} {pod:?}");
    }
}

#[test]
fn owners_keep_their_name_when_pods_are_made_anew() {
    let hash: Pairs<'_> = &[("pod-template-hash", "6c8f")];
    for (name, controller, labels, node, expected) in [
        ("web-6c8f-x", Some(("ReplicaSet", "web-6c8f")), hash, "a", "Deployment n/web"),
        ("web-x", Some(("ReplicaSet", "web")), &[], "a", "ReplicaSet n/web"),
        ("db-0", Some(("StatefulSet", "db")), &[], "a", "StatefulSet n/db"),
        ("nightly-29100000-x", Some(("Job", "nightly-29100000")), &[], "a", "CronJob n/nightly"),
        ("once-x", Some(("Job", "once")), &[], "a", "Job n/once"),
        ("etcd-cp-1", Some(("Node", "cp-1")), &[], "cp-1", "StaticPod n/etcd"),
        ("by-hand", None, &[], "a", "Pod n/by-hand"),
    ] {
        assert_eq!(owner_of_pod("n", name, controller, &map(labels), Some(node)).to_string(), expected);
    }
}
