//! Writes new objects as one pack, durably.
//!
//! One pack and its index are synchronised at once, for any number of objects, where loose objects are one each; and they
//! appear all at once. Their names become durable with the reference that needs them. The compressor is reused, since
//! setting it up costs more than compressing a small file. Format: gitformat-pack(5).

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use git2::{ObjectType, OdbLookupFlags, Oid};
use ring::digest::{Context, Digest, SHA1_FOR_LEGACY_USE_ONLY};
use tempfile::NamedTempFile;

use super::object::{Objects, library};
use crate::durable;
use crate::durable::storage;
use crate::error::GitError;

/// Objects that the store may not hold yet.
#[derive(Default)]
pub(crate) struct NewObjects {
    objects: Vec<(Oid, ObjectType, Vec<u8>)>,
    ids: HashSet<Oid>,
}

impl NewObjects {
    /// Adds an object and returns its id. The same bytes twice are kept once, and not at all when their id is `present`,
    /// which the store is known to hold.
    ///
    /// The id is computed by the library, whose SHA-1 detects collision attacks.
    pub(crate) fn add(&mut self, kind: ObjectType, bytes: Vec<u8>, present: Option<Oid>) -> Result<Oid, GitError> {
        let id = Oid::hash_object(kind, &bytes).map_err(|error| library("hash a new object", &error))?;
        if present != Some(id) && self.ids.insert(id) {
            self.objects.push((id, kind, bytes));
        }
        Ok(id)
    }

    /// Writes the objects durably, but for the names of their files. `folder` is `objects/` of the repository.
    ///
    /// The last one is the commit: when the store holds it, it holds all of them, since they were written at once.
    pub(crate) fn write(self, folder: &Path, store: &Objects<'_>) -> Result<(), GitError> {
        if self.objects.last().is_some_and(|(id, _, _)| store.odb().exists_ext(*id, OdbLookupFlags::NO_REFRESH)) {
            return Ok(());
        }
        if self.objects.is_empty() {
            return Ok(());
        }
        let folder = folder.join("pack");
        fs::create_dir_all(&folder).map_err(storage("create", &folder))?;
        let pack = Pack::build(&self.objects)?;
        let index = pack.index()?;
        let name = hexadecimal(pack.checksum.as_ref());
        let [pack_path, index_path] = ["pack", "idx"].map(|kind| folder.join(format!("pack-{name}.{kind}")));
        let pack = temporary(&folder, &pack.bytes).map_err(storage("write", &pack_path))?;
        let index = temporary(&folder, &index).map_err(storage("write", &index_path))?;
        durable::together(&[pack.as_file(), index.as_file()]).map_err(storage("synchronise", &pack_path))?;
        // The index last: a pack without one is invisible, so a reader never sees half of a commit.
        for (file, path) in [(pack, pack_path), (index, index_path)] {
            file.persist(&path).map_err(|error| storage("write", &path)(error.error))?;
        }
        store.forget_packs();
        store.odb().refresh().map_err(|error| library("read the new pack", &error))
    }
}

struct Pack {
    bytes: Vec<u8>,
    checksum: Digest,
    /// Id, checksum of the packed bytes, offset.
    entries: Vec<(Oid, u32, u32)>,
}

impl Pack {
    fn build(objects: &[(Oid, ObjectType, Vec<u8>)]) -> Result<Self, GitError> {
        let too_large = || GitError::Library {
            action: "write a pack".to_owned(),
            message: "one commit must not hold 2 GiB or more".to_owned(),
        };
        let count = u32::try_from(objects.len()).map_err(|_| too_large())?;
        let total: usize = objects.iter().map(|(_, _, bytes)| bytes.len()).sum();
        let mut bytes = Vec::with_capacity(total / 2 + objects.len() * 16 + 64);
        bytes.extend_from_slice(b"PACK\0\0\0\x02");
        bytes.extend_from_slice(&count.to_be_bytes());
        let mut compressor = Compress::new(Compression::fast(), true);
        let mut entries = Vec::with_capacity(objects.len());
        for (id, kind, content) in objects {
            let start = bytes.len();
            let offset = u32::try_from(start).ok().filter(|offset| *offset < 1 << 31).ok_or_else(too_large)?;
            write_header(&mut bytes, *kind, content.len());
            compress(&mut compressor, content, &mut bytes)?;
            let mut crc = Crc::new();
            crc.update(bytes.get(start..).unwrap_or_default());
            entries.push((*id, crc.sum(), offset));
        }
        let checksum = ring::digest::digest(&SHA1_FOR_LEGACY_USE_ONLY, &bytes);
        bytes.extend_from_slice(checksum.as_ref());
        Ok(Self { bytes, checksum, entries })
    }

