//! The operator's token: whoever shows it reads, and acts as the person whose token it is.

use std::path::Path;

use git::Identity;
use ring::hmac;
use ring::rand::SystemRandom;

use super::error::AccessError;
use host::disk;

/// The largest file with a token, in bytes.
const LARGEST: u64 = 4 << 10;

/// The fewest characters of a token.
const SHORTEST: usize = 32;

/// The token, and whose it is.
pub(super) struct TokenHolder {
    key: hmac::Key,
    token: hmac::Tag,
    /// The person; none where it is nobody's, who only reads.
    pub(super) person: Option<Identity>,
}

impl TokenHolder {
    /// The token in a file.
    pub(super) fn open(path: &Path, person: Option<Identity>) -> Result<Self, AccessError> {
        let text =
            disk::read_text(path, LARGEST).map_err(|error| AccessError::Unreadable { path: path.to_owned(), error })?;
        let token = text.trim();
        if token.len() < SHORTEST {
            return Err(AccessError::Short(path.to_owned()));
        }
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(|_| AccessError::Random)?;
        let token = hmac::sign(&key, token.as_bytes());
        Ok(Self { key, token, person })
    }

    /// Compares in a time that says nothing of the token.
    pub(super) fn is_token(&self, given: &str) -> bool {
        hmac::verify(&self.key, given.trim().as_bytes(), self.token.as_ref()).is_ok()
    }
}
