//! What was read from a file or built from a base, kept for the next build that finds the same bytes.

mod base;

use std::sync::{Arc, Mutex, PoisonError};

use foldhash::HashMap;
use sha2::{Digest, Sha256};
use yaml::Limits;

pub(crate) use base::{Asked, Base, Witness};

use crate::kustomization::Kustomization;
use crate::resource::Resource;
use crate::transform::patches::Content;

/// Caches parsed files and built bases by content.
///
/// Builds that share a cache read and build a base once, as long as its files stay the same. Nothing goes stale: what a
/// file says depends on its path, its bytes and the limits alone, which together are the key, and a base is used again
/// only after its files were found to be the same. A build gives the same result with a cache and without.
///
/// A cache may be shared by builds on several threads. It holds at most the bytes it was made for; what was not used
/// for the longest time goes first, about half of it at once.
#[derive(Debug)]
pub struct Cache {
    shelves: Mutex<Shelves>,
    /// Bytes of one shelf.
    shelf: usize,
}

/// What is used moves to the new shelf. When that is full, the old one is emptied and the new one becomes the old one.
#[derive(Debug, Default)]
struct Shelves {
    new: HashMap<Key, Item>,
    old: HashMap<Key, Item>,
    /// On the new shelf.
    bytes: usize,
}

/// A digest of the path and the content, and what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    digest: [u8; 32],
    limits: Limits,
    kind: Kind,
}

/// What is made of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Objects,
    Kustomization,
    Patch,
    Base,
}

#[derive(Debug, Clone)]
struct Item {
    read: Read,
    bytes: usize,
}

#[derive(Debug, Clone)]
enum Read {
    Objects(Arc<[Resource]>),
    Kustomization(Arc<Kustomization>),
    Patch(Arc<Content>),
    Base(Arc<Base>),
}

impl Cache {
    /// Returns an empty cache of about `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        Self { shelves: Mutex::default(), shelf: bytes / 2 }
    }

    /// Returns the objects of a file, which `read` reads if they are not here. Errors are not kept.
    pub(crate) fn objects<E>(
        &self,
        path: &str,
        content: &[u8],
        limits: &Limits,
        read: impl FnOnce() -> Result<Vec<Resource>, E>,
    ) -> Result<Vec<Resource>, E> {
        let key = Key::new(path, content, limits, Kind::Objects);
        if let Some(Read::Objects(objects)) = self.find(&key) {
            return Ok(objects.to_vec());
        }
        let objects = read()?;
        let bytes = size_of_all(&objects);
        self.keep(key, Item { read: Read::Objects(objects.as_slice().into()), bytes });
        Ok(objects)
    }

    /// Returns the kustomization of a file, which `read` reads if it is not here. Errors are not kept.
    pub(crate) fn kustomization<E>(
        &self,
        path: &str,
        content: &[u8],
        limits: &Limits,
        read: impl FnOnce() -> Result<Kustomization, E>,
    ) -> Result<Arc<Kustomization>, E> {
        let key = Key::new(path, content, limits, Kind::Kustomization);
        if let Some(Read::Kustomization(kustomization)) = self.find(&key) {
            return Ok(kustomization);
        }
        let kustomization = Arc::new(read()?);
        // Its texts are those of the file; what holds them is a few times as large.
        let bytes = size_of::<Kustomization>() + 4 * content.len();
        self.keep(key, Item { read: Read::Kustomization(Arc::clone(&kustomization)), bytes });
        Ok(kustomization)
    }

    /// Returns what a patch is, which `read` finds out if it is not here. Errors are not kept.
    pub(crate) fn patch<E>(
        &self,
        path: &str,
        content: &[u8],
        limits: &Limits,
        read: impl FnOnce() -> Result<Content, E>,
    ) -> Result<Content, E> {
        let key = Key::new(path, content, limits, Kind::Patch);
        if let Some(Read::Patch(patch)) = self.find(&key) {
            return Ok((*patch).clone());
        }
        let patch = read()?;
        // Operations are a few times as large as their text.
        let bytes = 8 * content.len() + size_of::<Content>();
        self.keep(key, Item { read: Read::Patch(Arc::new(patch.clone())), bytes });
        Ok(patch)
    }

    /// Returns the base that was last built at `path` for a build whose `state` says the same.
    pub(crate) fn base(&self, path: &str, state: &[u8], limits: &Limits) -> Option<Arc<Base>> {
        match self.find(&Key::new(path, state, limits, Kind::Base)) {
            Some(Read::Base(base)) => Some(base),
            _ => None,
        }
    }

    /// Keeps a base for [`Self::base`].
    pub(crate) fn keep_base(&self, path: &str, state: &[u8], limits: &Limits, base: Base) {
        let bytes = base.witnessed_bytes() + size_of_all(base.objects());
        self.keep(Key::new(path, state, limits, Kind::Base), Item { read: Read::Base(Arc::new(base)), bytes });
    }

    fn find(&self, key: &Key) -> Option<Read> {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(item) = shelves.new.get(key) {
            return Some(item.read.clone());
        }
        let item = shelves.old.remove(key)?;
        let read = item.read.clone();
        shelves.put(*key, item, self.shelf);
        Some(read)
    }

    fn keep(&self, key: Key, item: Item) {
        if item.bytes <= self.shelf {
            self.shelves.lock().unwrap_or_else(PoisonError::into_inner).put(key, item, self.shelf);
        }
    }
}

