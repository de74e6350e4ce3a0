//! An OCI layout in a folder (image-spec 1.1): blobs by digest, and an index of images.

use std::fs;
use std::path::{Path, PathBuf};

use bundles::Digest;
use fetch::PushedImage;
use in_place::image::{Architecture, PROGRAM};
use serde_json::{Value, json};

use super::layer::Layer;
use crate::cli::CommandError;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The name of an image in a layout.
const NAME: &str = "org.opencontainers.image.ref.name";

/// A folder that is being filled.
pub struct Layout {
    folder: PathBuf,
    images: Vec<Value>,
}

/// An image for one architecture, layer by layer.
pub struct Image {
    architecture: Architecture,
    layers: Vec<Value>,
    blobs: Vec<Digest>,
    uncompressed: Vec<String>,
}

/// The images of one release.
pub struct Index {
    /// Of its bytes.
    pub digest: Digest,
    bytes: Vec<u8>,
    manifests: Vec<(Digest, Vec<u8>)>,
    blobs: Vec<Digest>,
}

impl Image {
    /// Without a layer.
    pub fn new(architecture: Architecture) -> Self {
        Self { architecture, layers: Vec::new(), blobs: Vec::new(), uncompressed: Vec::new() }
    }
}

impl Layout {
    /// An empty one. The folder has to be empty or not there.
    pub fn create(folder: &Path) -> Result<Self, CommandError> {
        let is_used = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
        if is_used {
            let error = CommandError::new(format!("{} is not empty", folder.display()));
            return Err(error.hint("name an empty folder, or one that does not exist"));
        }
        fs::create_dir_all(folder.join("blobs/sha256"))?;
        Ok(Self { folder: folder.to_owned(), images: Vec::new() })
    }

    fn place(&self, digest: Digest) -> PathBuf {
        self.folder.join("blobs").join(digest.to_string().replace(':', "/"))
    }

    fn add(&self, media_type: &str, bytes: &[u8]) -> Result<(Digest, Value), CommandError> {
        let digest = Digest::of(bytes);
        let place = self.place(digest);
        fs::write(&place, bytes)
            .map_err(|error| CommandError::from(error).context(format!("cannot write {}", place.display())))?;
        Ok((digest, json!({"mediaType": media_type, "digest": digest.to_string(), "size": bytes.len()})))
    }

    /// Puts a layer on top of those that an image has.
    pub fn add_layer(&self, image: &mut Image, layer: &Layer) -> Result<(), CommandError> {
        let (digest, descriptor) = self.add(LAYER, &layer.bytes)?;
        image.layers.push(descriptor);
        image.blobs.push(digest);
        image.uncompressed.push(layer.uncompressed.to_string());
        Ok(())
    }

    /// Ends the images of one release.
    pub fn index(&mut self, name: &str, images: Vec<Image>) -> Result<Index, CommandError> {
        let (mut entries, mut manifests, mut blobs) = (Vec::new(), Vec::new(), Vec::new());
        for image in images {
            let config = json!({
                "architecture": image.architecture.as_str(),
                "os": "linux",
                "config": {
                    "Entrypoint": [format!("/{PROGRAM}")],
                    "Labels": {"org.opencontainers.image.title": PROGRAM, "org.opencontainers.image.version": name},
                },
                "rootfs": {"type": "layers", "diff_ids": image.uncompressed},
            });
            let (digest, config) = self.add(CONFIG, &serde_json::to_vec(&config)?)?;
            blobs.push(digest);
            blobs.extend(image.blobs);
            let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": image.layers});
            let bytes = serde_json::to_vec(&manifest)?;
            let (digest, mut entry) = self.add(MANIFEST, &bytes)?;
            if let Some(entry) = entry.as_object_mut() {
                entry
                    .insert("platform".to_owned(), json!({"architecture": image.architecture.as_str(), "os": "linux"}));
            }
            manifests.push((digest, bytes));
            entries.push(entry);
        }
        let bytes = serde_json::to_vec(&json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}))?;
        let (digest, mut entry) = self.add(INDEX, &bytes)?;
        if let Some(entry) = entry.as_object_mut() {
            entry.insert("annotations".to_owned(), json!({NAME: name}));
        }
        self.images.push(entry);
        blobs.sort();
        blobs.dedup();
        Ok(Index { digest, bytes, manifests, blobs })
    }

    /// What a registry is sent of an index.
    pub fn pushed(&self, index: &Index) -> PushedImage {
        PushedImage {
            blobs: index.blobs.iter().map(|digest| (*digest, self.place(*digest))).collect(),
            manifests: index.manifests.iter().map(|(_, bytes)| (MANIFEST.to_owned(), bytes.clone())).collect(),
            index: (INDEX.to_owned(), index.bytes.clone()),
        }
    }

    /// Makes it whole.
    pub fn finish(&self) -> Result<(), CommandError> {
        fs::write(self.folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": self.images});
        Ok(fs::write(self.folder.join("index.json"), serde_json::to_vec(&index)?)?)
    }
}
