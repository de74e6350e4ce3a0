//! The fleet: bundles, clusters and policy of one commit.

mod clusters;
mod component_overlays;
mod concerned;
mod duplicates;
mod empty;
mod ignored;
mod kinds;
mod left_alone;
mod makers;
mod managed;
mod members;
mod name_length;
mod namespaces;
mod objects;
mod rendered;
mod scan;
mod template;
mod wave_order;

pub use namespaces::lives_in_a_namespace;
pub(crate) use objects::{Reference, is_worker_group, references};
pub use scan::ReadFiles;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use bundles::{Bundles, EksaRelease, EksdRelease, KubernetesVersion, Lock};

use crate::{BundleReference, ClusterKind, ClusterSpec, EntryKind, Files, FluxSettings, Management};
use concerned::Concerned;
use domain::{Problem, ProblemCode, RepoPath, Severity};
use managed::Managed;
use members::Kustomized;
use objects::local;
use policy::BundleSelection;
use policy::{Policy, read_policy};

/// A Bundles manifest and where it is.
#[derive(Clone, Debug)]
pub struct BundleFile {
    /// The file.
    pub path: RepoPath,
    /// The file's bytes, as published.
    pub bytes: Arc<[u8]>,
    /// What it says.
    pub bundles: Bundles,
}

/// An `EKSARelease` and where it is.
#[derive(Clone, Debug)]
pub struct EksaReleaseFile {
    /// The file.
    pub path: RepoPath,
    /// What it says.
    pub release: EksaRelease,
}

/// An EKS-D Release and where it is.
#[derive(Clone, Debug)]
pub struct EksdReleaseFile {
    /// The file.
    pub path: RepoPath,
    /// The file's bytes, as published.
    pub bytes: Arc<[u8]>,
    /// What it says.
    pub release: EksdRelease,
}

/// Everything that a commit says about the fleet.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// `stepgate.yaml`, or its defaults.
    pub policy: Policy,
    /// Bundles, by number and then name.
    pub bundles: Vec<Arc<BundleFile>>,
    /// `EKSAReleases`, by path.
    pub eksa_releases: Vec<Arc<EksaReleaseFile>>,
    /// EKS-D Releases, by path.
    pub eksd_releases: Vec<Arc<EksdReleaseFile>>,
    /// Clusters, by name.
    pub clusters: Vec<ClusterSpec>,
    /// `bundles.lock`.
    pub lock: Lock,
    /// What is wrong, in order of weight (errors first), then file.
    pub problems: Vec<Problem>,
    /// What Stepgate's Kustomization of a cluster's specification takes over from the one that applies it today, by cluster.
    pub flux_settings: BTreeMap<String, FluxSettings>,
    /// API versions of Flux that files of the repository use: version, file and line of the first use in each file.
    pub flux_versions_in_use: Vec<FluxVersionInUse>,
    concerned: OnceLock<Concerned>,
    managed: OnceLock<Managed>,
}

/// A file that holds an object of Flux.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FluxVersionInUse {
    /// API group, such as `source.toolkit.fluxcd.io`.
    pub group: String,
    /// Version, such as `v1beta2`.
    pub version: String,
    /// Kind, such as `GitRepository`.
    pub kind: String,
    /// The file.
    pub path: RepoPath,
    /// Line of the object, from 1.
    pub line: usize,
}

impl Fleet {
    /// The cluster of that name.
    pub fn cluster(&self, name: &str) -> Option<&ClusterSpec> {
        let found = self.clusters.binary_search_by(|cluster| cluster.name.as_str().cmp(name)).ok()?;
        self.clusters.get(found)
    }
}

const POLICY: &str = "stepgate.yaml";
const LOCK: &str = "bundles.lock";

/// Reads a commit. It never fails as a whole: what is wrong becomes a [`Problem`] with its scope.
pub fn read_fleet(files: &dyn Files) -> Fleet {
    read_fleet_remembering(files, &ReadFiles::new(0))
}

