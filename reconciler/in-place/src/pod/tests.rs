use std::path::{Path, PathBuf};

use super::*;

fn pod(role: Role) -> NodePod {
    NodePod {
        node: String::from("edge-7.example"),
        image: "registry.example/stepgate/node-upgrader:v1.36.4-eks-1-36-4".parse().unwrap(),
        target: String::from("v1.36.4-eks-1-36-4"),
        role,
        has_files: false,
        choices: NodeChoices::default(),
    }
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/in-place/pods").join(name)
}

/// `UPDATE_FIXTURES=1` writes it anew.
#[allow(clippy::disallowed_methods, reason = "fixtures are files")]
fn assert_is_recorded(name: &str, value: &Value) {
    let text = format!("{}\n", serde_json::to_string_pretty(value).unwrap());
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::create_dir_all(place(name).parent().unwrap()).unwrap();
        std::fs::write(place(name), &text).unwrap();
    }
    let recorded = std::fs::read_to_string(place(name)).unwrap_or_default();
    assert!(recorded == text, "{name} is not as recorded: look at it with UPDATE_FIXTURES=1\n{text}");
}

#[test]
fn pods_of_all_roles_are_as_recorded() {
    for role in [Role::FirstControlPlane, Role::ControlPlane, Role::Worker] {
        let mut pod = pod(role);
        pod.choices.leaves_virtual_address = role != Role::Worker;
        pod.has_files = role != Role::Worker;
        assert_is_recorded(&format!("{}.json", role.as_str()), &pod.manifest(Way::Upgrade));
    }
    assert_is_recorded("rollback.json", &pod(Role::Worker).manifest(Way::Rollback));
    assert_is_recorded("access.json", &Value::from(access()));
}

#[test]
fn every_choice_reaches_the_step_that_it_is_for() {
    let mut pod = pod(Role::FirstControlPlane);
    pod.choices = NodeChoices {
        deletes_empty_dir_data: true,
        leaves_virtual_address: true,
        trusts_kubeadm_for_etcd: true,
        ignored_preflight_errors: vec![String::from("SystemVerification")],
        soak_seconds: 5,
        is_anew: true,
    };
    let steps = pod.steps();
    let has = |step: &str, flag: &str| {
        let found = steps.iter().find(|container| container["name"] == step).unwrap();
        found["args"].as_array().unwrap().iter().any(|argument| argument == flag)
    };
    for (step, flag) in [
        ("copy", "--etcd-backup=kubeadm"),
        ("drain", "--delete-emptydir-data"),
        ("drain", "--leave-virtual-address"),
        ("kubeadm", "--ignore-preflight-error=SystemVerification"),
        ("verify", "--soak=5"),
    ] {
        assert!(has(step, flag), "{step} {flag}");
        assert!(
            NodeStep::ALL
                .iter()
                .all(|other| other.as_str() == step || !has(other.as_str(), flag) || flag == "--soak=5")
        );
    }
    assert!(NodeStep::ALL.iter().all(|step| has(step.as_str(), "--anew")));
}

#[test]
fn steps_without_the_api_server_get_no_token() {
    for container in pod(Role::Worker).steps() {
        let step = NodeStep::of_container(container["name"].as_str().unwrap()).unwrap();
        let mounts = container["volumeMounts"].as_array().unwrap();
        assert_eq!(mounts.iter().any(|mount| mount["name"] == "api-access"), step.calls_api(), "{step}");
    }
}

#[test]
fn files_reach_the_first_step_alone_and_never_its_pod_itself() {
    let entry =
        json!({"path": "/etc/containerd/certs.d/registry.test/client.key", "content": "KEY", "permissions": "0600"});
    let files = crate::files::files(&json!({"files": [entry]}));
    let pod = NodePod { has_files: true, ..pod(Role::Worker) };
    let (manifest, secret) = (pod.manifest(Way::Upgrade), pod.secret(&files));
    assert_eq!(secret["metadata"]["name"], manifest["metadata"]["name"]);
    assert_eq!(secret["data"]["0"], json!(STANDARD.encode("KEY")));
    assert!(!manifest.to_string().contains("KEY") && !manifest.to_string().contains(&STANDARD.encode("KEY")));
    for container in manifest["spec"]["initContainers"].as_array().unwrap() {
        let mounts = container["volumeMounts"].as_array().unwrap();
        let sees = mounts.iter().any(|mount| mount["name"] == "files");
        assert_eq!(sees, container["name"] == "copy", "{container}");
    }
    assert!(!pod.manifest(Way::Rollback).to_string().contains("\"files\""));
}

#[test]
fn names_of_long_nodes_fit_and_stay_different() {
    let named = |node: String| NodePod { node, ..pod(Role::Worker) };
    let (first, second) = (named(format!("{}a", "n".repeat(250))), named(format!("{}b", "n".repeat(250))));
    assert_ne!(first.name(Way::Upgrade), second.name(Way::Upgrade));
    assert!(first.name(Way::Rollback).len() <= LONGEST_NAME && first.label().len() <= LONGEST_LABEL);
    assert_ne!(first.label(), second.label());
    assert_eq!(pod(Role::Worker).name(Way::Upgrade), "edge-7.example-node-upgrade");
}

#[test]
fn exit_codes_mean_what_the_program_says() {
    let meanings = [0, 1, 2, 3, 4, 137].map(ExitMeaning::of);
    use ExitMeaning::{Again, Done, Refused, Terminal};
    assert_eq!(meanings, [Done, Again, Refused, Refused, Terminal, Again]);
}
