//! Readers of the kinds of clusters: each makes of an object the cluster that it specifies.

mod cluster_api;
mod eks_anywhere;
mod eks_anywhere_rules;
mod eksctl;
mod other;
mod tanzu;

pub(super) use tanzu::{Records, is_record, resolve};

use super::objects::{FoundObject, Objects};
use crate::ClusterSpec;
use domain::Problem;

/// What a reader makes of the specification of a cluster: the cluster without its files, and the objects that it refers to.
pub(super) type ReadCluster<'a> = (ClusterSpec, Vec<&'a FoundObject>);

/// Reads the specification of a cluster.
pub(super) type Reader =
    for<'a> fn(&'a FoundObject, &Objects<'a>, &mut Vec<Problem>) -> Result<ReadCluster<'a>, Box<Problem>>;

/// The reader of an object; none where it is not of a kind of clusters.
pub(super) fn reader(object: &FoundObject) -> Option<Reader> {
    match (object.group.as_str(), object.kind.as_str()) {
        ("anywhere.eks.amazonaws.com", "Cluster") => Some(eks_anywhere::read),
        ("cluster.x-k8s.io", "Cluster") => Some(cluster_api::read),
        ("run.tanzu.vmware.com", "TanzuKubernetesCluster") => Some(tanzu::read),
        ("eksctl.io", "ClusterConfig") => Some(eksctl::read),
        _ => None,
    }
}
