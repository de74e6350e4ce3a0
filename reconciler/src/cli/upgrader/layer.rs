//! Layers of an image: archives that depend on their content alone.

use std::collections::BTreeSet;
use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

use bundles::Digest;

/// A file of a layer.
pub struct Entry<'a> {
    /// Without a leading `/`.
    pub path: String,
    /// All of it.
    pub content: &'a [u8],
    /// Who may do what.
    pub mode: u32,
}

/// A layer, packed.
pub struct Layer {
    /// Of the archive before it was compressed.
    pub uncompressed: Digest,
    /// The compressed archive.
    pub bytes: Vec<u8>,
}

/// Packs files: owned by root, of the beginning of time, folders first.
pub fn layer(entries: &[Entry<'_>]) -> io::Result<Layer> {
    let mut archive = Builder::new(Vec::new());
    let mut folders = BTreeSet::new();
    for entry in entries {
        let parts: Vec<&str> = entry.path.split('/').collect();
        folders.extend((1..parts.len()).filter_map(|count| Some(parts.get(..count)?.join("/"))));
    }
    for folder in folders {
        archive.append_data(&mut header(EntryType::Directory, 0o755, 0), format!("{folder}/"), io::empty())?;
    }
    for entry in entries {
        let size = entry.content.len() as u64;
        archive.append_data(&mut header(EntryType::Regular, entry.mode, size), &entry.path, entry.content)?;
    }
    let archive = archive.into_inner()?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::new(6));
    packed.write_all(&archive)?;
    Ok(Layer { uncompressed: Digest::of(&archive), bytes: packed.finish()? })
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}