/// As [`read_fleet`], for somebody who reads many commits: files that are `known` with their content are not read again.
pub fn read_fleet_remembering(files: &dyn Files, known: &ReadFiles) -> Fleet {
    let mut fleet = Fleet::default();
    let read = |name: &str, problems: &mut Vec<Problem>| -> Option<(RepoPath, Arc<[u8]>)> {
        let path = RepoPath::new(name).ok()?;
        let entry = files.entry(&path)?;
        if entry.kind != EntryKind::File {
            let message = "it must be a regular file";
            problems.push(Problem::new(ProblemCode::Symlink, message).path(&path).hint("store the file itself"));
            return None;
        }
        match files.read(&path) {
            Ok(bytes) => Some((path, bytes)),
            Err(error) => {
                problems.push(scan::unreadable(&path, error));
                None
            }
        }
    };
    if let Some((path, bytes)) = read(POLICY, &mut fleet.problems) {
        let (policy, problems) = read_policy(&path, &bytes);
        fleet.policy = policy;
        fleet.problems.extend(problems);
    }
    if let Some((path, bytes)) = read(LOCK, &mut fleet.problems) {
        match Lock::parse(LOCK, &bytes) {
            Ok(lock) => fleet.lock = lock,
            Err(error) => fleet
                .problems
                .push(Problem::new(ProblemCode::BadLock, error.message).path(&path).at(error.line, 1).hint(error.hint)),
        }
    }
    let mut found = scan::scan(files, &fleet.policy, known);
    fleet.problems.extend(found.problems.iter().cloned());
    fleet.bundles.clone_from(&found.bundles);
    fleet.eksa_releases.clone_from(&found.eksa_releases);
    fleet.eksd_releases.clone_from(&found.eksd_releases);
    fleet.bundles.sort_by(|left, right| {
        (left.bundles.number, &left.bundles.name, &left.path).cmp(&(
            right.bundles.number,
            &right.bundles.name,
            &right.path,
        ))
    });
    fleet.flux_versions_in_use = objects::flux_versions(&found.objects);
    let objects = std::mem::take(&mut found.objects);
    fleet.problems.extend(local::told(&objects));
    fleet.problems.extend(local::told_of_tools(&objects));
    let mut rendered = rendered::render(files, &fleet.policy, objects, &known.builds);
    template::leave_out(&mut rendered.objects, &mut fleet.problems);
    let kustomized = Kustomized { folders: &found.kustomized, applied: &rendered.applied };
    fleet.clusters = clusters::clusters(&rendered.objects, &kustomized, &mut fleet.problems);
    let records = kinds::Records::read(&rendered.objects, &mut fleet.problems);
    kinds::resolve(&mut fleet.clusters, &records, &fleet.policy, &mut fleet.problems);
    rendered.objects.retain(|object| !object.is_local);
    duplicates::name_by_region(&mut fleet.clusters, &mut fleet.problems);
    fleet.clusters.sort_by(|left, right| left.name.cmp(&right.name));
    fleet.problems.extend(duplicates::check(&fleet.clusters));
    check_bundles(&mut fleet);
    check_clusters(&mut fleet);
    fleet.problems.extend(namespaces::check(&rendered.objects, &fleet.clusters, &fleet.policy));
    fleet.problems.extend(left_alone::check(&rendered.objects, &fleet.clusters, &fleet.policy));
    rendered.settle(&mut fleet);
    let clusters: Vec<RepoPath> = fleet.clusters.iter().map(|cluster| cluster.places.name.path.clone()).collect();
    let clusters: Vec<&RepoPath> = clusters.iter().collect();
    fleet.problems.extend(found.makers.iter().filter_map(|maker| maker.told(files, &clusters)));
    // What keeps clusters from being found is known by now.
    fleet.problems.extend(empty::check(files, &fleet, &found));
    fleet.problems.sort_by(|left, right| right.severity.cmp(&left.severity).then_with(|| left.cmp(right)));
    fleet.problems.dedup();
    // What was asked on the way was asked of fewer, in another order.
    (fleet.concerned, fleet.managed) = (OnceLock::new(), OnceLock::new());
    fleet
}

/// Two bundles with one number, or one name, cannot be told apart.
fn check_bundles(fleet: &mut Fleet) {
    let mut numbers: BTreeMap<u64, Vec<&BundleFile>> = BTreeMap::new();
    for file in &fleet.bundles {
        numbers.entry(file.bundles.number).or_default().push(file.as_ref());
    }
    for (number, files) in numbers {
        let [first, rest @ ..] = files.as_slice() else { continue };
        for file in rest {
            let (line, column) =
                file.bundles.node.at(&["spec", "number"]).map_or((1, 1), |node| (node.span.line(), node.span.column()));
            let message = format!("bundle number {number} is also that of {}", first.path);
            let problem = Problem::new(ProblemCode::DuplicateBundle, message).path(&file.path).at(line, column);
            fleet.problems.push(problem.hint("keep one of the two files, or give the newer bundle its own number"));
        }
    }
}

