//! Machines say what their nodes run and their owners want, so that an owner finds nothing outdated when it looks again.
//! The version comes last: as long as it is the old one, all of it is done again.

use in_place::objects::NamedObject;
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use super::snapshot::{annotation, text};
use super::world::{CLONED_FROM, has_machines, is_controlled_by, template_of, wanted_configuration};
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{KUBEADM_CONFIG, KUBEADM_CONTROL_PLANE, Kind, MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET};
use crate::client::request::ServedVersions;

/// On Machines of older control planes: what their part of the cluster was configured with.
const CLUSTER_CONFIGURATION: &str = "controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration";

/// Where an owner's machines are adopted.
pub(super) struct Place<'a> {
    pub(super) connection: &'a Connection,
    pub(super) served: &'a ServedVersions,
    pub(super) namespace: &'a str,
}

impl Place<'_> {
    fn resource(&self, kind: &Kind) -> Option<ApiResource> {
        self.served.version_of(kind).map(|version| kind.resource(version))
    }

    async fn get(&self, kind: &Kind, name: &str) -> Result<Option<(ApiResource, DynamicObject)>, RequestError> {
        let Some(resource) = self.resource(kind) else { return Ok(None) };
        let found = self.connection.get(&resource, Some(self.namespace), name).await?;
        Ok(found.map(|object| (resource, object)))
    }

    /// A machine of a control plane.
    pub(super) async fn control_plane(
        &self,
        owner: &NamedObject,
        machine: &NamedObject,
        version: &str,
    ) -> Result<(), RequestError> {
        let Some((_, owner)) = self.get(&KUBEADM_CONTROL_PLANE, &owner.name).await? else { return Ok(()) };
        let Some((resource, object)) = self.machine(machine).await? else { return Ok(()) };
        // A node that goes on to another version right away is configured for that one then.
        let is_whole = text(&owner, "/spec/version") == Some(version);
        if is_whole {
            self.configure(&owner, &object).await?;
            self.clone_from(&owner, &object).await?;
        }
        let cluster = owner.data.pointer("/spec/kubeadmConfigSpec/clusterConfiguration");
        let has_annotation = annotation(&object, CLUSTER_CONFIGURATION).is_some();
        let annotation = cluster.filter(|_| is_whole && has_annotation).map(ToString::to_string);
        self.say_version(&resource, &object, version, annotation).await
    }

    /// A machine of a worker group.
    pub(super) async fn worker(&self, machine: &NamedObject, version: &str) -> Result<(), RequestError> {
        let Some((resource, object)) = self.machine(machine).await? else { return Ok(()) };
        self.say_version(&resource, &object, version, None).await
    }

    async fn machine(&self, machine: &NamedObject) -> Result<Option<(ApiResource, DynamicObject)>, RequestError> {
        let found = self.get(&MACHINE, &machine.name).await?;
        Ok(found.filter(|(_, object)| object.metadata.uid.as_ref() == Some(&machine.uid)))
    }

    async fn say_version(
        &self,
        resource: &ApiResource,
        machine: &DynamicObject,
        version: &str,
        configuration: Option<String>,
    ) -> Result<(), RequestError> {
        let mut metadata = json!({"resourceVersion": machine.metadata.resource_version});
        if let (Some(metadata), Some(configuration)) = (metadata.as_object_mut(), configuration) {
            metadata.insert("annotations".to_owned(), json!({CLUSTER_CONFIGURATION: configuration}));
        }
        let patch = json!({"metadata": metadata, "spec": {"version": version}});
        let name = machine.metadata.name.as_deref().unwrap_or_default();
        self.connection.merge(resource, Some(self.namespace), name, &patch, false).await.map(drop)
    }

    async fn configure(&self, owner: &DynamicObject, machine: &DynamicObject) -> Result<(), RequestError> {
        let Some(name) = text(machine, "/spec/bootstrap/configRef/name") else { return Ok(()) };
        let Some((resource, mut object)) = self.get(&KUBEADM_CONFIG, name).await? else { return Ok(()) };
        let current = object.data.get("spec").cloned().unwrap_or_default();
        let Some(wanted) = wanted_configuration(owner, &current).filter(|wanted| *wanted != current) else {
            return Ok(());
        };
        if let Some(data) = object.data.as_object_mut() {
            data.insert("spec".to_owned(), wanted);
        }
        self.put(&resource, &object).await
    }

    async fn clone_from(&self, owner: &DynamicObject, machine: &DynamicObject) -> Result<(), RequestError> {
        let Some(template) = template_of(owner) else { return Ok(()) };
        let Some((resource, object)) = infrastructure(self.connection, machine).await? else { return Ok(()) };
        if annotation(&object, CLONED_FROM).is_none_or(|known| known == template) {
            return Ok(());
        }
        let metadata =
            json!({"resourceVersion": object.metadata.resource_version, "annotations": {CLONED_FROM: template}});
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let patch = json!({"metadata": metadata});
        self.connection.merge(&resource, Some(self.namespace), name, &patch, false).await.map(drop)
    }

    /// The `MachineSets` of a MachineDeployment say what that says itself.
    pub(super) async fn template(&self, owner: &NamedObject) -> Result<(), RequestError> {
        let Some((_, deployment)) = self.get(&MACHINE_DEPLOYMENT, &owner.name).await? else { return Ok(()) };
        let Some(wanted) = deployment.data.pointer("/spec/template/spec") else { return Ok(()) };
        let sets = self.connection.list(&MACHINE_SET, self.served.version_of(&MACHINE_SET), Some(self.namespace), None);
        let Some(resource) = self.resource(&MACHINE_SET) else { return Ok(()) };
        let is_ours = |set: &DynamicObject| is_controlled_by(set, &deployment) && has_machines(set);
        for mut set in sets.await?.into_iter().filter(is_ours) {
            if set.data.pointer("/spec/template/spec") == Some(wanted) {
                continue;
            }
            if let Some(place) = set.data.pointer_mut("/spec/template/spec") {
                *place = wanted.clone();
            }
            self.put(&resource, &set).await?;
        }
        Ok(())
    }

    async fn put(&self, resource: &ApiResource, object: &DynamicObject) -> Result<(), RequestError> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let mut value = serde_json::to_value(object)
            .map_err(|error| RequestError::malformed("write an object", self.connection.server(), &error))?;
        if let Some(value) = value.as_object_mut() {
            value.insert("apiVersion".to_owned(), Value::String(resource.api_version.clone()));
            value.insert("kind".to_owned(), Value::String(resource.kind.clone()));
        }
        self.connection.replace(resource, Some(self.namespace), name, &value, false).await.map(drop)
    }
}

/// The infrastructure machine of a Machine, without what is in it.
pub(super) async fn infrastructure(
    connection: &Connection,
    machine: &DynamicObject,
) -> Result<Option<(ApiResource, DynamicObject)>, RequestError> {
    let at = |field: &str| text(machine, &format!("/spec/infrastructureRef/{field}"));
    let (Some(kind), Some(name)) = (at("kind"), at("name")) else { return Ok(None) };
    let api_version = match (at("apiVersion"), at("apiGroup")) {
        (Some(version), _) => Some(version.to_owned()),
        (None, Some(group)) => connection.lately_served_versions().await?.api_version(group),
        (None, None) => None,
    };
    let Some(api_version) = api_version else { return Ok(None) };
    let Some(address) = connection.address(&api_version, kind).await? else { return Ok(None) };
    let namespace = machine.metadata.namespace.as_deref();
    let found = connection.get_metadata(&address.resource, namespace, name).await?;
    Ok(found.map(|object| (address.resource, object)))
}
