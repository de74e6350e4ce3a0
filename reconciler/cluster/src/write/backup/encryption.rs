//! Backups that only the operator opens: encrypted to age recipients before anything reaches the disk.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::str::FromStr;

use age::x25519::{Identity, Recipient};
use age::{Decryptor, Encryptor};

use super::BackupError;

/// Whom a backup is encrypted to: a public key of age, `age1…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupRecipient(Recipient);

impl FromStr for BackupRecipient {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The private half in its place would stand in every process list.
        if text.starts_with("AGE-SECRET-KEY-") {
            return Err("it is a secret key: name the public one, `age-keygen -y FILE` prints it".to_owned());
        }
        let recipient = text.parse().map_err(|_| format!("{text:?} is not a valid age recipient, such as age1…"))?;
        Ok(Self(recipient))
    }
}

impl fmt::Display for BackupRecipient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What opens an encrypted backup: a secret key of age.
#[derive(Clone)]
pub struct BackupIdentity(Identity);

impl fmt::Debug for BackupIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BackupIdentity of {}", self.0.to_public())
    }
}

impl BackupIdentity {
    /// The keys in an identity file, as `age-keygen` writes it.
    ///
    /// # Errors
    /// When a line is neither a key nor a comment, or there is no key; with its number, never its text.
    pub fn of_file(text: &str) -> Result<Vec<Self>, String> {
        let mut identities = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let identity = line.parse().map_err(|_| format!("line {} is not a valid age identity", number + 1))?;
            identities.push(Self(identity));
        }
        if identities.is_empty() { Err("it holds no age identity".to_owned()) } else { Ok(identities) }
    }
}

pub(super) fn encrypt(recipients: &[BackupRecipient], plain: &[u8], path: &Path) -> Result<Vec<u8>, BackupError> {
    let failed = |error: std::io::Error| BackupError::of_file(path, error);
    let recipients = recipients.iter().map(|BackupRecipient(recipient)| recipient as &dyn age::Recipient);
    let encryptor = Encryptor::with_recipients(recipients).map_err(|error| failed(std::io::Error::other(error)))?;
    let mut encrypted = Vec::with_capacity(plain.len() + 1024);
    let mut writer = encryptor.wrap_output(&mut encrypted).map_err(failed)?;
    writer.write_all(plain).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(encrypted)
}

pub(super) fn decrypt(
    identities: &[BackupIdentity],
    encrypted: &[u8],
    path: &Path,
    recipients: &[String],
) -> Result<Vec<u8>, BackupError> {
    let closed =
        |reason: String| BackupError::Encrypted { path: path.to_owned(), recipients: recipients.join(", "), reason };
    if identities.is_empty() {
        return Err(closed("no identity was given".to_owned()));
    }
    let identities = identities.iter().map(|BackupIdentity(identity)| identity as &dyn age::Identity);
    let decryptor = Decryptor::new(encrypted).map_err(|error| closed(error.to_string()))?;
    let mut reader = decryptor.decrypt(identities).map_err(|error| closed(error.to_string()))?;
    let mut plain = Vec::new();
    reader.read_to_end(&mut plain).map_err(|error| closed(error.to_string()))?;
    Ok(plain)
}
