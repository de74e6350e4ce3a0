//! What the gates of a request look at, as watches.

use std::collections::BTreeSet;

use super::reads::Reads;
use crate::ObserveRequest;
use crate::client::kind::{
    CLUSTER, CUSTOM_RESOURCE_DEFINITION, DAEMON_SET, DEPLOYMENT, EKSA_CLUSTER, ETCDADM_CLUSTER, GIT_REPOSITORY,
    HELM_RELEASE, KUBEADM_CONTROL_PLANE, KUSTOMIZATION, Kind, MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET,
    NODE, OCI_REPOSITORY, POD, TANZU_CLUSTER, TANZU_MACHINE,
};
use crate::client::request::ServedVersions;
use crate::read::fargate::Awaited;
use crate::watch::{ChangeScope, Filter, Interest};
use rollout::FluxReference;

/// What changes in the management cluster matter to a request. Surveys are not followed: they are looked at twice in a rollout.
pub(crate) fn managed(request: &ObserveRequest, served: &ServedVersions, extent: ChangeScope) -> Interest {
    let reads = Reads::of(request);
    let mut interest = Interest::default();
    let mut add = |kind: &Kind, filter: Filter| {
        let is_flux = [&KUSTOMIZATION, &GIT_REPOSITORY, &OCI_REPOSITORY].contains(&kind);
        if let Some(version) = served.version_of(kind) {
            interest.add(kind.resource(version), filter, if is_flux { ChangeScope::Flux } else { extent });
        }
    };
    if !reads.clusters.is_empty() {
        // The empty name stands for all clusters.
        let filter = if reads.clusters.contains("") {
            Filter::All
        } else {
            Filter::OfClusters(reads.clusters.iter().map(|name| (*name).to_owned()).collect())
        };
        for kind in [
            &CLUSTER,
            &KUBEADM_CONTROL_PLANE,
            &MACHINE_DEPLOYMENT,
            &MACHINE_POOL,
            &MACHINE_SET,
            &MACHINE,
            &ETCDADM_CLUSTER,
        ] {
            add(kind, filter.clone());
        }
    }
    if !reads.eksa_clusters.is_empty() {
        add(&EKSA_CLUSTER, Filter::named(reads.eksa_clusters.iter().copied()));
    }
    if !reads.tanzu_clusters.is_empty() {
        add(&TANZU_CLUSTER, Filter::named(reads.tanzu_clusters.iter().copied()));
        let names = reads.tanzu_clusters.iter().map(|(_, name)| (*name).to_owned()).collect();
        add(&TANZU_MACHINE, Filter::OfClusters(names));
    }
    if !reads.kustomizations.is_empty() {
        let named = reads.kustomizations.iter().map(|known| (known.namespace.as_str(), known.name.as_str()));
        add(&KUSTOMIZATION, Filter::named(named));
        // Which sources they have only their reading tells; there are few.
        add(&GIT_REPOSITORY, Filter::All);
        add(&OCI_REPOSITORY, Filter::All);
    }
    if !reads.releases.is_empty() {
        add(&HELM_RELEASE, Filter::named(reads.releases.iter().copied()));
    }
    interest
}

/// What matters of a cluster that is done: whether Flux fails at it.
pub(crate) fn at_rest(kustomizations: &[FluxReference], served: &ServedVersions) -> Interest {
    let mut interest = Interest::default();
    let named = kustomizations.iter().map(|known| (known.namespace.as_str(), known.name.as_str()));
    for (kind, filter) in
        [(&KUSTOMIZATION, Filter::named(named)), (&GIT_REPOSITORY, Filter::All), (&OCI_REPOSITORY, Filter::All)]
    {
        if let Some(version) = served.version_of(kind) {
            interest.add(kind.resource(version), filter, ChangeScope::Failure);
        }
    }
    interest
}

/// What changes in the cluster itself matter to a request, of which what runs on Fargate is known by its last reading.
pub(crate) fn own(request: &ObserveRequest, awaited: &Awaited, extent: ChangeScope) -> Interest {
    let reads = Reads::of(request);
    let mut interest = Interest::default();
    let mut add = |kind: &Kind, filter: Filter| {
        if let Some(version) = kind.versions.first() {
            interest.add(kind.resource(version), filter, extent);
        }
    };
    if reads.nodes {
        add(&NODE, Filter::All);
    }
    if !reads.deployments.is_empty() {
        add(&DEPLOYMENT, Filter::named(reads.deployments.iter().copied()));
    }
    if !reads.daemon_sets.is_empty() {
        add(&DAEMON_SET, Filter::named(reads.daemon_sets.iter().copied()));
    }
    let namespaces: BTreeSet<String> =
        reads.deployments.iter().chain(&reads.daemon_sets).map(|(namespace, _)| (*namespace).to_owned()).collect();
    if !namespaces.is_empty() {
        add(&POD, Filter::In(namespaces));
    }
    if !reads.definitions.is_empty() {
        add(&CUSTOM_RESOURCE_DEFINITION, Filter::named(reads.definitions.iter().map(|name| ("", *name))));
    }
    if reads.fargate.is_some() {
        for (kind, names) in awaited.by_kind() {
            add(kind, Filter::named(names));
        }
    }
    interest
}

#[cfg(test)]
mod tests {
    use rollout::Expectation;

    use super::*;

    #[test]
    fn what_flux_says_of_sources_and_kustomizations_is_told_apart_from_everything_else() {
        let namespace = || String::from("flux-system");
        let request = ObserveRequest {
            expectations: vec![
                Expectation::Flux { namespace: namespace(), kustomizations: vec!["capi".to_owned()] },
                Expectation::HelmRelease { namespace: namespace(), name: "cilium".to_owned() },
            ],
            kustomizations: Vec::new(),
            deployed: std::sync::Arc::default(),
            freshness: crate::Freshness::Fresh,
            at: jiff::Timestamp::UNIX_EPOCH,
        };
        let kinds = [&KUSTOMIZATION, &GIT_REPOSITORY, &OCI_REPOSITORY, &HELM_RELEASE];
        let served = ServedVersions::of(kinds.map(|kind| (kind.group, kind.versions[0])));
        for extent in [ChangeScope::Gate, ChangeScope::More] {
            let interest = managed(&request, &served, extent);
            let extents = kinds.map(|kind| interest.extent_of(kind.kind));
            assert_eq!(extents, [ChangeScope::Flux, ChangeScope::Flux, ChangeScope::Flux, extent].map(Some));
        }
    }
}
