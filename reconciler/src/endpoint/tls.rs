//! The certificate of an endpoint, from files that are replaced while it is served.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use host::disk;

/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;

/// The names of the certificate chain and of its key, as in a Secret of type `kubernetes.io/tls`.
const FILES: [&str; 2] = ["tls.crt", "tls.key"];

/// Why files hold no certificate to serve with.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("could not read {}: {reason}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// They are read and do not go together.
    #[error("could not use {} and its key: {reason}", file.display())]
    Certificate {
        /// The certificate's file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
}

/// A folder with `tls.crt` and `tls.key`, both in PEM form. Each connection is served with what they hold then; while that cannot be used, with
/// what they held before.
#[derive(Debug)]
pub struct TlsFiles {
    folder: PathBuf,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    /// The files as they were read last, whether they could be used or not.
    seen: Option<[Stamp; 2]>,
    config: Arc<ServerConfig>,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Loaded").field("seen", &self.seen).finish_non_exhaustive()
    }
}

/// Tells a file from the one that took its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    place: (u64, u64),
    length: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            place: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] when there is nothing to begin with.
    pub fn open(folder: &Path) -> Result<Self, TlsError> {
        let seen = stamps(folder);
        let config = read(folder)?;
        Ok(Self { folder: folder.to_owned(), loaded: Mutex::new(Loaded { seen, config }) })
    }

    /// What one connection is accepted with.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        // Before they are read: what changes meanwhile is read once more.
        let seen = stamps(&self.folder);
        if seen.is_some() && seen != loaded.seen {
            loaded.seen = seen;
            match read(&self.folder) {
                Ok(config) => loaded.config = config,
                Err(error) => tracing::warn!(%error, "the certificate of before is served on"),
            }
        }
        TlsAcceptor::from(Arc::clone(&loaded.config))
    }
}

/// None while a file is not there.
fn stamps(folder: &Path) -> Option<[Stamp; 2]> {
    let stamp = |name| std::fs::metadata(folder.join(name)).ok().map(|metadata| Stamp::of(&metadata));
    let [chain, key] = FILES;
    Some([stamp(chain)?, stamp(key)?])
}

fn read(folder: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let [chain_file, key_file] = FILES.map(|name| folder.join(name));
    let bytes = |file: &Path| {
        disk::read(file, LARGEST).map_err(|error| TlsError::File { file: file.to_owned(), reason: error.to_string() })
    };
    let (chain, key) = (bytes(&chain_file)?, bytes(&key_file)?);
    let failed = |reason: String| TlsError::Certificate { file: chain_file.clone(), reason };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, _>>()
        .map_err(|_| failed("it is not in PEM form".to_owned()))?;
    if chain.is_empty() {
        return Err(failed("it holds no certificate".to_owned()));
    }
    // What a parser says of a key may show some of it.
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|_| failed(format!("{} holds no key in PEM form", key_file.display())))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| failed(error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
