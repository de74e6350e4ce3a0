//! The next bundle: which release of EKS Anywhere it is, and what is written for it.

use std::cmp::Ordering;
use std::sync::Arc;

use bundles::{Bundles, Lock, PublishedRelease, Version, VersionForm};
use domain::{RepoPath, RepoPathError};
use jiff::{SignedDuration, Timestamp};
use overlays::edit::EditError;
use overlays::{BundleReference, ClusterSpec, Files, Fleet};
use policy::{Follow, MinorVersion, UpdatePolicy};
use yaml::emit;

use super::FileEdits;

/// A release that is not proposed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// Its version.
    pub version: String,
    /// Why.
    pub reason: String,
}

/// What the fleet has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// The version of EKS Anywhere that its newest bundle belongs to.
    pub version: Version,
    /// The highest number of a bundle.
    pub number: u64,
}

/// Why nothing can be written for a release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// There is no bundle to go on from.
    #[error("the repository has no bundle to go on from; put the one that runs under bundles/")]
    NoBundle,
    /// Nothing says which version the newest bundle is.
    #[error("nothing says which version of EKS Anywhere {0} is: neither an EKSARelease nor the releases manifest")]
    UnknownVersion(String),
    /// The Bundles manifest is not that of the release.
    #[error("the Bundles manifest is not the one that the releases manifest names: {0}")]
    OtherBundle(String),
    /// A file would be overwritten.
    #[error("{0} is there already, with other content")]
    Occupied(RepoPath),
    /// A name cannot be that of a file.
    #[error(transparent)]
    Path(#[from] RepoPathError),
    /// A reference to the bundle cannot be written anew.
    #[error("cluster {cluster} names its bundle where it cannot be written anew: {reason}")]
    Reference {
        /// The cluster.
        cluster: String,
        /// What is in the way.
        reason: String,
    },
}

/// What the fleet has now.
///
/// # Errors
/// [`UpdateError::NoBundle`], [`UpdateError::UnknownVersion`].
pub fn present(fleet: &Fleet, releases: &[PublishedRelease]) -> Result<Present, UpdateError> {
    let newest = fleet.bundles.iter().max_by_key(|file| file.bundles.number).ok_or(UpdateError::NoBundle)?;
    let bundles = &newest.bundles;
    let published = releases.iter().filter(|release| release.number == bundles.number);
    let published = published.map(|release| release.version.clone());
    let versions = declared_version(fleet, bundles).into_iter().chain(published).chain(built_version(bundles));
    let version = versions.into_iter().find(|version| !version.is_opaque());
    let version = version.ok_or_else(|| UpdateError::UnknownVersion(bundles.name.clone()))?;
    Ok(Present { version, number: bundles.number })
}

/// The version of EKS Anywhere that an `EKSARelease` of the fleet gives a bundle.
pub(crate) fn declared_version(fleet: &Fleet, bundles: &Bundles) -> Option<Version> {
    let releases = fleet.eksa_releases.iter().map(|file| &file.release);
    let mut own = releases.filter(|release| release.bundles_name.as_deref() == Some(bundles.name.as_str()));
    own.find(|release| !release.version.is_opaque()).map(|release| release.version.clone())
}

/// The version of EKS Anywhere that a bundle was built for.
pub(crate) fn built_version(bundles: &Bundles) -> Option<Version> {
    let version = Version::new(bundles.cli_max_version.as_deref()?);
    // Builds that were never released say v0.0.0.
    version.precedence().is_some_and(|it| it.core > (0, 0, 0)).then_some(version)
}

fn minor_of(version: &Version) -> Option<MinorVersion> {
    match version.form() {
        VersionForm::Semantic(version) => Some(MinorVersion { major: version.major, minor: version.minor }),
        VersionForm::EksD(_) | VersionForm::Opaque => None,
    }
}

fn is_prerelease(version: &Version) -> bool {
    version.precedence().is_some_and(|precedence| !precedence.prerelease.is_empty())
}