    fn index(&self) -> Result<Vec<u8>, GitError> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(id, _, _)| *id);
        let mut bytes = Vec::with_capacity(8 + 1024 + entries.len() * 28 + 40);
        bytes.extend_from_slice(b"\xfftOc\0\0\0\x02");
        let mut counts = [0_u32; 256];
        for (id, _, _) in &entries {
            let first = id.as_bytes().first().copied().unwrap_or_default();
            for count in counts.iter_mut().skip(usize::from(first)) {
                *count += 1;
            }
        }
        counts.iter().for_each(|count| bytes.extend_from_slice(&count.to_be_bytes()));
        entries.iter().for_each(|(id, _, _)| bytes.extend_from_slice(id.as_bytes()));
        entries.iter().for_each(|(_, crc, _)| bytes.extend_from_slice(&crc.to_be_bytes()));
        entries.iter().for_each(|(_, _, offset)| bytes.extend_from_slice(&offset.to_be_bytes()));
        bytes.extend_from_slice(self.checksum.as_ref());
        let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        context.update(&bytes);
        bytes.extend_from_slice(context.finish().as_ref());
        Ok(bytes)
    }
}

/// Appends the content as a zlib stream of its own.
fn compress(compressor: &mut Compress, content: &[u8], bytes: &mut Vec<u8>) -> Result<(), GitError> {
    compressor.reset();
    loop {
        // What does not shrink grows by a few bytes for each block.
        bytes.reserve(content.len() / 2 + 64);
        let read = usize::try_from(compressor.total_in()).unwrap_or(usize::MAX);
        let rest = content.get(read..).unwrap_or_default();
        match compressor.compress_vec(rest, bytes, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => return Ok(()),
            Ok(Status::Ok | Status::BufError) => {}
            Err(error) => {
                return Err(GitError::Library {
                    action: "compress a new object".to_owned(),
                    message: error.to_string(),
                });
            }
        }
    }
}

/// Kind and size: three bits of kind and four of size in the first byte, then seven bits of size each.
fn write_header(bytes: &mut Vec<u8>, kind: ObjectType, size: usize) {
    let kind: u8 = match kind {
        ObjectType::Commit => 1,
        ObjectType::Tree => 2,
        ObjectType::Blob | ObjectType::Any => 3,
        ObjectType::Tag => 4,
    };
    let mut rest = size >> 4;
    let mut byte = (kind << 4) | (size & 0x0f) as u8;
    while rest > 0 {
        bytes.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    bytes.push(byte);
}

/// Writes a file under a name that git's own clean-up knows.
fn temporary(folder: &Path, bytes: &[u8]) -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("tmp_pack_").tempfile_in(folder)?;
    file.write_all(bytes)?;
    let mut permissions = file.as_file().metadata()?.permissions();
    permissions.set_readonly(true);
    file.as_file().set_permissions(permissions)?;
    Ok(file)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::ZlibDecoder;
    use proptest::prelude::*;

    use super::*;

    /// Compresses with a compressor that has seen other things, and gives the length of the result.
    fn round_trip(compressor: &mut Compress, content: &[u8]) -> usize {
        let mut bytes = b"before".to_vec();
        compress(compressor, content, &mut bytes).unwrap();
        let mut inflated = Vec::new();
        ZlibDecoder::new(&bytes[6..]).read_to_end(&mut inflated).unwrap();
        assert!(inflated == content, "{} bytes came back as {}", content.len(), inflated.len());
        bytes.len() - 6
    }

    fn compressor() -> Compress {
        Compress::new(Compression::fast(), true)
    }

    #[test]
    fn every_length_and_distance_survives() {
        let mut compressor = compressor();
        for length in 0..600 {
            round_trip(&mut compressor, &vec![b'a'; length]);
            let words: Vec<u8> = (0..length).map(|at| b"abcdefg"[at % 7]).collect();
            round_trip(&mut compressor, &words);
        }
        let noise: Vec<u8> = (0..200_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for distance in (4..16_000).step_by(97) {
            let content = [&noise[..distance], &noise[..100.min(distance)]].concat();
            round_trip(&mut compressor, &content);
        }
        for size in [16_383, 16_384, 16_385, 20_000, 200_000] {
            round_trip(&mut compressor, &noise[..size]);
        }
    }

    #[test]
    fn manifests_become_smaller() {
        let text = "- name: registry.example.com/cilium/manager\n  newTag: v1.18.4-0\n".repeat(20);
        assert!(round_trip(&mut compressor(), text.as_bytes()) < text.len() / 5);
    }

    proptest! {
        #[test]
        fn what_is_compressed_inflates_to_itself(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..60),
            order in proptest::collection::vec(any::<proptest::sample::Index>(), 0..120),
        ) {
            let content: Vec<u8> =
                if parts.is_empty() { Vec::new() } else { order.iter().flat_map(|at| at.get(&parts).clone()).collect() };
            round_trip(&mut compressor(), &content);
        }
    }
}
