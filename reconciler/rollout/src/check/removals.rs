//! Which API versions Kubernetes stops serving, and from which minor on.
//!
//! By the lifecycle functions of `k8s.io/api` 0.36.1 and, for what left that module, by hand. A minor serves a version
//! as long as it is below `removed`.

/// An API version that goes.
#[derive(Debug, PartialEq, Eq)]
pub struct ApiRemoval {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// The kinds that go.
    pub kinds: &'static [&'static str],
    /// The first minor of Kubernetes 1 that does not serve it.
    pub removed: u32,
    /// Group and version that take its place; none where nothing does.
    pub replacement: Option<&'static str>,
}

impl ApiRemoval {
    /// Group and version.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// What to use instead.
    #[must_use]
    pub fn advice(&self) -> String {
        match self.replacement {
            Some(replacement) => format!("use {replacement}"),
            None => "nothing takes its place: take the object out".to_owned(),
        }
    }
}

/// The removal of a kind in a group and version; none where it stays.
#[must_use]
pub fn removal_of(api_version: &str, kind: &str) -> Option<&'static ApiRemoval> {
    let (group, version) = api_version.split_once('/')?;
    REMOVALS.iter().find(|known| known.group == group && known.version == version && known.kinds.contains(&kind))
}

/// The minor of `1.34`, `v1.34.1` or `v1.34.1-eks-1-34-5`; none of anything else.
#[must_use]
pub fn minor_of(version: &str) -> Option<u32> {
    let rest = version.strip_prefix('v').unwrap_or(version).strip_prefix("1.")?;
    let digits = rest.split(|sign: char| !sign.is_ascii_digit()).next()?;
    digits.parse().ok()
}

const fn removal(
    group: &'static str,
    version: &'static str,
    kinds: &'static [&'static str],
    removed: u32,
    replacement: Option<&'static str>,
) -> ApiRemoval {
    ApiRemoval { group, version, kinds, removed, replacement }
}

