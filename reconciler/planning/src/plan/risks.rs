//! What could go wrong with a stage, as its manifests and the specification tell.

use std::collections::BTreeMap;

use overlays::{Note, NoteKind, RemovedVersion, Weight, WorkerGroupKind};
use policy::{Apply, ControlPlaneGate, MachinePolicy};
use rollout::{ComponentChange, LostVersion, Risk, RiskKind, StageName};

use super::{Facts, nodes, plural, policy_in_force, rolled_groups};
use crate::machines::Specification;
use crate::machines::kube_vip;
use crate::stage_tree::StageTree;
use crate::support::NewRelease;
use crate::{contract, eksctl, tanzu};

/// The risks of a stage.
pub(super) fn risks(facts: &Facts<'_>, part: &StageTree, changes: &[ComponentChange]) -> Vec<Risk> {
    let told = part.notes.iter().filter(|note| note.weight == Weight::Risk).map(of_note);
    // Versions on the way have the overlays of the last one.
    let conflicts = part.component.filter(|_| part.stage.hop.is_none() && part.before != part.after);
    let conflicts = conflicts.and_then(|component| facts.overlay_conflicts.get(&component)).into_iter().flatten();
    let conflicts = conflicts.map(|conflict| Risk::new(RiskKind::OverlayConflict, conflict));
    told.chain(conflicts)
        .chain(control_plane_risks(facts, part))
        .chain(pool_risk(facts, part, changes))
        .chain(gone_risk(facts, part))
        .chain(eksctl::risks(facts, part))
        .chain(tanzu::risks(facts, part))
        .collect()
}

fn of_note(note: &Note) -> Risk {
    let lost = |removed: &RemovedVersion| LostVersion {
        definition: removed.definition.clone(),
        kind: removed.kind.clone(),
        version: removed.version.clone(),
    };
    Risk { lost: note.removed.iter().map(lost).collect(), ..Risk::new(kind(note.kind), note.to_string()) }
}

fn kind(kind: NoteKind) -> RiskKind {
    match kind {
        NoteKind::SignatureInvalid => RiskKind::SignatureInvalid,
        NoteKind::ConversionMissing => RiskKind::ConversionMissing,
        NoteKind::VersionRemoved => RiskKind::VersionRemoved,
        NoteKind::ImmutableFieldChanged => RiskKind::ObjectReplaced,
        NoteKind::ObjectRemoved => RiskKind::ObjectLeft,
        NoteKind::WebhookRemoved => RiskKind::WebhookRemoved,
        NoteKind::SharedMachineConfig => RiskKind::RolledTogether,
        NoteKind::SkippedMinor => RiskKind::UnusualVersion,
        NoteKind::TwoWriters => RiskKind::TwoWriters,
        NoteKind::ConversionChanged => RiskKind::ConversionChanged,
        NoteKind::ContractMismatch | NoteKind::ContractChanged => RiskKind::Contract,
        NoteKind::DefaultChanged => RiskKind::DefaultChanged,
        NoteKind::ImagesOfAnotherRelease => RiskKind::ImagesOfAnotherRelease,
        NoteKind::ImageNotPinned => RiskKind::ImageNotPinned,
        NoteKind::ManifestNotLocked => RiskKind::ManifestNotLocked,
        NoteKind::StorageVersionChanged
        | NoteKind::VersionInUse
        | NoteKind::VersionDeprecated
        | NoteKind::ReviewVersionRemoved
        | NoteKind::LargeDefinition
        | NoteKind::ImageUnmatched
        | NoteKind::ReferenceKept
        | NoteKind::SecretOmitted
        | NoteKind::NotInstallable
        | NoteKind::Information => RiskKind::Other,
    }
}

