//! Upstream manifests: fetched by address, checked against the lock, decoded.

use bundles::{Component, Digest};

use super::{RenderError, RenderRequest};
use crate::BundleFile;
use crate::note::{Note, NoteKind, Weight};

/// A manifest as it came.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    pub uri: String,
    pub text: String,
}

/// The section `key` of the request's bundle for the cluster's Kubernetes version.
pub(super) fn section<'a>(
    request: &RenderRequest<'a>,
    bundle: &'a BundleFile,
    key: &str,
) -> Result<&'a Component, RenderError> {
    let missing = || RenderError::NoSection {
        bundle: bundle.bundles.name.clone(),
        section: key.to_owned(),
        kubernetes_version: request.cluster.kubernetes_version.clone(),
    };
    let component =
        versions_bundle(request, bundle).and_then(|versions| versions.component(key)).ok_or_else(missing)?;
    if component.is_placeholder() {
        let version = component.version.as_ref().map(bundles::Version::as_str).unwrap_or("<placeholder>");
        return Err(RenderError::NotInstallable {
            bundle: bundle.bundles.name.clone(),
            section: key.to_owned(),
            reason: format!("its version is {version:?}"),
        });
    }
    Ok(component)
}

/// The versionsBundle of the cluster's own Kubernetes version, never that of another one.
pub(super) fn versions_bundle<'a>(
    request: &RenderRequest<'a>,
    bundle: &'a BundleFile,
) -> Option<&'a bundles::VersionsBundle> {
    let version = request.cluster.kubernetes_version.parse().ok()?;
    bundle.bundles.versions_bundle(&version)
}

/// The manifest artifact `name` of `component`.
pub(super) fn manifest(
    request: &RenderRequest<'_>,
    bundle: &BundleFile,
    component: &Component,
    name: &str,
) -> Result<Upstream, RenderError> {
    let not_installable = |reason: &str| RenderError::NotInstallable {
        bundle: bundle.bundles.name.clone(),
        section: component.name.clone(),
        reason: reason.to_owned(),
    };
    let artifact = component.artifact(name).ok_or_else(|| not_installable(&format!("it has no {name}")))?;
    if artifact.is_placeholder() {
        return Err(not_installable(&format!("the address of {name} is {:?}", artifact.uri)));
    }
    fetch(request, &component.name, &artifact.uri)
}

/// The manifest at `uri`, checked against `bundles.lock` where that names it.
pub(super) fn fetch(request: &RenderRequest<'_>, section: &str, uri: &str) -> Result<Upstream, RenderError> {
    let bytes =
        request.manifests.get(uri).map_err(|source| RenderError::Fetch { section: section.to_owned(), source })?;
    if let Some(locked) = request.fleet.lock.get(uri) {
        let found = Digest::of(&bytes);
        if found != locked {
            let (locked, found) = (locked.to_string(), found.to_string());
            return Err(RenderError::LockMismatch { uri: uri.to_owned(), locked, found });
        }
    }
    match yaml::decode(&bytes) {
        Ok(text) => Ok(Upstream { uri: uri.to_owned(), text: text.into_owned() }),
        Err(error) => Err(RenderError::Manifest {
            uri: uri.to_owned(),
            line: error.line,
            column: error.column,
            message: error.message,
        }),
    }
}

/// A note for each manifest that `bundles.lock` does not name: nobody would see its content change under one address.
pub(super) fn unlocked(request: &RenderRequest<'_>, manifests: &[Upstream]) -> Vec<Note> {
    let lock = &request.fleet.lock;
    let missing = manifests.iter().filter(|manifest| manifest.uri.contains("://") && lock.get(&manifest.uri).is_none());
    let (weight, why) = if lock.is_empty() {
        (Weight::Note, "there is no bundles.lock")
    } else {
        (Weight::Risk, "bundles.lock does not name it")
    };
    missing
        .map(|manifest| {
            let message =
                format!("{} is not checked against a digest: {why}; run `stepgate bundle fetch`", manifest.uri);
            Note::new(weight, NoteKind::ManifestNotLocked, message)
        })
        .collect()
}
