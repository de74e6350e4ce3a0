//! Which cluster of a fleet is meant.

use rollout::ClusterIdentity;

/// Which cluster of a fleet is meant. Whoever stands for it stands for exactly this: where something else is said of it, somebody else does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterReference {
    /// Its name.
    pub name: String,
    /// The namespace of its Cluster API objects in its management cluster.
    pub namespace: String,
    /// Who manages it, as its specification says.
    pub management: ManagementReference,
    /// Which one it is, as its ledger records it.
    pub recorded: Option<ClusterIdentity>,
}

/// Who manages a cluster, as its specification says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagementReference {
    /// It manages itself.
    Itself {
        /// See [`Manager::is_presumed`].
        is_presumed: bool,
    },
    /// Another one does.
    By(Manager),
    /// It does not say.
    Undeclared,
}

/// A cluster that manages others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// Its name.
    pub name: String,
    /// The namespace of its own Cluster API objects.
    pub namespace: String,
    /// Which one it is, as its ledger records it.
    pub recorded: Option<ClusterIdentity>,
    /// Whether the fleet holds it. One that it does not hold is a name that nothing is known of: then what the cluster's own objects prove has to do.
    pub is_known: bool,
    /// Whether it may be taken to be the cluster that this process is connected to, where nothing says otherwise: it alone of the fleet manages itself, and
    /// its ledger is of a version that recorded no identities, or of an adoption that could not reach it.
    pub is_presumed: bool,
}

impl ClusterReference {
    /// The same cluster as what manages it, where that is itself.
    pub(super) fn as_manager(&self, is_presumed: bool) -> Manager {
        Manager {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            recorded: self.recorded.clone(),
            is_known: true,
            is_presumed,
        }
    }

    /// Whether the other one leads to another server, or stands for another cluster: what was remembered of this one says nothing of it.
    #[must_use]
    pub fn leads_elsewhere(&self, other: &Self) -> bool {
        let manager = |reference: &Self| match &reference.management {
            ManagementReference::Itself { .. } => Some(reference.name.clone()),
            ManagementReference::By(manager) => Some(manager.name.clone()),
            ManagementReference::Undeclared => None,
        };
        let is_another = match (&self.recorded, &other.recorded) {
            (Some(one), Some(another)) => !one.is_of_same_cluster(another),
            (Some(_), None) => true,
            (None, _) => false,
        };
        is_another || (&self.name, &self.namespace, manager(self)) != (&other.name, &other.namespace, manager(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(uid: &str) -> Option<ClusterIdentity> {
        Some(ClusterIdentity { uid: Some(uid.to_owned()), endpoint: "a".to_owned(), certificate_authority: None })
    }

    #[test]
    fn another_namespace_manager_or_identity_leads_elsewhere_and_the_first_record_does_not() {
        let by = |name: &str, is_presumed| {
            let (name, namespace) = (name.to_owned(), "eksa-system".to_owned());
            ManagementReference::By(Manager { name, namespace, recorded: None, is_known: true, is_presumed })
        };
        let known = ClusterReference {
            name: "prod".to_owned(),
            namespace: "eksa-system".to_owned(),
            management: by("a", false),
            recorded: None,
        };
        let recorded = ClusterReference { recorded: identity("u"), ..known.clone() };
        for (one, other, elsewhere) in [
            (&known, ClusterReference { management: by("a", true), ..known.clone() }, false),
            (&known, recorded.clone(), false),
            (&recorded, known.clone(), true),
            (&recorded, ClusterReference { recorded: identity("v"), ..known.clone() }, true),
            (&known, ClusterReference { management: by("b", false), ..known.clone() }, true),
            (&known, ClusterReference { management: ManagementReference::Undeclared, ..known.clone() }, true),
            (&known, ClusterReference { namespace: "x".to_owned(), ..known.clone() }, true),
        ] {
            assert_eq!(one.leads_elsewhere(&other), elsewhere, "{other:?}");
        }
    }
}
