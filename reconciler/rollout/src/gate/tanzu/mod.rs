//! A `TanzuKubernetesCluster` by the words of its Supervisor, part by part.
//!
//! No status names the generation that it was computed from: `Ready`, the phase and the version in the status are those of before
//! for a while. So a part has to say what only the release brings about: the versions of add-ons, the versions of machines, the
//! label of nodes. Two releases may have one build of Kubernetes, which only that label tells apart.

pub(in crate::gate) mod addons;
pub(crate) mod attempts;
pub(in crate::gate) mod rendered;
pub(crate) mod secrets;

use bundles::KubernetesVersion;
use bundles::tanzu::DistributionVersion;

use crate::expectation::{TanzuExpectation, TanzuMachines, TanzuPart};
use crate::gate::findings::{Findings, object};
use crate::observation::{
    ConditionStatus, Machine, Node, Observation, TANZU_CLUSTER, TanzuAddon, TanzuAddonState, TanzuCluster, TanzuImage,
};
use crate::verdict::Reason;
use domain::GroupName;

/// Add-ons that a v1alpha1 status has to name.
const ADDONS: [&str; 7] = ["authsvc", "cloudprovider", "cni", "csi", "dns", "proxy", "psp"];

/// Conditions that have to be true of a cluster that is settled, where they are reported; what each of them summarises first.
const CONDITIONS: [&str; 5] = ["ControlPlaneReady", "NodePoolsReady", "AddonsReady", "NodesHealthy", "Ready"];

/// The label of nodes that names their release.
const RELEASE_LABEL: &str = "metadata.labels[run.tanzu.vmware.com/kubernetesDistributionVersion]";

pub(in crate::gate) fn check(expectation: &TanzuExpectation, observation: &Observation, findings: &mut Findings) {
    let TanzuExpectation { namespace, name, part } = expectation;
    let kinds: &[&str] =
        if part.looks_at_nodes() { &[TANZU_CLUSTER, "Machine", "Node"] } else { &[TANZU_CLUSTER, "Machine"] };
    if !kinds.iter().all(|kind| findings.was_read(kind, observation)) {
        return;
    }
    let is_it = |known: &&TanzuCluster| known.namespace == *namespace && known.name == *name;
    let Some(cluster) = observation.tanzu_clusters.iter().find(is_it) else {
        let help = format!("kubectl get tanzukubernetesclusters -n {namespace}");
        findings.wait(Reason::on(object(TANZU_CLUSTER, namespace, name), "not found").help(help));
        return;
    };
    let gate = TanzuGate { cluster, observation };
    gate.check_failure(part, findings);
    match part {
        TanzuPart::Settled => gate.check_settled(findings),
        TanzuPart::Addons { release } => gate.check_addons(release, findings),
        TanzuPart::ControlPlane(machines) => gate.check_control_plane(machines, findings),
        TanzuPart::Workers { pool, pools, machines } => gate.check_pool(pool, pools, machines, findings),
        TanzuPart::WorkersGone { pool, pools } => gate.check_gone(pool, pools, findings),
    }
}

struct TanzuGate<'a> {
    cluster: &'a TanzuCluster,
    observation: &'a Observation,
}

/// A release with the build of Kubernetes in it.
struct Release {
    version: DistributionVersion,
    build: KubernetesVersion,
}

impl Release {
    fn parse(text: &str) -> Option<Self> {
        let version: DistributionVersion = text.parse().ok()?;
        let build = version.kubernetes_build().parse().ok()?;
        Some(Self { version, build })
    }

    /// Whether a machine or a kubelet names its build; machines of old interfaces do without the leading `v`.
    fn is_built_in(&self, version: &str) -> bool {
        let version = if version.starts_with('v') { version.to_owned() } else { format!("v{version}") };
        self.build.is_met_by_declared(&version)
    }

    /// Whether the label of a node names it, with `_` or `---` for `+`.
    fn is_named_by(&self, label: &str) -> bool {
        let same = |text: &str| text.parse::<DistributionVersion>().is_ok_and(|known| known == self.version);
        same(label) || same(&label.replacen('_', "+", 1))
    }
}

