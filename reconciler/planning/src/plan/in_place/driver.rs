//! Who upgrades the machines of an owner, and whether that is possible: Cluster API by its hooks, or Stepgate's controller
//! while the owner is paused.

use bundles::Version;
use in_place::objects::{CONTROLLER, STRATEGY};
use overlays::{ClusterSpec, Fleet, Management};
use policy::{InPlaceDriver, MachinePolicy, OnDecline, RolloutStrategy};

use super::Contradiction;
use super::owner::Owner;

/// The first version of Cluster API with hooks for it.
const HOOKS_SINCE: &str = "v1.12.0";

/// The fewest machines of a control plane for which Cluster API allows `maxSurge: 0`.
const FEWEST: u64 = 3;

/// Who upgrades the machines of an owner.
pub(super) struct Driven {
    pub(super) driver: InPlaceDriver,
    /// Whether the owner itself says who.
    pub(super) is_said_by_owner: bool,
    /// What nobody can mean.
    pub(super) contradictions: Vec<Contradiction>,
    /// Why machines would be replaced, whatever changes.
    pub(super) declined: Vec<String>,
}

impl Driven {
    /// By what the owner says, and the policy; Cluster API where neither says anything.
    pub(super) fn of(owner: &Owner<'_>, policy: &MachinePolicy, cluster_api: Option<&Version>) -> Self {
        let mut contradictions = Vec::new();
        let place = format!("metadata.annotations of {} {}", owner.kind, owner.name);
        let said = owner.strategy();
        let own = said.as_deref().and_then(|said| InPlaceDriver::ALL.into_iter().find(|it| it.as_str() == said));
        if let (Some(value), None) = (&said, own) {
            let message = format!("{place}: {STRATEGY} says {value:?}: expected hooks or controller");
            contradictions.push(Contradiction::new(message, "write one of the two, or take the annotation out"));
        }
        match (policy.driver, own) {
            (Some(InPlaceDriver::Hooks), Some(InPlaceDriver::Controller)) => {
                let message = format!("{place}: {STRATEGY} says controller, and stepgate.yaml says driver: hooks");
                contradictions.push(Contradiction::new(message, "take one of the two out"));
            }
            (Some(InPlaceDriver::Controller), None | Some(InPlaceDriver::Hooks)) => {
                let message = format!(
                    "{place} do not have {STRATEGY}: {CONTROLLER}, and stepgate.yaml says driver: controller: Cluster \
                     API would not wait for it"
                );
                let help = format!("write {STRATEGY}: {CONTROLLER} there, or take inPlace.driver out of stepgate.yaml");
                contradictions.push(Contradiction::new(message, help));
            }
            _ => {}
        }
        let driver = match own {
            Some(InPlaceDriver::Controller) => InPlaceDriver::Controller,
            Some(InPlaceDriver::Hooks) | None => policy.driver.unwrap_or(InPlaceDriver::Hooks),
        };
        let mut driven = Self { driver, is_said_by_owner: said.is_some(), contradictions, declined: Vec::new() };
        match driver {
            InPlaceDriver::Hooks => driven.by_hooks(owner, policy, cluster_api),
            InPlaceDriver::Controller => driven.by_controller(owner, policy),
        }
        driven
    }

    fn by_hooks(&mut self, owner: &Owner<'_>, policy: &MachinePolicy, cluster_api: Option<&Version>) {
        let impossible = [why_no_room(owner), cluster_api.and_then(why_no_hooks)];
        for why in impossible.into_iter().flatten() {
            if policy.driver == Some(InPlaceDriver::Hooks) {
                let message = format!("stepgate.yaml says driver: hooks, and {why}");
                let help = format!(
                    "write driver: controller into stepgate.yaml, and {STRATEGY}: {CONTROLLER} into metadata.annotations of \
                     {} {}",
                    owner.kind, owner.name
                );
                self.contradictions.push(Contradiction::new(message, help));
            } else {
                self.declined
                    .push(format!("{why}; with the annotation {STRATEGY}: {CONTROLLER} Stepgate's controller does it"));
            }
        }
        // Said already of a control plane that is too small.
        if why_no_room(owner).is_none() {
            self.declined.extend(owner.surge());
        }
    }

    fn by_controller(&mut self, owner: &Owner<'_>, policy: &MachinePolicy) {
        let by_policy = policy.strategy == Some(RolloutStrategy::InPlace) && policy.on_decline == OnDecline::Replace;
        if by_policy || owner.on_decline() == Some(OnDecline::Replace) {
            let message = format!(
                "{} {} is upgraded by Stepgate's controller, which replaces no machine: onDecline: replace is not possible",
                owner.kind, owner.name
            );
            self.contradictions
                .push(Contradiction::new(message, "write onDecline: hold, or have Cluster API drive it"));
        }
    }
}

/// Why a control plane is too small for Cluster API to keep its machines.
fn why_no_room(owner: &Owner<'_>) -> Option<String> {
    let replicas = owner.replicas();
    (owner.is_control_plane() && replicas < FEWEST).then(|| {
        format!(
            "KubeadmControlPlane {} has {replicas} machine{}: Cluster API upgrades in place from {FEWEST} on, since it \
             allows maxSurge: 0 from there on",
            owner.name,
            super::plural(replicas.try_into().unwrap_or_default()),
        )
    })
}

fn why_no_hooks(version: &Version) -> Option<String> {
    let is_older = version.compare(&Version::new(HOOKS_SINCE)).is_some_and(std::cmp::Ordering::is_lt);
    is_older.then(|| {
        format!(
            "Cluster API of the bundle is {}: hooks for upgrades in place come with {HOOKS_SINCE}",
            version.as_str()
        )
    })
}

/// The version of Cluster API that manages a cluster, as far as the fleet has it.
pub(super) fn cluster_api_of(fleet: &Fleet, cluster: &ClusterSpec) -> Option<Version> {
    let manager = match &cluster.management {
        Management::ManagedBy(name) => fleet.cluster(name)?,
        Management::SelfManaged | Management::Undeclared => cluster,
    };
    let bundle = overlays::uses_bundle(fleet, manager).then(|| overlays::bundle_for(fleet, manager))?.ok()?;
    let versions = bundle.bundles.versions_bundle(&manager.kubernetes_version.parse().ok()?)?;
    versions.component("clusterAPI")?.version.clone()
}
