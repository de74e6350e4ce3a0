//! What was decided, done.

use in_place::objects::{API_VERSION, GroupKind, NodeUpgrade, NodeUpgradeSpec, Role};
use in_place::order::{Action, Driver, Owner, OwnerKind, PodPurpose, World};
use jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::adopt::Place;
use super::annotated;
use super::cluster_configuration;
use super::files;
use super::objects::kind_of;
use super::pods;
use super::snapshot::{Snapshot, namespace};
use crate::ClusterError;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{
    KUBEADM_CONTROL_PLANE, Kind, MACHINE, MACHINE_DEPLOYMENT, MACHINE_HEALTH_CHECK, NODE_KUBEADM_UPGRADE,
};
use crate::client::request::{FIELD_MANAGER, ServedVersions};

/// Where actions are performed.
pub(super) struct Performer<'a> {
    pub(super) management: &'a Connection,
    pub(super) snapshot: &'a Snapshot,
    pub(super) served: &'a ServedVersions,
    pub(super) own: Option<&'a Connection>,
    pub(super) namespace: &'a str,
    pub(super) world: &'a World,
    pub(super) now: Timestamp,
}

impl Performer<'_> {
    pub(super) async fn perform(&self, action: &Action) -> Result<(), ClusterError> {
        Ok(self.request(action).await?)
    }

    async fn request(&self, action: &Action) -> Result<(), RequestError> {
        let adopting = Place { connection: self.management, served: self.served, namespace: self.namespace };
        match action {
            Action::PauseOwner { kind, owner, lease } => {
                let Some(resource) = self.resource(owner_kind(*kind)) else { return Ok(()) };
                annotated::pause_object(self.management, (&resource, self.namespace, &owner.name), lease).await
            }
            Action::ResumeOwner { kind, owner } => {
                let Some(resource) = self.resource(owner_kind(*kind)) else { return Ok(()) };
                annotated::resume_object(self.management, (&resource, self.namespace, &owner.name)).await
            }
            Action::PauseHealthCheck { name, lease } => {
                let Some(resource) = self.resource(&MACHINE_HEALTH_CHECK) else { return Ok(()) };
                annotated::pause_object(self.management, (&resource, self.namespace, name), lease).await
            }
            Action::ResumeHealthCheck { name } => {
                let Some(resource) = self.resource(&MACHINE_HEALTH_CHECK) else { return Ok(()) };
                annotated::resume_object(self.management, (&resource, self.namespace, name)).await
            }
            Action::SkipRemediation { machine, on } => {
                let Some(resource) = self.resource(&MACHINE) else { return Ok(()) };
                annotated::skip_remediation(self.management, (&resource, self.namespace, &machine.name), *on).await
            }
            Action::CreateGroup { kind, spec } => {
                let (api, owner) = match kind {
                    GroupKind::ControlPlane => (&KUBEADM_CONTROL_PLANE, spec.control_plane.as_ref()),
                    GroupKind::Workers => (&MACHINE_DEPLOYMENT, spec.machine_deployment.as_ref()),
                };
                self.create(kind_of(*kind), spec.object_name(), json!(spec), api, owner).await
            }
            Action::DeleteGroup { kind, group } => self.delete(kind_of(*kind), &group.name, &group.uid).await,
            Action::WriteGroup { kind, group, status } => {
                let known = self.world.group_upgrades.iter().find(|known| known.uid == group.uid);
                let is_told = known.is_some_and(|known| stalled(&json!(known.status)) == stalled(&json!(status)));
                self.write(kind_of(*kind), group, json!(status), is_told).await
            }
            Action::CreateNode { spec } => {
                let several = super::has_several_control_planes(self.world);
                let steps = pods::steps(spec, several);
                let spec = NodeUpgradeSpec { steps, ..(**spec).clone() };
                let machine = Some(&spec.machine);
                self.create(&NODE_KUBEADM_UPGRADE, spec.object_name(), json!(spec), &MACHINE, machine).await
            }
            Action::DeleteNode { upgrade } => self.delete(&NODE_KUBEADM_UPGRADE, &upgrade.name, &upgrade.uid).await,
            Action::WriteNode { upgrade, status } => {
                let known = self.world.node_upgrades.iter().find(|known| known.uid == upgrade.uid);
                let is_told = known.is_some_and(|known| known.status.phase == status.phase);
                self.write(&NODE_KUBEADM_UPGRADE, upgrade, json!(status), is_told).await
            }
            Action::EnsurePod { upgrade, purpose, anew } => {
                let known = self.world.node_upgrades.iter().find(|known| known.uid == upgrade.uid);
                let (Some(own), Some(upgrade)) = (self.own, known) else { return Ok(()) };
                if *purpose == PodPurpose::Upgrade && upgrade.spec.role != Role::Worker {
                    self.configure_kubeadm(own, upgrade).await?;
                }
                pods::grant(own).await?;
                if *purpose == PodPurpose::Upgrade && !upgrade.spec.files.is_empty() {
                    self.bring_files(own, upgrade).await?;
                }
                pods::ensure(own, upgrade, *purpose, *anew).await
            }
            Action::DeletePod { upgrade } => match self.own {
                Some(own) => pods::delete(own, upgrade).await,
                None => Ok(()),
            },
            Action::Adopt { kind, owner, machine, version } => match kind {
                OwnerKind::ControlPlane => adopting.control_plane(owner, machine, version.as_str()).await,
                OwnerKind::Workers => adopting.worker(machine, version.as_str()).await,
            },
            Action::AdoptTemplate { owner } => adopting.template(owner).await,
        }
    }

    /// Has kubeadm read what the control plane says, where Cluster API is paused and does not write it.
    async fn configure_kubeadm(&self, own: &Connection, upgrade: &NodeUpgrade) -> Result<(), RequestError> {
        let owner = self.world.machine(&upgrade.spec.machine).and_then(|machine| machine.owner.as_ref());
        let is_paused = |known: &&Owner| Some(&known.object.name) == owner && known.driver == Driver::Controller;
        let Some(owner) = self.world.owners.iter().find(is_paused) else { return Ok(()) };
        let Some(resource) = self.resource(&KUBEADM_CONTROL_PLANE) else { return Ok(()) };
        let found = self.management.get(&resource, Some(self.namespace), &owner.object.name).await?;
        let wanted =
            found.as_ref().and_then(|found| found.data.pointer("/spec/kubeadmConfigSpec/clusterConfiguration"));
        cluster_configuration::write(own, wanted.unwrap_or(&Value::Null), &upgrade.spec).await
    }

    /// Has the files there that a node gets besides its release.
    async fn bring_files(&self, own: &Connection, upgrade: &NodeUpgrade) -> Result<(), RequestError> {
        let is_it = |machine: &&DynamicObject| {
            machine.metadata.uid.as_ref() == Some(&upgrade.spec.machine.uid) && namespace(machine) == self.namespace
        };
        let Some(machine) = self.snapshot.machines.iter().find(is_it) else { return Ok(()) };
        let wanted = files::of_machine(self.management, self.snapshot, machine).await?;
        let secret = pods::secret(upgrade, &wanted).map_err(|message| pods::not_made(message, own))?;
        files::ensure(own, &secret, upgrade, &wanted).await
    }

    fn resource(&self, kind: &Kind) -> Option<ApiResource> {
        self.served.version_of(kind).map(|version| kind.resource(version))
    }

    /// Makes an object of ours. One that is there already was made by this decision before.
    async fn create(
        &self,
        kind: &Kind,
        name: String,
        spec: Value,
        owner_kind: &Kind,
        owner: Option<&in_place::objects::NamedObject>,
    ) -> Result<(), RequestError> {
        let (Some(resource), Some(owning)) = (self.resource(kind), self.resource(owner_kind)) else { return Ok(()) };
        let owners = owner.map(|owner| {
            json!({"apiVersion": owning.api_version, "kind": owning.kind, "name": owner.name, "uid": owner.uid})
        });
        let labels = json!({"cluster.x-k8s.io/cluster-name": self.world.cluster});
        let metadata =
            json!({"name": name, "labels": labels, "ownerReferences": owners.into_iter().collect::<Vec<_>>()});
        let object = json!({"apiVersion": API_VERSION, "kind": kind.kind, "metadata": metadata, "spec": spec});
        match self.management.create(&resource, Some(self.namespace), &object).await {
            Err(error) if !error.is_conflict() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn delete(&self, kind: &Kind, name: &str, uid: &str) -> Result<(), RequestError> {
        let Some(resource) = self.resource(kind) else { return Ok(()) };
        let found = self.management.get(&resource, Some(self.namespace), name).await?;
        let Some(object) = found.filter(|object| object.metadata.uid.as_deref() == Some(uid)) else { return Ok(()) };
        match self.management.delete(&resource, Some(self.namespace), &object).await {
            Err(error) if !error.is_not_found() => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Writes a status, and an event where it tells of something new.
    async fn write(
        &self,
        kind: &Kind,
        object: &in_place::objects::NamedObject,
        status: Value,
        is_told: bool,
    ) -> Result<(), RequestError> {
        let Some(resource) = self.resource(kind) else { return Ok(()) };
        // A field that is not set any more has to go.
        let mut whole = json!({"step": null, "machine": null, "healthySince": null, "finished": null, "started": null});
        if let (Some(whole), Value::Object(status)) = (whole.as_object_mut(), status) {
            whole.extend(status);
        }
        // Another object of the same name has a status of its own.
        let patch = json!({"metadata": {"uid": object.uid}, "status": whole});
        match self.management.merge_status(&resource, Some(self.namespace), &object.name, &patch).await {
            Err(error) if error.is_not_found() || error.is_conflict() => return Ok(()),
            outcome => outcome.map(drop)?,
        }
        if is_told { Ok(()) } else { self.tell(kind, object, &patch).await }
    }

    async fn tell(
        &self,
        kind: &Kind,
        object: &in_place::objects::NamedObject,
        patch: &Value,
    ) -> Result<(), RequestError> {
        let text = |place: &str| patch.pointer(place).and_then(Value::as_str).unwrap_or_default();
        let (reason, message) = (text("/status/conditions/0/reason"), text("/status/message"));
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Event>(&());
        let at = format!("{:.0}", self.now);
        // Told twice, it is one event.
        let told = digest(&SHA256, [&object.uid, reason, message].join("\n").as_bytes());
        let told: String = told.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let level = if stalled(patch.get("status").unwrap_or(&Value::Null)) { "Warning" } else { "Normal" };
        let event = json!({"apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{}.{told}", object.name)},
            "involvedObject": {"apiVersion": API_VERSION, "kind": kind.kind, "name": object.name,
                "namespace": self.namespace, "uid": object.uid},
            "type": level, "reason": reason, "message": message,
            "firstTimestamp": at, "lastTimestamp": at, "count": 1, "source": {"component": FIELD_MANAGER}});
        match self.management.create(&resource, Some(self.namespace), &event).await {
            Err(error) if !error.is_conflict() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Whether a status says that somebody has to look.
fn stalled(status: &Value) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|known| known["type"] == "Stalled" && known["status"] == "True")
}

fn owner_kind(kind: OwnerKind) -> &'static Kind {
    match kind {
        OwnerKind::ControlPlane => &KUBEADM_CONTROL_PLANE,
        OwnerKind::Workers => &MACHINE_DEPLOYMENT,
    }
}