impl TanzuGate<'_> {
    fn subject(&self) -> String {
        object(TANZU_CLUSTER, &self.cluster.namespace, &self.cluster.name)
    }

    fn help(&self) -> String {
        format!("kubectl describe tanzukubernetescluster {} -n {}", self.cluster.name, self.cluster.namespace)
    }

    /// Whatever its Supervisor has given up, which people have to repair first.
    fn check_failure(&self, part: &TanzuPart, findings: &mut Findings) {
        let (subject, help) = (self.subject(), self.help());
        if self.cluster.deleting {
            findings.wait(Reason::on(&subject, "is being deleted").field("metadata.deletionTimestamp"));
        }
        if let Some(phase) = self.cluster.phase.as_deref().filter(|phase| ["failed", "updateFailed"].contains(phase)) {
            let reason = Reason::on(&subject, format!("{phase}: repair it before anything else"));
            let reason = reason.field("status.phase").help(&help);
            // Nothing of a rollout has begun yet: it may be repaired meanwhile.
            if *part == TanzuPart::Settled { findings.failing(reason) } else { findings.fail(reason) }
        }
        if let Some(failure) = &self.cluster.failure {
            findings.failing(Reason::on(subject, failure.clone()).field("status.conditions[Ready]").help(help));
        }
    }

    fn check_settled(&self, findings: &mut Findings) {
        let (subject, help) = (self.subject(), self.help());
        let TanzuCluster { phase, conditions, addons, release, .. } = self.cluster;
        match phase.as_deref() {
            Some("running") => {}
            None if !conditions.is_empty() => {}
            // Told above.
            Some("failed" | "updateFailed") => {}
            phase => {
                let message = match phase {
                    Some("updating") => "updating: another update is in progress".to_owned(),
                    Some(phase) => format!("{phase}, running expected"),
                    None => "nothing is reported yet".to_owned(),
                };
                findings.wait(Reason::on(&subject, message).field("status.phase").help(&help));
            }
        }
        for name in CONDITIONS {
            findings.condition_if_reported(&subject, conditions, name, ConditionStatus::True, &help);
        }
        for addon in addons {
            self.check_addon_state(addon, findings);
        }
        for machine in self.machines().filter(|machine| machine.deleting) {
            let help = format!("kubectl describe machine {} -n {}", machine.name, machine.namespace);
            findings.wait(Reason::on(subject_of(machine), "is being deleted").help(help));
        }
        if let Some(release) = release.as_deref().and_then(Release::parse) {
            for machine in self.machines().filter(|machine| machine.control_plane) {
                check_version(machine, &release, findings);
            }
        }
        let names: Vec<&str> = self.machines().map(|machine| machine.name.as_str()).collect();
        findings.settle(names.join(","));
        findings.fact(subject, phase.clone().unwrap_or_else(|| "Ready".to_owned()));
    }

    fn machines(&self) -> impl Iterator<Item = &Machine> {
        let TanzuCluster { namespace, name, .. } = self.cluster;
        self.observation
            .machines
            .iter()
            .filter(move |machine| machine.namespace == *namespace && machine.cluster == *name)
    }

    /// Waits until the specification that the Supervisor sees names the release.
    fn release(&self, text: &str, findings: &mut Findings) -> Option<Release> {
        let Some(release) = Release::parse(text) else {
            let message = format!("the expected release {text:?} is not a valid Tanzu Kubernetes release");
            findings.fail(Reason::on(self.subject(), message));
            return None;
        };
        let seen = self.cluster.release.as_deref();
        let named = seen.and_then(|seen| seen.parse::<DistributionVersion>().ok());
        if named.as_ref() != Some(&release.version) {
            let message = format!("names {}, {} expected", seen.unwrap_or("no release"), release.version);
            findings.behind(Reason::on(self.subject(), message).field("spec").help(self.help()));
        }
        Some(release)
    }

    fn check_addons(&self, text: &str, findings: &mut Findings) {
        let Some(release) = self.release(text, findings) else { return };
        let (subject, help) = (self.subject(), self.help());
        findings.condition_if_reported(&subject, &self.cluster.conditions, "AddonsReady", ConditionStatus::True, &help);
        if self.cluster.version == "v1alpha1" {
            let is_there = |role: &str| self.cluster.addons.iter().any(|addon| addon.role == role);
            for role in ADDONS.into_iter().filter(|role| !is_there(role)) {
                let field = format!("status.addons.{role}");
                findings.wait(Reason::on(&subject, "not reported yet").field(field).help(&help));
            }
        } else if self.cluster.addons.is_empty() && !self.cluster.conditions.contains_key("AddonsReady") {
            findings.wait(Reason::on(&subject, "not reported yet").field("status.addons").help(&help));
        }
        let image = self.cluster.image.as_ref();
        let image = image.filter(|image| {
            image.release.parse::<DistributionVersion>().is_ok_and(|version| version == release.version)
        });
        // What a version does not tell, its Supervisor does: it goes on to the control plane when its add-ons are applied.
        let has_gone_on = self.machines().filter(|machine| machine.control_plane).any(|machine| {
            let label = self.node(machine).and_then(|node| node.release.as_deref());
            machine.spec_version.as_deref().is_some_and(|version| release.is_built_in(version))
                && label.is_some_and(|label| release.is_named_by(label))
        });
        let mut is_told = false;
        for addon in &self.cluster.addons {
            if !self.check_addon_state(addon, findings) {
                continue;
            }
            let field = format!("status.addons[{}].version", addon.role);
            let seen = addon.version.as_deref().unwrap_or("no version");
            let is_of_release =
                addon.version.as_deref().and_then(Release::parse).is_some_and(|seen| seen.version == release.version);
            match image.and_then(|image| expected_version(addon, image, &release)) {
                Some(expected) if addon.version.as_deref() != Some(expected.as_str()) && !is_same(seen, &expected) => {
                    let message = format!("add-on {} is at {seen}, {expected} expected", addon.name);
                    findings.wait(Reason::on(&subject, message).field(field).help(&help));
                }
                Some(_) => is_told = true,
                None if is_of_release => is_told = true,
                None if has_gone_on => {}
                None => {
                    let message = format!(
                        "add-on {} is at {seen}, which does not tell whether it is of {}, and no machine of the control plane is yet",
                        addon.name, release.version
                    );
                    findings.wait(Reason::on(&subject, message).field(field).help(&help));
                }
            }
            findings.settle(format!("{} {seen}", addon.name));
            findings.fact(format!("add-on {}", addon.name), seen);
        }
        if !is_told && !has_gone_on {
            let message = format!(
                "no add-on tells that it is of {}, and no machine of the control plane is yet",
                release.version
            );
            findings.dependent(Reason::on(subject, message).field("status.addons").help(help));
        }
    }

    /// Whether an add-on is managed and applied; waits where it is managed and is not.
    fn check_addon_state(&self, addon: &TanzuAddon, findings: &mut Findings) -> bool {
        let (subject, help) = (self.subject(), self.help());
        let field = format!("status.addons[{}]", addon.role);
        let told = |state: &str| match &addon.message {
            Some(message) => format!("add-on {} is {state}: {message}", addon.name),
            None => format!("add-on {} is {state}", addon.name),
        };
        match addon.state {
            TanzuAddonState::Applied => return true,
            TanzuAddonState::Unmanaged => findings.fact(format!("add-on {}", addon.name), "unmanaged"),
            TanzuAddonState::Pending => {
                findings.wait(Reason::on(subject, told("pending")).field(field).help(help));
            }
            // Its controller tries again, each add-on by itself.
            TanzuAddonState::Error => findings.failing(Reason::on(subject, told("in error")).field(field).help(help)),
        }
        false
    }

    fn check_control_plane(&self, machines: &TanzuMachines, findings: &mut Findings) {
        let Some(release) = self.release(&machines.release, findings) else { return };
        let (subject, help) = (self.subject(), self.help());
        findings.condition_if_reported(
            &subject,
            &self.cluster.conditions,
            "ControlPlaneReady",
            ConditionStatus::True,
            &help,
        );
        let own: Vec<&Machine> = self.machines().filter(|machine| machine.control_plane).collect();
        self.check_machines("control plane", &own, machines, &release, findings);
    }

    fn check_pool(&self, pool: &GroupName, pools: &[GroupName], machines: &TanzuMachines, findings: &mut Findings) {
        let Some(release) = Release::parse(&machines.release) else {
            let message =
                format!("the expected release {:?} is not a valid Tanzu Kubernetes release", machines.release);
            findings.fail(Reason::on(self.subject(), message));
            return;
        };
        let own = self.machines_of(pool, pools, findings);
        self.check_machines(&format!("node pool {pool}"), &own, machines, &release, findings);
    }

    fn check_gone(&self, pool: &GroupName, pools: &[GroupName], findings: &mut Findings) {
        let own = self.machines_of(pool, pools, findings);
        for machine in &own {
            let message = match machine.deleting {
                true => format!("of node pool {pool} is on its way out"),
                false => format!("of node pool {pool} is still there"),
            };
            let help = format!("kubectl describe machine {} -n {}", machine.name, machine.namespace);
            findings.wait(Reason::on(subject_of(machine), message).help(help));
        }
        if own.is_empty() {
            findings.fact(format!("node pool {pool}"), "no machine is left");
        }
    }

    /// The machines of a pool: by their label, or by the name of their MachineDeployment, `<cluster>-<pool>` and more. One whose pool is
    /// not known may be of any.
    fn machines_of(&self, pool: &GroupName, pools: &[GroupName], findings: &mut Findings) -> Vec<&Machine> {
        let mut own = Vec::new();
        for machine in self.machines().filter(|machine| !machine.control_plane) {
            match pool_of(machine, &self.cluster.name, pools) {
                Some(known) if known == pool.as_str() => own.push(machine),
                Some(_) => {}
                None => {
                    let owner = machine.owner.as_deref().unwrap_or("nothing");
                    let message = format!("belongs to {owner}, and to no node pool that is known");
                    findings.wait(Reason::on(subject_of(machine), message).field("metadata.labels"));
                }
            }
        }
        own
    }

    fn node(&self, machine: &Machine) -> Option<&Node> {
        let name = machine.node.as_ref()?;
        self.observation.nodes.iter().find(|node| node.name == *name)
    }

    fn check_machines(
        &self,
        what: &str,
        machines: &[&Machine],
        expected: &TanzuMachines,
        release: &Release,
        findings: &mut Findings,
    ) {
        let subject = self.subject();
        let help = format!(
            "kubectl get machines -n {} -l cluster.x-k8s.io/cluster-name={}",
            self.cluster.namespace, self.cluster.name
        );
        // Those that are new first: an old machine only waits for one of these.
        let is_new = |machine: &&&Machine| {
            machine.spec_version.as_deref().is_some_and(|version| release.is_built_in(version)) && !machine.deleting
        };
        let (new, old): (Vec<&Machine>, Vec<&Machine>) = machines.iter().partition(is_new);
        for machine in new.into_iter().chain(old) {
            check_version(machine, release, findings);
            if machine.deleting {
                let help = format!("kubectl describe machine {} -n {}", machine.name, machine.namespace);
                findings.wait(Reason::on(subject_of(machine), "is being deleted").help(help));
            }
            check_hardware(machine, expected, findings);
            self.check_node(machine, release, findings);
        }
        let count = u32::try_from(machines.len()).unwrap_or(u32::MAX);
        if let Some(wanted) = expected.replicas.filter(|wanted| *wanted != count) {
            let message = format!("{what}: {count} machines, {wanted} expected");
            findings.wait(Reason::on(&subject, message).help(help));
        }
        let mut names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
        names.sort_unstable();
        findings.settle(names.join(","));
        findings.fact(what, format!("{count} machines at {}", release.version));
    }

    fn check_node(&self, machine: &Machine, release: &Release, findings: &mut Findings) {
        let help = format!("kubectl describe machine {} -n {}", machine.name, machine.namespace);
        let Some(name) = &machine.node else {
            findings.wait(Reason::on(subject_of(machine), "has no node yet").field("status.nodeRef").help(help));
            return;
        };
        let subject = format!("Node {name}");
        let help = format!("kubectl describe node {name}");
        let Some(node) = self.node(machine) else {
            findings.wait(Reason::on(subject, "is not there").help(help));
            return;
        };
        if node.ready != ConditionStatus::True {
            let message = format!("{}, True expected", node.ready);
            findings.wait(Reason::on(&subject, message).field("status.conditions[Ready]").help(&help));
        }
        let kubelet = node.kubelet_version.as_deref().unwrap_or("not reported");
        if !release.build.is_met_by_kubelet(kubelet) {
            let message = format!("{kubelet}, {} expected", release.build);
            findings.wait(Reason::on(&subject, message).field("status.nodeInfo.kubeletVersion").help(&help));
        }
        let label = node.release.as_deref().unwrap_or("not set");
        if !release.is_named_by(label) {
            let message = format!("{label}, {} expected", release.version);
            findings.wait(Reason::on(&subject, message).field(RELEASE_LABEL).help(&help));
        }
    }
}

