//! Folders of overlays of components, which are not read for specifications.

use std::collections::BTreeSet;

use super::scan::{Found, scoped};
use crate::{ComponentName, FileEntry};
use domain::{Problem, ProblemCode, RepoPath, Severity, nearest};
use policy::Policy;

/// The name of the folder below `overlays/` that a path is in, where overlays of components are.
pub(super) fn overlay_of(path: &RepoPath) -> Option<&str> {
    let mut segments = path.segments();
    let first = segments.next()?;
    if first == "clusters" {
        segments.next()?;
    }
    let overlays = if first == "clusters" { segments.next()? } else { first };
    let name = segments.next().filter(|_| overlays == "overlays")?;
    segments.next().map(|_| name)
}

fn components() -> impl Iterator<Item = &'static str> {
    ComponentName::ALL.into_iter().filter(|name| has_overlay(*name)).map(ComponentName::overlay)
}

pub(super) fn is_component(name: &str) -> bool {
    components().any(|known| known == name)
}

/// Folders under `overlays/` that are no component's and hold nothing that is read: nobody would ever look at them.
pub(super) fn unknown_overlays(entries: &[FileEntry], policy: &Policy, found: &mut Found) {
    let known: Vec<&str> = components().collect();
    let mut told = BTreeSet::new();
    for entry in entries {
        let Some(name) = overlay_of(&entry.path) else { continue };
        let Some(folder) = entry
            .path
            .as_str()
            .find(&format!("overlays/{name}/"))
            .and_then(|at| entry.path.as_str().get(..at + "overlays/".len() + name.len()))
        else {
            continue;
        };
        let is_read =
            found.objects.iter().any(|object| object.path.is_below(folder)) || found.kustomized.contains(folder);
        let is_left = policy.ignore.iter().any(|pattern| pattern.matches(&entry.path));
        if known.contains(&name) || is_read || is_left || !told.insert(folder.to_owned()) {
            continue;
        }
        let message = format!("{folder} is not the overlay of a component, and holds nothing that is read");
        let hint = match nearest(name, &known) {
            Some(name) => format!("did you mean {name:?}?"),
            None => format!("components are {}", known.join(", ")),
        };
        let problem = Problem::new(ProblemCode::Skipped, message).severity(Severity::Warning).hint(hint);
        found.problems.push(scoped(problem, &entry.path));
    }
}

/// Whether kustomize overlays are applied to a component; the rest is taken as it is.
pub(super) fn has_overlay(name: ComponentName) -> bool {
    match name {
        ComponentName::CertManager
        | ComponentName::Capi
        | ComponentName::EksA
        | ComponentName::CiliumPreflight
        | ComponentName::Cilium
        | ComponentName::Flux => true,
        ComponentName::Bundle
        | ComponentName::Addons
        | ComponentName::Templates
        | ComponentName::Cluster
        | ComponentName::FluxObjects => false,
    }
}
