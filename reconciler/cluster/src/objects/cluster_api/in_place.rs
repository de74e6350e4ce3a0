//! Objects of upgrades in place: ours, and EKS Anywhere's own.

use jiff::Timestamp;
use kube::core::DynamicObject;
use rollout::{InPlaceState, InPlaceUpgrade, Observation};
use serde_json::Value;

use crate::client::kind::{
    CONTROL_PLANE_UPGRADE, EKSA_CONTROL_PLANE_UPGRADE, EKSA_NODE_UPGRADE, EKSA_WORKERS_UPGRADE, Kind,
    NODE_KUBEADM_UPGRADE, WORKERS_UPGRADE,
};

/// All of them: groups before nodes.
pub(crate) const IN_PLACE_KINDS: [&Kind; 6] = [
    &CONTROL_PLANE_UPGRADE,
    &WORKERS_UPGRADE,
    &NODE_KUBEADM_UPGRADE,
    &EKSA_CONTROL_PLANE_UPGRADE,
    &EKSA_WORKERS_UPGRADE,
    &EKSA_NODE_UPGRADE,
];

/// What EKS Anywhere does to a node, in this order.
const EKSA_STEPS: [&str; 7] = [
    "UpgraderPodCreated",
    "BinariesCopied",
    "ContainerdUpgraded",
    "CNIPluginsUpgraded",
    "KubeadmUpgraded",
    "KubeletUpgraded",
    "PostUpgradeCleanupCompleted",
];

/// What an object tells; none where it is of machines that were not read, or of another version than they go to.
pub(crate) fn in_place_upgrade(kind: &Kind, object: &DynamicObject, read: &Observation) -> Option<InPlaceUpgrade> {
    let (namespace, name) = (object.metadata.namespace.clone()?, object.metadata.name.clone()?);
    let text = |place: &str| object.data.pointer(place).and_then(Value::as_str).filter(|text| !text.is_empty());
    let version = text("/spec/kubernetesVersion")?.to_owned();
    if !is_of(kind, &object.data, &namespace, &version, read) {
        return None;
    }
    let (state, told) = match (kind.kind, kind.group == EKSA_NODE_UPGRADE.group) {
        ("NodeKubeadmUpgrade", _) => node(&object.data),
        ("NodeUpgrade", _) => eksa_node(&object.data),
        (_, is_eksa) => group(&object.data, is_eksa),
    };
    let time = |place: &str| text(place).and_then(|text| text.parse::<Timestamp>().ok());
    let (started, finished) = match kind.kind == EKSA_NODE_UPGRADE.kind {
        true => eksa_times(&object.data),
        false => (time("/status/started"), time("/status/finished")),
    };
    let resource = kind.kind.to_lowercase();
    Some(InPlaceUpgrade {
        kind: kind.kind.to_owned(),
        namespace,
        name,
        resource,
        version,
        state,
        told,
        started,
        finished,
    })
}

/// Whether machines that were read go to the version of this object. EKS Anywhere keeps its own in a namespace of theirs.
fn is_of(kind: &Kind, data: &Value, namespace: &str, version: &str, read: &Observation) -> bool {
    let name = |place: &str| data.pointer(place).and_then(Value::as_str);
    let is_here = |other: &str| other == namespace || kind.group == EKSA_NODE_UPGRADE.group;
    if let Some(machine) = name("/spec/machine/name") {
        let is_it = |known: &&rollout::Machine| known.name == machine && is_here(&known.namespace);
        let Some(machine) = read.machines.iter().find(is_it) else { return false };
        // A machine that is not upgraded yet says the old version, its owner the new one.
        let owner = machine.owner.as_deref();
        return machine.spec_version.as_deref() == Some(version) || owner.is_some_and(|it| goes_to(read, it, version));
    }
    let owner = name("/spec/controlPlane/name").or_else(|| name("/spec/machineDeployment/name"));
    owner.is_some_and(|owner| goes_to(read, owner, version))
}

