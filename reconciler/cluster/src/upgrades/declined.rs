//! Differences of an owner's machines that the upgrader does not bring about: while the owner is paused nobody replaces them,
//! and they would be written down as if they were done.

use std::collections::BTreeSet;

use in_place::claims::{Claims, Part, Specifications, template_of_machines};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::snapshot::{Snapshot, annotation, namespace, text};
use super::world::{
    CLONED_FROM, CLONED_FROM_KIND, compared, configuration_of, has_machines, is_controlled_by, template_of,
    wanted_configuration,
};
use crate::client::connection::Connection;
use crate::client::error::RequestError;

/// Of a KubeadmControlPlane: machine by machine.
pub(super) async fn of_control_plane(
    management: &Connection,
    snapshot: &Snapshot,
    owner: &DynamicObject,
) -> Result<Vec<String>, RequestError> {
    let wanted = text(owner, "/spec/version");
    let is_outdated = |machine: &&DynamicObject| {
        is_controlled_by(machine, owner) && text(machine, "/spec/version") != wanted && is_there(machine)
    };
    let mut declined = BTreeSet::new();
    for machine in snapshot.machines.iter().filter(is_outdated) {
        let current = configuration_of(snapshot, machine).and_then(|known| known.data.get("spec"));
        let bootstrap =
            current.and_then(|current| Some((compared(current), compared(&wanted_configuration(owner, current)?))));
        let infrastructure = match super::adopt::infrastructure(management, machine).await? {
            Some((_, known)) => {
                let (old, new) = (annotation(&known, CLONED_FROM), template_of(owner));
                let reference =
                    ["/spec/machineTemplate/spec/infrastructureRef", "/spec/machineTemplate/infrastructureRef"];
                let reference = reference.iter().find_map(|place| owner.data.pointer(place));
                let kind = annotation(&known, CLONED_FROM_KIND);
                match kind.zip(reference.and_then(group_kind)).filter(|(old, new)| old != new) {
                    Some((old, new)) => Some((json!({"template": old}), json!({"template": new}))),
                    None => templates(management, &namespace(owner), (reference, old), (reference, new))
                        .await?
                        .map(machines),
                }
            }
            None => None,
        };
        let versions = [text(machine, "/spec/version"), wanted];
        declined.extend(rejected(versions, bootstrap, infrastructure));
    }
    Ok(declined.into_iter().collect())
}

/// Of a MachineDeployment: by its `MachineSets`, whose machines are alike.
pub(super) async fn of_workers(
    management: &Connection,
    snapshot: &Snapshot,
    owner: &DynamicObject,
) -> Result<Vec<String>, RequestError> {
    let template =
        |object: &DynamicObject, place: &str| object.data.pointer(&format!("/spec/template/spec{place}")).cloned();
    let mut declined = BTreeSet::new();
    for set in snapshot.sets.iter().filter(|set| is_controlled_by(set, owner) && has_machines(set)) {
        let mut pairs = Vec::new();
        for place in ["/bootstrap/configRef", "/infrastructureRef"] {
            let (old, new) = (template(set, place), template(owner, place));
            let name = |reference: &Option<Value>| reference.as_ref()?.get("name")?.as_str().map(str::to_owned);
            let (before, after) = (name(&old), name(&new));
            let sides = ((old.as_ref(), before.as_deref()), (new.as_ref(), after.as_deref()));
            pairs.push(templates(management, &namespace(owner), sides.0, sides.1).await?);
        }
        let infrastructure = pairs.pop().flatten().map(machines);
        let bootstrap = pairs.pop().flatten().map(|(old, new)| (specification(old), specification(new)));
        let version = |object: &DynamicObject| template(object, "/version")?.as_str().map(str::to_owned);
        let (old, new) = (version(set), version(owner));
        declined.extend(rejected([old.as_deref(), new.as_deref()], bootstrap, infrastructure));
    }
    Ok(declined.into_iter().collect())
}

/// The kind that a reference names, as [`CLONED_FROM_KIND`] does.
fn group_kind(reference: &Value) -> Option<String> {
    let at = |field: &str| reference.get(field).and_then(Value::as_str);
    let group = at("apiGroup").or_else(|| at("apiVersion")?.split_once('/').map(|(group, _)| group))?;
    Some(format!("{}.{group}", at("kind")?))
}

fn is_there(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_none()
}

