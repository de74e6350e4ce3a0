//! `apply: direct`: a cluster's directory as a request to apply it, without Flux.

use domain::CommitId;
use overlays::{ComponentName, Fleet};

use crate::reconcile::planner::ClusterView;
use cluster::{ApplyReport, ApplyRequest, ApplyServer, ApplySet};
use planning::cluster_folder;

/// The directories in the order of the stages: what defines a kind comes before objects of it.
const ORDER: [ComponentName; 10] = [
    ComponentName::CertManager,
    ComponentName::Capi,
    ComponentName::EksA,
    ComponentName::Bundle,
    ComponentName::CiliumPreflight,
    ComponentName::Cilium,
    ComponentName::Flux,
    ComponentName::Templates,
    ComponentName::Cluster,
    ComponentName::Addons,
];

/// Everything that the deploy branch holds for the cluster, in the order of the stages.
pub fn request(fleet: &Fleet, view: &ClusterView, commit: &CommitId) -> ApplyRequest {
    let set = |component: ComponentName| {
        let kustomization = view.kustomizations.get(component.directory())?.clone();
        let folder = format!("{}/{}", cluster_folder(&view.name), component.directory());
        let files = view.directory.files.below(&folder).files.into_iter();
        let files = files.map(|(path, bytes)| (path.to_string(), bytes)).collect();
        // The same as for Flux: losing a file must never delete a cluster or its bundle.
        let prune = !matches!(component, ComponentName::Cluster | ComponentName::Bundle | ComponentName::Addons);
        let runs_inside =
            matches!(component, ComponentName::Cilium | ComponentName::CiliumPreflight | ComponentName::Addons);
        let server = if runs_inside { ApplyServer::Own } else { ApplyServer::Management };
        Some(ApplySet { kustomization, server, prune, folder, files })
    };
    ApplyRequest {
        cluster: view.name.clone(),
        commit: commit.clone(),
        sets: ORDER.into_iter().filter_map(set).collect(),
        delete_data: fleet.policy.delete_data(view.name.as_str()),
    }
}

/// Says what became of objects that left git.
pub fn tell(view: &ClusterView, report: &ApplyReport) {
    for object in &report.deleted {
        tracing::info!(cluster.name = %view.name, "deleted {object}, which is in git no longer");
    }
    for kept in &report.kept {
        tracing::warn!(cluster.name = %view.name, reason = %kept.reason, "{} is in git no longer and was not deleted", kept.object);
    }
}
