//! Which API versions Kubernetes and what is installed in clusters stop serving, and from which version on.

mod components;
mod kubernetes;
mod standing;

pub use components::{ApiComponent, Release};
pub use kubernetes::REMOVALS;
pub use standing::{ApiFinding, ApiStanding, ApiTargets, standing};

/// An API version that goes.
#[derive(Debug, PartialEq, Eq)]
pub struct ApiRemoval {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// The kinds that go.
    pub kinds: &'static [&'static str],
    /// The first minor of Kubernetes 1 that warns of it.
    pub deprecated: u32,
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

    /// Whether API servers serve it where nobody has asked for it (`--runtime-config`): no alpha, and of betas those from before 1.24.
    /// Betas that were deprecated from 1.30 on came after that.
    #[must_use]
    pub fn is_on_by_default(&self) -> bool {
        !self.version.contains("alpha") && (!self.version.contains("beta") || self.deprecated < 30)
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

    /// What Pluto's `versions.yaml` of 2026-04 says otherwise or lacks, and the data of `kubepug` lack: ours is what the code of
    /// Kubernetes says, and a real API server of 1.36 serves (`servers api_removals`).
    #[test]
    fn where_pluto_and_kubepug_are_wrong_or_silent_ours_is_right() {
        for (api_version, kind, deprecated, removed, plutos) in [
            ("flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema", 23, 26, Some((23, 29))),
            ("flowcontrol.apiserver.k8s.io/v1beta1", "PriorityLevelConfiguration", 23, 26, Some((23, 29))),
            ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", 29, 32, Some((24, 32))),
            ("resource.k8s.io/v1beta1", "ResourceClaim", 35, 38, Some((35, 36))),
            ("admissionregistration.k8s.io/v1alpha1", "ValidatingAdmissionPolicy", 29, 32, Some((29, 33))),
            ("admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicy", 31, 34, None),
            ("admissionregistration.k8s.io/v1alpha1", "MutatingAdmissionPolicy", 35, 38, None),
            ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicyBinding", 37, 40, None),
            ("networking.k8s.io/v1alpha1", "ServiceCIDR", 31, 34, None),
            ("networking.k8s.io/v1beta1", "ServiceCIDR", 34, 37, None),
            ("coordination.k8s.io/v1alpha2", "LeaseCandidate", 35, 38, None),
            ("coordination.k8s.io/v1beta1", "LeaseCandidate", 36, 39, None),
            ("authentication.k8s.io/v1alpha1", "SelfSubjectReview", 29, 32, None),
            ("authentication.k8s.io/v1beta1", "SelfSubjectReview", 30, 33, None),
            // Without a removal there.
            ("storage.k8s.io/v1beta1", "VolumeAttributesClass", 34, 37, None),
            // Its own lifecycle says 1.36, and 1.35 had it no more.
            ("storagemigration.k8s.io/v1alpha1", "StorageVersionMigration", 35, 35, None),
        ] {
            let ours = removal_of(api_version, kind).map(|known| (known.deprecated, known.removed));
            assert_eq!(ours, Some((deprecated, removed)), "{api_version} {kind}");
            assert_ne!(ours, plutos, "{api_version} {kind}");
        }
        // Pluto calls the kinds of flowcontrol `FlowControl`, which is not a kind.
        assert_eq!(removal_of("flowcontrol.apiserver.k8s.io/v1beta1", "FlowControl"), None);
        // Pluto sends the kinds of ACME to cert-manager.io/v1; KubePug knows nothing outside of Kubernetes.
        let components = [(ApiComponent::CertManager, (1, 16))].into_iter().collect();
        let challenge =
            standing(&ApiTargets { kubernetes: 36, components }, "acme.cert-manager.io/v1beta1", "Challenge");
        assert_eq!(challenge.unwrap().advice, "use v1 of the same group");
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
