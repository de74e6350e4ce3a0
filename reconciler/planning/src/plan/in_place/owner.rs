//! An owner of machines of Cluster API's own objects: what it says of them, and what they are made from.

use in_place::claims::{Specifications, template_of_machines};
use in_place::hooks::ON_DECLINE;
use in_place::objects::STRATEGY;
use policy::{MachinePolicy, OnDecline, RolloutStrategy};
use serde_json::Value;
use yaml::Node;

use super::Contradiction;

/// How an owner's rules are written, in v1beta2 and in v1beta1.
const STRATEGIES: [&str; 3] = ["/spec/rollout/strategy", "/spec/rolloutStrategy", "/spec/strategy"];

/// An owner of machines, among the objects that are applied with it.
pub(super) struct Owner<'a> {
    objects: &'a [Node],
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    object: Value,
}

impl<'a> Owner<'a> {
    pub(super) fn find(objects: &'a [Node], kind: &'a str, name: &'a str) -> Option<Self> {
        Some(Self { objects, kind, name, object: object(objects, kind, name)? })
    }

    pub(super) fn is_control_plane(&self) -> bool {
        self.kind == "KubeadmControlPlane"
    }

    fn at(&self, place: &str) -> Value {
        self.object.pointer(place).cloned().unwrap_or_default()
    }

    pub(super) fn version(&self) -> Option<String> {
        let place = if self.is_control_plane() { "/spec/version" } else { "/spec/template/spec/version" };
        Some(self.at(place).as_str()?.to_owned())
    }

    pub(super) fn namespace(&self) -> String {
        self.at("/metadata/namespace").as_str().unwrap_or("default").to_owned()
    }

    /// What the extension is told by the annotation that machines get.
    fn annotation(&self) -> Option<String> {
        let place = if self.is_control_plane() {
            "/spec/machineTemplate/metadata/annotations"
        } else {
            "/spec/template/metadata/annotations"
        };
        Some(self.at(place).get(ON_DECLINE)?.as_str()?.to_owned())
    }

    /// Who is to upgrade its machines, as it says itself.
    pub(super) fn strategy(&self) -> Option<String> {
        Some(self.at("/metadata/annotations").get(STRATEGY)?.as_str().unwrap_or_default().to_owned())
    }

    /// How many machines it wants.
    pub(super) fn replicas(&self) -> u64 {
        self.at("/spec/replicas").as_u64().unwrap_or(1)
    }

    /// What it says should happen with machines that cannot be upgraded in place, where it asks for such upgrades.
    pub(super) fn on_decline(&self) -> Option<OnDecline> {
        match self.annotation().as_deref() {
            Some("replace") => Some(OnDecline::Replace),
            Some(_) => Some(OnDecline::Hold),
            None => None,
        }
    }

    /// Where the annotation does not say what the policy says, Cluster API is told something else than the plan.
    pub(super) fn contradiction(&self, policy: &MachinePolicy) -> Option<Contradiction> {
        let place = if self.is_control_plane() { "spec.machineTemplate" } else { "spec.template" };
        let place = format!("{place}.metadata.annotations of {} {}", self.kind, self.name);
        let wanted = policy.on_decline.as_str();
        let message = match self.annotation().as_deref() {
            Some(value @ ("hold" | "replace")) => {
                let is_other = policy.strategy == Some(RolloutStrategy::InPlace) && value != wanted;
                is_other.then(|| {
                    format!("{place}: {ON_DECLINE} says {value}, and stepgate.yaml says onDecline: {wanted}")
                })?
            }
            Some(value) => format!("{place}: {ON_DECLINE} says {value:?}: expected hold or replace"),
            None => {
                format!("{place} do not have {ON_DECLINE}: {wanted}, so that Cluster API would replace the machines")
            }
        };
        let help = "write what is missing into the specification, or strategy: rolling into stepgate.yaml";
        Some(Contradiction::new(message, help))
    }

    pub(super) fn specifications(&self) -> Specifications {
        let in_template = |place: &str, reference: &Value| {
            let text = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or_default();
            let known = object(self.objects, text("kind"), text("name"));
            // What is made elsewhere is known by its name alone.
            let made_from = || serde_json::json!({"template": text("name")});
            known.map_or_else(made_from, |known| known.pointer(place).cloned().unwrap_or_default())
        };
        let infrastructure = |reference: &Value| template_of_machines(&in_template("/spec/template", reference));
        if self.is_control_plane() {
            let template = self.at("/spec/machineTemplate");
            let reference = template.pointer("/spec/infrastructureRef").or_else(|| template.get("infrastructureRef"));
            return Specifications {
                machine: serde_json::json!({"version": self.at("/spec/version")}),
                infrastructure: infrastructure(reference.unwrap_or(&Value::Null)),
                bootstrap: self.at("/spec/kubeadmConfigSpec"),
            };
        }
        let machine = self.at("/spec/template/spec");
        let reference = |place: &str| machine.pointer(place).cloned();
        let bootstrap = reference("/bootstrap/configRef");
        Specifications {
            infrastructure: infrastructure(&reference("/infrastructureRef").unwrap_or_default()),
            bootstrap: bootstrap.map(|reference| in_template("/spec/template/spec", &reference)).unwrap_or_default(),
            machine,
        }
    }

    /// Why the owner makes a machine more, or takes one away, whatever can be done in place.
    pub(super) fn surge(&self) -> Option<String> {
        let strategy = STRATEGIES.iter().map(|place| self.at(place)).find(|found| !found.is_null()).unwrap_or_default();
        let at = |place: &str| strategy.pointer(place).cloned().unwrap_or_default();
        let count = |place: &str, usual: u64| percent_or_number(&at(place), usual);
        if self.is_control_plane() {
            return (count("/rollingUpdate/maxSurge", 1) > 0).then(|| {
                format!("KubeadmControlPlane {} has maxSurge above 0: the first step makes another machine", self.name)
            });
        }
        if at("/type").as_str() == Some("OnDelete") {
            return Some(format!(
                "MachineDeployment {} has strategy OnDelete, which replaces deleted machines alone",
                self.name
            ));
        }
        if count("/rollingUpdate/maxSurge", 1) > 0 {
            return Some(format!("MachineDeployment {} has maxSurge above 0: it may make another machine", self.name));
        }
        (count("/rollingUpdate/maxUnavailable", 0) == 0)
            .then(|| format!("MachineDeployment {} has maxUnavailable: 0, so that no machine may be away", self.name))
    }
}

/// A number, or a percentage as far as it is more than none.
fn percent_or_number(value: &Value, usual: u64) -> u64 {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse().unwrap_or(usual),
        value => value.as_u64().unwrap_or(usual),
    }
}

fn object(objects: &[Node], kind: &str, name: &str) -> Option<Value> {
    let text = |node: &Node, path: &[&str]| node.at(path).and_then(Node::as_str).map(str::to_owned);
    let is_it = |node: &&Node| {
        text(node, &["kind"]).as_deref() == Some(kind) && text(node, &["metadata", "name"]).as_deref() == Some(name)
    };
    serde_json::from_str(&yaml::json::to_json(objects.iter().find(is_it)?)).ok()
}