/// The releases that may be proposed, the one that leads furthest first: one of the next minor, one of the minor that there is. With them the
/// later releases that are not, and why.
#[must_use]
pub fn candidates<'a>(
    releases: &'a [PublishedRelease],
    present: &Present,
    policy: &UpdatePolicy,
    now: Timestamp,
) -> (Vec<&'a PublishedRelease>, Vec<PassedOver>) {
    let (mut chosen, mut passed_over): (Vec<&PublishedRelease>, Vec<PassedOver>) = (Vec::new(), Vec::new());
    let Some(own) = minor_of(&present.version) else { return (chosen, passed_over) };
    let mut later: Vec<&PublishedRelease> = releases
        .iter()
        .filter(|release| release.version.compare(&present.version) == Some(Ordering::Greater))
        .filter(|release| !is_prerelease(&release.version))
        .collect();
    later.sort_by(|one, other| other.version.compare(&one.version).unwrap_or(Ordering::Equal));
    for release in later {
        let Some(minor) = minor_of(&release.version) else { continue };
        let is_taken =
            |chosen: &Vec<&PublishedRelease>| chosen.iter().any(|known| minor_of(&known.version) == Some(minor));
        match refusal(release, minor, own, present, policy, now) {
            Some(reason) => passed_over.push(PassedOver { version: release.version.to_string(), reason }),
            None if !is_taken(&chosen) => chosen.push(release),
            None => {}
        }
    }
    (chosen, passed_over)
}

fn refusal(
    release: &PublishedRelease,
    minor: MinorVersion,
    own: MinorVersion,
    present: &Present,
    policy: &UpdatePolicy,
    now: Timestamp,
) -> Option<String> {
    if policy.ignore.iter().any(|ignored| ignored.is(release.version.as_str(), minor)) {
        return Some("`updates.ignore` names it".to_owned());
    }
    if minor != own && policy.follow == Follow::Patch {
        return Some("it is another minor, and `updates.follow` is patch".to_owned());
    }
    if minor.major != own.major || minor.minor > own.minor.saturating_add(1) {
        return Some(format!("it is more than one minor above {}", present.version));
    }
    if release.number <= present.number {
        // Who follows the newest bundle follows the highest number.
        return Some(format!("its bundle has number {}, not above {}", release.number, present.number));
    }
    let published = release.date.as_deref().and_then(date);
    let Some(published) = published else { return Some("nothing says when it was published".to_owned()) };
    let minimum = SignedDuration::try_from(policy.minimum_age).unwrap_or(SignedDuration::MAX);
    let age = now.duration_since(published);
    if age < SignedDuration::ZERO {
        return Some(format!("it says that it was published in the future, on {}", day(published)));
    }
    (age < minimum).then(|| {
        let from = published.checked_add(minimum).map_or_else(|_| "never".to_owned(), day);
        let minimum = policy::format_duration(policy.minimum_age);
        format!("it is younger than {minimum}: it is looked at again on {from}")
    })
}

fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

/// `2026-03-01T12:00:00Z`, or as Go prints a time: `2021-08-30 19:19:51.119846 +0000 UTC`.
fn date(text: &str) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    let mut words = text.split_whitespace();
    let (day, time, offset) = (words.next()?, words.next()?, words.next()?);
    format!("{day}T{time}{offset}").parse().ok()
}

/// What is written for a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleEdits {
    /// The files.
    pub files: FileEdits,
    /// Clusters whose reference was written anew.
    pub referring: Vec<String>,
    /// Clusters that stay where they are, since `bundle` in stepgate.yaml names another one for them.
    pub staying: Vec<String>,
}

