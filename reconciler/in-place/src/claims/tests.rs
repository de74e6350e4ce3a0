use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn machine(version: &str) -> Specifications {
    Specifications {
        machine: json!({"clusterName": "edge", "version": version}),
        infrastructure: json!({"hardwareName": "one"}),
        bootstrap: json!({"joinConfiguration": {"nodeRegistration": {"name": "one"}}}),
    }
}

fn claims(from: &Specifications, to: &Specifications) -> Claims {
    let claims = Claims::new(from, to);
    assert_eq!(claims, Claims::new(from, to), "the same differences have the same claims");
    claims
}

/// The specifications with everything that is claimed.
fn applied(from: &Specifications, claims: &Claims) -> Specifications {
    let mut result = from.clone();
    for part in Part::ALL {
        let value = match part {
            Part::Machine => &mut result.machine,
            Part::Infrastructure => &mut result.infrastructure,
            Part::Bootstrap => &mut result.bootstrap,
        };
        if let Some(patch) = claims.patch(part) {
            apply(value, patch);
        }
    }
    result
}

#[test]
fn versions_that_the_node_upgrader_can_reach_are_claimed() {
    for (from, to) in [
        ("v1.35.4", "v1.36.0"),
        ("v1.36.1", "v1.36.4"),
        ("v1.35.4-eks-1-35-9", "v1.35.4-eks-1-35-10"),
        ("v1.35.4-eks-1-35-99", "v1.36.0-eks-1-36-1"),
    ] {
        let claims = claims(&machine(from), &machine(to));
        assert_eq!(claims.why(), "", "{from} to {to}");
        assert_eq!(applied(&machine(from), &claims), machine(to));
    }
}

#[test]
fn versions_that_it_cannot_reach_are_rejected() {
    for (from, to, says) in [
        ("v1.34.1", "v1.36.0", "one minor version at a time"),
        ("v1.36.4", "v1.36.3", "goes back"),
        ("v1.35.4-eks-1-35-10", "v1.35.4-eks-1-35-9", "goes back"),
        ("v1.30.1", "v1.31.0", "1.32 and newer"),
        ("v1.35", "v1.36", "names no patch"),
        ("latest", "v1.36.0", "not a valid Kubernetes version"),
    ] {
        let why = claims(&machine(from), &machine(to)).why();
        assert!(why.starts_with("version of the machine") && why.contains(says), "{from} to {to}: {why}");
    }
}

#[test]
fn the_gate_that_cluster_api_sets_by_version_is_claimed() {
    let gate = |version: &str, gates: Value| Specifications {
        bootstrap: json!({"clusterConfiguration": {"featureGates": gates}}),
        ..machine(version)
    };
    let local = json!({"ControlPlaneKubeletLocalMode": true});
    let (old, new) = (gate("v1.35.4", local.clone()), machine_without_bootstrap("v1.36.0"));
    let taken = claims(&old, &new);
    assert_eq!(taken.why(), "");
    assert_eq!(applied(&old, &taken).bootstrap, json!({}), "the last gate takes its parents along");
    let set = claims(&machine_without_bootstrap("v1.31.9"), &gate("v1.32.1", local.clone()));
    assert_eq!(set.why(), "");
    let by_hand = claims(&gate("v1.36.0", json!({})), &gate("v1.36.1", local));
    assert!(
        by_hand.why().contains("clusterConfiguration.featureGates.ControlPlaneKubeletLocalMode"),
        "{}",
        by_hand.why()
    );
}

fn machine_without_bootstrap(version: &str) -> Specifications {
    Specifications { bootstrap: json!({}), ..machine(version) }
}