fn goes_to(read: &Observation, owner: &str, version: &str) -> bool {
    let planes = read.control_planes.iter().map(|known| (&known.name, Some(&known.spec_version)));
    let groups = read.machine_deployments.iter().map(|known| (&known.name, known.spec_version.as_ref()));
    planes.chain(groups).any(|(name, wanted)| name == owner && wanted.is_some_and(|wanted| wanted == version))
}

fn number(data: &Value, place: &str) -> u64 {
    data.pointer(place).and_then(Value::as_u64).unwrap_or_default()
}

fn is_condition(data: &Value, kind: &str, status: &str) -> bool {
    let conditions = data.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|known| known["type"] == kind && known["status"] == status)
}

/// A group: EKS Anywhere lists all of its machines in the specification, ours those that were left.
fn group(data: &Value, is_eksa: bool) -> (InPlaceState, String) {
    let upgraded = number(data, "/status/upgraded");
    let listed = data.pointer("/spec/machinesRequireUpgrade").and_then(Value::as_array).map_or(0, Vec::len);
    let all = match is_eksa {
        true => u64::try_from(listed).unwrap_or_default(),
        false => upgraded.saturating_add(number(data, "/status/requireUpgrade")),
    };
    let message = data.pointer("/status/message").and_then(Value::as_str).unwrap_or_default();
    let counted = format!("{upgraded} of {all} machines are upgraded");
    let told = if message.is_empty() { counted } else { format!("{counted}; {message}") };
    let is_ready = data.pointer("/status/ready").and_then(Value::as_bool).unwrap_or_default();
    let state = match (is_ready, is_condition(data, "Stalled", "True")) {
        (true, _) => InPlaceState::Done,
        (false, true) => InPlaceState::Failed,
        (false, false) => InPlaceState::Underway,
    };
    (state, told)
}

fn node(data: &Value) -> (InPlaceState, String) {
    let text = |place: &str| data.pointer(place).and_then(Value::as_str).unwrap_or_default();
    let node = text("/spec/node");
    if data.pointer("/status/completed").and_then(Value::as_bool).unwrap_or_default() {
        let (before, after) = (text("/status/kubeletVersionBefore"), text("/spec/kubernetesVersion"));
        let done = format!("node {node}: kubelet {before} to {after} in place{}", done_by_steps(data));
        return (InPlaceState::Done, done);
    }
    let state = if is_condition(data, "Stalled", "True") { InPlaceState::Failed } else { InPlaceState::Underway };
    (state, format!("node {node}: {}", text("/status/message")))
}

/// What its steps say of programs, by digest before and after, and of the Pods that left.
fn done_by_steps(data: &Value) -> String {
    let steps = data.pointer("/status/steps").and_then(Value::as_array).into_iter().flatten();
    let told = steps.filter_map(|step| {
        let message = step["message"].as_str().unwrap_or_default();
        match step["name"].as_str()? {
            "drain" => Some(message.to_owned()),
            "containerd" | "kubeadm" | "kubelet" => Some(message.split_once("; ")?.1.to_owned()),
            _ => None,
        }
    });
    told.filter(|text| !text.is_empty()).map(|text| format!("; {text}")).collect()
}

/// EKS Anywhere notes no times: its first step became true when the node was begun, its last one when it was done.
fn eksa_times(data: &Value) -> (Option<Timestamp>, Option<Timestamp>) {
    let conditions = data.pointer("/status/conditions").and_then(Value::as_array);
    let since = |step: Option<&&str>| {
        let known = conditions?.iter().find(|known| known["type"].as_str() == step.copied())?;
        (known["status"] == "True").then(|| known["lastTransitionTime"].as_str()?.parse().ok())?
    };
    let is_done = data.pointer("/status/completed").and_then(Value::as_bool).unwrap_or_default();
    (since(EKSA_STEPS.first()), since(EKSA_STEPS.last()).filter(|_| is_done))
}

