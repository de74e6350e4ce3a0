//! Components that go minor by minor: which versions lie between.

use bundles::{Version, VersionForm};
use yaml::Node;

use super::{RenderRequest, upstream};
use crate::BundleFile;

/// The way from the deployed version to the target.
#[derive(Default)]
pub(super) struct Way<'a> {
    /// Bundles with the versions in between, one for each minor, in order.
    pub steps: Vec<&'a BundleFile>,
    /// Minors that no bundle has.
    pub missing: Vec<String>,
}

/// The version that most objects carry in `label`.
pub(super) fn deployed_version(objects: &[Node], label: &str) -> Option<String> {
    let mut counts = std::collections::BTreeMap::new();
    for object in objects {
        if let Some(version) = object.at(&["metadata", "labels", label]).and_then(Node::as_str) {
            *counts.entry(version).or_insert(0usize) += 1;
        }
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(version, _)| version.to_owned())
}

fn minor(version: &str) -> Option<(u64, u64)> {
    match Version::new(version).form() {
        VersionForm::Semantic(version) => Some((version.major, version.minor)),
        VersionForm::EksD(_) | VersionForm::Opaque => None,
    }
}

/// The way of `section` from `deployed` to `target`; empty unless minors of one major are skipped upwards.
pub(super) fn between<'a>(request: &RenderRequest<'a>, section: &str, deployed: Option<&str>, target: &str) -> Way<'a> {
    let mut way = Way::default();
    let (Some((major, from)), Some((to_major, to))) = (deployed.and_then(minor), minor(target)) else { return way };
    if major != to_major {
        return way;
    }
    for wanted in from.saturating_add(1)..to {
        // The newest build of that minor: highest version, then highest number.
        let found = request
            .fleet
            .bundles
            .iter()
            .filter_map(|file| {
                let component = upstream::section(request, file, section).ok()?;
                let version = component.version.as_ref()?;
                (minor(version.as_str()) == Some((major, wanted))).then_some((version.precedence()?, file))
            })
            .max_by(|(left, _), (right, _)| left.cmp(right));
        match found {
            Some((_, file)) => way.steps.push(file),
            None => way.missing.push(format!("{major}.{wanted}")),
        }
    }
    way
}
