//! What nodes have room for, what pods ask them for, and how the VPC CNI is set.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use rollout::{NodeOrigin, NodeRoom, Resources, VpcCni};
use serde_json::Value;

use super::evictions::is_drained;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::DAEMON_SET;
use crate::objects;

/// Where the VPC CNI runs.
const VPC_CNI: (&str, &str) = ("kube-system", "aws-node");

/// What each node has room for.
pub(super) fn rooms(nodes: &[DynamicObject], pods: &[DynamicObject]) -> Vec<NodeRoom> {
    let mut on_nodes: BTreeMap<&str, (Resources, Resources)> = BTreeMap::new();
    for pod in pods {
        let text = |path: &str| pod.data.pointer(path).and_then(Value::as_str);
        let has_ended = matches!(text("/status/phase"), Some("Succeeded" | "Failed"));
        let Some(node) = text("/spec/nodeName").filter(|_| !has_ended) else { continue };
        let asked = requests(pod);
        let (used, kept) = on_nodes.entry(node).or_default();
        *used = used.and(asked);
        if !is_drained(pod) {
            *kept = kept.and(asked);
        }
    }
    let room = |object: &DynamicObject| {
        let node = objects::node(object);
        let (used, kept) = on_nodes.get(node.name.as_str()).copied().unwrap_or_default();
        let labels = object.metadata.labels.as_ref();
        NodeRoom {
            group: match &node.origin {
                Some(NodeOrigin::Group(group)) => Some(group.clone()),
                Some(NodeOrigin::Fargate | NodeOrigin::Other(_)) | None => None,
            },
            instance_type: labels.and_then(|known| known.get("node.kubernetes.io/instance-type")).cloned(),
            // Fargate has room for the one pod that it was made for.
            takes_pods: !node.unschedulable
                && node.ready == rollout::ConditionStatus::True
                && node.origin != Some(NodeOrigin::Fargate),
            allocatable: given(object.data.pointer("/status/allocatable")),
            used,
            kept,
            node: node.name,
        }
    };
    nodes.iter().map(room).collect()
}

/// How the VPC CNI is set; none where it does not run.
pub(super) async fn vpc_cni(own: &Connection) -> Result<Option<VpcCni>, RequestError> {
    let (namespace, name) = VPC_CNI;
    let found = own.get(&DAEMON_SET.resource("v1"), Some(namespace), name).await?;
    Ok(found.as_ref().map(settings))
}

fn settings(object: &DynamicObject) -> VpcCni {
    let list = |path: &str| object.data.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let of_name = |name: &str| {
        let containers = list("/spec/template/spec/containers");
        let mut entries = containers.filter_map(|it| it.get("env").and_then(Value::as_array)).flatten();
        entries.find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))?.get("value")?.as_str()
    };
    let number = |name: &str| of_name(name).and_then(|text| text.parse().ok());
    VpcCni {
        warm_interfaces: number("WARM_ENI_TARGET"),
        // Zero leaves it to the interfaces.
        warm_addresses: number("WARM_IP_TARGET").filter(|count| *count > 0),
        minimum_addresses: number("MINIMUM_IP_TARGET").filter(|count| *count > 0),
        warm_prefixes: number("WARM_PREFIX_TARGET"),
        delegates_prefixes: of_name("ENABLE_PREFIX_DELEGATION") == Some("true"),
    }
}

/// What a pod asks its node for, as a scheduler counts it: init containers run one after another, those that go on running
/// beside all that follow.
pub(super) fn requests(pod: &DynamicObject) -> Resources {
    let list = |path: &str| pod.data.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let of = |container: &Value| given(container.pointer("/resources/requests"));
    let mut beside = Resources::default();
    let mut most = Resources::default();
    for container in list("/spec/initContainers") {
        let asked = of(container);
        if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            beside = beside.and(asked);
        } else {
            most = larger(most, beside.and(asked));
        }
    }
    let running = list("/spec/containers").map(of).fold(beside, Resources::and);
    let asked = larger(most, running).and(given(pod.data.pointer("/spec/overhead")));
    let host_network = pod.data.pointer("/spec/hostNetwork").and_then(Value::as_bool).unwrap_or(false);
    Resources { pods: 1, addresses: u64::from(!host_network), ..asked }
}

fn larger(left: Resources, right: Resources) -> Resources {
    Resources { cpu: left.cpu.max(right.cpu), memory: left.memory.max(right.memory), ..left }
}

/// Resources as objects write them.
fn given(resources: Option<&Value>) -> Resources {
    let of = |name: &str, unit: u64| {
        let value = resources.and_then(|resources| resources.get(name));
        let text = value.and_then(|value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        });
        text.and_then(|text| quantity(&text, unit)).unwrap_or(0)
    };
    Resources { cpu: of("cpu", 1000), memory: of("memory", 1), pods: of("pods", 1), addresses: 0 }
}

