//! Applying and pruning: from what the deploy branch says to what the controllers work on.

use std::{sync::Arc, time::Duration};

use domain::GroupName;
use jiff::Timestamp;
use rollout::{CustomResourceDefinition, WebhookOutcome, WebhookProbe};

use super::{
    Event, State,
    control_plane::ControlPlane,
    daemon_set::DaemonSet,
    deployment::Deployment,
    etcd::EtcdadmCluster,
    machine::{MachineSpec, Owner, Phase},
    pod::PodState,
    presence::reference,
    workers::Workers,
};
use crate::{
    desired::{DesiredDefinition, DesiredMachines, DesiredObject, DesiredWebhook},
    fault::Fault,
};

/// How long the storage migration takes after a definition's storage version has changed.
const MIGRATION: Duration = Duration::from_secs(30);

/// A webhook configuration and whether its `caBundle` is there.
#[derive(Debug, Clone)]
pub(super) struct Webhook {
    pub(super) spec: DesiredWebhook,
    pub(super) injected: bool,
}

impl State {
    /// Applies one object that is new or different.
    pub(super) fn apply(&mut self, object: &DesiredObject, kustomization: &str) {
        let now = self.now;
        match object {
            DesiredObject::Deployment(spec) => {
                let known = self.deployments.iter().position(|known| {
                    !known.deleted && known.spec.namespace == spec.namespace && known.spec.name == spec.name
                });
                let index = known.unwrap_or(self.deployments.len());
                match self.deployments.get_mut(index) {
                    Some(known) if known.spec == *spec => return,
                    Some(known) => known.change(spec.clone(), now),
                    None => self.deployments.push(Deployment::new(spec.clone(), kustomization, now)),
                }
                self.plan_soon(Event::Deployment(index));
            }
            DesiredObject::DaemonSet(spec) => {
                let known = self.daemon_sets.iter().position(|known| {
                    !known.deleted && known.spec.namespace == spec.namespace && known.spec.name == spec.name
                });
                let index = known.unwrap_or(self.daemon_sets.len());
                match self.daemon_sets.get_mut(index) {
                    Some(known) if known.spec == *spec => return,
                    Some(known) => known.change(spec.clone()),
                    None => self.daemon_sets.push(DaemonSet::new(spec.clone(), kustomization)),
                }
                self.plan_soon(Event::DaemonSet(index));
            }
            DesiredObject::CustomResourceDefinition(spec) => self.apply_definition(spec, false),
            DesiredObject::Webhook(spec) => self.apply_webhook(spec, false),
            DesiredObject::ControlPlane { .. } | DesiredObject::Workers { .. } | DesiredObject::Etcd(_) => {
                // Another controller writes these objects from what Flux has applied.
                self.notice_specification();
            }
            DesiredObject::Object(spec) => self.put(spec),
        }
    }

    /// Puts an object into the cluster as if it had been there for long.
    pub(super) fn install(&mut self, object: &DesiredObject, kustomization: &str) {
        let now = self.now;
        match object {
            DesiredObject::Deployment(spec) => {
                let mut deployment = Deployment::new(spec.clone(), kustomization, now);
                let pods = (0..spec.replicas).map(|_| self.new_pod(spec, None, PodState::Ready)).collect();
                deployment.settle(pods, now);
                self.deployments.push(deployment);
            }
            DesiredObject::DaemonSet(spec) => {
                let mut daemon_set = DaemonSet::new(spec.clone(), kustomization);
                let pods =
                    self.node_names().into_iter().map(|node| self.new_pod(spec, Some(node), PodState::Ready)).collect();
                daemon_set.settle(pods);
                self.daemon_sets.push(daemon_set);
            }
            DesiredObject::CustomResourceDefinition(spec) => self.apply_definition(spec, true),
            DesiredObject::Webhook(spec) => self.apply_webhook(spec, true),
            DesiredObject::ControlPlane { machines: spec, kube_vip } => {
                // What the shape says of the machines gives way to what the branch says.
                for machine in self.machines.iter_mut().filter(|machine| machine.owner == Owner::ControlPlane) {
                    machine.give_way(spec);
                    machine.kube_vip.clone_from(kube_vip);
                }
                self.control_plane = Some(ControlPlane::settled(spec.clone(), kube_vip.clone(), &self.cluster));
                self.reconcile_control_plane();
            }
            DesiredObject::Workers { group, machines: spec } => {
                let index =
                    self.workers.iter().position(|workers| workers.group == *group).unwrap_or(self.workers.len());
                for machine in self.machines.iter_mut().filter(|machine| machine.owner == Owner::Workers(index)) {
                    machine.give_way(spec);
                }
                let settled = Workers::settled(group.clone(), spec.clone(), &self.cluster);
                match self.workers.get_mut(index) {
                    Some(workers) => *workers = settled,
                    None => self.workers.push(settled),
                }
                self.reconcile_workers(index);
            }
            DesiredObject::Etcd(spec) => {
                for machine in self.machines.iter_mut().filter(|machine| machine.owner == Owner::Etcd) {
                    machine.give_way(spec);
                }
                self.etcd = Some(EtcdadmCluster::settled(spec.clone(), &self.cluster));
                self.reconcile_etcd();
            }
            DesiredObject::Object(spec) => self.put(spec),
        }
    }

