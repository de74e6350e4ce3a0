use serde_json::{Value, json};

use super::*;

fn request(annotations: &Value) -> Value {
    let objects = |version: &str| {
        json!({
            "machine": {
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": "one", "namespace": "fleet", "annotations": annotations},
                "spec": {"clusterName": "edge", "version": version},
            },
            "infrastructureMachine": {"kind": "DevMachine", "spec": {"backend": {"inMemory": {}}}},
        })
    };
    json!({
        "apiVersion": API_VERSION, "kind": "CanUpdateMachineRequest", "settings": {},
        "current": objects("v1.35.4"), "desired": objects("v1.36.4"),
    })
}

fn answered(request: &Value) -> Value {
    can_update(&CanUpdate::of_machine(request.to_string().as_bytes()).unwrap())
}

#[test]
fn paths_are_those_that_cluster_api_calls() {
    let paths = Hook::ALL.map(Hook::path);
    let prefix = "/hooks.runtime.cluster.x-k8s.io/v1alpha1";
    assert_eq!(paths[0], format!("{prefix}/discovery"));
    assert_eq!(paths[1], format!("{prefix}/canupdatemachine/can-update-machine"));
    assert_eq!(paths[2], format!("{prefix}/canupdatemachineset/can-update-machine-set"));
    assert_eq!(paths[3], format!("{prefix}/updatemachine/update-machine"));
}

#[test]
fn discovery_names_three_handlers_that_must_not_fail_silently() {
    let answer = discovered();
    let handlers = answer["handlers"].as_array().unwrap();
    assert_eq!(handlers.len(), 3);
    assert!(handlers.iter().all(|handler| handler["failurePolicy"] == "Fail"), "{answer}");
}

#[test]
fn machines_of_a_rolling_cluster_are_claimed_in_nothing() {
    let answer = answered(&request(&json!({})));
    assert_eq!(answer["status"], "Success");
    assert_eq!(answer.get("machinePatch"), None);
}

#[test]
fn a_version_is_claimed_by_a_patch_in_base64() {
    use base64::Engine as _;
    let answer = answered(&request(&json!({"inplace.stepgate.dev/on-decline": "hold"})));
    assert_eq!(answer["machinePatch"]["patchType"], "JSONMergePatch");
    let patch = base64::engine::general_purpose::STANDARD.decode(answer["machinePatch"]["patch"].as_str().unwrap());
    assert_eq!(String::from_utf8(patch.unwrap()).unwrap(), r#"{"spec":{"version":"v1.36.4"}}"#);
    assert_eq!(answer.get("bootstrapConfigPatch"), None, "no key for a part without claims");
}

#[test]
fn a_decline_fails_where_the_choice_is_hold_and_names_the_field() {
    let mut hold = request(&json!({"inplace.stepgate.dev/on-decline": "hold"}));
    hold["desired"]["machine"]["spec"]["failureDomain"] = json!("b");
    let answer = answered(&hold);
    assert_eq!(answer["status"], "Failure");
    assert!(answer["message"].as_str().unwrap().contains("failureDomain"), "{answer}");
    let mut replace = request(&json!({"inplace.stepgate.dev/on-decline": "replace"}));
    replace["desired"]["machine"]["spec"]["failureDomain"] = json!("b");
    assert_eq!(answered(&replace)["status"], "Success");
}

#[test]
fn another_choice_is_a_failure_that_names_the_annotation() {
    let answer = answered(&request(&json!({"inplace.stepgate.dev/on-decline": "perhaps"})));
    assert_eq!(answer["status"], "Failure");
    assert!(answer["message"].as_str().unwrap().contains("inplace.stepgate.dev/on-decline"), "{answer}");
}

#[test]
fn requests_that_are_others_or_incomplete_are_refused_by_name() {
    for (bytes, says) in [
        (&b"{"[..], "not valid"),
        (b"[]", "not valid"),
        (br#"{"kind": "UpdateMachineRequest"}"#, "expected CanUpdateMachineRequest"),
        (br#"{"kind": "CanUpdateMachineRequest", "current": null}"#, "field current is missing"),
    ] {
        let error = CanUpdate::of_machine(bytes).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(UpdateMachine::read(br#"{"kind": "UpdateMachineRequest"}"#).unwrap_err().to_string().contains("desired"));
}

#[test]
fn work_that_goes_on_is_asked_after_again_and_done_is_not() {
    let working = update_machine(&Progress::Working { message: "step drain".to_owned(), retry_after_seconds: 15 });
    assert_eq!((&working["status"], &working["retryAfterSeconds"]), (&json!("Success"), &json!(15)));
    assert_eq!(working["message"], "step drain");
    assert_eq!(update_machine(&Progress::Done)["retryAfterSeconds"], 0);
}

#[test]
fn a_machine_is_done_when_its_node_is_proven_at_this_very_version() {
    let machine = json!({"metadata": {"name": "one", "namespace": "fleet"}, "spec": {"version": "v1.36.4"}});
    let body = json!({"kind": "UpdateMachineRequest", "desired": {"machine": machine, "infrastructureMachine": {}}});
    let request = UpdateMachine::read(body.to_string().as_bytes()).unwrap();
    let upgrade = |machine: &str, version: &str, completed: bool| {
        json!({"metadata": {"name": "a"}, "spec": {"clusterName": "edge", "machine": {"name": machine, "uid": "u"}, "node": "n",
            "role": "worker", "image": "i", "kubernetesVersion": version},
            "status": {"phase": if completed { "Completed" } else { "Running" }, "completed": completed, "step": "drain"}})
    };
    let progress = |upgrades: &[Value]| Progress::of(&request, upgrades).unwrap();
    assert_eq!(progress(&[upgrade("one", "v1.36.4", true)]), Progress::Done);
    for (upgrades, says) in [
        (vec![], "waits for its turn"),
        (vec![upgrade("two", "v1.36.4", true)], "waits for its turn"),
        (vec![upgrade("one", "v1.36.3", true)], "waits for its turn"),
        (vec![upgrade("one", "v1.36.4", false)], "step drain"),
        (vec![json!({"spec": 1})], "waits for its turn"),
    ] {
        let Progress::Working { message, .. } = progress(&upgrades) else { panic!("{says}: done") };
        assert!(message.contains(says), "{message}");
    }
}
