//! The extension's certificate where no cert-manager makes one: kept in a Secret, written where it is served from.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use cluster::kubernetes::{CertificateError, CertificateSecret, ServedCertificate};
use jiff::Timestamp;
use tokio::time::sleep;

/// Between two looks: whoever installs the webhook again takes its authority away, and changes of owners are refused till
/// then.
const PAUSE: Duration = Duration::from_secs(30);

/// Why the certificate is not where it is served from.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// There is none.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// It was not written.
    #[error("could not write the certificate into {folder}: {source}")]
    Written {
        /// Where to.
        folder: String,
        /// Why.
        source: io::Error,
    },
}

/// Makes or renews the certificate where it is due, and writes it into `folder`.
///
/// # Errors
/// [`KeepError`].
pub async fn keep(secret: &CertificateSecret, folder: &Path) -> Result<(), KeepError> {
    let served = secret.keep(Timestamp::now()).await?;
    write(&served, folder).map_err(|source| KeepError::Written { folder: folder.display().to_string(), source })?;
    // Hooks are answered without it.
    if let Err(error) = secret.tell_webhook(&served).await {
        tracing::warn!("{error}");
    }
    Ok(())
}

/// Does so for ever.
pub async fn keep_on(secret: CertificateSecret, folder: &Path) {
    loop {
        sleep(PAUSE).await;
        if let Err(error) = keep(&secret, folder).await {
            tracing::warn!("the certificate of before is served on: {error}");
        }
    }
}

/// Both files are replaced as a whole; between the two, the pair of before is served.
fn write(served: &ServedCertificate, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, text) in [("tls.key", &served.key), ("tls.crt", &served.chain)] {
        let place = folder.join(name);
        if fs::read(&place).is_ok_and(|current| current == text.as_bytes()) {
            continue;
        }
        let part = folder.join(format!(".{name}.new"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&part, &place)?;
    }
    Ok(())
}
