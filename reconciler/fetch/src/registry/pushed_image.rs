//! Images that are pushed to a registry: blobs first, the index under its tag last, so that whatever a tag names is whole.

use std::path::PathBuf;

use bundles::Digest;
use host::disk;
use overlays::FetchError;

use super::Registry;
use super::session::{Access, Session};
use crate::http::wait_for;

/// An index of images, and what it is made of.
#[derive(Debug, Clone)]
pub struct PushedImage {
    /// Layers and configurations: digests, and the files that have them.
    pub blobs: Vec<(Digest, PathBuf)>,
    /// The manifests that the index names: media types and bytes.
    pub manifests: Vec<(String, Vec<u8>)>,
    /// The index: media type and bytes.
    pub index: (String, Vec<u8>),
}

impl Registry {
    /// Pushes an image to `oci://host/repository:tag`. What is there already is not sent again.
    ///
    /// # Errors
    /// When the address is not valid or not on the allow-list, a file cannot be read, or the registry does not take it.
    pub fn push_image(&self, uri: &str, image: &PushedImage) -> Result<(), FetchError> {
        let place = self.place(uri)?;
        wait_for(uri, async {
            let mut session = Session::new(&self.http, &self.credentials, uri, &place.host, &place.repository)
                .asking_for(Access::Push);
            for (digest, path) in &image.blobs {
                let read = disk::read(path, self.http.options.maximum_bytes);
                let bytes = read.map_err(|error| session.failed(format!("{}: {error}", path.display())))?;
                session.upload(&digest.to_string(), &bytes).await?;
            }
            for (media_type, bytes) in &image.manifests {
                session.put_manifest(&Digest::of(bytes).to_string(), media_type, bytes).await?;
            }
            let (media_type, bytes) = &image.index;
            session.put_manifest(&place.tag, media_type, bytes).await
        })
    }
}
