//! How long a Kubernetes version is supported, and what follows from a new release of EKS-D.

pub(crate) mod licence;

use bundles::{Bundles, EksDReference, KubernetesVersion, VersionsBundle};
use domain::{Problem, ProblemCode, Severity};
use jiff::civil::Date;
use overlays::{ClusterKind, ClusterSpec, Fleet};
use rollout::{ExtendedSupport, VersionStep};

use crate::support::licence::{Licence, licence};

/// Says that a management cluster's own components run ahead of it (`aws/eks-anywhere`, `pkg/cluster/fetch.go`).
const MANAGEMENT_COMPONENTS: &str = "anywhere.eks.amazonaws.com/management-components-version";

/// How long the Kubernetes version of an EKS Anywhere cluster is supported without a licence; none where its bundle does not say.
#[must_use]
pub fn extended_support(fleet: &Fleet, cluster: &ClusterSpec, today: Date) -> Option<ExtendedSupport> {
    if cluster.kind != ClusterKind::EksAnywhere {
        return None;
    }
    let bundle = overlays::bundle_for(fleet, cluster).ok()?;
    let section = section(&bundle.bundles, &cluster.kubernetes_version)?;
    let ends = section.end_of_standard_support.as_ref()?.parse().ok()?;
    Some(ExtendedSupport { ends, today, licensed: licence(fleet, cluster, today) == Licence::Valid })
}

/// Clusters whose Kubernetes version is out of standard support, with no licence that holds: their next rollout is blocked.
#[must_use]
pub fn problems(fleet: &Fleet, today: Date) -> Vec<Problem> {
    let problem = |cluster: &ClusterSpec| {
        let support = extended_support(fleet, cluster, today)?;
        if support.today <= support.ends || support.licensed {
            return None;
        }
        let name = &cluster.name;
        // A token that EKS Anywhere refuses was meant to hold; without one, nobody said so.
        let (severity, what) = match licence(fleet, cluster, today) {
            Licence::Valid => return None,
            Licence::Missing => (Severity::Warning, format!("cluster {name:?} has no licenseToken")),
            Licence::Malformed => {
                (Severity::Error, format!("the licenseToken of cluster {name:?} is not a valid licence token"))
            }
            Licence::Expired(end) => (Severity::Error, format!("the licenseToken of cluster {name:?} ended on {end}")),
            Licence::Shared(other) => {
                (Severity::Error, format!("the licenseToken of cluster {name:?} is that of cluster {other:?} too"))
            }
        };
        let message = format!(
            "standard support of Kubernetes {} ended on {}, and {what}: a rollout that leaves it there is blocked",
            cluster.kubernetes_version, support.ends
        );
        let problem = Problem::new(ProblemCode::ExtendedSupport, message)
            .cluster(&cluster.name)
            .severity(severity)
            .hint("go to a later kubernetesVersion, or set spec.licenseToken to a valid token of its own");
        Some(match &cluster.places.kubernetes_version {
            Some(place) => problem.path(&place.path).at(place.line, place.column),
            None => problem,
        })
    };
    fleet.clusters.iter().filter_map(problem).collect()
}

/// EKS Anywhere of the management components, where the cluster says that they run ahead of it.
pub(crate) fn management_components(deployed: Option<&ClusterSpec>, cluster: &ClusterSpec) -> Option<VersionStep> {
    let read = |spec: &ClusterSpec| {
        spec.node.at(&["metadata", "annotations"])?.get(MANAGEMENT_COMPONENTS)?.as_str().map(str::to_owned)
    };
    Some(VersionStep { deployed: deployed.and_then(read), target: read(cluster)? })
}

/// A release of EKS-D that rolls worker groups together with the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRelease {
    /// The group, as it is deployed.
    pub group: String,
    /// Its machines, as far as they are known.
    pub machines: u32,
    /// From one release to another: `v1.33.1-eks-1-33-4 to v1.33.2-eks-1-33-7`.
    pub releases: String,
}

/// The worker groups whose release of EKS-D is another one as soon as the cluster refers to the new bundle.
///
/// EKS Anywhere writes the tag of the release into every MachineDeployment, and has no field that holds one of them back.
#[must_use]
pub fn new_releases(old: &Bundles, new: &Bundles, deployed: &ClusterSpec) -> Vec<NewRelease> {
    if deployed.kind != ClusterKind::EksAnywhere {
        return Vec::new();
    }
    let release = |bundles: &Bundles, version: &str| section(bundles, version)?.eks_d.as_ref().and_then(tag);
    let groups = deployed.worker_groups.iter().filter_map(|group| {
        let [old, new] = [old, new].map(|bundles| release(bundles, &group.kubernetes_version));
        let (old, new) = old.zip(new).filter(|(old, new)| old != new)?;
        Some(NewRelease {
            group: group.name.clone(),
            machines: group.replicas.unwrap_or(0),
            releases: format!("{old} to {new}"),
        })
    });
    groups.collect()
}

fn section<'a>(bundles: &'a Bundles, version: &str) -> Option<&'a VersionsBundle> {
    bundles.versions_bundle(&version.parse::<KubernetesVersion>().ok()?)
}