fn machines((old, new): (Value, Value)) -> (Value, Value) {
    (template_of_machines(&old), template_of_machines(&new))
}

/// What is no template stays what it is.
fn specification(template: Value) -> Value {
    template.get("spec").cloned().unwrap_or(template)
}

/// What machines are made from by two templates; none where it is the same one. One that is gone says nothing any more.
async fn templates(
    management: &Connection,
    namespace: &str,
    old: (Option<&Value>, Option<&str>),
    new: (Option<&Value>, Option<&str>),
) -> Result<Option<(Value, Value)>, RequestError> {
    let (Some(before), Some(after)) = (old.1, new.1) else { return Ok(None) };
    if before == after && old.0.and_then(group_kind) == new.0.and_then(group_kind) {
        return Ok(None);
    }
    let unknown = |name: &str| json!({"template": name});
    let old = made(management, namespace, old.0, before).await?.unwrap_or_else(|| unknown(before));
    let new = made(management, namespace, new.0, after).await?.unwrap_or_else(|| unknown(after));
    Ok(Some((old, new)))
}

/// What a template makes specifications from; none where it is not there.
pub(super) async fn template(
    management: &Connection,
    namespace: &str,
    reference: Option<&Value>,
    name: &str,
) -> Result<Option<Value>, RequestError> {
    Ok(made(management, namespace, reference, name).await?.and_then(|made| made.get("spec").cloned()))
}

async fn made(
    management: &Connection,
    namespace: &str,
    reference: Option<&Value>,
    name: &str,
) -> Result<Option<Value>, RequestError> {
    let at = |field: &str| reference.and_then(|reference| reference.get(field)?.as_str());
    let Some(kind) = at("kind") else { return Ok(None) };
    let api_version = match (at("apiVersion"), at("apiGroup")) {
        (Some(version), _) => Some(version.to_owned()),
        (None, Some(group)) => management.lately_served_versions().await?.api_version(group),
        (None, None) => None,
    };
    let Some(api_version) = api_version else { return Ok(None) };
    let Some(address) = management.address(&api_version, kind).await? else { return Ok(None) };
    let found = management.get(&address.resource, Some(namespace), name).await?;
    Ok(found.and_then(|found| found.data.pointer("/spec/template").cloned()))
}

/// What is rejected of these differences, each by its field.
fn rejected(
    [old, new]: [Option<&str>; 2],
    bootstrap: Option<(Value, Value)>,
    infrastructure: Option<(Value, Value)>,
) -> impl Iterator<Item = String> {
    let (bootstrap, infrastructure) = (bootstrap.unwrap_or_default(), infrastructure.unwrap_or_default());
    let machine = |version: Option<&str>| json!({"version": version});
    let before = Specifications { machine: machine(old), bootstrap: bootstrap.0, infrastructure: infrastructure.0 };
    let after = Specifications { machine: machine(new), bootstrap: bootstrap.1, infrastructure: infrastructure.1 };
    let claims = Claims::new(&before, &after);
    // What the version itself asks for is told by the machine that cannot go there.
    let rejected = claims.rejected().iter().filter(|rejected| rejected.part != Part::Machine);
    let told: Vec<String> = rejected.map(ToString::to_string).collect();
    told.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_paused_owner_would_never_get_is_named() {
        let file = |content: &str| json!({"files": [{"path": "/etc/a", "content": content}]});
        let told = |bootstrap, infrastructure| {
            rejected([Some("v1.35.4"), Some("v1.36.0")], bootstrap, infrastructure).collect::<Vec<_>>()
        };
        assert_eq!(told(None, None), Vec::<String>::new());
        let images = |tag: &str| json!({"clusterConfiguration": {"etcd": {"local": {"imageTag": tag}}}});
        assert_eq!(told(Some((images("1"), images("2"))), None), Vec::<String>::new());
        let found = told(Some((file("a"), file("b"))), None);
        assert_eq!(found, ["files[/etc/a] of the bootstrap configuration is not brought to a node in place"]);
        let found = told(None, Some((json!({"template": "a"}), json!({"disk": 2}))));
        let reference = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "MetalTemplate"});
        assert_eq!(group_kind(&reference).as_deref(), Some("MetalTemplate.infrastructure.cluster.x-k8s.io"));
        assert!(
            found.iter().all(|why| why.contains("of the infrastructure machine")) && !found.is_empty(),
            "{found:?}"
        );
    }
}
