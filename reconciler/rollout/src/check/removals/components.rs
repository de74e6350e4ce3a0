//! API versions that what is installed in clusters stops serving: by the definitions at each of its releases.

use std::fmt;
use std::str::FromStr;

/// Something that is installed in clusters and brings APIs of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiComponent {
    /// cert-manager.
    CertManager,
    /// Flux.
    Flux,
    /// Cluster API.
    ClusterApi,
    /// Istio.
    Istio,
    /// Knative Serving.
    KnativeServing,
    /// Knative Eventing.
    KnativeEventing,
    /// Cilium.
    Cilium,
}

impl ApiComponent {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::CertManager,
        Self::Flux,
        Self::ClusterApi,
        Self::Istio,
        Self::KnativeServing,
        Self::KnativeEventing,
        Self::Cilium,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CertManager => "cert-manager",
            Self::Flux => "flux",
            Self::ClusterApi => "capi",
            Self::Istio => "istio",
            Self::KnativeServing => "knative-serving",
            Self::KnativeEventing => "knative-eventing",
            Self::Cilium => "cilium",
        }
    }
}

impl fmt::Display for ApiComponent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for ApiComponent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = || Self::ALL.map(Self::as_str).join(", ");
        let known = Self::ALL.into_iter().find(|known| known.as_str() == text);
        known.ok_or_else(|| format!("{text:?} is not a known component: it is one of {}", names()))
    }
}

/// Major and minor version of a component.
pub type Release = (u32, u32);

/// An API version that goes with a release of a component.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ComponentRemoval {
    /// Whose API it is.
    pub(super) component: ApiComponent,
    /// API groups.
    pub(super) groups: &'static [&'static str],
    /// Versions.
    pub(super) versions: &'static [&'static str],
    /// The kinds that go; empty where all do.
    pub(super) kinds: &'static [&'static str],
    /// The first release that warns of it; none where none does, or that is not known.
    pub(super) deprecated: Option<Release>,
    /// The first release that does not serve it; none where every known release does.
    pub(super) removed: Option<Release>,
    /// What takes its place, in words.
    pub(super) replacement: Option<&'static str>,
}

const CAPI_GROUPS: &[&str] = &[
    "cluster.x-k8s.io",
    "addons.cluster.x-k8s.io",
    "bootstrap.cluster.x-k8s.io",
    "controlplane.cluster.x-k8s.io",
    "ipam.cluster.x-k8s.io",
    "runtime.cluster.x-k8s.io",
];
const CERT_MANAGER: &[&str] = &["cert-manager.io", "acme.cert-manager.io"];
const NOTIFICATION: &[&str] = &["notification.toolkit.fluxcd.io"];
const IMAGE: &[&str] = &["image.toolkit.fluxcd.io"];
const SERVING: &[&str] = &["serving.knative.dev"];

const fn goes(
    component: ApiComponent,
    groups: &'static [&'static str],
    versions: &'static [&'static str],
    kinds: &'static [&'static str],
    releases: (Option<Release>, Option<Release>),
    replacement: Option<&'static str>,
) -> ComponentRemoval {
    ComponentRemoval { component, groups, versions, kinds, deprecated: releases.0, removed: releases.1, replacement }
}

use ApiComponent as C;