fn subject_of(machine: &Machine) -> String {
    object("Machine", &machine.namespace, &machine.name)
}

fn check_version(machine: &Machine, release: &Release, findings: &mut Findings) {
    let help = format!("kubectl describe machine {} -n {}", machine.name, machine.namespace);
    let seen = machine.spec_version.as_deref().unwrap_or("not set");
    if !release.is_built_in(seen) {
        let message = format!("{seen}, {} expected", release.build);
        findings.wait(Reason::on(subject_of(machine), message).field("spec.version").help(&help));
    }
    if machine.phase.as_deref() == Some("Failed") {
        findings.failing(Reason::on(subject_of(machine), "Failed").field("status.phase").help(help));
    }
}

/// Waits unless a machine is made of what its part says; that a class changes is seen nowhere else.
fn check_hardware(machine: &Machine, expected: &TanzuMachines, findings: &mut Findings) {
    let Some(hardware) = &machine.hardware else { return };
    let subject = subject_of(machine);
    let help = format!("kubectl describe machine {} -n {}", machine.name, machine.namespace);
    if !hardware.found {
        let message = "what it is made of could not be read";
        findings.wait(Reason::on(subject, message).field("spec.infrastructureRef").help(help));
        return;
    }
    for (field, seen, wanted) in [
        ("className", &hardware.class, &expected.class),
        ("storageClass", &hardware.storage_class, &expected.storage_class),
    ] {
        if let Some(wanted) = wanted.as_ref().filter(|wanted| seen.as_ref() != Some(*wanted)) {
            let message = format!("{}, {wanted} expected", seen.as_deref().unwrap_or("not set"));
            let field = format!("spec.infrastructureRef: spec.{field}");
            findings.wait(Reason::on(&subject, message).field(field).help(&help));
        }
    }
    // A Supervisor may add volumes of its own.
    for (name, size) in expected.volumes.iter().filter(|volume| !hardware.volumes.contains(volume)) {
        let seen = hardware.volumes.iter().find(|(known, _)| known == name).map_or("not there", |(_, size)| size);
        let message = format!("volume {name}: {seen}, {size} expected");
        let field = "spec.infrastructureRef: spec.volumes";
        findings.wait(Reason::on(&subject, message).field(field).help(&help));
    }
}

