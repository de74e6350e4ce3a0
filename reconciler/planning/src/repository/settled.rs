//! Whether a cluster is at rest: of one that is between two versions, no repository says the truth.

use bundles::KubernetesVersion;
use serde_json::Value;

use super::Refusal;
use super::object::{CORE, EKSA, EKSA_SYSTEM, Object};

/// What helps against what is under way.
const WAIT: &str = "wait until it is over, or end it, and try again";

/// What is under way at a cluster.
pub(super) fn unsettled(cluster: &Object<'_>, all: &[Object<'_>]) -> Vec<Refusal> {
    let mut found = Unsettled { cluster, found: Vec::new() };
    found.deleting(cluster);
    if cluster.group == EKSA {
        found.eks_anywhere();
    } else {
        found.paused(cluster);
    }
    let namespace = if cluster.group == EKSA { EKSA_SYSTEM } else { cluster.namespace };
    let is_its = |object: &&Object<'_>| {
        object.namespace == namespace && object.group.ends_with(CORE) && object.cluster() == Some(cluster.name)
    };
    let its: Vec<&Object<'_>> = all.iter().filter(is_its).collect();
    if cluster.group == EKSA {
        let core = all.iter().find(|object| object.is(CORE, "Cluster") && object.name == cluster.name);
        core.filter(|core| core.namespace == EKSA_SYSTEM).into_iter().for_each(|core| found.paused(core));
    }
    for object in &its {
        match object.kind {
            "MachineDeployment" | "MachinePool" | "EtcdadmCluster" => found.rolled(object),
            kind if kind.ends_with("ControlPlane") => {
                found.rolled(object);
                found.version_of_control_plane(object);
            }
            "Machine" => found.machine(object, &its),
            _ => {}
        }
    }
    found.found
}

struct Unsettled<'a> {
    cluster: &'a Object<'a>,
    found: Vec<Refusal>,
}

impl Unsettled<'_> {
    fn add(&mut self, object: &Object<'_>, what: impl Into<String>, help: &str) {
        let (name, place, what) = (self.cluster.name, object.place(), what.into());
        self.found.push(Refusal::new(format!("cluster {name} is not at rest: {place} {what}"), help));
    }

    fn deleting(&mut self, object: &Object<'_>) {
        if object.text("/metadata/deletionTimestamp").is_some() {
            self.add(object, "is being deleted", WAIT);
        }
    }

    fn paused(&mut self, object: &Object<'_>) {
        let by_field = object.value.pointer("/spec/paused").and_then(Value::as_bool) == Some(true);
        if by_field || object.annotation("cluster.x-k8s.io/paused").is_some() {
            self.add(object, "is paused: nothing that it says is carried out", "let it go on, and try again");
        }
    }

    fn eks_anywhere(&mut self) {
        let cluster = self.cluster;
        if cluster.annotation("anywhere.eks.amazonaws.com/paused").is_some_and(|paused| paused != "false") {
            self.add(cluster, "is paused: nothing that it says is carried out", "let it go on, and try again");
        }
        if let Some(failure) = cluster.text("/status/failureMessage").filter(|failure| !failure.is_empty()) {
            self.add(cluster, format!("is not carried out: {failure}"), "repair what it names, and try again");
        }
        let generation = cluster.number("/metadata/generation");
        let observed = cluster.number("/status/observedGeneration");
        match observed.into_iter().chain(cluster.number("/status/reconciledGeneration")).min() {
            None => self.add(cluster, "was never carried out: its status names no generation", WAIT),
            done if done < generation => {
                let (done, generation) = (done.unwrap_or_default(), generation.unwrap_or_default());
                self.add(cluster, format!("is carried out to generation {done} of {generation}"), WAIT);
            }
            _ => {}
        }
        self.condition(cluster, "Ready", "False");
    }

    fn condition(&mut self, object: &Object<'_>, kind: &str, bad: &str) {
        let conditions = object.value.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let text =
            |condition: &Value, key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_bad = |known: &&Value| text(known, "type") == kind && text(known, "status") == bad;
        if let Some(known) = conditions.find(is_bad) {
            let what = format!("says {kind} {bad}: {} {}", text(known, "reason"), text(known, "message"));
            self.add(object, what.trim_end(), WAIT);
        }
    }

    /// Whoever owns machines has as many as it wants, and all of them as it wants.
    fn rolled(&mut self, object: &Object<'_>) {
        self.deleting(object);
        let (generation, observed) =
            (object.number("/metadata/generation"), object.number("/status/observedGeneration"));
        if let (Some(generation), Some(observed)) = (generation, observed)
            && observed < generation
        {
            self.add(object, format!("is observed at generation {observed} of {generation}"), WAIT);
        }
        let wanted = object.number("/spec/replicas");
        for count in ["replicas", "upToDateReplicas", "updatedReplicas"] {
            let is = object.number(&format!("/status/{count}"));
            if let (Some(is), Some(wanted)) = (is, wanted)
                && is != wanted
            {
                self.add(object, format!("has status.{count} {is} of {wanted}"), WAIT);
                return;
            }
        }
        self.condition(object, "RollingOut", "True");
    }

    /// The control plane is of the version that the cluster says.
    fn version_of_control_plane(&mut self, object: &Object<'_>) {
        let cluster = self.cluster;
        let wanted = cluster.text("/spec/kubernetesVersion").or_else(|| cluster.text("/spec/topology/version"));
        let (Some(wanted), Some(is)) = (wanted, object.text("/spec/version")) else { return };
        if !wanted.parse::<KubernetesVersion>().is_ok_and(|wanted| wanted.is_met_by_declared(is)) {
            self.add(object, format!("is of version {is}, the cluster says {wanted}"), WAIT);
        }
    }

    /// A machine is of a version that its control plane, or a group of workers, has.
    fn machine(&mut self, machine: &Object<'_>, its: &[&Object<'_>]) {
        self.deleting(machine);
        let Some(version) = machine.text("/spec/version") else { return };
        let versions = its.iter().filter_map(|owner| match owner.kind {
            "MachineDeployment" | "MachinePool" => owner.text("/spec/template/spec/version"),
            kind if kind.ends_with("ControlPlane") => owner.text("/spec/version"),
            _ => None,
        });
        let mut versions = versions.peekable();
        if versions.peek().is_some() && !versions.any(|known| known == version) {
            self.add(machine, format!("is of version {version}, which nothing asks for any more"), WAIT);
        }
    }
}
