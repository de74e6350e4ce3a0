//! Several sources as one, and what was had once kept in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use overlays::{FetchError, Manifests};

/// Sources asked in order; the first that has the address wins. An error other than "not here" ends the search: a
/// broken mirror must not be papered over by the network.
#[derive(Default)]
pub struct Chain(Vec<Box<dyn Manifests>>);

impl Chain {
    /// Asks `sources` in order.
    #[must_use]
    pub fn new(sources: Vec<Box<dyn Manifests>>) -> Self {
        Self(sources)
    }
}

impl Manifests for Chain {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        let mut searched = Vec::new();
        let mut refused = None;
        for source in &self.0 {
            match source.get(uri) {
                Err(FetchError::NotFound { searched: place, .. }) => searched.push(place),
                Err(error @ (FetchError::NotAllowed { .. } | FetchError::SentOn { .. })) => refused = Some(error),
                other => return other,
            }
        }
        Err(refused.unwrap_or_else(|| FetchError::NotFound { uri: uri.to_owned(), searched: searched.join("; ") }))
    }
}

/// Keeps what a source gave, up to a number of bytes. Errors are not kept: the next call tries again.
pub struct Cache<M> {
    source: M,
    maximum_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    entries: HashMap<String, Arc<[u8]>>,
    bytes: usize,
}

impl<M: Manifests> Cache<M> {
    /// Keeps up to `maximum_bytes` of what `source` gives. When more comes, everything kept is dropped: manifests of one
    /// plan are asked for together, so an order of age would buy little.
    pub fn new(source: M, maximum_bytes: usize) -> Self {
        Self { source, maximum_bytes, kept: Mutex::default() }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        // The map is whole at every point where a panic could happen.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Manifests> Manifests for Cache<M> {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        if let Some(bytes) = self.kept().entries.get(uri) {
            return Ok(Arc::clone(bytes));
        }
        // Not under the lock: fetching may take its time.
        let bytes = self.source.get(uri)?;
        let mut kept = self.kept();
        if kept.bytes + bytes.len() > self.maximum_bytes {
            *kept = Kept::default();
        }
        if bytes.len() <= self.maximum_bytes && kept.entries.insert(uri.to_owned(), Arc::clone(&bytes)).is_none() {
            kept.bytes += bytes.len();
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Has one address and counts how often it is asked.
    struct Source(&'static str, &'static [u8], AtomicUsize);

    impl Manifests for Source {
        fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
            self.2.fetch_add(1, Ordering::Relaxed);
            match uri {
                uri if uri == self.0 => Ok(Arc::from(self.1)),
                "broken" => Err(FetchError::Failed { uri: uri.to_owned(), message: "broken".to_owned() }),
                _ => Err(FetchError::NotFound { uri: uri.to_owned(), searched: self.0.to_owned() }),
            }
        }
    }

    fn source(uri: &'static str, bytes: &'static [u8]) -> Source {
        Source(uri, bytes, AtomicUsize::new(0))
    }

    #[test]
    fn a_chain_goes_on_only_when_the_address_is_not_there() {
        let chain = Chain::new(vec![Box::new(source("a", b"1")), Box::new(source("b", b"2"))]);
        assert_eq!(&*chain.get("b").unwrap(), b"2");
        assert!(matches!(chain.get("broken"), Err(FetchError::Failed { .. })));
        let error = chain.get("c").unwrap_err();
        assert!(error.to_string().contains("a; b"), "{error}");
    }

    #[test]
    fn what_was_had_once_is_not_asked_for_again() {
        let cache = Cache::new(source("a", b"12345"), 8);
        for _ in 0..3 {
            assert_eq!(&*cache.get("a").unwrap(), b"12345");
            assert!(cache.get("missing").is_err());
        }
        assert_eq!(cache.source.2.load(Ordering::Relaxed), 1 + 3);
    }

    #[test]
    fn what_is_too_large_is_given_and_not_kept() {
        let cache = Cache::new(source("a", b"12345"), 4);
        for _ in 0..2 {
            assert_eq!(&*cache.get("a").unwrap(), b"12345");
        }
        assert_eq!(cache.source.2.load(Ordering::Relaxed), 2);
        assert_eq!(cache.kept().bytes, 0);
    }
}
