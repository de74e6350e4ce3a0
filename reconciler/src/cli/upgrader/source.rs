//! Where the programs of a release come from: archives in mirrors and on allowed hosts, or EKS Anywhere's own upgrader image.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bundles::Digest;
use fetch::{AllowList, Chain, FetchOptions, Mirror, MirrorFolder, Remote};
use flate2::read::GzDecoder;
use in_place::image::{self, Architecture, Component, Part, ReleaseFile};
use overlays::{FetchError, Manifests};
use serde_json::Value;

use super::build::{MAXIMUM_BYTES, read};
use crate::cli::CommandError;

/// What a whole archive holds, uncompressed, at most.
const MAXIMUM_ARCHIVE: u64 = 1 << 30;

/// For one file.
const TIMEOUT: Duration = Duration::from_secs(1800);

type Files = Vec<(ReleaseFile, Vec<u8>)>;

/// Mirrors, then the network.
pub struct Sources {
    chain: Chain,
    is_offline: bool,
}

impl Sources {
    /// Those that were named.
    pub fn open(mirrors: &[MirrorFolder], allow: &[String], private_hosts: &[String]) -> Result<Self, CommandError> {
        let folders = mirrors.iter().map(|mirror| mirror.path.clone());
        let mut sources: Vec<Box<dyn Manifests>> = vec![Box::new(Mirror::open(folders)?.with_maximum(MAXIMUM_BYTES))];
        if !allow.is_empty() {
            let options = FetchOptions {
                allow: AllowList::new(allow.iter().cloned()),
                private_hosts: private_hosts.to_vec(),
                maximum_bytes: MAXIMUM_BYTES,
                timeout: TIMEOUT,
            };
            sources.push(Box::new(Remote::new(options)?));
        }
        Ok(Self { chain: Chain::new(sources), is_offline: allow.is_empty() })
    }

    /// What lies at an address.
    pub fn get(&self, uri: &str) -> Result<Arc<[u8]>, CommandError> {
        self.chain.get(uri).map_err(|error| {
            let hint = match &error {
                FetchError::NotFound { .. } if self.is_offline => "name a folder by --mirror, or hosts by --allow",
                FetchError::NotAllowed { .. } | FetchError::SentOn { .. } => "name the host by --allow",
                _ => "look whether the address is right and the host answers",
            };
            CommandError::from(error).hint(hint)
        })
    }
}

fn file(component: Component, path: String, content: Vec<u8>) -> (ReleaseFile, Vec<u8>) {
    (ReleaseFile { component, path, digest: Digest::of(&content) }, content)
}

/// The programs of something fetched.
pub fn files_of_part(part: Part, uri: &str, content: &[u8]) -> Result<Files, CommandError> {
    if !part.is_archive() {
        let name = uri.rsplit('/').next().unwrap_or_default();
        let placed = image::place(part, name);
        return Ok(placed.into_iter().map(|(component, path)| file(component, path, content.to_vec())).collect());
    }
    let found = unpack(content, |name| image::place(part, name));
    found.map_err(|error| CommandError::from(error).context(format!("{uri} is not a whole archive (tar.gz)")))
}

/// The files of an archive that have a place, a later one of the same place in the stead of an earlier one.
fn unpack(content: &[u8], place: impl Fn(&str) -> Option<(Component, String)>) -> std::io::Result<Files> {
    let bounded = GzDecoder::new(content).take(MAXIMUM_ARCHIVE);
    let mut archive = tar::Archive::new(bounded);
    let mut files = BTreeMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path()?.to_string_lossy().into_owned();
        let Some((component, path)) = place(&name) else { continue };
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        files.insert(path.clone(), file(component, path, content));
    }
    Ok(files.into_values().collect())
}

/// The programs in EKS Anywhere's upgrader image for one architecture.
pub fn files_of_eksa_upgrader(folder: &Path, architecture: Architecture) -> Result<Files, CommandError> {
    let hint = format!("make it by `skopeo copy --all docker://IMAGE oci:{}`", folder.display());
    let told = |what: String| CommandError::new(format!("{}: {what}", folder.display())).hint(hint.clone());
    let document = |path: &Path| -> Result<Value, CommandError> {
        serde_json::from_slice(&read(path)?).map_err(|_| told(format!("{} is not JSON", path.display())))
    };
    let blob = |descriptor: &Value| -> Result<Vec<u8>, CommandError> {
        let digest = descriptor.get("digest").and_then(Value::as_str).and_then(|text| text.parse::<Digest>().ok());
        let digest = digest.ok_or_else(|| told(String::from("a descriptor has no digest")))?;
        let path = folder.join("blobs").join(digest.to_string().replace(':', "/"));
        let bytes = read(&path)?;
        let found = Digest::of(&bytes);
        if found == digest { Ok(bytes) } else { Err(told(format!("a blob has digest {found}, and {digest} is named"))) }
    };
    let mut found = document(&folder.join("index.json"))?;
    // An index may hold an index.
    let manifest = loop {
        let list = |name: &str| found.get(name).and_then(Value::as_array).cloned();
        if list("layers").is_some() {
            break found;
        }
        let entries = list("manifests").unwrap_or_default();
        let is_for = |entry: &&Value| {
            let named = entry.pointer("/platform/architecture").and_then(Value::as_str);
            named.is_none_or(|named| named == architecture.as_str())
        };
        let entry = entries.iter().find(is_for);
        let entry = entry.ok_or_else(|| told(format!("it has no image for linux/{architecture}")))?;
        found = serde_json::from_slice(&blob(entry)?).map_err(|_| told(String::from("a manifest is not JSON")))?;
    };
    let mut files = BTreeMap::new();
    for layer in manifest.get("layers").and_then(Value::as_array).into_iter().flatten() {
        let content = blob(layer)?;
        let unpacked = unpack(&content, image::place_in_eksa_upgrader);
        let unpacked =
            unpacked.map_err(|error| CommandError::from(error).context(format!("{}: a layer", folder.display())))?;
        files.extend(unpacked.into_iter().map(|(file, content)| (file.path.clone(), (file, content))));
    }
    Ok(files.into_values().collect())
}