/// Every removal that is known, by component.
pub(super) const COMPONENT_REMOVALS: &[ComponentRemoval] = &[
    goes(
        C::CertManager,
        &["certmanager.k8s.io"],
        &["v1alpha1"],
        &[],
        (None, Some((0, 11))),
        Some("cert-manager.io/v1"),
    ),
    goes(
        C::CertManager,
        CERT_MANAGER,
        &["v1alpha2", "v1alpha3", "v1beta1"],
        &[],
        (Some((1, 4)), Some((1, 6))),
        Some("v1 of the same group"),
    ),
    goes(
        C::Flux,
        &["source.toolkit.fluxcd.io"],
        &["v1beta1"],
        &[],
        (Some((2, 0)), Some((2, 7))),
        Some("source.toolkit.fluxcd.io/v1"),
    ),
    goes(
        C::Flux,
        &["kustomize.toolkit.fluxcd.io"],
        &["v1beta1"],
        &[],
        (Some((2, 0)), Some((2, 7))),
        Some("kustomize.toolkit.fluxcd.io/v1"),
    ),
    goes(
        C::Flux,
        &["helm.toolkit.fluxcd.io"],
        &["v2beta1"],
        &[],
        (Some((2, 3)), Some((2, 7))),
        Some("helm.toolkit.fluxcd.io/v2"),
    ),
    goes(
        C::Flux,
        NOTIFICATION,
        &["v1beta1"],
        &["Receiver"],
        (Some((2, 0)), Some((2, 7))),
        Some("notification.toolkit.fluxcd.io/v1"),
    ),
    goes(
        C::Flux,
        NOTIFICATION,
        &["v1beta1"],
        &["Alert", "Provider"],
        (Some((2, 0)), Some((2, 7))),
        Some("notification.toolkit.fluxcd.io/v1beta3"),
    ),
    goes(C::Flux, IMAGE, &["v1beta1"], &[], (Some((2, 0)), Some((2, 7))), Some("image.toolkit.fluxcd.io/v1")),
    goes(
        C::Flux,
        &["source.toolkit.fluxcd.io"],
        &["v1beta2"],
        &[],
        (Some((2, 0)), Some((2, 8))),
        Some("source.toolkit.fluxcd.io/v1"),
    ),
    goes(
        C::Flux,
        &["kustomize.toolkit.fluxcd.io"],
        &["v1beta2"],
        &[],
        (Some((2, 0)), Some((2, 8))),
        Some("kustomize.toolkit.fluxcd.io/v1"),
    ),
    goes(
        C::Flux,
        &["helm.toolkit.fluxcd.io"],
        &["v2beta2"],
        &[],
        (Some((2, 3)), Some((2, 8))),
        Some("helm.toolkit.fluxcd.io/v2"),
    ),
    goes(
        C::Flux,
        NOTIFICATION,
        &["v1beta2"],
        &["Receiver"],
        (Some((2, 2)), Some((2, 9))),
        Some("notification.toolkit.fluxcd.io/v1"),
    ),
    goes(
        C::Flux,
        NOTIFICATION,
        &["v1beta2"],
        &["Alert", "Provider"],
        (Some((2, 2)), Some((2, 9))),
        Some("notification.toolkit.fluxcd.io/v1beta3"),
    ),
    goes(C::Flux, IMAGE, &["v1beta2"], &[], (Some((2, 7)), Some((2, 9))), Some("image.toolkit.fluxcd.io/v1")),
    goes(
        C::ClusterApi,
        CAPI_GROUPS,
        &["v1alpha3"],
        &[],
        (Some((1, 0)), Some((1, 5))),
        Some("v1beta1 of the same group"),
    ),
    goes(
        C::ClusterApi,
        CAPI_GROUPS,
        &["v1alpha4"],
        &[],
        (Some((1, 0)), Some((1, 6))),
        Some("v1beta1 of the same group"),
    ),
    goes(C::ClusterApi, CAPI_GROUPS, &["v1beta1"], &[], (Some((1, 11)), None), Some("v1beta2 of the same group")),
    goes(
        C::Istio,
        &["authentication.istio.io", "rbac.istio.io"],
        &["v1alpha1"],
        &[],
        (Some((1, 5)), Some((1, 6))),
        Some("security.istio.io/v1"),
    ),
    goes(C::Istio, &["config.istio.io"], &["v1alpha2"], &[], (Some((1, 5)), Some((1, 6))), None),
    goes(
        C::Istio,
        &["install.istio.io"],
        &["v1alpha1"],
        &["IstioOperator"],
        (Some((1, 23)), Some((1, 24))),
        Some("Helm or istioctl: nothing in the cluster carries it out"),
    ),
    goes(
        C::KnativeServing,
        SERVING,
        &["v1alpha1", "v1beta1"],
        &["Service", "Route", "Configuration", "Revision"],
        (Some((0, 17)), Some((0, 19))),
        Some("serving.knative.dev/v1"),
    ),
    goes(
        C::KnativeServing,
        SERVING,
        &["v1alpha1"],
        &["DomainMapping"],
        (Some((1, 11)), Some((1, 12))),
        Some("serving.knative.dev/v1beta1"),
    ),
    goes(
        C::KnativeEventing,
        &["eventing.knative.dev"],
        &["v1beta1"],
        &["Broker", "Trigger"],
        (Some((0, 20)), Some((0, 23))),
        Some("eventing.knative.dev/v1"),
    ),
    goes(
        C::KnativeEventing,
        &["messaging.knative.dev", "flows.knative.dev"],
        &["v1beta1"],
        &[],
        (Some((0, 20)), Some((0, 23))),
        Some("v1 of the same group"),
    ),
    goes(
        C::KnativeEventing,
        &["sources.knative.dev"],
        &["v1alpha1", "v1alpha2", "v1beta1"],
        &[],
        (Some((0, 20)), Some((0, 23))),
        Some("sources.knative.dev/v1"),
    ),
    goes(
        C::KnativeEventing,
        &["sources.knative.dev"],
        &["v1beta2"],
        &["PingSource"],
        (Some((1, 13)), None),
        Some("sources.knative.dev/v1"),
    ),
    goes(
        C::KnativeEventing,
        &["eventing.knative.dev"],
        &["v1beta1"],
        &["EventType"],
        (Some((1, 13)), None),
        Some("eventing.knative.dev/v1beta3"),
    ),
    goes(
        C::Cilium,
        &["cilium.io"],
        &["v2alpha1"],
        &["CiliumEgressNATPolicy"],
        (Some((1, 12)), Some((1, 13))),
        Some("cilium.io/v2 CiliumEgressGatewayPolicy"),
    ),
    goes(C::Cilium, &["cilium.io"], &["v2"], &["CiliumExternalWorkload"], (Some((1, 16)), Some((1, 17))), None),
    goes(
        C::Cilium,
        &["cilium.io"],
        &["v2alpha1"],
        &["CiliumNodeConfig"],
        (Some((1, 16)), Some((1, 18))),
        Some("cilium.io/v2"),
    ),
    goes(
        C::Cilium,
        &["cilium.io"],
        &["v2alpha1"],
        &["CiliumBGPPeeringPolicy"],
        (Some((1, 17)), Some((1, 19))),
        Some("cilium.io/v2 CiliumBGPClusterConfig, CiliumBGPPeerConfig and CiliumBGPAdvertisement"),
    ),
    goes(
        C::Cilium,
        &["cilium.io"],
        &["v2alpha1"],
        &[
            "CiliumLoadBalancerIPPool",
            "CiliumCIDRGroup",
            "CiliumBGPClusterConfig",
            "CiliumBGPPeerConfig",
            "CiliumBGPAdvertisement",
            "CiliumBGPNodeConfig",
            "CiliumBGPNodeConfigOverride",
        ],
        (Some((1, 18)), None),
        Some("cilium.io/v2"),
    ),
];
