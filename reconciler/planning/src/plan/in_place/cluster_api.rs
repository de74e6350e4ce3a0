//! Machines of Cluster API's own objects: what they are made from before and after, and whether their owner may keep them.

use in_place::claims::Claims;
use policy::{InPlaceDriver, MachinePolicy, OnDecline};
use rollout::StageName;

use super::driver::Driven;
use super::owner::Owner;
use super::upgrader::Wanted;
use super::{Found, Sides, upgrader};

pub(super) fn found(sides: &Sides<'_>, policy: &MachinePolicy) -> Found {
    let (kind, name) = match sides.stage {
        StageName::Workers(group) => {
            let known = sides.cluster.worker_groups.iter().find(|known| known.name == group.as_str());
            ("MachineDeployment", known.and_then(|known| known.object.clone()).unwrap_or_else(|| group.to_string()))
        }
        _ => ("KubeadmControlPlane", sides.cluster.control_plane.clone().unwrap_or_default()),
    };
    let [before, after] = [&sides.before, &sides.after].map(|objects| Owner::find(objects, kind, &name));
    let Some(after) = after else {
        let declined = vec![format!("there is no {kind} of that name, and no other owner keeps its machines")];
        return Found { declined, ..Found::default() };
    };
    let driven = Driven::of(&after, policy, sides.cluster_api.as_ref());
    let by_owner = driven.is_said_by_owner.then_some(OnDecline::Hold);
    let mut found = Found {
        asks: after.on_decline().or(by_owner),
        contradictions: driven.contradictions,
        declined: driven.declined,
        ..Found::default()
    };
    found.driven = Some(match driven.driver {
        InPlaceDriver::Hooks => "Cluster API asks for each by its hooks".to_owned(),
        InPlaceDriver::Controller => {
            format!("Stepgate's controller goes from one to the next while {kind} {name} is paused")
        }
    });
    if driven.driver == InPlaceDriver::Hooks {
        found.asked_in = Some(after.namespace());
        found.contradictions.extend(after.contradiction(policy));
    }
    // What is not there yet has no machines that could stay.
    let Some(before) = before else { return found };
    let claims = Claims::new(&before.specifications(), &after.specifications());
    // What holds at any time stands last.
    found.declined.splice(0..0, claims.rejected().iter().map(ToString::to_string));
    found.one_way.extend(etcd(&claims));
    found.written.extend(claims.claimed().iter().filter_map(|(_, field)| field.file().map(str::to_owned)));
    if before.version() != after.version() {
        let (namespace, version) = (after.namespace(), after.version().unwrap_or_default());
        let Sides { after: objects, cluster, fleet, .. } = sides;
        let wanted = Wanted { namespace: &namespace, version: &version, objects, cluster, fleet };
        found.upgrader = upgrader::of(&wanted);
    }
    found
}

/// etcd of another version, on machines whose data stays.
fn etcd(claims: &Claims) -> Option<String> {
    let is_etcd = |field: &str| field.starts_with("clusterConfiguration.etcd.");
    let moves = claims.claimed().iter().any(|(_, field)| is_etcd(&field.to_string()));
    moves.then(|| {
        "etcd goes to another image on the machines that stay: its data is not taken back with a machine".to_owned()
    })
}
