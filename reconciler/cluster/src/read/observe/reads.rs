//! What the expectations look at, and on which server it lives.

use std::collections::BTreeSet;

use policy::InjectionRule;
use rollout::{ADDON_NAMESPACE, ChecksExpectation, EksPart, Expectation, ExpectedAddonState, ObjectReference};

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
    /// Secrets of the management cluster.
    pub(super) secrets: BTreeSet<&'a ObjectReference>,
    pub(super) kustomizations: BTreeSet<FluxReference>,
    pub(super) releases: BTreeSet<(&'a str, &'a str)>,
    pub(super) clusters: BTreeSet<&'a str>,
    pub(super) eksa_clusters: BTreeSet<(&'a str, &'a str)>,
    pub(super) tanzu_clusters: BTreeSet<(&'a str, &'a str)>,
    pub(super) nodes: bool,
    pub(super) kube_vip: bool,
    /// Which Lease says who holds the control plane's address.
    pub(super) lease: Option<&'a str>,
    /// Whether pods move, so that what keeps nodes and what fails beside them is looked at.
    pub(super) drains: bool,
    /// Whether it is looked at how many requests fail.
    pub(super) api_requests: bool,
    /// The version of the cluster, where it is asked what runs on Fargate, and whether Stepgate restarts that.
    pub(super) fargate: Option<(&'a str, bool)>,
    pub(super) backup: bool,
    pub(super) survey: bool,
    /// Sidecars of the team's own, where it is asked which are missing.
    pub(super) sidecars: Option<&'a [InjectionRule]>,
    /// Templates that were named before the rollout.
    pub(super) templates: BTreeSet<&'a ObjectReference>,
    pub(super) server_version: bool,
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
        self.drains |= expectation.moves_pods();
        match expectation {
            Expectation::ClusterHealthy { cluster } => {
                self.nodes = true;
                self.clusters.extend(cluster.as_deref());
            }
            Expectation::Surveyed => {
                self.nodes = true;
                self.survey = true;
                self.api_requests = true;
            }
            Expectation::SidecarsRead { rules } => {
                self.nodes = true;
                self.sidecars = Some(rules);
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
            Expectation::Secrets(expected) => {
                self.clusters.insert(&expected.cluster);
                self.secrets.extend(&expected.secrets);
            }
            Expectation::Attempts(expected) => {
                self.clusters.insert(&expected.cluster);
            }
            Expectation::RenderedSettled { cluster, .. } => {
                self.clusters.insert(cluster);
            }
            Expectation::PodsOnNewNodes { namespace, name, .. } => {
                self.nodes = true;
                self.daemon_sets.insert((namespace, name));
            }
            Expectation::AddonsApplied(expected) => {
                let places = expected.addons.iter().filter_map(|addon| match &addon.state {
                    ExpectedAddonState::Applied { kustomization } => kustomization.clone(),
                    ExpectedAddonState::Unreadable { .. } | ExpectedAddonState::Unmanaged => None,
                });
                self.kustomizations.extend(places.map(|(namespace, name)| FluxReference { namespace, name }));
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
            Expectation::WorkersGone { cluster, .. } => {
                self.clusters.insert(cluster);
            }
            Expectation::Eks(expected) => {
                self.nodes = true;
                self.survey = true;
                match &expected.part {
                    EksPart::ControlPlane { .. } => {
                        self.server_version = true;
                        self.api_requests = true;
                    }
                    EksPart::Addon { name, .. } => match rollout::addon_workload(name.as_str()) {
                        Some(workload) if workload.kind == "Deployment" => {
                            self.deployments.insert((ADDON_NAMESPACE, workload.name));
                        }
                        Some(workload) => {
                            self.daemon_sets.insert((ADDON_NAMESPACE, workload.name));
                        }
                        None => {}
                    },
                    EksPart::Fargate { version, restarts } => self.fargate = Some((version, *restarts)),
                    EksPart::NodeGroup { .. } | EksPart::NodeGroupGone { .. } | EksPart::Leftovers { .. } => {}
                }
            }
            Expectation::Tanzu(expected) => {
                self.nodes |= expected.part.looks_at_nodes();
                self.tanzu_clusters.insert((&expected.namespace, &expected.name));
            }
            Expectation::Verified(expected) => {
                self.nodes = true;
                self.clusters.extend(expected.cluster.as_deref());
                self.objects.extend(&expected.leftovers);
                self.templates.extend(expected.before.iter().flat_map(|before| &before.templates));
            }
        }
    }

    pub(super) fn needs_management(&self) -> bool {
        let is_without_flux = self.kustomizations.is_empty() && self.releases.is_empty();
        let is_without_clusters =
            self.clusters.is_empty() && self.eksa_clusters.is_empty() && self.tanzu_clusters.is_empty();
        !(is_without_flux && is_without_clusters && self.managed().is_empty())
    }

    /// The objects of the management cluster.
    pub(super) fn managed(&self) -> Vec<&'a ObjectReference> {
        let objects = self.objects.iter().filter(|reference| lives_in_management(reference));
        objects.chain(&self.secrets).copied().collect()
    }

    /// The objects of the cluster itself.
    pub(super) fn owned(&self) -> Vec<&'a ObjectReference> {
        self.objects.iter().copied().filter(|reference| !lives_in_management(reference)).collect()
    }

    pub(super) fn needs_own(&self) -> bool {
        self.nodes
            || self.kube_vip
            || self.lease.is_some()
            || !(self.deployments.is_empty() && self.daemon_sets.is_empty())
            || !(self.definitions.is_empty() && self.webhooks.is_empty())
            || !self.owned().is_empty()
    }
}

/// Whether the object is of the management cluster, and not of the cluster itself.
fn lives_in_management(reference: &ObjectReference) -> bool {
    let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
    MANAGED_GROUPS.iter().any(|known| group == *known || group.ends_with(&format!(".{known}")))
}
