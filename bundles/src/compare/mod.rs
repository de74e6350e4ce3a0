//! Which class a change has. The first rule that fits decides, for each Kubernetes version by itself.
//!
//! Both sides have a version, and the text is equal: a digest that both sides know differs → `digest-drift` (for a manifest
//! that is its digest in `bundles.lock`); no address differs → `unchanged`; an artifact is on one side only, or the version
//! has no build metadata and an image or archive with another address lacks a digest on a side → `rebuild`; else → `retag`.
//!
//! The text differs: a side has no order or no version → `opaque`; core, prerelease and packaging revision are lower →
//! `downgrade`; core and prerelease are equal → `rebuild`; the major is higher → `major`; the minor is higher by one →
//! `minor`, by more → `skip-minor`; else → `patch`.
//!
//! `eksD`, which has no version of its own: Kubernetes version and release number are lower → `downgrade`; the Kubernetes
//! version is higher → `patch`; the release number is higher → `rebuild`; equal → as without a version.
//!
//! No version on either side: a digest differs, an artifact is on one side only, or an image or archive with another address
//! lacks a digest on a side → `rebuild`; an address differs → `retag`; else → `unchanged`. A component on one side only is
//! `added` or `removed`.

mod change;

pub use change::{ArtifactChange, Change, ChangeClass, Changes};

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::bundles::{Bundles, EksDReference, VersionsBundle};
use crate::component::{Artifact, ArtifactKind, Component};
use crate::digest::Digest;
use crate::kubernetes::KubernetesVersion;
use crate::lock::Lock;
use crate::version::Version;

/// The `bundles.lock` of each side; without one, manifests have no digest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Locks<'a> {
    /// The lock that belonged to the old Bundles.
    pub old: Option<&'a Lock>,
    /// The lock that belongs to the new Bundles.
    pub new: Option<&'a Lock>,
}

/// Compares two Bundles, one Kubernetes version at a time: what one version says never counts for another.
///
/// The result depends on values alone: order, format and comments of the files have no part in it.
#[must_use]
pub fn compare(old: &Bundles, new: &Bundles, locks: Locks<'_>) -> Changes {
    let mut changes = Changes::default();
    for (old, new) in pair([&old.versions_bundles, &new.versions_bundles], |it| it.kubernetes_version.minor()) {
        let Some(version) = new.or(old).map(|it| &it.kubernetes_version) else { continue };
        match (old, new) {
            (None, Some(_)) => changes.kubernetes_versions_added.push(version.clone()),
            (Some(_), None) => changes.kubernetes_versions_removed.push(version.clone()),
            _ => {}
        }
        changes.changes.append(&mut compare_sides(version, old, new, locks));
    }
    changes
}

/// Compares two versionsBundles, of one Kubernetes version or of two: what a cluster goes through that leaves `old` for
/// `new`. The changes carry the Kubernetes version of `new`.
#[must_use]
pub fn compare_versions_bundles(old: &VersionsBundle, new: &VersionsBundle, locks: Locks<'_>) -> Vec<Change> {
    compare_sides(&new.kubernetes_version, Some(old), Some(new), locks)
}

fn compare_sides(
    version: &KubernetesVersion,
    old: Option<&VersionsBundle>,
    new: Option<&VersionsBundle>,
    locks: Locks<'_>,
) -> Vec<Change> {
    let components = [old, new].map(|side| side.map_or(&[][..], |it| &it.components));
    pair(components, |component| component.name.as_str())
        .into_iter()
        .filter_map(|(left, right)| {
            let name = &left.or(right)?.name;
            let [old_eks_d, new_eks_d] =
                [old, new].map(|side| side.filter(|_| name == "eksD").and_then(|it| it.eks_d.as_ref()));
            let artifacts = compare_artifacts(left, right, locks);
            let class = match (left, right) {
                (Some(left), Some(right)) => class_of(left, right, old_eks_d.zip(new_eks_d), &artifacts),
                (None, _) => ChangeClass::Added,
                (_, None) => ChangeClass::Removed,
            };
            let text = |side: Option<&Component>| side.and_then(|it| it.version.as_ref()).map(Version::to_string);
            let release = |side: Option<&EksDReference>| Some(side?.version()?.to_string());
            Some(Change {
                kubernetes_version: version.clone(),
                component: name.clone(),
                class,
                old_version: text(left),
                new_version: text(right),
                artifacts: artifacts.into_iter().map(|artifact| artifact.change).collect(),
                old_release: release(old_eks_d),
                new_release: release(new_eks_d),
            })
        })
        .collect()
}

/// The class of a component that both sides have: the first rule that fits.
fn class_of(
    old: &Component,
    new: &Component,
    eks_d: Option<(&EksDReference, &EksDReference)>,
    artifacts: &[Compared],
) -> ChangeClass {
    match (&old.version, &new.version) {
        (Some(old), Some(new)) if old.as_str() == new.as_str() => same_version(old, artifacts),
        (Some(old), Some(new)) => other_version(old, new),
        (None, None) => {
            let order = eks_d.and_then(|(old, new)| eks_d_class(old, new));
            order.unwrap_or_else(|| without_version(artifacts))
        }
        _ => ChangeClass::Opaque,
    }
}

/// Both sides have the same version text.
fn same_version(version: &Version, artifacts: &[Compared]) -> ChangeClass {
    if artifacts.iter().any(Compared::digest_differs) {
        ChangeClass::DigestDrift
    } else if !artifacts.iter().any(Compared::uri_differs) {
        ChangeClass::Unchanged
    } else if artifacts.iter().any(Compared::one_sided)
        || version.build_metadata().is_none() && artifacts.iter().any(Compared::content_unknown)
    {
        ChangeClass::Rebuild
    } else {
        ChangeClass::Retag
    }
}

