//! Sessions: what is known of a reader, sealed into a cookie that only this installation opens, and the mark of a form that belongs to it.
//!
//! Nothing is kept on the server, so that replicas which share a key share sessions, and no stranger fills a table.

use std::path::Path;
use std::time::Duration;

use axum::http::HeaderValue;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::AccessError;
use host::disk;

/// The largest file with a key, and the fewest bytes of one.
const LARGEST_KEY: u64 = 4 << 10;
const SHORTEST_KEY: usize = 32;

/// The longest cookie that browsers keep, its name and attributes apart.
const LONGEST: usize = 3800;

/// How long a session lasts.
pub(super) const SESSION: Duration = Duration::from_secs(8 * 60 * 60);

/// What a sealed text is for. One that was made for something else does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A session.
    Session,
    /// A login that is on its way over an issuer.
    Login,
}

impl Purpose {
    /// The cookie. Its prefix keeps other hosts and plain connections from setting it.
    pub(super) const fn cookie(self) -> &'static str {
        match self {
            Self::Session => "__Host-stepgate",
            Self::Login => "__Host-stepgate-login",
        }
    }

    /// A login comes back from another site, by a link; nothing else is shown a cookie by other sites.
    const fn same_site(self) -> &'static str {
        match self {
            Self::Session => "Strict",
            Self::Login => "Lax",
        }
    }
}

/// Something sealed, with its end.
#[derive(Serialize, Deserialize)]
struct Sealed<T> {
    ends: i64,
    holds: T,
}

/// Seals and opens cookies.
pub(super) struct Sessions {
    key: LessSafeKey,
    forms: hmac::Key,
    random: SystemRandom,
}

impl Sessions {
    /// With the key in this file; else with one that ends with the process.
    pub(super) fn open(file: Option<&Path>) -> Result<Self, AccessError> {
        let random = SystemRandom::new();
        let secret = match file {
            Some(path) => {
                let text = disk::read_text(path, LARGEST_KEY)
                    .map_err(|error| AccessError::Unreadable { path: path.to_owned(), error })?;
                let text = text.trim().as_bytes().to_vec();
                if text.len() < SHORTEST_KEY {
                    return Err(AccessError::Short(path.to_owned()));
                }
                text
            }
            None => {
                let mut bytes = vec![0; SHORTEST_KEY];
                random.fill(&mut bytes).map_err(|_| AccessError::Random)?;
                bytes
            }
        };
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        let sealing = hmac::sign(&secret, b"sessions of the dashboard");
        let forms = hmac::sign(&secret, b"forms of the dashboard");
        let key = UnboundKey::new(&CHACHA20_POLY1305, sealing.as_ref()).map_err(|_| AccessError::Random)?;
        Ok(Self { key: LessSafeKey::new(key), forms: hmac::Key::new(hmac::HMAC_SHA256, forms.as_ref()), random })
    }

    /// The cookie that holds this for so long; none where it is too long for a browser.
    pub(super) fn seal(
        &self,
        purpose: Purpose,
        holds: &impl Serialize,
        now: Timestamp,
        lasts: Duration,
    ) -> Option<HeaderValue> {
        let ends = now.checked_add(lasts).ok()?.as_second();
        let mut bytes = serde_json::to_vec(&Sealed { ends, holds }).ok()?;
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).ok()?;
        let aad = Aad::from(purpose.cookie().as_bytes());
        self.key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut bytes).ok()?;
        let value = URL_SAFE_NO_PAD.encode([&nonce[..], &bytes].concat());
        if value.len() > LONGEST {
            return None;
        }
        let (name, same_site, seconds) = (purpose.cookie(), purpose.same_site(), lasts.as_secs());
        let cookie = format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite={same_site}; Max-Age={seconds}");
        HeaderValue::from_str(&cookie).ok()
    }

    /// What a cookie holds, as long as it does.
    pub(super) fn unseal<T: DeserializeOwned>(&self, purpose: Purpose, value: &str, now: Timestamp) -> Option<T> {
        let mut bytes = URL_SAFE_NO_PAD.decode(value).ok().filter(|_| value.len() <= LONGEST)?;
        let (nonce, text) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let text = self.key.open_in_place(nonce, Aad::from(purpose.cookie().as_bytes()), text).ok()?;
        let sealed: Sealed<T> = serde_json::from_slice(text).ok()?;
        (now.as_second() < sealed.ends).then_some(sealed.holds)
    }

    /// The mark of the forms of a session, which other sites cannot know.
    pub(super) fn form(&self, session: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.forms, session.as_bytes()))
    }

    /// Whether a form bears the mark of a session, compared in a time that tells nothing of it.
    pub(super) fn is_form(&self, session: &str, mark: &str) -> bool {
        URL_SAFE_NO_PAD.decode(mark).is_ok_and(|mark| hmac::verify(&self.forms, session.as_bytes(), &mark).is_ok())
    }

    /// A text that nobody can guess.
    pub(super) fn unguessable(&self) -> Option<String> {
        let mut bytes = [0; 32];
        self.random.fill(&mut bytes).ok()?;
        Some(URL_SAFE_NO_PAD.encode(bytes))
    }
}

/// The cookie that ends what another one began.
pub(super) fn ended(purpose: Purpose) -> HeaderValue {
    HeaderValue::from_static(match purpose {
        Purpose::Session => "__Host-stepgate=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0",
        Purpose::Login => "__Host-stepgate-login=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(cookie: &HeaderValue) -> String {
        cookie.to_str().unwrap().split(['=', ';']).nth(1).unwrap().to_owned()
    }

    #[test]
    fn a_cookie_opens_for_its_purpose_with_its_key_until_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
        let (sessions, replica) = (Sessions::open(Some(&file)).unwrap(), Sessions::open(Some(&file)).unwrap());
        let now = "2026-11-25T12:00:00Z".parse::<Timestamp>().unwrap();
        let sealed = value(&sessions.seal(Purpose::Session, &"alice", now, SESSION).unwrap());
        let at = |hours: i64| now.checked_add(jiff::SignedDuration::from_hours(hours)).unwrap();
        assert_eq!(replica.unseal::<String>(Purpose::Session, &sealed, at(7)), Some("alice".to_owned()));
        assert_eq!(replica.unseal::<String>(Purpose::Session, &sealed, at(8)), None);
        assert_eq!(replica.unseal::<String>(Purpose::Login, &sealed, now), None);
        assert_eq!(Sessions::open(None).unwrap().unseal::<String>(Purpose::Session, &sealed, now), None);
        for place in 0..sealed.len() {
            let mut forged = sealed.clone().into_bytes();
            forged[place] = if forged[place] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(replica.unseal::<String>(Purpose::Session, &forged, now), None, "{place}");
        }
        for hostile in ["", "A", "....", &"A".repeat(100_000)] {
            assert_eq!(replica.unseal::<String>(Purpose::Session, hostile, now), None);
        }
    }

    #[test]
    fn the_mark_of_a_form_belongs_to_one_session() {
        let sessions = Sessions::open(None).unwrap();
        let mark = sessions.form("one");
        assert!(sessions.is_form("one", &mark));
        assert!(!sessions.is_form("two", &mark) && !sessions.is_form("one", "") && !sessions.is_form("one", "one"));
    }

    #[test]
    fn what_no_browser_keeps_is_no_session() {
        let sessions = Sessions::open(None).unwrap();
        assert!(sessions.seal(Purpose::Session, &"x".repeat(4000), Timestamp::UNIX_EPOCH, SESSION).is_none());
    }
}