/// What a person should know of a stage of the control plane.
fn control_plane_risks(facts: &Facts<'_>, part: &StageTree) -> Vec<Risk> {
    if part.stage.name != StageName::ControlPlane || !part.is_moved() {
        return Vec::new();
    }
    let objects = nodes(&part.after);
    let mut risks = contract::risks(facts.cluster, &objects);
    let policy = policy_in_force(facts, &part.stage.to_string());
    let specification = Specification { cluster: facts.cluster, objects: &objects };
    let contradicted = kube_vip::contradiction(&specification, &policy.machines);
    risks.extend(contradicted.map(|text| Risk::new(RiskKind::GateReach, text)));
    risks.extend(first_node_risk(facts, &specification, &policy.machines));
    let mut releases: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for group in rolled_groups(facts, part) {
        let NewRelease { group, machines, releases: release } = group;
        releases
            .entry(release)
            .or_default()
            .push(format!("{group} ({machines} machine{})", plural(*machines as usize)));
    }
    risks.extend(releases.into_iter().map(|(release, groups)| {
        let text = format!(
            "EKS-D goes from {release}: EKS Anywhere rolls {} in this stage too, and has no field that holds a group back; \
             windows and approvals of their own do not apply",
            groups.join(", ")
        );
        Risk::new(RiskKind::RolledTogether, text)
    }));
    risks
}

/// What `gate: first-node` means for what comes next, or why it does not count.
fn first_node_risk(facts: &Facts<'_>, specification: &Specification<'_>, policy: &MachinePolicy) -> Option<Risk> {
    let asks = policy.gate == ControlPlaneGate::FirstNode;
    let text = match specification.gate(policy) {
        ControlPlaneGate::FirstNode => format!(
            "gate: first-node lets the next stages begin when one of {} machines is proven: until the rest has rolled, kubelets may be \
             newer than an API server that they reach",
            facts.cluster.control_plane_count.map_or_else(|| "its".to_owned(), |count| count.to_string())
        ),
        ControlPlaneGate::Whole if asks => {
            "gate: first-node does not count for a cluster that manages itself: the whole control plane is waited for"
                .to_owned()
        }
        ControlPlaneGate::Whole => return None,
    };
    Some(Risk::new(RiskKind::GateReach, text))
}

/// Objects of a specification are deleted by nobody: where a group is such an object, somebody has to.
fn gone_risk(facts: &Facts<'_>, part: &StageTree) -> Option<Risk> {
    let group = super::gone_group(facts, part)?;
    let is_object = matches!(group.kind, WorkerGroupKind::MachineDeployment | WorkerGroupKind::MachinePool);
    let name = group.object.as_ref().filter(|_| is_object)?;
    let kind = if group.kind.is_machine_pool() { "MachinePool" } else { "MachineDeployment" };
    let namespace = &facts.cluster.namespace;
    let text = match facts.fleet.policy.apply {
        Apply::Flux => format!(
            "{kind} {name} stays until somebody deletes it, since Flux deletes nothing of a specification, and the gate \
             waits for that: `kubectl delete {} {name} -n {namespace}`",
            kind.to_lowercase()
        ),
        Apply::Direct | Apply::Pipeline | Apply::Eksctl => format!(
            "{kind} {name} stays until somebody deletes it or `deleteData` names {kind}/{namespace}/{name}, and the gate \
             waits for that"
        ),
    };
    Some(Risk::new(RiskKind::ObjectLeft, text))
}

/// What the gate of a `MachinePool` cannot tell: nodes name their version, and not what else they were made from.
fn pool_risk(facts: &Facts<'_>, part: &StageTree, changes: &[ComponentChange]) -> Option<Risk> {
    let StageName::Workers(group) = &part.stage.name else { return None };
    let known = facts.cluster.worker_groups.iter().find(|known| known.name == group.as_str())?;
    let is_it = known.kind.is_machine_pool() && part.before != part.after && changes.is_empty();
    is_it.then(|| {
        let text = "the Kubernetes version stays, and nothing on the nodes of a MachinePool tells which of them are new: \
                    its gate rests on what the pool itself reports";
        Risk::new(RiskKind::GateReach, text)
    })
}
