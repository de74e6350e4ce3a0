//! The allow-list: what the node upgrader can bring about on a node, field by field.

use std::cmp::Ordering;

use bundles::KubernetesVersion;
use serde_json::Value;

use super::difference::Judgement;
use super::field::Field;
use super::{Part, Specifications};
use crate::files;

/// Fields of a Machine that Cluster API does not compare, or writes itself.
const NOT_COMPARED: [&str; 8] = [
    "clusterName",
    "bootstrap",
    "infrastructureRef",
    "providerID",
    "minReadySeconds",
    "readinessGates",
    "deletion",
    "taints",
];

/// The first minor version that the node upgrader can take a node to: older kubeadm cannot leave CoreDNS alone.
const OLDEST: u64 = 32;

/// The gate that Cluster API sets from 1.31 on, and no longer for 1.36.
const LOCAL_MODE: &str = "ControlPlaneKubeletLocalMode";

/// The versions that a machine goes between, as far as they are versions.
struct Versions {
    from: Option<KubernetesVersion>,
    to: Option<KubernetesVersion>,
}

/// What a word on one field depends on besides that field.
pub(super) struct Sides<'a> {
    versions: Versions,
    /// The bootstrap configuration that is desired.
    desired: &'a Value,
}

impl<'a> Sides<'a> {
    pub(super) fn of(current: &Specifications, desired: &'a Specifications) -> Self {
        Self { versions: Versions::of(&current.machine, &desired.machine), desired: &desired.bootstrap }
    }
}

impl Versions {
    fn of(current: &Value, desired: &Value) -> Self {
        let version = |machine: &Value| machine.get("version")?.as_str()?.parse().ok();
        Self { from: version(current), to: version(desired) }
    }

    /// Why a node cannot be taken from one to the other.
    fn why_not(&self) -> Option<String> {
        let Some((from, to)) = Option::zip(self.from.as_ref(), self.to.as_ref()) else {
            return Some("is not a valid Kubernetes version on both sides".to_owned());
        };
        let minors = to.minor().minors_above(from.minor());
        if from.patch().is_none() || to.patch().is_none() {
            Some("names no patch release".to_owned())
        } else if from.order(to) == Ordering::Greater {
            Some(format!("goes back from {} to {}", from.as_str(), to.as_str()))
        } else if !matches!(minors, Some(0 | 1)) {
            Some(format!("goes from {} to {}: one minor version at a time", from.as_str(), to.as_str()))
        } else if (to.minor().major, to.minor().minor) < (1, OLDEST) {
            Some(format!("goes to {}: in place, 1.{OLDEST} and newer are possible", to.as_str()))
        } else {
            None
        }
    }

    fn are_same(&self) -> bool {
        self.from == self.to
    }

    /// Whether Cluster API sets [`LOCAL_MODE`] for the version that is desired.
    fn has_local_mode(&self) -> bool {
        self.to.as_ref().is_some_and(|to| to.minor().major == 1 && (31..36).contains(&to.minor().minor))
    }
}

/// The word on a field that is not equal on both sides.
pub(super) fn judge(
    part: Part,
    field: &Field,
    from: Option<&Value>,
    to: Option<&Value>,
    sides: &Sides<'_>,
) -> Judgement {
    let versions = &sides.versions;
    let words = field.words();
    match (part, words.as_slice()) {
        (_, []) => Judgement::Below,
        (Part::Machine, ["version"]) => versions.why_not().map_or(Judgement::Claimed, Judgement::Rejected),
        (Part::Machine, ["failureDomain"]) => {
            Judgement::Rejected("differs: a machine does not move to another failure domain".to_owned())
        }
        (Part::Machine, [first, ..]) if NOT_COMPARED.contains(first) => Judgement::Ignored,
        (Part::Machine, _) => rejected(),
        (Part::Infrastructure, _) if has_fields(from) && has_fields(to) => Judgement::Below,
        (Part::Infrastructure, _) => {
            Judgement::Rejected("differs: the provider's machine stays as it was made".to_owned())
        }
        (Part::Bootstrap, words) => match bootstrap(words, from, to, sides) {
            // A node that is at the version already counts as done.
            Judgement::Claimed if versions.are_same() => {
                Judgement::Rejected("changes without the Kubernetes version: nothing is upgraded then".to_owned())
            }
            judgement => judgement,
        },
    }
}

fn bootstrap(words: &[&str], from: Option<&Value>, to: Option<&Value>, sides: &Sides<'_>) -> Judgement {
    let Sides { versions, desired } = sides;
    match words {
        // Written by Cluster API up to v1beta1; it follows the machine's version.
        ["clusterConfiguration", "kubernetesVersion"] => {
            let to = to.and_then(Value::as_str).and_then(|to| to.parse().ok());
            if to.is_some() && to == versions.to && versions.why_not().is_none() {
                Judgement::Claimed
            } else {
                rejected()
            }
        }
        ["clusterConfiguration", "featureGates", LOCAL_MODE] => {
            let wanted = to.map_or(Some(false), Value::as_bool);
            let is_by_version = wanted == Some(versions.has_local_mode()) && to != Some(&Value::Bool(false));
            if is_by_version { Judgement::Claimed } else { rejected() }
        }
        // kubeadm reads them of its ConfigMap, which Cluster API writes before the first machine.
        ["clusterConfiguration", "imageRepository"]
        | ["clusterConfiguration", "dns" | "pause", "imageRepository" | "imageTag"]
        | ["clusterConfiguration", "etcd", "local", "imageRepository" | "imageTag"]
        | ["initConfiguration" | "joinConfiguration", "pause", "imageRepository" | "imageTag"]
        | [
            "initConfiguration" | "joinConfiguration",
            "nodeRegistration",
            "kubeletExtraArgs",
            "pod-infra-container-image",
            ..,
        ] => Judgement::Claimed,
        ["files", _] => file(to, desired),
        // Named to the last field that differs.
        _ if has_fields(from) && has_fields(to) => Judgement::Below,
        _ => rejected(),
    }
}

/// A file is written as it is wanted; one that is wanted no more stays on the node.
fn file(to: Option<&Value>, desired: &Value) -> Judgement {
    let Some(to) = to else {
        return Judgement::Rejected("is not taken away in place: it would stay on the node".to_owned());
    };
    match files::written(to, desired) {
        Ok(_) => Judgement::Claimed,
        Err(why) => Judgement::Rejected(why),
    }
}

fn rejected() -> Judgement {
    Judgement::Rejected("cannot be changed in place".to_owned())
}

fn has_fields(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.is_object() || value.is_array())
}