    /// The machines a cluster has before anything is installed on it.
    pub(super) fn found_machines(&mut self, owner: Owner, count: u32, prefix: &str, version: &str) {
        for _ in 0..count {
            let spec = MachineSpec {
                owner,
                prefix: prefix.to_owned(),
                version: version.to_owned(),
                template: String::new(),
                kube_vip: None,
            };
            self.create_machine(spec, Phase::Running);
        }
    }

    /// A worker group's object is written, unless that is refused.
    pub(super) fn write_workers(&mut self, group: GroupName, machines: DesiredMachines) -> bool {
        match self.workers.iter().position(|workers| workers.group == group) {
            Some(index) => self.change_workers(index, machines),
            None => {
                self.workers.push(Workers::settled(group, machines, &self.cluster));
                self.plan_soon(Event::Workers(self.workers.len() - 1));
                true
            }
        }
    }

    /// Removes what a Kustomization applied before and does not hold any more. Definitions stay: removing one would remove
    /// every object of its kind.
    pub(super) fn prune(&mut self, kustomization: &str, before: &[DesiredObject], after: &[DesiredObject]) {
        for object in before {
            match object {
                DesiredObject::Deployment(spec) => {
                    let stays = after.iter().any(|other| matches!(other, DesiredObject::Deployment(other) if other.namespace == spec.namespace && other.name == spec.name));
                    let of_this = |known: &&mut Deployment| known.kustomization == kustomization && known.spec.namespace == spec.namespace && known.spec.name == spec.name;
                    if let Some(known) = self.deployments.iter_mut().find(of_this).filter(|_| !stays) {
                        known.deleted = true;
                        known.pods.clear();
                    }
                }
                DesiredObject::DaemonSet(spec) => {
                    let stays = after.iter().any(|other| matches!(other, DesiredObject::DaemonSet(other) if other.namespace == spec.namespace && other.name == spec.name));
                    let of_this = |known: &&mut DaemonSet| known.kustomization == kustomization && known.spec.namespace == spec.namespace && known.spec.name == spec.name;
                    if let Some(known) = self.daemon_sets.iter_mut().find(of_this).filter(|_| !stays) {
                        known.deleted = true;
                        known.pods.clear();
                    }
                }
                DesiredObject::Webhook(spec) => {
                    if !after.iter().any(|other| matches!(other, DesiredObject::Webhook(other) if other.kind == spec.kind && other.name == spec.name)) {
                        self.webhooks.retain(|known| known.spec.kind != spec.kind || known.spec.name != spec.name);
                    }
                }
                DesiredObject::Object(spec) => {
                    let gone = reference(spec);
                    if !after.iter().any(|other| matches!(other, DesiredObject::Object(other) if reference(other) == gone)) {
                        self.objects.remove(&gone);
                    }
                }
                DesiredObject::CustomResourceDefinition(_) | DesiredObject::ControlPlane { .. } | DesiredObject::Workers { .. } | DesiredObject::Etcd(_) => {}
            }
        }
    }

    /// What the API server says to a definition that drops a version which still is in `status.storedVersions`.
    pub(super) fn refused_definition(&self, objects: &[DesiredObject]) -> Option<String> {
        objects.iter().find_map(|object| {
            let DesiredObject::CustomResourceDefinition(spec) = object else { return None };
            let known = self.definitions.iter().find(|known| known.name == spec.name)?;
            let dropped = known.stored_versions.iter().find(|stored| !spec.versions.iter().any(|version| version.name == **stored))?;
            Some(format!(
                "CustomResourceDefinition/{} dry-run failed (Invalid): status.storedVersions[0]: Invalid value: \"{dropped}\": missing from spec.versions",
                spec.name
            ))
        })
    }

    fn apply_definition(&mut self, spec: &DesiredDefinition, settled: bool) {
        let storage = spec.versions.iter().find(|version| version.storage).map(|version| version.name.clone());
        let names = |served: bool| {
            spec.versions
                .iter()
                .filter(|version| version.served || !served)
                .map(|version| version.name.clone())
                .collect()
        };
        let index = self.definitions.iter().position(|known| known.name == spec.name).unwrap_or(self.definitions.len());
        if index == self.definitions.len() {
            self.definitions.push(CustomResourceDefinition {
                name: spec.name.clone(),
                established: settled,
                names_accepted: settled,
                deleting: false,
                versions: Vec::new(),
                served_versions: Vec::new(),
                storage_version: None,
                stored_versions: Vec::new(),
                conversion_authority_injected: None,
            });
        }
        let Some(definition) = self.definitions.get_mut(index) else { return };
        definition.versions = names(false);
        definition.served_versions = names(true);
        if let Some(storage) = &storage
            && !definition.stored_versions.contains(storage)
        {
            definition.stored_versions.push(storage.clone());
        }
        definition.storage_version = storage;
        if !settled {
            let established_in = self.random.between(Duration::from_millis(300), Duration::from_millis(1500));
            self.plan_in(established_in, Event::Established(index));
            self.plan_in(MIGRATION, Event::Migrated(index));
        }
    }

