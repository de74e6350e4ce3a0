//! What the expectations look at, and on which server it lives.

use std::collections::BTreeSet;

use rollout::{ChecksExpectation, Expectation, ObjectReference};

use crate::ObserveRequest;
use rollout::FluxReference;

/// Ends of the API groups whose objects live in the management cluster.
const MANAGED_GROUPS: [&str; 4] =
    ["cluster.x-k8s.io", "anywhere.eks.amazonaws.com", "toolkit.fluxcd.io", "distro.eks.amazonaws.com"];

/// What the expectations look at.
#[derive(Debug, Default)]
pub(super) struct Reads<'a> {
    pub(super) deployments: BTreeSet<(&'a str, &'a str)>,
    pub(super) daemon_sets: BTreeSet<(&'a str, &'a str)>,
    pub(super) definitions: BTreeSet<&'a str>,
    pub(super) webhooks: BTreeSet<&'a str>,
    pub(super) objects: BTreeSet<&'a ObjectReference>,
    pub(super) kustomizations: BTreeSet<FluxReference>,
    pub(super) releases: BTreeSet<(&'a str, &'a str)>,
    pub(super) clusters: BTreeSet<&'a str>,
    pub(super) eksa_clusters: BTreeSet<(&'a str, &'a str)>,
    pub(super) nodes: bool,
    pub(super) kube_vip: bool,
    /// Which Lease says who holds the control plane's address.
    pub(super) lease: Option<&'a str>,
    pub(super) backup: bool,
    pub(super) survey: bool,
    pub(super) checks: Option<&'a ChecksExpectation>,
}

impl<'a> Reads<'a> {
    pub(super) fn of(request: &'a ObserveRequest) -> Self {
        let mut reads = Self { kustomizations: request.kustomizations.iter().cloned().collect(), ..Self::default() };
        for expectation in &request.expectations {
            reads.add(expectation);
        }
        reads
    }

    fn add(&mut self, expectation: &'a Expectation) {
        match expectation {
            Expectation::ClusterHealthy { cluster } => {
                self.nodes = true;
                self.clusters.extend(cluster.as_deref());
            }
            Expectation::Surveyed => {
                self.nodes = true;
                self.survey = true;
            }
            Expectation::Checks(expectation) => {
                self.nodes = true;
                self.definitions.extend(expectation.definitions.iter().map(|change| change.name.as_str()));
                if let Some(address) = &expectation.address {
                    self.kube_vip |= address.kube_vip;
                    self.lease = address.lease.as_deref().or(self.lease);
                }
                self.checks = Some(expectation);
            }
            Expectation::BackupTaken { .. } => self.backup = true,
            Expectation::Object { object } | Expectation::Absent { object } => {
                self.objects.insert(object);
            }
            Expectation::Deployment { namespace, name, .. } => {
                self.deployments.insert((namespace, name));
            }
            Expectation::DaemonSet { namespace, name, .. } => {
                self.nodes = true;
                self.daemon_sets.insert((namespace, name));
            }
            Expectation::CustomResourceDefinition { name, .. } => {
                self.definitions.insert(name);
            }
            Expectation::Webhook { name } => {
                self.webhooks.insert(name);
            }
            Expectation::Flux { namespace, kustomizations } => {
                self.kustomizations.extend(
                    kustomizations
                        .iter()
                        .map(|name| FluxReference { namespace: namespace.clone(), name: name.clone() }),
                );
            }
            Expectation::HelmRelease { namespace, name } => {
                self.releases.insert((namespace, name));
            }
            Expectation::EksaCluster(expected) => {
                self.eksa_clusters.insert((&expected.namespace, &expected.name));
                self.objects.extend(&expected.children);
            }
            // The etcd cluster carries its Cluster's name in a label that the expectation does not know: all of them are read.
            Expectation::Etcd(_) => {
                self.clusters.insert("");
            }
            Expectation::ControlPlane(expected) => {
                self.nodes = true;
                self.kube_vip |= expected.kube_vip.is_some();
                self.lease = expected.lease().or(self.lease);
                self.clusters.insert(&expected.cluster);
            }
            Expectation::Workers(expected) => {
                self.nodes = true;
                self.clusters.insert(&expected.cluster);
            }
            Expectation::Verified(expected) => {
                self.nodes = true;
                self.clusters.extend(expected.cluster.as_deref());
                self.objects.extend(&expected.leftovers);
            }
        }
    }

    pub(super) fn needs_management(&self) -> bool {
        let is_without_flux = self.kustomizations.is_empty() && self.releases.is_empty();
        !(is_without_flux && self.clusters.is_empty() && self.eksa_clusters.is_empty())
            || self.objects.iter().any(|reference| lives_in_management(reference))
    }

    pub(super) fn needs_own(&self) -> bool {
        self.nodes
            || self.kube_vip
            || self.lease.is_some()
            || !(self.deployments.is_empty() && self.daemon_sets.is_empty())
            || !(self.definitions.is_empty() && self.webhooks.is_empty())
            || self.objects.iter().any(|reference| !lives_in_management(reference))
    }
}

/// Whether the object is of the management cluster, and not of the cluster itself.
pub(super) fn lives_in_management(reference: &ObjectReference) -> bool {
    let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
    MANAGED_GROUPS.iter().any(|known| group == *known || group.ends_with(&format!(".{known}")))
}