/// Every removal that is known, in the order of its minor.
pub const REMOVALS: &[ApiRemoval] = &[
    removal("apps", "v1beta1", &["Deployment", "StatefulSet"], 16, Some("apps/v1")),
    removal("apps", "v1beta2", &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"], 16, Some("apps/v1")),
    removal("extensions", "v1beta1", &["DaemonSet", "Deployment", "ReplicaSet"], 16, Some("apps/v1")),
    removal("extensions", "v1beta1", &["NetworkPolicy"], 16, Some("networking.k8s.io/v1")),
    removal("extensions", "v1beta1", &["PodSecurityPolicy"], 16, Some("policy/v1beta1")),
    removal("batch", "v2alpha1", &["CronJob"], 21, Some("batch/v1")),
    removal(
        "admissionregistration.k8s.io",
        "v1beta1",
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
        22,
        Some("admissionregistration.k8s.io/v1"),
    ),
    removal("apiextensions.k8s.io", "v1beta1", &["CustomResourceDefinition"], 22, Some("apiextensions.k8s.io/v1")),
    removal("apiregistration.k8s.io", "v1beta1", &["APIService"], 22, Some("apiregistration.k8s.io/v1")),
    removal("authentication.k8s.io", "v1beta1", &["TokenReview"], 22, Some("authentication.k8s.io/v1")),
    removal(
        "authorization.k8s.io",
        "v1beta1",
        &["LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview"],
        22,
        Some("authorization.k8s.io/v1"),
    ),
    removal("authorization.k8s.io", "v1beta1", &["SubjectAccessReview"], 22, Some("authorization.k8s.io/v1")),
    removal("certificates.k8s.io", "v1beta1", &["CertificateSigningRequest"], 22, Some("certificates.k8s.io/v1")),
    removal("coordination.k8s.io", "v1beta1", &["Lease"], 22, Some("coordination.k8s.io/v1")),
    removal("extensions", "v1beta1", &["Ingress"], 22, Some("networking.k8s.io/v1")),
    removal("networking.k8s.io", "v1beta1", &["Ingress", "IngressClass"], 22, Some("networking.k8s.io/v1")),
    removal(
        "rbac.authorization.k8s.io",
        "v1alpha1",
        &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
        22,
        Some("rbac.authorization.k8s.io/v1"),
    ),
    removal(
        "rbac.authorization.k8s.io",
        "v1beta1",
        &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
        22,
        Some("rbac.authorization.k8s.io/v1"),
    ),
    removal("scheduling.k8s.io", "v1alpha1", &["PriorityClass"], 22, Some("scheduling.k8s.io/v1")),
    removal("scheduling.k8s.io", "v1beta1", &["PriorityClass"], 22, Some("scheduling.k8s.io/v1")),
    removal("storage.k8s.io", "v1beta1", &["CSIDriver"], 22, Some("storage.k8s.io/v1")),
    removal("storage.k8s.io", "v1beta1", &["CSINode"], 22, Some("storage.k8s.io/v1")),
    removal("storage.k8s.io", "v1beta1", &["StorageClass"], 22, Some("storage.k8s.io/v1")),
    removal("storage.k8s.io", "v1beta1", &["VolumeAttachment"], 22, Some("storage.k8s.io/v1")),
    removal("audit.k8s.io", "v1alpha1", &["Policy", "Event"], 24, Some("audit.k8s.io/v1")),
    removal("audit.k8s.io", "v1beta1", &["Policy", "Event"], 24, Some("audit.k8s.io/v1")),
    removal(
        "flowcontrol.apiserver.k8s.io",
        "v1alpha1",
        &["FlowSchema", "PriorityLevelConfiguration"],
        24,
        Some("flowcontrol.apiserver.k8s.io/v1"),
    ),
    removal("storage.k8s.io", "v1alpha1", &["CSIStorageCapacity"], 24, Some("storage.k8s.io/v1beta1")),
    removal("storage.k8s.io", "v1alpha1", &["VolumeAttachment"], 24, Some("storage.k8s.io/v1")),
    removal("autoscaling", "v2beta1", &["HorizontalPodAutoscaler"], 25, Some("autoscaling/v2")),
    removal("batch", "v1beta1", &["CronJob"], 25, Some("batch/v1")),
    removal("discovery.k8s.io", "v1beta1", &["EndpointSlice"], 25, Some("discovery.k8s.io/v1")),
    removal("events.k8s.io", "v1beta1", &["Event"], 25, Some("events.k8s.io/v1")),
    removal("node.k8s.io", "v1alpha1", &["RuntimeClass"], 25, Some("node.k8s.io/v1")),
    removal("node.k8s.io", "v1beta1", &["RuntimeClass"], 25, Some("node.k8s.io/v1")),
    removal("policy", "v1beta1", &["PodDisruptionBudget"], 25, Some("policy/v1")),
    removal("policy", "v1beta1", &["PodSecurityPolicy"], 25, None),
    removal("autoscaling", "v2beta2", &["HorizontalPodAutoscaler"], 26, Some("autoscaling/v2")),
    removal(
        "flowcontrol.apiserver.k8s.io",
        "v1beta1",
        &["FlowSchema", "PriorityLevelConfiguration"],
        26,
        Some("flowcontrol.apiserver.k8s.io/v1beta3"),
    ),
    removal("storage.k8s.io", "v1beta1", &["CSIStorageCapacity"], 27, Some("storage.k8s.io/v1")),
    removal(
        "flowcontrol.apiserver.k8s.io",
        "v1beta2",
        &["FlowSchema", "PriorityLevelConfiguration"],
        29,
        Some("flowcontrol.apiserver.k8s.io/v1beta3"),
    ),
    removal(
        "resource.k8s.io",
        "v1alpha1",
        &["ResourceClaim", "ResourceClaimTemplate", "ResourceClass", "PodSchedulingContext"],
        31,
        Some("resource.k8s.io/v1"),
    ),
    removal(
        "resource.k8s.io",
        "v1alpha2",
        &["ResourceClaim", "ResourceClaimTemplate", "ResourceClass", "PodSchedulingContext"],
        31,
        Some("resource.k8s.io/v1"),
    ),
    removal(
        "admissionregistration.k8s.io",
        "v1alpha1",
        &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
        32,
        Some("admissionregistration.k8s.io/v1"),
    ),
    removal("authentication.k8s.io", "v1alpha1", &["SelfSubjectReview"], 32, Some("authentication.k8s.io/v1")),
    removal("coordination.k8s.io", "v1alpha1", &["LeaseCandidate"], 32, Some("coordination.k8s.io/v1beta1")),
    removal(
        "flowcontrol.apiserver.k8s.io",
        "v1beta3",
        &["FlowSchema", "PriorityLevelConfiguration"],
        32,
        Some("flowcontrol.apiserver.k8s.io/v1"),
    ),
    removal("authentication.k8s.io", "v1beta1", &["SelfSubjectReview"], 33, Some("authentication.k8s.io/v1")),
    removal(
        "admissionregistration.k8s.io",
        "v1beta1",
        &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
        34,
        Some("admissionregistration.k8s.io/v1"),
    ),
    removal("networking.k8s.io", "v1alpha1", &["IPAddress", "ServiceCIDR"], 34, Some("networking.k8s.io/v1")),
    removal(
        "resource.k8s.io",
        "v1alpha3",
        &["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"],
        34,
        Some("resource.k8s.io/v1"),
    ),
    removal("apidiscovery.k8s.io", "v2beta1", &["APIGroupDiscovery"], 35, Some("apidiscovery.k8s.io/v2")),
    removal("certificates.k8s.io", "v1alpha1", &["PodCertificateRequest"], 35, Some("certificates.k8s.io/v1beta1")),
    removal("storage.k8s.io", "v1alpha1", &["VolumeAttributesClass"], 35, Some("storage.k8s.io/v1")),
    removal(
        "storagemigration.k8s.io",
        "v1alpha1",
        &["StorageVersionMigration"],
        35,
        Some("storagemigration.k8s.io/v1beta1"),
    ),
    removal("scheduling.k8s.io", "v1alpha1", &["Workload"], 36, Some("scheduling.k8s.io/v1alpha2")),
    removal("certificates.k8s.io", "v1alpha1", &["ClusterTrustBundle"], 37, Some("certificates.k8s.io/v1beta1")),
    removal("networking.k8s.io", "v1beta1", &["IPAddress", "ServiceCIDR"], 37, Some("networking.k8s.io/v1")),
    removal("storage.k8s.io", "v1beta1", &["VolumeAttributesClass"], 37, Some("storage.k8s.io/v1")),
    removal(
        "admissionregistration.k8s.io",
        "v1alpha1",
        &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
        38,
        Some("admissionregistration.k8s.io/v1"),
    ),
    removal("coordination.k8s.io", "v1alpha2", &["LeaseCandidate"], 38, Some("coordination.k8s.io/v1beta1")),
    removal(
        "resource.k8s.io",
        "v1beta1",
        &["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"],
        38,
        Some("resource.k8s.io/v1"),
    ),
    removal("coordination.k8s.io", "v1beta1", &["LeaseCandidate"], 39, None),
    removal("resource.k8s.io", "v1alpha3", &["DeviceTaintRule"], 39, Some("resource.k8s.io/v1beta2")),
    removal(
        "resource.k8s.io",
        "v1beta2",
        &["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"],
        39,
        Some("resource.k8s.io/v1"),
    ),
    removal(
        "admissionregistration.k8s.io",
        "v1beta1",
        &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
        40,
        Some("admissionregistration.k8s.io/v1"),
    ),
    removal("certificates.k8s.io", "v1beta1", &["ClusterTrustBundle"], 40, None),
    removal("certificates.k8s.io", "v1beta1", &["PodCertificateRequest"], 41, None),
    removal("storagemigration.k8s.io", "v1beta1", &["StorageVersionMigration"], 41, None),
    removal("resource.k8s.io", "v1alpha3", &["ResourcePoolStatusRequest"], 42, None),
    removal("resource.k8s.io", "v1beta2", &["DeviceTaintRule"], 42, None),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_goes_with_its_own_minor_and_has_its_own_successor() {
        let told = |api_version: &str, kind: &str| removal_of(api_version, kind).map(|it| (it.removed, it.replacement));
        assert_eq!(told("extensions/v1beta1", "Deployment"), Some((16, Some("apps/v1"))));
        assert_eq!(told("extensions/v1beta1", "Ingress"), Some((22, Some("networking.k8s.io/v1"))));
        assert_eq!(told("policy/v1beta1", "PodSecurityPolicy"), Some((25, None)));
        assert_eq!(told("flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema").map(|it| it.0), Some(26));
        assert_eq!(told("resource.k8s.io/v1beta1", "ResourceClaim").map(|it| it.0), Some(38));
        for (api_version, kind) in [("apps/v1", "Deployment"), ("v1", "Pod"), ("policy/v1beta1", "Eviction")] {
            assert_eq!(told(api_version, kind), None, "{api_version} {kind}");
        }
        let minors: Vec<u32> = REMOVALS.iter().map(|known| known.removed).collect();
        assert!(minors.is_sorted() && REMOVALS.iter().all(|known| !known.kinds.is_empty()));
    }

    #[test]
    fn a_minor_is_read_off_any_form_of_a_version() {
        for (version, minor) in [
            ("1.34", Some(34)),
            ("v1.34.1", Some(34)),
            ("v1.34.1-eks-1-34-5", Some(34)),
            ("v1.9.0+k3s1", Some(9)),
            ("2.0", None),
            ("", None),
            ("v1.x", None),
        ] {
            assert_eq!(minor_of(version), minor, "{version}");
        }
    }
}