/// The files of a release: its Bundles as published, the lock, and where clusters name a version or a bundle, the `EKSARelease` and that name.
///
/// # Errors
/// [`UpdateError`] when the manifest is not that of the release, or something cannot be written.
pub fn bundle_edits(
    fleet: &Fleet,
    source: &dyn Files,
    release: &PublishedRelease,
    bundles: &Bundles,
    bytes: &[u8],
    lock: &Lock,
) -> Result<BundleEdits, UpdateError> {
    if bundles.number != release.number {
        let message = format!("its number is {}, not {}", bundles.number, release.number);
        return Err(UpdateError::OtherBundle(message));
    }
    if let Some(file) = fleet.bundles.iter().find(|file| file.bundles.name == bundles.name) {
        return Err(UpdateError::OtherBundle(format!("its name, {}, is that of {}", bundles.name, file.path)));
    }
    let newest = fleet.bundles.iter().max_by_key(|file| file.bundles.number).ok_or(UpdateError::NoBundle)?;
    let folder = newest.path.as_str().rsplit_once('/').map_or("", |(folder, _)| folder);
    let path = |name: &str| RepoPath::new(if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") });
    let mut files = FileEdits::new();
    files.insert(path(&format!("{}.yaml", bundles.name))?, bytes.into());
    files.insert(RepoPath::new("bundles.lock")?, lock.to_text().into_bytes().into());
    let (mut referring, mut staying) = (Vec::new(), Vec::new());
    let mut names_version = false;
    for cluster in fleet.clusters.iter().filter(|cluster| overlays::uses_bundle(fleet, cluster)) {
        match (fleet.policy.bundle_selection(&cluster.name), &cluster.bundle_reference) {
            (Some(policy::BundleSelection::Name(_)), _) => staying.push(cluster.name.clone()),
            (Some(policy::BundleSelection::Newest), _) | (None, None) => {}
            (None, Some(reference)) => {
                let (field, value): (&[&str], &str) = match reference {
                    BundleReference::EksaVersion(_) => (&["spec", "eksaVersion"], release.version.as_str()),
                    BundleReference::Bundles(_) => (&["spec", "bundlesRef", "name"], &bundles.name),
                };
                names_version |= matches!(reference, BundleReference::EksaVersion(_));
                edit(&mut files, source, cluster, field, value)
                    .map_err(|reason| UpdateError::Reference { cluster: cluster.name.clone(), reason })?;
                referring.push(cluster.name.clone());
            }
        }
    }
    if names_version {
        let name = bundles::EksaRelease::name_of(release.version.as_str());
        files.insert(path(&format!("{name}.yaml"))?, eksa_release(&name, release, bundles).into_bytes().into());
    }
    Ok(BundleEdits { files, referring, staying })
}

/// Writes one field of a cluster's own object anew, in the file as far as it is edited already.
pub(super) fn edit(
    files: &mut FileEdits,
    source: &dyn Files,
    cluster: &ClusterSpec,
    field: &[&str],
    value: &str,
) -> Result<(), String> {
    let path = &cluster.places.name.path;
    let bytes = match files.get(path) {
        Some(bytes) => Arc::clone(bytes),
        None => {
            let written = source.read(path).map_err(|error| format!("{path}: {error}"))?;
            // What an overlay makes of several files stands in none of them.
            let is_own = cluster.files.iter().any(|file| file.path == *path && file.bytes == written);
            is_own
                .then_some(written)
                .ok_or_else(|| format!("{path} is not where it is written: an overlay makes it"))?
        }
    };
    let edited = overlays::edit::set_in_object(&bytes, &cluster.node, field, value);
    let edited = edited.map_err(|error: EditError| format!("{path}: {error}"))?;
    files.insert(path.clone(), edited.into_bytes().into());
    Ok(())
}

fn eksa_release(name: &str, release: &PublishedRelease, bundles: &Bundles) -> String {
    const NAMESPACE: &str = "eksa-system";
    const API_VERSION: &str = "anywhere.eks.amazonaws.com/v1alpha1";
    let map = |entries: Vec<(&str, yaml::Node)>| -> yaml::Node {
        yaml::Node::from(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<yaml::Mapping>())
    };
    let text = |text: &str| yaml::Node::from(text);
    let reference =
        [("apiVersion", text(API_VERSION)), ("name", text(&bundles.name)), ("namespace", text(NAMESPACE))].into();
    let mut spec = vec![("bundleManifestUrl", text(&release.bundle_manifest_url)), ("bundlesRef", map(reference))];
    spec.extend(release.git_commit.as_deref().map(|commit| ("gitCommit", text(commit))));
    spec.extend(release.date.as_deref().map(|date| ("releaseDate", text(date))));
    spec.push(("version", text(release.version.as_str())));
    emit(&map(vec![
        ("apiVersion", text(API_VERSION)),
        ("kind", text("EKSARelease")),
        ("metadata", map([("name", text(name)), ("namespace", text(NAMESPACE))].into())),
        ("spec", map(spec)),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(version: &str, number: u64, date: &str) -> PublishedRelease {
        PublishedRelease {
            version: Version::new(version),
            number,
            date: Some(date.to_owned()),
            bundle_manifest_url: "https://example.com/bundles.yaml".to_owned(),
            git_commit: None,
        }
    }

    #[track_caller]
    fn check(releases: &[PublishedRelease], policy: &UpdatePolicy, chosen: &[&str], reasons: &[(&str, &str)]) {
        let present = Present { version: Version::new("v0.25.1"), number: 81 };
        let (found, passed_over) = candidates(releases, &present, policy, "2026-03-10T00:00:00Z".parse().unwrap());
        assert_eq!(found.iter().map(|release| release.version.as_str()).collect::<Vec<_>>(), chosen);
        for (version, reason) in reasons {
            let passed = passed_over.iter().find(|passed| passed.version == *version);
            assert!(passed.is_some_and(|passed| passed.reason.contains(reason)), "{version}: {passed_over:?}");
        }
    }

    #[test]
    fn the_next_minor_and_the_last_patch_are_candidates() {
        let old = "2026-01-01T00:00:00Z";
        let releases = [
            release("v0.25.0", 79, old),
            release("v0.25.1", 81, old),
            release("v0.25.2", 82, old),
            release("v0.25.3", 83, "2021-08-30 19:19:51.119846 +0000 UTC"),
            release("v0.26.0", 84, old),
            release("v0.26.1", 85, old),
            release("v0.27.0", 86, old),
            release("v0.26.2-rc.1", 87, old),
        ];
        check(&releases, &UpdatePolicy::default(), &["v0.26.1", "v0.25.3"], &[("v0.27.0", "more than one minor")]);
        let patch = UpdatePolicy { follow: Follow::Patch, ..UpdatePolicy::default() };
        check(&releases, &patch, &["v0.25.3"], &[("v0.26.1", "`updates.follow` is patch")]);
    }

    #[test]
    fn young_future_lower_and_ignored_releases_are_passed_over() {
        let releases = [
            release("v0.25.2", 80, "2026-01-01T00:00:00Z"),
            release("v0.25.3", 82, "2026-03-09T00:00:00Z"),
            release("v0.25.4", 83, "2026-04-09T00:00:00Z"),
            release("v0.25.5", 84, "soon"),
            release("v0.26.0", 85, "2026-01-01T00:00:00Z"),
        ];
        let minor = policy::IgnoredVersion::Minor("0.26".parse().unwrap());
        let policy = UpdatePolicy { ignore: vec![minor], ..UpdatePolicy::default() };
        let reasons = [
            ("v0.25.2", "number 80, not above 81"),
            ("v0.25.3", "younger than 7d: it is looked at again on 2026-03-16"),
            ("v0.25.4", "published in the future"),
            ("v0.25.5", "nothing says when"),
            ("v0.26.0", "`updates.ignore` names it"),
        ];
        check(&releases, &policy, &[], &reasons);
    }
}
