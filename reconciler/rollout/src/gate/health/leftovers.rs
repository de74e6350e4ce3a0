//! What a rollout has left behind: sets, machines and nodes that belong to nothing any more, and marks of ours.
//!
//! What was so before the rollout is nobody's leftover: people make machines and nodes by hand, and other programs do.
//! Our own marks are, whenever they were made.

use std::collections::BTreeSet;

use bundles::KubernetesVersion;

use crate::before::Before;
use crate::gate::eks;
use crate::gate::findings::{Findings, object};
use crate::observation::{BRAKE, DELETE_FIRST, Machine, ObjectReference, Observation, TanzuCluster};
use crate::verdict::Reason;

/// Something that belongs to nothing.
struct Stray {
    subject: String,
    message: String,
    help: String,
}

/// What belongs to nothing, in order; none where too little was read to tell.
pub(crate) fn names(observation: &Observation) -> Option<Vec<String>> {
    let names = |strays: Vec<Stray>| strays.into_iter().map(|stray| stray.subject).collect();
    strays(observation).map(names).or_else(|| eks::strays(observation))
}

/// Waits for what belongs to nothing and did not do so before, and for marks of ours.
pub(in crate::gate) fn check(
    cluster: Option<&str>,
    before: &Before,
    observation: &Observation,
    findings: &mut Findings,
) {
    for mark in marks(cluster, observation) {
        findings.wait(Reason::on(mark.subject, mark.message).help(mark.help));
    }
    orphans(observation, findings);
    let (Some(known), Some(strays)) = (&before.strays, strays(observation)) else { return };
    for stray in strays {
        if known.contains(&stray.subject) {
            findings.fact(stray.subject, "belongs to nothing, as before the rollout");
        } else {
            findings.wait(Reason::on(stray.subject, stray.message).help(stray.help));
        }
    }
}

/// Tells of templates that nothing names any more. EKS Anywhere leaves its own behind at every upgrade, and what git holds and
/// holds no more is waited for as what the rollout takes away: so nothing waits for these.
fn orphans(observation: &Observation, findings: &mut Findings) {
    for template in observation.templates.iter().flat_map(|read| &read.orphaned) {
        let ObjectReference { kind, namespace, name, .. } = template;
        let seen = "was named before the rollout, and nothing of the cluster names it any more: delete it where no other cluster needs it";
        findings.fact(object(kind, namespace.as_deref().unwrap_or_default(), name), seen);
    }
}

const READ: [&str; 5] = ["MachineDeployment", "MachineSet", "MachinePool", "Machine", "Node"];

fn strays(observation: &Observation) -> Option<Vec<Stray>> {
    // Without machines of Cluster API every node belongs to nothing.
    let is_read = READ.iter().all(|kind| !observation.unread.contains_key(*kind));
    if !is_read || observation.machines.is_empty() {
        return None;
    }
    let mut strays: Vec<Stray> = sets(observation).chain(machines(observation)).chain(nodes(observation)).collect();
    strays.sort_by(|left, right| left.subject.cmp(&right.subject));
    Some(strays)
}

/// What tells Cluster API in which order machines of this cluster go, where none is to go any more.
fn marks(cluster: Option<&str>, observation: &Observation) -> Vec<Stray> {
    let of_machine = |machine: &Machine| {
        let Machine { namespace, name, delete_first, brake, .. } = machine;
        let ours = [(DELETE_FIRST, delete_first), (BRAKE, brake)].into_iter().filter_map(|(key, marked)| {
            marked.as_ref()?.ours()?;
            Some(key)
        });
        let stray = |key| Stray {
            subject: object("Machine", namespace, name),
            message: format!("still carries {key}, which is Stepgate's, and no stage needs it any more"),
            help: format!("kubectl annotate machines.cluster.x-k8s.io {name} -n {namespace} {key}-"),
        };
        ours.map(stray).collect::<Vec<_>>()
    };
    // Where other clusters are read too, their rollouts may be under way.
    let own = observation.machines.iter().filter(|machine| Some(machine.cluster.as_str()) == cluster);
    own.flat_map(of_machine).collect()
}

fn sets(observation: &Observation) -> impl Iterator<Item = Stray> {
    let without_owner = observation.machine_sets.iter().filter(|set| {
        let owner = set.machine_deployment.as_deref();
        let known = |name: &str| {
            let deployments = observation.machine_deployments.iter();
            deployments.into_iter().any(|known| known.namespace == set.namespace && known.name == name)
        };
        !owner.is_some_and(known)
    });
    without_owner.filter_map(|set| {
        let machines = set.replicas.unwrap_or(0).max(set.spec_replicas.unwrap_or(0));
        (machines > 0).then(|| Stray {
            subject: object("MachineSet", &set.namespace, &set.name),
            message: format!("belongs to no MachineDeployment, and still has {machines} machines"),
            help: format!("kubectl delete machineset {} -n {}", set.name, set.namespace),
        })
    })
}

fn machines(observation: &Observation) -> impl Iterator<Item = Stray> {
    let owners: BTreeSet<(&str, &str)> = observation
        .control_planes
        .iter()
        .map(|known| (known.namespace.as_str(), known.name.as_str()))
        .chain(observation.machine_deployments.iter().map(|known| (known.namespace.as_str(), known.name.as_str())))
        .chain(observation.etcd_clusters.iter().map(|known| (known.namespace.as_str(), known.name.as_str())))
        .collect();
    let has_owner = move |machine: &&Machine| {
        let owner = machine.owner.as_deref();
        machine.pool.is_some() || owner.is_some_and(|owner| owners.contains(&(machine.namespace.as_str(), owner)))
    };
    // A Supervisor keeps the owners of its machines to itself; what it leaves behind is told by nodes and by its own gates.
    let of_supervisor = |machine: &&Machine| {
        let is_it = |known: &TanzuCluster| known.namespace == machine.namespace && known.name == machine.cluster;
        observation.tanzu_clusters.iter().any(is_it)
    };
    let without_owner =
        observation.machines.iter().filter(move |machine| !has_owner(machine) && !of_supervisor(machine));
    without_owner.map(|machine| Stray {
        subject: object("Machine", &machine.namespace, &machine.name),
        message: "belongs to no control plane, worker group or etcd cluster any more".to_owned(),
        help: format!("kubectl describe machine {} -n {}", machine.name, machine.namespace),
    })
}

/// Nodes that no machine refers to and whose version no machine declares. Members of machine pools have no Machine with some providers.
fn nodes(observation: &Observation) -> impl Iterator<Item = Stray> {
    let machines = &observation.machines;
    let of_machines: BTreeSet<&str> = machines.iter().filter_map(|machine| machine.node.as_deref()).collect();
    let pools = observation.machine_pools.iter().filter_map(|pool| pool.spec_version.as_deref());
    let declared = machines.iter().filter_map(|machine| machine.spec_version.as_deref()).chain(pools);
    let declared: Vec<KubernetesVersion> = declared.filter_map(|version| version.parse().ok()).collect();
    observation.nodes.iter().filter(move |node| !of_machines.contains(node.name.as_str())).filter_map(move |node| {
        let reported = node.kubelet_version.as_deref().filter(|reported| !reported.is_empty())?;
        let is_met = declared.iter().any(|version| version.is_met_by_kubelet(reported));
        (!is_met).then(|| Stray {
            subject: format!("Node {}", node.name),
            message: format!("no machine refers to it, and no machine declares its version {reported}"),
            help: format!("kubectl delete node {}", node.name),
        })
    })
}