#[test]
fn images_that_follow_are_claimed() {
    let bootstrap = |tag: &str| {
        json!({
            "clusterConfiguration": {
                "imageRepository": format!("public.ecr.aws/eks-distro/{tag}"),
                "etcd": {"local": {"imageRepository": "public.ecr.aws/eks-distro/etcd-io", "imageTag": tag}},
                "dns": {"imageTag": tag},
            },
            "joinConfiguration": {
                "nodeRegistration": {"kubeletExtraArgs": [{"name": "pod-infra-container-image", "value": tag}]},
            },
            "files": [{"path": "/etc/hosts", "content": "127.0.0.1 localhost"}],
        })
    };
    let old = Specifications { bootstrap: bootstrap("v1.35.4-eks-1-35-3"), ..machine("v1.35.4") };
    let new = Specifications { bootstrap: bootstrap("v1.36.0-eks-1-36-1"), ..machine("v1.36.0") };
    let claims = claims(&old, &new);
    assert_eq!(claims.why(), "");
    assert_eq!(applied(&old, &claims), new);
    // A node that is at the version already would count as done.
    let alone = Claims::new(&old, &Specifications { machine: old.machine.clone(), ..new });
    assert!(alone.claimed().is_empty() && alone.why().contains("without the Kubernetes version"), "{}", alone.why());
}

#[test]
fn files_that_the_upgrader_writes_are_claimed_with_the_version_alone() {
    let vip = "/etc/kubernetes/manifests/kube-vip.yaml";
    let hosts = "/etc/containerd/certs.d/registry.test/hosts.toml";
    let pod = |tag: &str| format!("kind: Pod\nspec: {{containers: [{{image: 'kube-vip:{tag}'}}]}}\n");
    let with = |version: &str, tag: &str, mirror: Value| Specifications {
        bootstrap: json!({"files": [{"path": vip, "content": pod(tag)}, {"path": "/etc/hosts", "content": "a"}, mirror]}),
        ..machine(version)
    };
    let mirror = |content: &str| json!({"path": hosts, "content": content, "permissions": "0600"});
    let (old, new) = (with("v1.35.4", "v1", mirror("a")), with("v1.36.0", "v2", mirror("b")));
    let taken = claims(&old, &new);
    assert_eq!(taken.why(), "");
    assert_eq!(applied(&old, &taken), new);
    let told: Vec<String> = taken.claimed().iter().map(|(_, field)| field.to_string()).collect();
    assert_eq!(told, ["version".to_owned(), format!("files[{hosts}]"), format!("files[{vip}]")]);
    let alone = claims(&with("v1.36.0", "v1", mirror("a")), &new);
    assert!(alone.claimed().is_empty() && alone.why().contains("without the Kubernetes version"), "{}", alone.why());
    let gone =
        claims(&old, &Specifications { bootstrap: json!({"files": [{"path": "/etc/hosts", "content": "a"}]}), ..new });
    assert!(
        gone.why().contains(&format!("files[{vip}] of the bootstrap configuration is not taken away")),
        "{}",
        gone.why()
    );
}

#[test]
fn whatever_else_differs_is_rejected_by_its_name() {
    let old = Specifications {
        bootstrap: json!({
            "clusterConfiguration": {"apiServer": {"extraArgs": [{"name": "profiling", "value": "true"}]}},
            "files": [
                {"path": "/etc/audit.yaml", "content": "old"},
                {"path": "/etc/kubernetes/manifests/kube-vip.yaml", "content": "manifest"},
                {"path": "/etc/containerd/certs.d/../config.toml", "content": "old"},
            ],
            "preKubeadmCommands": ["true"],
        }),
        ..machine("v1.35.4")
    };
    let mut new = old.clone();
    new.machine["version"] = json!("v1.36.0");
    new.machine["failureDomain"] = json!("b");
    new.infrastructure = json!({"hardwareName": "two"});
    new.bootstrap = json!({
        "clusterConfiguration": {"apiServer": {"extraArgs": [{"name": "profiling", "value": "false"}]}},
        "files": [
            {"path": "/etc/audit.yaml", "content": "new"},
            {"path": "/etc/containerd/certs.d/../config.toml", "content": "new"},
            {"path": "/etc/containerd/certs.d/a/ca.crt", "contentFrom": {"secret": {"name": "a", "key": "b"}}},
        ],
        "preKubeadmCommands": ["true", "false"],
        "users": [{"name": "admin"}],
    });
    let claims = claims(&old, &new);
    let rejected: Vec<String> =
        claims.rejected().iter().map(|rejected| format!("{}: {}", rejected.part, rejected.field)).collect();
    assert_eq!(
        rejected,
        [
            "machine: failureDomain",
            "infrastructure machine: hardwareName",
            "bootstrap configuration: clusterConfiguration.apiServer.extraArgs[profiling].value",
            "bootstrap configuration: files[/etc/audit.yaml]",
            "bootstrap configuration: files[/etc/containerd/certs.d/../config.toml]",
            "bootstrap configuration: files[/etc/containerd/certs.d/a/ca.crt]",
            "bootstrap configuration: files[/etc/kubernetes/manifests/kube-vip.yaml]",
            "bootstrap configuration: preKubeadmCommands",
            "bootstrap configuration: users[admin].name",
        ]
    );
    let patched = applied(&old, &claims);
    assert_eq!(patched, Specifications { machine: json!({"clusterName": "edge", "version": "v1.36.0"}), ..old });
}