/// A quantity in parts of a unit, rounded up; none where it is not one.
fn quantity(text: &str, parts: u64) -> Option<u64> {
    const SUFFIXES: [(&str, i128, i128); 15] = [
        ("Ki", 1 << 10, 1),
        ("Mi", 1 << 20, 1),
        ("Gi", 1 << 30, 1),
        ("Ti", 1 << 40, 1),
        ("Pi", 1 << 50, 1),
        ("Ei", 1 << 60, 1),
        ("n", 1, 1_000_000_000),
        ("u", 1, 1_000_000),
        ("m", 1, 1_000),
        ("k", 1_000, 1),
        ("M", 1_000_000, 1),
        ("G", 1_000_000_000, 1),
        ("T", 1_000_000_000_000, 1),
        ("P", 1_000_000_000_000_000, 1),
        ("E", 1_000_000_000_000_000_000, 1),
    ];
    let suffix = SUFFIXES.iter().find_map(|(suffix, times, by)| Some((text.strip_suffix(suffix)?, *times, *by)));
    let (number, times, by) = match suffix {
        Some(found) => found,
        None => match text.split_once(['e', 'E']) {
            Some((number, exponent)) => {
                let exponent: i32 = exponent.parse().ok()?;
                let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
                if exponent < 0 { (number, 1, power) } else { (number, power, 1) }
            }
            None => (text, 1, 1),
        },
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok().filter(|digits| *digits >= 0)?;
    let by = by.checked_mul(10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
    let all = digits.checked_mul(times)?.checked_mul(i128::from(parts))?;
    u64::try_from(all.checked_add(by - 1)? / by).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        for (text, parts, expected) in [
            ("2", 1000, Some(2000)),
            ("100m", 1000, Some(100)),
            ("0.5", 1000, Some(500)),
            ("1500u", 1000, Some(2)),
            ("1Gi", 1, Some(1 << 30)),
            ("1.5Gi", 1, Some(3 << 29)),
            ("128974848", 1, Some(128_974_848)),
            ("129e6", 1, Some(129_000_000)),
            ("500M", 1, Some(500_000_000)),
            ("1k", 1, Some(1000)),
            ("-1", 1, None),
            ("lots", 1, None),
            ("9999999999999999999999999999999999999999", 1, None),
            ("", 1, None),
        ] {
            assert_eq!(quantity(text, parts), expected, "{text}");
        }
    }

    #[test]
    fn a_pod_asks_for_the_most_that_it_uses_at_once() {
        let asks = |cpu: &str| json!({"requests": {"cpu": cpu, "memory": "1Mi"}});
        let pod = object(json!({"metadata": {"name": "a"}, "spec": {"overhead": {"cpu": "10m"},
            "initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": asks("100m")},
                {"name": "init", "resources": asks("900m")}],
            "containers": [{"name": "a", "resources": asks("300m")}, {"name": "b"}]}}));
        let asked = requests(&pod);
        assert_eq!((asked.cpu, asked.memory, asked.pods, asked.addresses), (1010, 2 << 20, 1, 1));
        let host =
            object(json!({"metadata": {"name": "a"}, "spec": {"hostNetwork": true, "containers": [{"name": "a"}]}}));
        assert_eq!(requests(&host).addresses, 0);
    }

    #[test]
    fn a_node_has_room_for_what_its_pods_leave() {
        let node = object(json!({"metadata": {"name": "n", "labels": {"alpha.eksctl.io/nodegroup-name": "ng-1-31",
            "node.kubernetes.io/instance-type": "m5.large"}}, "spec": {},
            "status": {"allocatable": {"cpu": "1930m", "memory": "7Gi", "pods": "29"},
                "conditions": [{"type": "Ready", "status": "True"}]}}));
        let pod = |name: &str, kind: &str| {
            object(json!({"metadata": {"name": name, "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind,
                "name": "a", "uid": "u", "controller": true}]}, "spec": {"nodeName": "n",
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "100m"}}}]}}))
        };
        let [room] = &rooms(&[node], &[pod("a", "ReplicaSet"), pod("b", "DaemonSet")])[..] else { panic!() };
        assert_eq!((room.group.as_deref(), room.instance_type.as_deref()), (Some("ng-1-31"), Some("m5.large")));
        assert_eq!((room.allocatable.cpu, room.used.cpu, room.kept.cpu), (1930, 200, 100));
        assert!(room.takes_pods && room.allocatable.pods == 29);
    }

    #[test]
    fn the_cni_is_set_by_the_environment_of_its_pods() {
        let env = |name: &str, value: &str| json!({"name": name, "value": value});
        let set = object(json!({"metadata": {"name": "aws-node"}, "spec": {"template": {"spec": {"containers": [
            {"name": "aws-node", "env": [env("WARM_IP_TARGET", "5"), env("MINIMUM_IP_TARGET", "0"),
                env("ENABLE_PREFIX_DELEGATION", "false"), {"name": "MY_NODE_NAME", "valueFrom": {}}]}]}}}}));
        let expected = VpcCni { warm_addresses: Some(5), ..VpcCni::default() };
        assert_eq!(settings(&set), expected);
    }
}