fn eksa_node(data: &Value) -> (InPlaceState, String) {
    let machine = data.pointer("/spec/machine/name").and_then(Value::as_str).unwrap_or_default();
    if data.pointer("/status/completed").and_then(Value::as_bool).unwrap_or_default() {
        return (InPlaceState::Done, format!("Machine {machine} is upgraded in place"));
    }
    let step = EKSA_STEPS.into_iter().find(|step| !is_condition(data, step, "True")).unwrap_or("completion");
    let conditions = data.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let known = conditions.into_iter().find(|known| known["type"] == step);
    let of = |field: &str| known.and_then(|known| known.get(field)?.as_str()).unwrap_or_default();
    let message = of("message");
    let told = if message.is_empty() { String::new() } else { format!(": {message}") };
    let state = if of("severity") == "Error" { InPlaceState::Failed } else { InPlaceState::Underway };
    (state, format!("Machine {machine} waits for {step}{told}"))
}

#[cfg(test)]
mod tests {
    use rollout::{ControlPlane, Machine, MachineDeployment};
    use serde_json::json;

    use super::*;

    fn read() -> Observation {
        let text = str::to_owned;
        let machine = |name: &str, owner: &str| Machine {
            namespace: text("factory"),
            name: text(name),
            owner: Some(text(owner)),
            spec_version: Some(text("v1.35.4")),
            ..Machine::default()
        };
        let plane = ControlPlane { name: text("press"), spec_version: text("v1.36.1"), ..ControlPlane::default() };
        let lines = MachineDeployment {
            name: text("lines"),
            spec_version: Some(text("v1.36.1")),
            ..MachineDeployment::default()
        };
        Observation {
            machines: vec![machine("press-1", "press"), machine("lines-1", "lines")],
            control_planes: vec![plane],
            machine_deployments: vec![lines],
            ..Observation::empty(Timestamp::UNIX_EPOCH)
        }
    }

    fn told(kind: &Kind, namespace: &str, spec: &Value, status: &Value) -> Option<(InPlaceState, String)> {
        let object = json!({"apiVersion": "a/v1", "kind": kind.kind,
            "metadata": {"namespace": namespace, "name": "one"}, "spec": spec, "status": status});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        in_place_upgrade(kind, &object, &read()).map(|upgrade| (upgrade.state, upgrade.told))
    }