/// Both sides have a version, and the texts differ.
fn other_version(old: &Version, new: &Version) -> ChangeClass {
    let (Some(old), Some(new)) = (old.precedence(), new.precedence()) else { return ChangeClass::Opaque };
    if new < old {
        ChangeClass::Downgrade
    } else if (old.core, &old.prerelease) == (new.core, &new.prerelease) {
        ChangeClass::Rebuild
    } else if new.core.0 > old.core.0 {
        ChangeClass::Major
    } else {
        match new.core.1.saturating_sub(old.core.1) {
            0 => ChangeClass::Patch,
            1 => ChangeClass::Minor,
            _ => ChangeClass::SkipMinor,
        }
    }
}

/// `eksD` has no version: its Kubernetes version and release number decide, unless they are equal or not both known.
fn eks_d_class(old: &EksDReference, new: &EksDReference) -> Option<ChangeClass> {
    let kubernetes = old.kubernetes_version.as_ref().zip(new.kubernetes_version.as_ref());
    let number = old.number.zip(new.number);
    let order = |pair: Option<Ordering>| pair.unwrap_or(Ordering::Equal);
    match (order(kubernetes.map(|(old, new)| new.cmp(old))), order(number.map(|(old, new)| new.cmp(&old)))) {
        (Ordering::Less, _) | (Ordering::Equal, Ordering::Less) => Some(ChangeClass::Downgrade),
        (Ordering::Greater, _) => Some(ChangeClass::Patch),
        (Ordering::Equal, Ordering::Greater) => Some(ChangeClass::Rebuild),
        (Ordering::Equal, Ordering::Equal) => None,
    }
}

/// Neither side has a version.
fn without_version(artifacts: &[Compared]) -> ChangeClass {
    let rebuilt = |it: &Compared| it.digest_differs() || it.one_sided() || it.content_unknown();
    if artifacts.iter().any(rebuilt) {
        ChangeClass::Rebuild
    } else if artifacts.iter().any(Compared::uri_differs) {
        ChangeClass::Retag
    } else {
        ChangeClass::Unchanged
    }
}

/// An artifact of either side, with what the class rules ask of it.
struct Compared {
    change: ArtifactChange,
    manifest: bool,
}

impl Compared {
    /// A digest that both sides have, with different values.
    fn digest_differs(&self) -> bool {
        let digests = self.change.old_digest.as_deref().zip(self.change.new_digest.as_deref());
        digests.is_some_and(|(old, new)| old != new && !same_digest(old, new))
    }

    fn one_sided(&self) -> bool {
        self.change.old_uri.is_some() != self.change.new_uri.is_some()
    }

    /// Also when only one side has the artifact.
    fn uri_differs(&self) -> bool {
        self.change.old_uri != self.change.new_uri
    }

    /// An image or archive with another address whose digest a side does not tell.
    fn content_unknown(&self) -> bool {
        let digests = self.change.old_digest.as_ref().zip(self.change.new_digest.as_ref());
        !self.manifest && self.uri_differs() && digests.is_none()
    }
}

fn same_digest(old: &str, new: &str) -> bool {
    old.parse::<Digest>().ok().zip(new.parse::<Digest>().ok()).is_some_and(|(old, new)| old == new)
}

fn compare_artifacts(old: Option<&Component>, new: Option<&Component>, locks: Locks<'_>) -> Vec<Compared> {
    let artifacts = [old, new].map(|side| side.map_or(&[][..], |it| &it.artifacts));
    let versions = [old, new].map(|side| side.and_then(|it| it.version.as_ref()));
    let same_version = matches!(versions, [Some(old), Some(new)] if old.as_str() == new.as_str());
    pair(artifacts, |artifact| artifact.name.as_str())
        .into_iter()
        .filter_map(|(old, new)| {
            let any = old.or(new)?;
            let uri = |side: Option<&Artifact>| side.map(|it| it.uri.clone());
            let mut compared = Compared {
                change: ArtifactChange {
                    name: any.name.clone(),
                    class: ChangeClass::Unchanged,
                    old_uri: uri(old),
                    new_uri: uri(new),
                    old_digest: old.and_then(|it| digest(it, locks.old)),
                    new_digest: new.and_then(|it| digest(it, locks.new)),
                },
                manifest: [old, new].into_iter().flatten().all(|it| it.kind == ArtifactKind::Manifest),
            };
            compared.change.class = match (old, new) {
                (None, _) => ChangeClass::Added,
                (_, None) => ChangeClass::Removed,
                _ if compared.digest_differs() && same_version => ChangeClass::DigestDrift,
                _ if compared.digest_differs() => ChangeClass::Rebuild,
                _ if compared.uri_differs() => ChangeClass::Retag,
                _ => ChangeClass::Unchanged,
            };
            Some(compared)
        })
        .collect()
}

/// What vouches for the content of an artifact: its own digest, or for a manifest the lock's.
fn digest(artifact: &Artifact, lock: Option<&Lock>) -> Option<String> {
    artifact.digest_text.clone().or_else(|| {
        let lock = lock.filter(|_| artifact.kind == ArtifactKind::Manifest)?;
        Some(lock.get(&artifact.uri)?.to_string())
    })
}

/// Joins two lists by key: every key once, in order.
fn pair<'a, T, K: Ord>([old, new]: [&'a [T]; 2], key: impl Fn(&'a T) -> K) -> Vec<(Option<&'a T>, Option<&'a T>)> {
    let keys: BTreeSet<K> = old.iter().chain(new).map(&key).collect();
    let find = |side: &'a [T], wanted: &K| side.iter().find(|item| key(item) == *wanted);
    keys.iter().map(|wanted| (find(old, wanted), find(new, wanted))).collect()
}

#[cfg(test)]
mod tests;
