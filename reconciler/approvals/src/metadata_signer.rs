//! Knowing one's own words again, where others can write too.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use secrecy::{ExposeSecret as _, SecretString};

/// What only whoever holds a secret can put below a text: HMAC-SHA-256 with a key that follows from the secret and from what it is for.
#[derive(Debug)]
pub struct MetadataSigner(hmac::Key);

impl MetadataSigner {
    /// The seal of whoever holds this secret, for one repository of one forge.
    pub fn new(secret: &SecretString, repository: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes());
        let own = hmac::sign(&key, format!("stepgate seal of {repository}").as_bytes());
        Self(hmac::Key::new(hmac::HMAC_SHA256, own.as_ref()))
    }

    /// What goes below this text: letters, digits, `-` and `_`.
    pub fn of(&self, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, text.as_bytes()))
    }

    /// Whether this was put below this text by the same secret. Takes the same time whatever differs.
    pub fn is_of(&self, text: &str, seal: &str) -> bool {
        URL_SAFE_NO_PAD.decode(seal).is_ok_and(|tag| hmac::verify(&self.0, text.as_bytes(), &tag).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_secret_for_the_same_repository_seals_the_same_text() {
        let seal = |secret: &str, repository: &str| MetadataSigner::new(&SecretString::from(secret), repository);
        let own = seal("token", "https://forge/a/b");
        let sealed = own.of("text");
        assert!(own.is_of("text", &sealed) && seal("token", "https://forge/a/b").is_of("text", &sealed));
        assert!(!sealed.contains("token") && sealed.len() == 43, "{sealed}");
        let others = [seal("other", "https://forge/a/b"), seal("token", "https://forge/a/c")];
        assert!(others.iter().all(|other| !other.is_of("text", &sealed)));
        for (text, seal) in [("Text", sealed.as_str()), ("text", ""), ("text", "§"), ("text", &sealed[1..])] {
            assert!(!own.is_of(text, seal), "{text} {seal}");
        }
    }
}