/// Names, management clusters, bundles and Kubernetes versions that are not there.
fn check_clusters(fleet: &mut Fleet) {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for cluster in fleet.clusters.iter().filter(|cluster| seen.insert(cluster.name.as_str())) {
        let place = &cluster.places.name;
        problems.extend(name_length::check(fleet, cluster));
        problems.extend(cluster.not_rolled_out(&fleet.policy).map(|(message, hint)| {
            let problem = Problem::new(ProblemCode::NotRolledOut, message).path(&place.path);
            let problem = problem.at(place.line, place.column).cluster(&cluster.name);
            problem.severity(Severity::Warning).hint(hint)
        }));
        if let Management::ManagedBy(manager) = &cluster.management
            && fleet.cluster(manager).is_none()
        {
            let message =
                format!("management cluster {manager:?} of cluster {:?} is not in this repository", cluster.name);
            problems.push(
                Problem::new(ProblemCode::MissingReference, message)
                    .path(&place.path)
                    .at(place.line, place.column)
                    .cluster(&cluster.name)
                    .severity(Severity::Warning),
            );
        }
        if uses_bundle(fleet, cluster) {
            match bundle_for(fleet, cluster) {
                Ok(file) => problems.extend(check_kubernetes_versions(file, cluster)),
                Err(problem) => problems.push(*problem),
            }
        }
    }
    problems.extend(managed::several(fleet));
    problems.extend(wave_order::check(fleet));
    let names: Vec<&str> = fleet.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    for name in fleet.policy.clusters.keys() {
        if !seen.contains(name.as_str())
            && let Ok(path) = RepoPath::new(POLICY)
        {
            let problem = Problem::new(
                ProblemCode::MissingReference,
                format!("stepgate.yaml has settings for cluster {name:?}, which is not in this repository"),
            );
            let hint = domain::nearest(name, &names).map(|name| format!("did you mean {name:?}?"));
            let problem = problem.path(&path).severity(Severity::Warning);
            problems.push(match hint {
                Some(hint) => problem.hint(hint),
                None => problem,
            });
        }
    }
    fleet.problems.extend(problems);
    let mut seen = BTreeSet::new();
    fleet.clusters.retain(|cluster| seen.insert(cluster.name.clone()));
}

/// Whether a cluster follows a bundle: EKS Anywhere's always, those of Cluster API when the policy selects one for them.
pub fn uses_bundle(fleet: &Fleet, cluster: &ClusterSpec) -> bool {
    match cluster.kind {
        ClusterKind::EksAnywhere => true,
        ClusterKind::ClusterApi | ClusterKind::ClusterClass => fleet.policy.bundle_selection(&cluster.name).is_some(),
        ClusterKind::Tanzu | ClusterKind::Eksctl => false,
    }
}

fn check_kubernetes_versions(file: &BundleFile, cluster: &ClusterSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    let groups = cluster.worker_groups.iter().filter(|group| group.own_kubernetes_version);
    let versions = std::iter::once((cluster.kubernetes_version.as_str(), "cluster".to_owned())).chain(
        groups.map(|group| (group.kubernetes_version.as_str(), format!("worker group {:?} of cluster", group.name))),
    );
    for (text, whose) in versions {
        let known =
            text.parse::<KubernetesVersion>().is_ok_and(|version| file.bundles.versions_bundle(&version).is_some());
        if known {
            continue;
        }
        let has: Vec<String> =
            file.bundles.versions_bundles.iter().map(|bundle| bundle.kubernetes_version.to_string()).collect();
        let place = cluster.places.kubernetes_version.as_ref().unwrap_or(&cluster.places.name);
        let message =
            format!("{whose} {:?} is at Kubernetes {text}, which bundle {} has not", cluster.name, file.bundles.name);
        // A plain Cluster API cluster may well follow no bundle at all.
        let severity = if cluster.kind == ClusterKind::EksAnywhere { Severity::Error } else { Severity::Warning };
        problems.push(
            Problem::new(ProblemCode::MissingKubernetesVersion, message)
                .path(&place.path)
                .at(place.line, place.column)
                .cluster(&cluster.name)
                .severity(severity)
                .hint(format!("it has {}", has.join(", "))),
        );
    }
    problems
}

