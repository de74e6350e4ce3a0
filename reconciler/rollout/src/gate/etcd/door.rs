//! Until when a rollout of external etcd can be undone: while no machine of the control plane was
//! touched and no old member is gone.

use crate::expectation::{EtcdExpectation, Expectation};
use crate::ledger::EtcdBefore;
use crate::observation::{ConditionStatus, EtcdadmCluster, Machine, Observation};
use crate::verdict::Reason;

use super::{Members, found, object};

/// Why etcd cannot go back any more; none as long as it can. What is not known counts as no way
/// back.
pub(crate) fn no_way_back(
    expectations: &[Expectation],
    before: Option<&EtcdBefore>,
    observation: &Observation,
) -> Option<Reason> {
    let etcd = |expectation: &Expectation| match expectation {
        Expectation::Etcd(etcd) => Some(etcd.clone()),
        _ => None,
    };
    expectations.iter().filter_map(etcd).find_map(|expectation| closed(&expectation, before, observation))
}

fn closed(expectation: &EtcdExpectation, before: Option<&EtcdBefore>, observation: &Observation) -> Option<Reason> {
    let EtcdExpectation { namespace, name, .. } = expectation;
    let subject = object("EtcdadmCluster", namespace, name);
    for kind in ["EtcdadmCluster", "Machine", "KubeadmControlPlane"] {
        if let Some(reason) = observation.unread.get(kind) {
            return Some(Reason::on(kind, format!("could not be read, so nothing is undone: {reason}")));
        }
    }
    let Some(etcd) = found(expectation, observation) else {
        return Some(Reason::on(subject, "not found, so nothing is undone"));
    };
    if let Some(touched) = control_plane(etcd, observation) {
        return Some(Reason::on(subject, format!("no way back: {touched}")));
    }
    let Some(before) = before else {
        return Some(Reason::on(subject, "no way back: nobody has noted down which members there were before"));
    };
    let members = Members::of(etcd, observation);
    let is_there = |name: &&String| {
        let mut known = members.owned.iter().chain(&members.old);
        known.any(|machine| machine.name == **name && !machine.deleting)
    };
    let (left, all) = (before.machines.iter().filter(is_there).count(), before.machines.len());
    (left < all).then(|| {
        let message = format!("no way back: {left} of the {all} members from before are left");
        Reason::on(subject, message).help("the way goes on: make the new members healthy, or push a target that does")
    })
}

/// What shows that machines of the control plane are being replaced.
fn control_plane(etcd: &EtcdadmCluster, observation: &Observation) -> Option<String> {
    let own = |machine: &&Machine| machine.control_plane && machine.cluster == etcd.cluster;
    if let Some(machine) = observation.machines.iter().filter(own).find(|machine| machine.deleting) {
        return Some(format!("control-plane machine {} is being replaced", machine.name));
    }
    let known = observation.control_planes.iter().find(|known| known.cluster == etcd.cluster)?;
    let is_rolling = known.conditions.get("RollingOut").is_some_and(|known| known.status == ConditionStatus::True);
    let is_larger = known.spec_replicas.is_some_and(|wanted| known.replicas.is_some_and(|seen| seen > wanted));
    let is_mixed = known.replicas.is_some() && known.up_to_date_replicas < known.replicas;
    (is_rolling || is_larger || is_mixed).then(|| format!("control plane {} replaces machines", known.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{ControlPlane, conditions};

    fn machine(name: &str, template: &str, owned: bool) -> Machine {
        Machine {
            namespace: "n".into(),
            name: name.into(),
            cluster: "prod".into(),
            owner: owned.then(|| "members".into()),
            etcd_cluster: Some("members".into()),
            infrastructure_template: Some(template.into()),
            ..Machine::default()
        }
    }

    /// One old member was disowned, and the first new one is on its way.
    fn first_member() -> Observation {
        let mut seen = Observation::empty(jiff::Timestamp::UNIX_EPOCH);
        seen.etcd_clusters.push(EtcdadmCluster {
            namespace: "n".into(),
            name: "members".into(),
            cluster: "prod".into(),
            infrastructure_template: Some("new".into()),
            ..EtcdadmCluster::default()
        });
        seen.machines = vec![
            machine("a", "old", false),
            machine("b", "old", true),
            machine("c", "old", true),
            machine("d", "new", true),
        ];
        seen.control_planes.push(ControlPlane {
            namespace: "n".into(),
            name: "prod".into(),
            cluster: "prod".into(),
            spec_replicas: Some(3),
            replicas: Some(3),
            up_to_date_replicas: Some(3),
            conditions: conditions([("RollingOut", ConditionStatus::False)]),
            ..ControlPlane::default()
        });
        seen
    }

    fn said(seen: &Observation) -> Option<String> {
        let etcd = EtcdExpectation {
            namespace: "n".into(),
            name: "members".into(),
            replicas: 3,
            ..EtcdExpectation::default()
        };
        let before = EtcdBefore { generation: None, machines: ["a", "b", "c"].map(String::from).into() };
        no_way_back(&[Expectation::Etcd(etcd)], Some(&before), seen).map(|reason| reason.to_string())
    }

    #[test]
    fn etcd_can_go_back_until_an_old_member_or_the_control_plane_is_touched() {
        type Change = fn(&mut Observation);
        let cases: [(Change, Option<&str>); 7] = [
            (|_| (), None),
            (|seen| drop(seen.machines.remove(0)), Some("2 of the 3 members from before are left")),
            (
                |seen| {
                    let deleting = Machine {
                        control_plane: true,
                        deleting: true,
                        owner: Some("prod".into()),
                        ..machine("cp", "", true)
                    };
                    seen.machines.push(Machine { etcd_cluster: None, ..deleting });
                },
                Some("control-plane machine cp is being replaced"),
            ),
            (|seen| seen.control_planes[0].replicas = Some(4), Some("control plane prod replaces machines")),
            (|seen| seen.control_planes[0].up_to_date_replicas = Some(2), Some("control plane prod replaces")),
            (|seen| drop(seen.unread.insert("Machine".into(), "forbidden".into())), Some("could not be read")),
            (|seen| seen.etcd_clusters.clear(), Some("not found, so nothing is undone")),
        ];
        for (change, expected) in cases {
            let mut seen = first_member();
            change(&mut seen);
            let said = said(&seen);
            assert_eq!(said.is_some(), expected.is_some(), "{said:?}");
            assert!(expected.is_none_or(|text| said.as_ref().unwrap().contains(text)), "{said:?}");
        }
    }
}