    #[test]
    fn ours_tell_how_many_machines_and_which_step() {
        let spec =
            json!({"controlPlane": {"name": "press"}, "kubernetesVersion": "v1.36.1", "machinesRequireUpgrade": [1]});
        let status = |stalled: &str, ready: bool| {
            json!({"upgraded": 1, "requireUpgrade": 2, "ready": ready, "message": "press-2 is next",
                "conditions": [{"type": "Stalled", "status": stalled}]})
        };
        let text = "1 of 3 machines are upgraded; press-2 is next".to_owned();
        for (stalled, ready, state) in [
            ("False", false, InPlaceState::Underway),
            ("True", false, InPlaceState::Failed),
            ("False", true, InPlaceState::Done),
        ] {
            let found = told(&CONTROL_PLANE_UPGRADE, "factory", &spec, &status(stalled, ready));
            assert_eq!(found, Some((state, text.clone())));
        }
        let spec = json!({"machine": {"name": "lines-1"}, "node": "node-1", "kubernetesVersion": "v1.36.1"});
        let status = json!({"message": "step kubeadm (attempt 2 of 3): the disk is full"});
        let found = told(&NODE_KUBEADM_UPGRADE, "factory", &spec, &status);
        let text = "node node-1: step kubeadm (attempt 2 of 3): the disk is full".to_owned();
        assert_eq!(found, Some((InPlaceState::Underway, text)));
        let status = json!({"completed": true, "kubeletVersionBefore": "v1.35.4"});
        let text = "node node-1: kubelet v1.35.4 to v1.36.1 in place".to_owned();
        assert_eq!(told(&NODE_KUBEADM_UPGRADE, "factory", &spec, &status), Some((InPlaceState::Done, text)));
        let status = json!({"completed": true, "kubeletVersionBefore": "v1.35.4", "steps": [
            {"name": "copy", "message": "9 files copied; none"},
            {"name": "drain", "message": "1 Pods evicted: shop/cart"},
            {"name": "kubelet", "message": "2 files replaced, kubelet runs; kubelet sha256:a to sha256:b"},
            {"name": "uncordon", "message": "uncordoned"}]});
        let text =
            "node node-1: kubelet v1.35.4 to v1.36.1 in place; 1 Pods evicted: shop/cart; kubelet sha256:a to sha256:b";
        let found = told(&NODE_KUBEADM_UPGRADE, "factory", &spec, &status);
        assert_eq!(found, Some((InPlaceState::Done, text.to_owned())));
        // Of another namespace, another machine, or another version than its machine goes to.
        assert_eq!(told(&NODE_KUBEADM_UPGRADE, "other", &spec, &json!({})), None);
        for (machine, version) in [("unknown", "v1.36.1"), ("lines-1", "v1.34.0")] {
            let spec = json!({"machine": {"name": machine}, "node": "node-1", "kubernetesVersion": version});
            assert_eq!(told(&NODE_KUBEADM_UPGRADE, "factory", &spec, &json!({})), None, "{machine} {version}");
        }
    }

    #[test]
    fn those_of_eks_anywhere_tell_the_same_in_their_own_form() {
        let machines = json!([{"name": "press-1"}, {"name": "press-2"}]);
        let spec = json!({"controlPlane": {"name": "press"}, "kubernetesVersion": "v1.36.1", "machinesRequireUpgrade": machines});
        let found =
            told(&EKSA_CONTROL_PLANE_UPGRADE, "eksa-system", &spec, &json!({"upgraded": 1, "requireUpgrade": 1}));
        assert_eq!(found, Some((InPlaceState::Underway, "1 of 2 machines are upgraded".to_owned())));
        let spec = json!({"machine": {"name": "press-1"}, "kubernetesVersion": "v1.36.1"});
        let conditions = |severity: &str| {
            json!({"conditions": [{"type": "UpgraderPodCreated", "status": "True"}, {"type": "BinariesCopied", "status": "True"},
                {"type": "ContainerdUpgraded", "status": "False", "severity": severity, "message": "exit code 1"}]})
        };
        for (severity, state) in [("Info", InPlaceState::Underway), ("Error", InPlaceState::Failed)] {
            let found = told(&EKSA_NODE_UPGRADE, "eksa-system", &spec, &conditions(severity));
            let text = "Machine press-1 waits for ContainerdUpgraded: exit code 1".to_owned();
            assert_eq!(found, Some((state, text)));
        }
        let condition = |step: &str, minute: u32| json!({"type": step, "status": "True", "lastTransitionTime": format!("2026-11-26T12:{minute:02}:00Z")});
        let conditions = [condition("UpgraderPodCreated", 3), condition("PostUpgradeCleanupCompleted", 9)];
        let data = |completed: bool| json!({"status": {"completed": completed, "conditions": conditions}});
        let at = |text: &str| text.parse::<Timestamp>().ok();
        assert_eq!(eksa_times(&data(true)), (at("2026-11-26T12:03:00Z"), at("2026-11-26T12:09:00Z")));
        assert_eq!(eksa_times(&data(false)).1, None);
        let found = told(&EKSA_NODE_UPGRADE, "eksa-system", &spec, &json!({"completed": true}));
        assert_eq!(found, Some((InPlaceState::Done, "Machine press-1 is upgraded in place".to_owned())));
    }
}
