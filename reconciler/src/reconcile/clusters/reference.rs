//! Which cluster a specification means, by what ledgers record.

use domain::ClusterName;
use overlays::{ClusterSpec, Fleet, Management};
use rollout::ClusterIdentity;

use crate::reconcile::planner::{FleetReading, Planner};
use cluster::{ClusterReference, ManagementReference, Manager};
use planning::expectation::cluster_api_namespace;

/// What a ledger says of its cluster's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// There is no ledger that can be read.
    NoLedger,
    /// The ledger is of a version that recorded no identities, or of an adoption that could not reach the cluster.
    NoIdentity,
    /// This is it.
    Identity(ClusterIdentity),
}

impl Recorded {
    fn identity(&self) -> Option<&ClusterIdentity> {
        match self {
            Self::Identity(identity) => Some(identity),
            Self::NoLedger | Self::NoIdentity => None,
        }
    }
}

/// The cluster that a specification means, where no ledger is at hand.
pub fn unrecorded(cluster: &ClusterSpec) -> ClusterReference {
    let management = match &cluster.management {
        Management::SelfManaged => ManagementReference::Itself { is_presumed: false },
        Management::Undeclared => ManagementReference::Undeclared,
        Management::ManagedBy(name) => ManagementReference::By(Manager {
            name: name.clone(),
            namespace: cluster_api_namespace(cluster),
            recorded: None,
            is_known: false,
            is_presumed: false,
        }),
    };
    ClusterReference {
        name: cluster.name.clone(),
        namespace: cluster_api_namespace(cluster),
        management,
        recorded: None,
    }
}

/// The cluster that a specification means, given what its own ledger and others record.
fn reference(
    fleet: &Fleet,
    cluster: &ClusterSpec,
    own: &Recorded,
    recorded: impl FnOnce(&str) -> Recorded,
) -> ClusterReference {
    let alone = |name: &str| fleet.management_clusters().all(|other| other.name == name);
    let is_presumed = |name: &str, recorded: &Recorded| alone(name) && *recorded == Recorded::NoIdentity;
    let mut reference = ClusterReference { recorded: own.identity().cloned(), ..unrecorded(cluster) };
    match &mut reference.management {
        ManagementReference::Itself { is_presumed: presumed } => *presumed = is_presumed(&cluster.name, own),
        ManagementReference::By(manager) => {
            let known = fleet.cluster(&manager.name).filter(|known| known.management == Management::SelfManaged);
            let recorded = recorded(&manager.name);
            manager.is_known = fleet.cluster(&manager.name).is_some();
            manager.is_presumed = known.is_some() && is_presumed(&manager.name, &recorded);
            manager.recorded = recorded.identity().cloned();
            if let Some(known) = known {
                manager.namespace = cluster_api_namespace(known);
            }
        }
        ManagementReference::Undeclared => {}
    }
    reference
}

impl Planner {
    /// The cluster that a specification means.
    #[must_use]
    pub fn reference(&self, reading: &FleetReading, cluster: &ClusterSpec) -> ClusterReference {
        let recorded = |name: &str| match name.parse::<ClusterName>() {
            Ok(name) => self.recorded(reading, &name),
            Err(_) => Recorded::NoLedger,
        };
        reference(&reading.fleet, cluster, &recorded(&cluster.name), recorded)
    }

    /// As [`Planner::reference`], whatever the cluster's own ledger records: for whoever is to record it anew.
    #[must_use]
    pub fn reference_anew(&self, reading: &FleetReading, cluster: &ClusterSpec) -> ClusterReference {
        let reference = self.reference(reading, cluster);
        let alone = |name: &str| {
            let mut managing = reading.fleet.management_clusters().map(|other| other.name == name);
            managing.next() == Some(true) && managing.all(|is_it| is_it)
        };
        // Whoever adopts a cluster says that it is there.
        let management = match reference.management {
            ManagementReference::Itself { .. } => ManagementReference::Itself { is_presumed: alone(&cluster.name) },
            ManagementReference::By(manager) => {
                ManagementReference::By(Manager { is_presumed: alone(&manager.name), ..manager })
            }
            ManagementReference::Undeclared => ManagementReference::Undeclared,
        };
        ClusterReference { recorded: None, management, ..reference }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_EKS_ANYWHERE: &str = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {name: NAME}\n\
                                   spec: {kubernetesVersion: \"1.30\", managementCluster: {name: MANAGER}}\n";

    fn fleet(clusters: &[(&str, &str)]) -> Fleet {
        let text = |(name, manager): &(&str, &str)| {
            BY_EKS_ANYWHERE.replace("NAME", name).replace("MANAGER", manager).into_bytes()
        };
        let path = |name: &str| domain::RepoPath::new(format!("clusters/{name}/cluster.yaml")).unwrap();
        let files: overlays::MemoryFiles = clusters.iter().map(|cluster| (path(cluster.0), text(cluster))).collect();
        overlays::read_fleet(&files)
    }

    fn of(fleet: &Fleet, name: &str, own: &Recorded, manager: &Recorded) -> ManagementReference {
        reference(fleet, fleet.cluster(name).unwrap(), own, |_| manager.clone()).management
    }

    #[test]
    fn only_the_one_management_cluster_of_a_fleet_is_presumed_and_only_by_a_ledger_that_records_nothing() {
        let identity = ClusterIdentity { uid: Some("u".into()), endpoint: "a".into(), certificate_authority: None };
        let recorded = Recorded::Identity(identity);
        let presumes = |fleet: &Fleet, recorded: &Recorded| {
            let own =
                of(fleet, "a", recorded, &Recorded::NoLedger) == ManagementReference::Itself { is_presumed: true };
            let ManagementReference::By(manager) = of(fleet, "w", &Recorded::NoLedger, recorded) else { panic!() };
            assert_eq!(manager.is_presumed, own);
            own
        };
        let one = fleet(&[("a", "a"), ("w", "a")]);
        assert!(presumes(&one, &Recorded::NoIdentity));
        assert!(!presumes(&one, &Recorded::NoLedger) && !presumes(&one, &recorded));
        let two = fleet(&[("a", "a"), ("b", "b"), ("w", "a")]);
        assert!(!presumes(&two, &Recorded::NoIdentity));
        // A manager that is not in the repository.
        let none = fleet(&[("w", "a")]);
        let ManagementReference::By(manager) = of(&none, "w", &Recorded::NoIdentity, &Recorded::NoLedger) else {
            panic!()
        };
        assert!(!manager.is_presumed && !manager.is_known);
    }
}