    /// The API server accepts a definition.
    pub(super) fn establish(&mut self, index: usize) {
        if let Some(definition) = self.definitions.get_mut(index) {
            definition.established = true;
            definition.names_accepted = true;
        }
    }

    /// Every object of a definition is stored at its storage version.
    pub(super) fn migrate(&mut self, index: usize) {
        if let Some(definition) = self.definitions.get_mut(index) {
            definition.stored_versions = definition.storage_version.iter().cloned().collect();
        }
    }

    fn apply_webhook(&mut self, spec: &DesiredWebhook, settled: bool) {
        let index = self.webhooks.iter().position(|known| known.spec.kind == spec.kind && known.spec.name == spec.name);
        match index.and_then(|index| self.webhooks.get_mut(index)) {
            Some(known) => known.spec = spec.clone(),
            None => {
                self.webhooks.push(Webhook { spec: spec.clone(), injected: settled });
                if !settled {
                    let injected_in = self.random.between(Duration::from_secs(1), Duration::from_secs(10));
                    self.plan_in(injected_in, Event::Injected(Arc::from(spec.name.as_str())));
                }
            }
        }
    }

    /// cert-manager's injector has written a webhook's `caBundle`.
    pub(super) fn inject_authority(&mut self, name: &str) {
        for webhook in self.webhooks.iter_mut().filter(|webhook| webhook.spec.name == name) {
            webhook.injected = true;
        }
    }

    /// What a dry-run request through each webhook gives at this moment.
    pub(super) fn probe_webhooks(&self, stamp: Timestamp) -> Vec<WebhookProbe> {
        let down = self.is_active(Fault::WebhookDown);
        self.webhooks
            .iter()
            .map(|webhook| {
                let answers = webhook.spec.deployment.as_ref().is_none_or(|(namespace, name)| {
                    let backing = |known: &&Deployment| {
                        !known.deleted && known.spec.namespace == *namespace && known.spec.name == *name
                    };
                    self.deployments.iter().find(backing).is_some_and(|known| known.ready_pods() > 0)
                });
                let outcome = if !webhook.injected {
                    WebhookOutcome::Unreachable {
                        message: "tls: failed to verify certificate: x509: certificate signed by unknown authority"
                            .to_owned(),
                    }
                } else if down || !answers {
                    WebhookOutcome::Unreachable {
                        message: format!(
                            "failed calling webhook \"{}\": connect: connection refused",
                            webhook.spec.name
                        ),
                    }
                } else {
                    WebhookOutcome::Answered
                };
                WebhookProbe { name: webhook.spec.name.clone(), probed_at: stamp, outcome }
            })
            .collect()
    }

    /// The first object of this kind that Flux would wait for, where this object is not settled.
    pub(super) fn unsettled(&self, object: &DesiredObject) -> Option<String> {
        match object {
            DesiredObject::Deployment(spec) => self
                .deployments
                .iter()
                .find(|known| !known.deleted && known.spec.namespace == spec.namespace && known.spec.name == spec.name)
                .is_none_or(|known| !known.is_settled())
                .then(|| format!("Deployment/{}/{}", spec.namespace, spec.name)),
            DesiredObject::DaemonSet(spec) => self
                .daemon_sets
                .iter()
                .find(|known| !known.deleted && known.spec.namespace == spec.namespace && known.spec.name == spec.name)
                .is_none_or(|known| !known.is_settled())
                .then(|| format!("DaemonSet/{}/{}", spec.namespace, spec.name)),
            DesiredObject::CustomResourceDefinition(spec) => {
                (!self.definitions.iter().any(|known| known.name == spec.name && known.established))
                    .then(|| format!("CustomResourceDefinition/{}", spec.name))
            }
            DesiredObject::ControlPlane { machines, .. } => self
                .control_plane
                .as_ref()
                .is_none_or(|known| !known.is_settled())
                .then(|| format!("KubeadmControlPlane/{}/{}", machines.namespace, machines.name)),
            DesiredObject::Workers { group, machines } => self
                .workers
                .iter()
                .find(|workers| workers.group == *group)
                .is_none_or(|workers| !workers.is_settled())
                .then(|| format!("MachineDeployment/{}/{}", machines.namespace, machines.name)),
            DesiredObject::Etcd(machines) => self
                .etcd
                .as_ref()
                .is_none_or(|known| !known.is_settled())
                .then(|| format!("EtcdadmCluster/{}/{}", machines.namespace, machines.name)),
            DesiredObject::Webhook(_) | DesiredObject::Object(_) => None,
        }
    }
}
