//! What a specification says of a control plane or of a pool.

use serde_json::Value;
use yaml::Node;

use crate::fleet::objects::{count, field};

/// A control plane or a pool, in every version of the interface.
#[derive(Default)]
pub(super) struct Part {
    pub replicas: Option<u32>,
    pub class: Option<String>,
    pub storage_class: Option<String>,
    pub volumes: Vec<Volume>,
    /// How many seconds a drain may take; none where nothing limits it.
    pub drain: Option<u64>,
    pub labels: Vec<(String, String)>,
    pub taints: Vec<Value>,
    pub failure_domain: Option<String>,
}

/// A disk of its own for a folder of each node.
pub(super) struct Volume {
    pub name: String,
    pub path: Option<String>,
    pub capacity: String,
    pub storage_class: Option<String>,
}

impl Part {
    pub fn read(node: &Node) -> Self {
        let list = |key: &str| node.get(key).and_then(Node::as_sequence).unwrap_or_default();
        let labels = node.get("labels").and_then(Node::as_mapping).into_iter().flat_map(yaml::Mapping::iter);
        let labels = labels.filter_map(|entry| {
            Some((entry.key.as_str().to_owned(), entry.value.scalar_text().map(std::borrow::Cow::into_owned)?))
        });
        let mut labels: Vec<(String, String)> = labels.collect();
        labels.sort();
        Self {
            replicas: count(node, &["replicas"]).or_else(|| count(node, &["count"])),
            class: field(node, &["vmClass"]).or_else(|| field(node, &["class"])),
            storage_class: field(node, &["storageClass"]),
            volumes: list("volumes").iter().filter_map(Volume::read).collect(),
            drain: field(node, &["nodeDrainTimeout"]).and_then(|text| seconds(&text)).filter(|limit| *limit > 0),
            labels,
            taints: list("taints").iter().map(|taint| crate::json::to_json(&without_time(taint))).collect(),
            failure_domain: field(node, &["failureDomain"]),
        }
    }
}

/// When a taint was added is no part of a specification.
fn without_time(taint: &Node) -> Node {
    let mut taint = taint.clone();
    if let Some(mapping) = taint.as_mapping_mut() {
        mapping.remove("timeAdded");
    }
    taint
}

impl Volume {
    fn read(node: &Node) -> Option<Self> {
        Some(Self {
            name: field(node, &["name"])?,
            path: field(node, &["mountPath"]),
            capacity: field(node, &["capacity", "storage"])?,
            storage_class: field(node, &["storageClass"]),
        })
    }
}

/// The whole seconds of a duration of Go; what is shorter is one.
fn seconds(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut milliseconds = 0_u64;
    while !rest.is_empty() {
        let unit_and_more = rest.trim_start_matches(|sign: char| sign.is_ascii_digit() || sign == '.');
        let number: f64 = rest.strip_suffix(unit_and_more)?.parse().ok()?;
        let units = [("ms", 1.0), ("us", 0.001), ("ns", 0.000_001), ("s", 1000.0), ("m", 60_000.0), ("h", 3_600_000.0)];
        let Some((unit, factor)) = units.into_iter().find(|(unit, _)| unit_and_more.starts_with(unit)) else {
            return (text == "0").then_some(0);
        };
        let whole = std::time::Duration::try_from_secs_f64(number * factor / 1000.0).ok()?;
        milliseconds = milliseconds.checked_add(u64::try_from(whole.as_millis()).ok()?)?;
        rest = unit_and_more.strip_prefix(unit)?;
    }
    Some(milliseconds.div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn durations_of_go_are_whole_seconds() {
        for (text, expected) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("90s", Some(90)),
            ("1h30m", Some(5400)),
            ("1.5m", Some(90)),
            ("1ms", Some(1)),
            ("x", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