/// The pool of a machine; of two whose names begin alike, the longer one.
fn pool_of<'a>(machine: &'a Machine, cluster: &str, pools: &'a [GroupName]) -> Option<&'a str> {
    if let Some(pool) = machine.hardware.as_ref().and_then(|hardware| hardware.pool.as_deref()) {
        return Some(pool);
    }
    let rest = machine.owner.as_deref()?.strip_prefix(cluster)?.strip_prefix('-')?;
    let is_its = |pool: &&GroupName| {
        rest.strip_prefix(pool.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    pools.iter().filter(is_its).max_by_key(|pool| pool.as_str().len()).map(GroupName::as_str)
}

/// The version that an image brings of an add-on; none where it does not tell.
fn expected_version(addon: &TanzuAddon, image: &TanzuImage, release: &Release) -> Option<String> {
    let is = |role: &str| addon.role.eq_ignore_ascii_case(role);
    if is("dns") {
        return image.coredns.clone();
    }
    if is("proxy") {
        return image.kubernetes.clone();
    }
    let other = match addon.role.to_ascii_lowercase().as_str() {
        "csi" => "pvcsi",
        "cloudprovider" | "cpi" => "vmware-guest-cluster",
        "psp" => "defaultpsp",
        "authsvc" | "authservice" => "authsvc",
        "metricsserver" => "metrics-server",
        _ => "",
    };
    let brought = image.addons.get(&addon.name).or_else(|| image.addons.get(other))?;
    Some(brought.clone().unwrap_or_else(|| release.version.to_string()))
}

/// Whether two versions are one, with `_` or `---` for `+`.
fn is_same(seen: &str, expected: &str) -> bool {
    let plain = |text: &str| text.trim_start_matches('v').replacen("---", "+", 1).replacen('_', "+", 1);
    plain(seen) == plain(expected)
}

/// What goes on at a cluster of which nothing is left to be committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnaskedRollout {
    /// What tells of it.
    pub reason: Reason,
    /// Whether its Supervisor has given up, or says that it fails.
    pub has_failed: bool,
}

/// The rollout of a `TanzuKubernetesCluster` that no commit has asked for: a Supervisor was updated, or an image replaced; none where nothing is
/// on its way, or nothing was read.
#[must_use]
pub fn unasked_rollout(observation: &Observation) -> Option<UnaskedRollout> {
    observation.tanzu_clusters.iter().find_map(|cluster| {
        let gate = TanzuGate { cluster, observation };
        let mut failures = Findings::default();
        gate.check_failure(&TanzuPart::Settled, &mut failures);
        let has_failed = failures.waits();
        let mut findings = Findings::default();
        gate.check_failure(&TanzuPart::Settled, &mut findings);
        gate.check_settled(&mut findings);
        let told = findings.first_wait()?;
        let what = "a rollout that nobody asked for: its Supervisor was updated, or an image replaced";
        let reason = Reason::on(gate.subject(), what).help(gate.help()).and(told);
        Some(UnaskedRollout { reason, has_failed })
    })
}

#[cfg(test)]
mod tests;
