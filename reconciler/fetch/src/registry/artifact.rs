//! Artifacts that are pushed to a registry and pulled again: one manifest, a configuration and named layers.
//!
//! The same rules hold as for charts: registry and token server must be on the allow-list, credentials
//! go to no other host, and every part is checked against its digest.

use std::collections::BTreeMap;

use bundles::Digest;
use overlays::FetchError;
use serde::{Deserialize, Serialize};

use super::manifest::ACCEPTED;
use super::session::{Access, Session};
use super::{Chart, MAXIMUM_MANIFEST, Registry};
use crate::http::wait_for;

/// What a layer is called.
const TITLE: &str = "org.opencontainers.image.title";

/// An artifact: what it is, and its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Its type.
    pub artifact_type: String,
    /// Type and bytes of its configuration.
    pub config: (String, Vec<u8>),
    /// Its layers by their names, each with its type.
    pub layers: BTreeMap<String, (String, Vec<u8>)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactManifest {
    schema_version: u32,
    media_type: String,
    #[serde(default)]
    artifact_type: String,
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

impl Descriptor {
    fn of(media_type: &str, bytes: &[u8], title: Option<&str>) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(bytes).to_string(),
            size: bytes.len() as u64,
            annotations: title.map(|title| (TITLE.to_owned(), title.to_owned())).into_iter().collect(),
        }
    }
}

impl Registry {
    /// Pushes an artifact to `oci://host/repository:tag`, and answers with the digest of its manifest. What is there
    /// already is not sent again; the manifest comes last, so that whatever a tag names is whole.
    ///
    /// # Errors
    /// When the address is not valid or not on the allow-list, or the registry does not take it.
    pub fn push(&self, uri: &str, artifact: &Artifact) -> Result<String, FetchError> {
        let place = self.place(uri)?;
        wait_for(uri, self.push_to(uri, &place, artifact))
    }

    /// Pulls an artifact of this type from `oci://host/repository:tag[@digest]`.
    ///
    /// # Errors
    /// When the address is not valid or not on the allow-list, it is an artifact of another type, or a part does not
    /// have the digest that it is named by.
    pub fn pull_artifact(&self, uri: &str, artifact_type: &str) -> Result<Artifact, FetchError> {
        let place = self.place(uri)?;
        wait_for(uri, self.pull_from(uri, &place, artifact_type))
    }

    pub(super) fn place(&self, uri: &str) -> Result<Chart, FetchError> {
        let place = Chart::parse(uri).map_err(|searched| FetchError::NotFound { uri: uri.to_owned(), searched })?;
        if !self.http.options.allow.allows(&place.host, &place.repository) {
            return Err(FetchError::NotAllowed { uri: uri.to_owned() });
        }
        Ok(place)
    }

    async fn push_to(&self, uri: &str, place: &Chart, artifact: &Artifact) -> Result<String, FetchError> {
        let mut session =
            Session::new(&self.http, &self.credentials, uri, &place.host, &place.repository).asking_for(Access::Push);
        let (config_type, config) = &artifact.config;
        session.upload(&Digest::of(config).to_string(), config).await?;
        let mut layers = Vec::new();
        for (title, (media_type, bytes)) in &artifact.layers {
            let layer = Descriptor::of(media_type, bytes, Some(title));
            session.upload(&layer.digest, bytes).await?;
            layers.push(layer);
        }
        let manifest = ArtifactManifest {
            schema_version: 2,
            media_type: ACCEPTED.to_owned(),
            artifact_type: artifact.artifact_type.clone(),
            config: Descriptor::of(config_type, config, None),
            layers,
        };
        let failed = |error: serde_json::Error| FetchError::Failed { uri: uri.to_owned(), message: error.to_string() };
        let bytes = serde_json::to_vec(&manifest).map_err(failed)?;
        session.put_manifest(&place.tag, ACCEPTED, &bytes).await?;
        Ok(Digest::of(&bytes).to_string())
    }

    async fn pull_from(&self, uri: &str, place: &Chart, artifact_type: &str) -> Result<Artifact, FetchError> {
        let failed = |message: String| FetchError::Failed { uri: uri.to_owned(), message };
        let mut session = Session::new(&self.http, &self.credentials, uri, &place.host, &place.repository);
        let reference = place.digest.map_or_else(|| place.tag.clone(), |digest| digest.to_string());
        let bytes = session.get(&format!("manifests/{reference}"), ACCEPTED, MAXIMUM_MANIFEST).await?;
        let found = Digest::of(&bytes);
        if let Some(wanted) = place.digest.filter(|wanted| *wanted != found) {
            return Err(failed(format!("its manifest has digest {found}, and {wanted} is asked for")));
        }
        let manifest: ArtifactManifest =
            serde_json::from_slice(&bytes).map_err(|error| failed(format!("its manifest cannot be read: {error}")))?;
        if manifest.artifact_type != artifact_type {
            let found = manifest.artifact_type;
            return Err(failed(format!("it is of type {found:?}, and {artifact_type} is expected")));
        }
        let total = manifest.layers.iter().fold(manifest.config.size, |sum, layer| sum.saturating_add(layer.size));
        let maximum = self.http.options.maximum_bytes;
        if total > maximum {
            return Err(failed(format!("it has {total} bytes, more than {maximum}")));
        }
        let config = session.blob(&manifest.config.digest, manifest.config.size).await?;
        let mut layers = BTreeMap::new();
        for layer in manifest.layers {
            let bytes = session.blob(&layer.digest, layer.size).await?;
            let title = layer.annotations.get(TITLE).cloned();
            let title = title.ok_or_else(|| failed(format!("its layer {} has no name", layer.digest)))?;
            layers.insert(title, (layer.media_type, bytes));
        }
        Ok(Artifact { artifact_type: manifest.artifact_type, config: (manifest.config.media_type, config), layers })
    }
}