/// The tag that machines get: Kubernetes' version with the number of the release.
fn tag(release: &EksDReference) -> Option<String> {
    let (version, number) = (release.kubernetes_version.as_ref()?, release.number?);
    Some(format!("{version}-eks-{}-{number}", version.minor().channel()))
}

#[cfg(test)]
mod tests {
    use overlays::MemoryFiles;

    use super::*;

    /// Valid until the beginning of 2126.
    const TOKEN: &str = "eyJhbGciOiAiRVMyNTYiLCAidHlwIjogIkpXVCJ9.eyJsaWNlbnNlSUQiOiAiYSIsICJlbmRWYWxpZGl0eSI6ICIyMTI2LTAxLTAxVDAwOjAwOjAwWiJ9.c2lnbmF0dXJl";

    const BUNDLES: &str = "\
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Bundles
metadata: {name: bundles-NUMBER}
spec:
  number: NUMBER
  versionsBundles:
    - kubeVersion: '1.33'
      endOfStandardSupport: '2026-07-31'
      eksD: {name: kubernetes-1-33-eks-NUMBER, channel: 1-33, kubeVersion: v1.33.2}
    - kubeVersion: '1.32'
      endOfStandardSupport: '2026-01-31'
      eksD: {name: kubernetes-1-32-eks-9, channel: 1-32, kubeVersion: v1.32.6}
";

    fn fleet(extra: &str) -> Fleet {
        let cluster = format!(
            "\
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata: {{name: prod, annotations: {{{MANAGEMENT_COMPONENTS}: v0.24.1}}}}
spec:
  bundlesRef: {{name: bundles-4}}
  controlPlaneConfiguration: {{count: 3}}
{extra}  kubernetesVersion: '1.33'
  managementCluster: {{name: prod}}
  workerNodeGroupConfigurations: [{{name: new, count: 4}}, {{name: old, count: 2, kubernetesVersion: '1.32'}}]
"
        );
        let file = |path: &str, text: String| (path.parse().unwrap(), text.into_bytes());
        let files = [
            file("clusters/prod/cluster.yaml", cluster),
            file("bundles/4.yaml", BUNDLES.replace("NUMBER", "4")),
            file("bundles/7.yaml", BUNDLES.replace("NUMBER", "7")),
        ];
        overlays::read_fleet(&files.into_iter().collect::<MemoryFiles>())
    }

    fn told(fleet: &Fleet, today: &str) -> Vec<(Option<usize>, String)> {
        let problems = problems(fleet, today.parse().unwrap());
        problems.into_iter().map(|problem| (problem.line, problem.message)).collect()
    }

    #[test]
    fn a_version_out_of_support_is_told_with_its_line() {
        assert_eq!(told(&fleet(""), "2026-07-31"), []);
        let [(line, message)] = told(&fleet(""), "2026-08-01").try_into().unwrap();
        assert_eq!(line, Some(7));
        assert!(message.contains("Kubernetes 1.33 ended on 2026-07-31"), "{message}");
        assert_eq!(told(&fleet(&format!("  licenseToken: {TOKEN}\n")), "2026-08-01"), []);
        assert_eq!(told(&fleet("  licenseToken: ENC[AES256_GCM,data:a,type:str]\n"), "2026-08-01"), []);
        assert_eq!(told(&fleet("  licenseToken: ''\n"), "2026-08-01").len(), 1);
    }

    #[test]
    fn a_token_that_does_not_hold_is_told_with_its_reason() {
        for (token, today, expected) in [
            ("token", "2026-08-01", "is not a valid licence token"),
            ("a.b.c", "2026-08-01", "is not a valid licence token"),
            (TOKEN, "2127-01-01", "ended on 2126-01-01"),
        ] {
            let [(_, message)] = told(&fleet(&format!("  licenseToken: {token}\n")), today).try_into().unwrap();
            assert!(message.contains(expected) && !message.contains(TOKEN), "{message}");
        }
    }

    #[test]
    fn only_groups_whose_release_changes_roll_with_the_control_plane() {
        let fleet = fleet("");
        let bundles = |number: u32| {
            &fleet.bundles.iter().find(|file| file.bundles.name == format!("bundles-{number}")).unwrap().bundles
        };
        let cluster = fleet.cluster("prod").unwrap();
        let expected = NewRelease {
            group: "new".to_owned(),
            machines: 4,
            releases: "v1.33.2-eks-1-33-4 to v1.33.2-eks-1-33-7".to_owned(),
        };
        assert_eq!(new_releases(bundles(4), bundles(7), cluster), [expected]);
        assert_eq!(new_releases(bundles(4), bundles(4), cluster), []);
    }

    #[test]
    fn management_components_are_read_off_both_sides() {
        let fleet = fleet("");
        let cluster = fleet.cluster("prod").unwrap();
        let step = management_components(Some(cluster), cluster).unwrap();
        assert_eq!((step.deployed.as_deref(), step.target.as_str()), (Some("v0.24.1"), "v0.24.1"));
    }
}