/// The bundle that `cluster` follows: the one that the policy selects, else by its own `bundlesRef` or `eksaVersion`, else
/// the one of its management cluster when that names one, else the newest.
///
/// # Errors
/// A [`Problem`] of the cluster when what is named is not in the repository, or is there twice.
pub fn bundle_for<'a>(fleet: &'a Fleet, cluster: &ClusterSpec) -> Result<&'a BundleFile, Box<Problem>> {
    let place = cluster.places.bundle_reference.as_ref().unwrap_or(&cluster.places.name);
    let missing = |message: String, hint: String| {
        let problem = Problem::new(ProblemCode::MissingBundle, message).path(&place.path);
        Box::new(problem.at(place.line, place.column).cluster(&cluster.name).hint(hint))
    };
    let have = || match fleet.bundles.as_slice() {
        [] => "the repository has no usable Bundles manifest; put one under bundles/".to_owned(),
        files => {
            let names: Vec<&str> = files.iter().map(|file| file.bundles.name.as_str()).collect();
            format!("the repository has {}", names.join(", "))
        }
    };
    let named = |name: &str| {
        let mut files = fleet.bundles.iter().map(Arc::as_ref).filter(|file| file.bundles.name == name);
        match (files.next(), files.next()) {
            (Some(file), None) => Ok(file),
            (Some(one), Some(two)) => Err(missing(
                format!("cluster {:?} follows {name}, which is in both {} and {}", cluster.name, one.path, two.path),
                "keep one of the two files".to_owned(),
            )),
            (None, _) => Err(missing(format!("cluster {:?} follows {name}, which is not there", cluster.name), have())),
        }
    };
    let newest = || {
        // A file that cannot be read may hold the newest one; to fall back to the one before would be a downgrade.
        if let Some(unread) = fleet.unreadable_bundle() {
            let message = format!("the newest bundle cannot be told: {unread}");
            return Err(missing(message, "repair that file, or name a bundle in stepgate.yaml".to_owned()));
        }
        let Some(last) = fleet.bundles.last().map(Arc::as_ref) else {
            return Err(missing(format!("there is no bundle for cluster {:?}", cluster.name), have()));
        };
        let twin =
            fleet.bundles.iter().find(|file| file.bundles.number == last.bundles.number && file.path != last.path);
        match twin {
            Some(twin) => Err(missing(
                format!(
                    "the newest bundle, number {}, is in both {} and {}",
                    last.bundles.number, twin.path, last.path
                ),
                "keep one of the two files".to_owned(),
            )),
            None => Ok(last),
        }
    };
    match fleet.policy.bundle_selection(&cluster.name) {
        Some(BundleSelection::Name(name)) => return named(name),
        Some(BundleSelection::Newest) => return newest(),
        None => {}
    }
    if let (None, Management::ManagedBy(manager)) = (&cluster.bundle_reference, &cluster.management)
        && fleet.unreadable_clusters().contains(manager.as_str())
    {
        // The newest one instead would be an upgrade that nobody asked for.
        let message = format!(
            "cluster {:?} follows the bundle of its management cluster {manager:?}, which cannot be read",
            cluster.name
        );
        return Err(missing(message, format!("repair what `stepgate check` says of {manager}")));
    }
    let reference = cluster.bundle_reference.as_ref().or_else(|| match &cluster.management {
        Management::ManagedBy(manager) => fleet.cluster(manager).and_then(|manager| manager.bundle_reference.as_ref()),
        Management::SelfManaged | Management::Undeclared => None,
    });
    match reference {
        Some(BundleReference::Bundles(name)) => named(name),
        Some(BundleReference::EksaVersion(version)) => {
            let release = fleet.eksa_releases.iter().find(|file| file.release.version.as_str() == version.as_str());
            match release.and_then(|file| file.release.bundles_name.as_deref()) {
                Some(name) => named(name),
                None => Err(missing(
                    format!(
                        "cluster {:?} is at eksaVersion {version}, which no EKSARelease of the repository has",
                        cluster.name
                    ),
                    "put the EKSARelease beside its Bundles manifest, or set bundle in stepgate.yaml".to_owned(),
                )),
            }
        }
        None => newest(),
    }
}

#[cfg(test)]
mod tests;
