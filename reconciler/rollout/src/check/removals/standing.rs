//! How an API version stands at the versions that a cluster goes to.

use std::collections::BTreeMap;

use super::components::{ApiComponent, COMPONENT_REMOVALS, ComponentRemoval, Release};
use super::{ApiRemoval, removal_of};

/// What a cluster goes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiTargets {
    /// The minor of Kubernetes 1.
    pub kubernetes: u32,
    /// Major and minor versions of what is installed there.
    pub components: BTreeMap<ApiComponent, Release>,
}

/// How it stands; what is worse comes later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiStanding {
    /// It is served at the target and goes with a later version.
    Deprecated,
    /// Nobody said to which version its component goes.
    Unknown,
    /// It is not served at the target, and was served before only where somebody had asked for it.
    Off,
    /// It is not served at the target.
    Removed,
}

impl ApiStanding {
    /// As reports name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deprecated => "deprecated",
            Self::Unknown => "unknown",
            Self::Off => "off",
            Self::Removed => "removed",
        }
    }
}

/// An API version that does not stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiFinding {
    /// How it stands.
    pub standing: ApiStanding,
    /// What happens to it, as part of a sentence: `is not served from Kubernetes 1.25 on`.
    pub message: String,
    /// What to do.
    pub advice: String,
}

/// How a kind in an API version stands; none where it stays as far as is known.
#[must_use]
pub fn standing(targets: &ApiTargets, api_version: &str, kind: &str) -> Option<ApiFinding> {
    if let Some(removal) = removal_of(api_version, kind) {
        return of_kubernetes(removal, targets.kubernetes);
    }
    let (group, version) = api_version.split_once('/')?;
    let is_it = |known: &&ComponentRemoval| {
        known.groups.contains(&group)
            && known.versions.contains(&version)
            && (known.kinds.is_empty() || known.kinds.contains(&kind))
    };
    let removal = COMPONENT_REMOVALS.iter().find(is_it)?;
    of_component(removal, targets.components.get(&removal.component).copied())
}

fn of_kubernetes(removal: &ApiRemoval, target: u32) -> Option<ApiFinding> {
    let standing = match (removal.removed <= target, removal.deprecated <= target) {
        (true, _) if removal.is_on_by_default() => ApiStanding::Removed,
        (true, _) => ApiStanding::Off,
        (false, true) => ApiStanding::Deprecated,
        (false, false) => return None,
    };
    let message = match standing {
        ApiStanding::Deprecated => {
            format!("is deprecated since Kubernetes 1.{} and goes with 1.{}", removal.deprecated, removal.removed)
        }
        ApiStanding::Off => {
            let removed = removal.removed;
            format!(
                "is not served from Kubernetes 1.{removed} on, and was before only where `--runtime-config` asked for it"
            )
        }
        ApiStanding::Removed | ApiStanding::Unknown => {
            format!("is not served from Kubernetes 1.{} on", removal.removed)
        }
    };
    Some(ApiFinding { standing, message, advice: removal.advice() })
}

fn of_component(removal: &ComponentRemoval, target: Option<Release>) -> Option<ApiFinding> {
    let ComponentRemoval { component, deprecated, removed, .. } = removal;
    let text = |(major, minor): Release| format!("{component} {major}.{minor}");
    let goes = removed.map(|removed| format!("is not served from {} on", text(removed)));
    let warned = deprecated.map(|deprecated| format!("is deprecated since {}", text(deprecated)));
    let (standing, message) = match target {
        Some(target) if removed.is_some_and(|removed| removed <= target) => (ApiStanding::Removed, goes?),
        Some(target) if deprecated.is_some_and(|deprecated| deprecated <= target) => {
            (ApiStanding::Deprecated, [warned, goes].into_iter().flatten().collect::<Vec<_>>().join(" and "))
        }
        Some(_) => return None,
        None if goes.is_some() => (ApiStanding::Unknown, goes?),
        None => (ApiStanding::Deprecated, warned?),
    };
    let advice = removal.replacement.map_or_else(
        || "nothing takes its place: take the object out".to_owned(),
        |replacement| format!("use {replacement}"),
    );
    let advice = match standing {
        ApiStanding::Unknown => format!("{advice}; `--component {component}=VERSION` tells whether it is served there"),
        _ => advice,
    };
    Some(ApiFinding { standing, message, advice })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(components: &[(ApiComponent, Release)], api_version: &str, kind: &str) -> Option<(ApiStanding, String)> {
        let targets = ApiTargets { kubernetes: 36, components: components.iter().copied().collect() };
        standing(&targets, api_version, kind).map(|finding| (finding.standing, finding.message))
    }

    #[test]
    fn what_is_removed_deprecated_or_off_is_told_apart() {
        let of = |api_version: &str, kind: &str| told(&[], api_version, kind).map(|(standing, _)| standing);
        assert_eq!(of("policy/v1beta1", "PodDisruptionBudget"), Some(ApiStanding::Removed));
        assert_eq!(of("resource.k8s.io/v1alpha3", "ResourceClaim"), Some(ApiStanding::Off));
        assert_eq!(of("admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicy"), Some(ApiStanding::Off));
        assert_eq!(of("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema"), Some(ApiStanding::Removed));
        assert_eq!(of("networking.k8s.io/v1beta1", "IPAddress"), Some(ApiStanding::Deprecated));
        assert_eq!(of("storagemigration.k8s.io/v1beta1", "StorageVersionMigration"), None, "deprecated from 1.38 on");
        assert_eq!(of("apps/v1", "Deployment"), None);
    }

    #[test]
    fn a_component_is_judged_at_its_own_version() {
        let certificate = |release: Option<Release>| {
            let components: Vec<_> = release.map(|release| (ApiComponent::CertManager, release)).into_iter().collect();
            told(&components, "cert-manager.io/v1alpha2", "Certificate").map(|(standing, _)| standing)
        };
        assert_eq!(certificate(Some((1, 3))), None);
        assert_eq!(certificate(Some((1, 5))), Some(ApiStanding::Deprecated));
        assert_eq!(certificate(Some((1, 16))), Some(ApiStanding::Removed));
        assert_eq!(certificate(None), Some(ApiStanding::Unknown));
        let capi = told(&[(ApiComponent::ClusterApi, (1, 14))], "cluster.x-k8s.io/v1beta1", "Cluster");
        assert_eq!(capi, Some((ApiStanding::Deprecated, "is deprecated since capi 1.11".to_owned())));
        let alert = told(&[(ApiComponent::Flux, (2, 8))], "notification.toolkit.fluxcd.io/v1beta2", "Alert");
        assert_eq!(alert.map(|(standing, _)| standing), Some(ApiStanding::Deprecated));
        assert_eq!(
            "certmanager".parse::<ApiComponent>().unwrap_err().split(':').next(),
            Some("\"certmanager\" is not a known component")
        );
    }
}