impl Shelves {
    fn put(&mut self, key: Key, item: Item, shelf: usize) {
        if self.bytes + item.bytes > shelf {
            self.old = std::mem::take(&mut self.new);
            self.bytes = 0;
        }
        self.bytes += item.bytes;
        if let Some(before) = self.new.insert(key, item) {
            self.bytes -= before.bytes;
        }
    }
}

impl Key {
    fn new(path: &str, content: &[u8], limits: &Limits, kind: Kind) -> Self {
        let mut digest = Sha256::new();
        // A length in front keeps path and content apart.
        digest.update(path.len().to_le_bytes());
        digest.update(path);
        digest.update(content);
        Self { digest: digest.finalize().into(), limits: *limits, kind }
    }
}

/// About how many bytes of memory objects take.
fn size_of_all(objects: &[Resource]) -> usize {
    objects.iter().map(|object| object.node.size() + size_of::<Resource>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> Result<Vec<Resource>, ()> {
        Ok(vec![Resource::default()])
    }

    #[test]
    fn the_same_bytes_at_the_same_path_are_read_once() {
        let cache = Cache::new(1 << 20);
        let limits = Limits::default();
        let count = |path: &str, content: &[u8], limits: &Limits| {
            let mut reads = 0;
            cache.objects(path, content, limits, || object().inspect(|_| reads += 1)).unwrap();
            reads
        };
        assert_eq!(count("a", b"1", &limits), 1);
        assert_eq!(count("a", b"1", &limits), 0);
        assert_eq!(count("b", b"1", &limits), 1);
        assert_eq!(count("a", b"2", &limits), 1);
        assert_eq!(count("a", b"1", &Limits { depth: 1, ..limits }), 1);
        assert_eq!(cache.objects("c", b"", &limits, || Err("no")).unwrap_err(), "no");
    }

    #[test]
    fn what_was_not_used_for_long_goes() {
        let each = object().unwrap()[0].node.size() + size_of::<Resource>();
        let cache = Cache::new(20 * each);
        let held = |path: &str| cache.find(&Key::new(path, b"", &Limits::default(), Kind::Objects)).is_some();
        for index in 0..100 {
            cache.objects(&index.to_string(), b"", &Limits::default(), object).unwrap();
            assert!(held("0"), "what is used stays");
        }
        assert!(held("99") && !held("50"));
        let shelves = cache.shelves.lock().unwrap();
        assert!(shelves.new.len() + shelves.old.len() <= 20);
    }
}
