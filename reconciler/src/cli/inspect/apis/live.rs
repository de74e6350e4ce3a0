//! A running cluster: the one that the kubeconfig leads to.

use cluster::kubernetes::KubernetesCluster;
use cluster::{Cluster as _, Freshness, ObserveRequest};
use jiff::Timestamp;
use policy::CheckName;
use rollout::check::{ApiTargets, RemovedApis, minor_of, told_of_api_use};
use rollout::{ApiUse, ApiUseKind, ChecksExpectation, Expectation, Reachability};

use super::report::{ApiReport, ApiUseReport, UnreadReport};
use crate::cli::ClusterArguments;
use crate::cli::common::error::CommandError;
use crate::cli::run::verb::runtime;

/// What a cluster uses, as the check `removed-apis` tells it.
///
/// # Errors
/// A cluster that cannot be reached.
pub fn report(targets: &ApiTargets, access: &ClusterArguments) -> Result<ApiReport, CommandError> {
    let connection = access.connect()??;
    let target = targets.kubernetes;
    let unreachable = |reason: String| {
        CommandError::new(format!("the cluster cannot be reached: {reason}"))
            .hint("name a kubeconfig of the cluster: --kubeconfig FILE")
    };
    let version = runtime()?.block_on(connection.version()).map_err(|error| unreachable(error.to_string()))?;
    let deployed = minor_of(&version);
    let removed_apis = Some(RemovedApis { deployed, target, rendered: Vec::new() });
    let expectation = ChecksExpectation { removed_apis, ..ChecksExpectation::default() };
    let cluster = KubernetesCluster::management(connection, access.backups.clone());
    let request = ObserveRequest {
        expectations: vec![Expectation::Checks(expectation)],
        kustomizations: Vec::new(),
        deployed: std::sync::Arc::default(),
        freshness: Freshness::Fresh,
        at: Timestamp::now(),
    };
    let observation = runtime()?.block_on(cluster.observe(&request));
    if let Reachability::Unreachable { reason } = &observation.reachable {
        return Err(unreachable(reason.clone()));
    }
    let inspection = observation.inspection.unwrap_or_default();
    let unread = inspection.unread.get(&CheckName::RemovedApis);
    let unread =
        unread.map(|reason| UnreadReport { what: "the cluster".to_owned(), line: None, reason: reason.clone() });
    let (unknown, uses): (Vec<ApiUse>, Vec<ApiUse>) =
        inspection.api_uses.into_iter().partition(|known| matches!(known.kind, ApiUseKind::Unread { .. }));
    let unknown = unknown.into_iter().filter_map(|known| match known.kind {
        ApiUseKind::Unread { reason } => Some(UnreadReport { what: known.api_version, line: None, reason }),
        _ => None,
    });
    let uses = uses.into_iter().map(|known| {
        let standing = match known.kind {
            ApiUseKind::ScaleTarget | ApiUseKind::HelmRelease => "removed",
            _ => "suspected",
        };
        let message = told_of_api_use(&known, target);
        let object = known.object.map(|object| object.to_string());
        ApiUseReport::of_cluster(standing, known.api_version, object, message, known.advice)
    });
    Ok(ApiReport::new(target, None, uses.collect(), unread.into_iter().chain(unknown).collect()))
}