#[test]
fn what_cluster_api_does_not_compare_is_neither_claimed_nor_rejected() {
    let mut new = machine("v1.36.1");
    new.machine["infrastructureRef"] = json!({"name": "two"});
    new.machine["deletion"] = json!({"nodeDrainTimeoutSeconds": 10});
    new.machine["taints"] = json!([{"key": "a"}]);
    let claims = claims(&machine("v1.36.1"), &new);
    assert_eq!((claims.why().as_str(), claims.claimed().len()), ("", 0));
    assert_eq!(claims.patch(Part::Machine), None);
}

/// Documents in the shape of a bootstrap configuration, with fields on both sides of the list.
fn bootstrap() -> impl Strategy<Value = Value> {
    let word = || prop::sample::select(vec!["a", "b"]);
    let path = prop::sample::select(vec![
        "/etc/hosts",
        "/etc/kubernetes/manifests/kube-vip.yaml",
        "/etc/containerd/certs.d/r/hosts.toml",
    ]);
    let files = prop::collection::vec((path, word()), 0..4).prop_map(|files| {
        let files = files.iter().map(|(path, content)| json!({"path": path, "content": content}));
        files.collect::<Vec<_>>()
    });
    let arguments = prop::collection::vec((prop::sample::select(vec!["pod-infra-container-image", "v"]), word()), 0..3)
        .prop_map(|list| list.iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>());
    let optional = |value: BoxedStrategy<Value>| prop::option::of(value);
    let leaf = move || word().prop_map(Value::from).boxed();
    (
        optional(files.prop_map(Value::from).boxed()),
        optional(arguments.prop_map(|list| json!({"nodeRegistration": {"kubeletExtraArgs": list}})).boxed()),
        optional(
            leaf()
                .prop_map(|tag| json!({"etcd": {"local": {"imageTag": tag}}, "networking": {"podSubnet": "x"}}))
                .boxed(),
        ),
        optional(leaf()),
    )
        .prop_map(|(files, join, cluster, verbosity)| {
            let fields = [
                ("files", files),
                ("joinConfiguration", join),
                ("clusterConfiguration", cluster),
                ("verbosity", verbosity),
            ];
            Value::Object(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
        })
}

proptest! {
    #[test]
    fn patches_give_what_is_desired_but_for_what_is_rejected(old in bootstrap(), new in bootstrap()) {
        let from = Specifications { bootstrap: old, ..machine("v1.35.4") };
        let to = Specifications { bootstrap: new, ..machine("v1.36.0") };
        let first = Claims::new(&from, &to);
        let patched = applied(&from, &first);
        // What is left is what was rejected, and nothing of it can be claimed any more.
        let left = Claims::new(&patched, &to);
        prop_assert_eq!(left.claimed(), &[]);
        prop_assert!(first.rejected().iter().all(|rejected| left.rejected().contains(rejected)), "{:?}", left);
        prop_assert_eq!(first.rejected().is_empty(), patched == to);
        // And nothing else was touched.
        let back = Claims::new(&from, &patched);
        prop_assert_eq!(back.rejected(), &[]);
        prop_assert_eq!(back.claimed(), first.claimed());
    }
}
