//! GitHub Apps: a key that is exchanged for tokens of an hour.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::json;

use super::access::read_secret;
use super::error::ForgeError;
use super::forge_http::{Call, ForgeHttp};
use host::once::Once;

/// How far the claim begins in the past, for a clock that is ahead of GitHub's.
const SKEW: Duration = Duration::from_secs(60);
/// How long the claim lasts; GitHub takes at most ten minutes.
const CLAIM: Duration = Duration::from_secs(9 * 60);
/// A token that ends sooner is replaced.
const LEAST: SignedDuration = SignedDuration::from_mins(5);

/// An App that is installed on the fleet repository.
pub(super) struct App {
    /// App or client id.
    id: String,
    key_file: PathBuf,
    /// What the paths of the interface begin with.
    root: &'static [&'static str],
    owner: String,
    name: String,
    current: Mutex<Arc<Once<InstallationToken>>>,
}

#[derive(Deserialize)]
struct Installation {
    id: u64,
}

#[derive(Deserialize)]
struct Made {
    token: String,
    expires_at: Timestamp,
}

struct InstallationToken {
    token: SecretString,
    expires_at: Timestamp,
}

impl App {
    pub(super) fn new(id: &str, key_file: PathBuf, root: &'static [&'static str], repository: &str) -> Self {
        let (owner, name) = repository.split_once('/').unwrap_or(("", repository));
        let (id, owner, name) = (id.to_owned(), owner.to_owned(), name.to_owned());
        Self { id, key_file, root, owner, name, current: Mutex::default() }
    }

    /// The key, which stays while tokens come and go.
    pub(super) fn key(&self) -> Result<SecretString, ForgeError> {
        read_secret(&self.key_file)
    }

    /// A token for the fleet repository alone; the last one as long as it lasts.
    pub(super) async fn token(&self, wire: &ForgeHttp) -> Result<SecretString, ForgeError> {
        let now = Timestamp::now();
        let current = {
            let mut current = self.current();
            if current.get().is_some_and(|known| known.expires_at.duration_since(now) <= LEAST) {
                *current = Arc::default();
            }
            Arc::clone(&current)
        };
        // Whoever comes meanwhile waits for the same token.
        Ok(current.get_or_try(async || self.ask(wire, now).await).await?.token.clone())
    }

    fn current(&self) -> MutexGuard<'_, Arc<Once<InstallationToken>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, wire: &ForgeHttp, now: Timestamp) -> Result<InstallationToken, ForgeError> {
        let claim = self.claim(now)?;
        let action = format!("find the installation of App {} on {}/{}", self.id, self.owner, self.name);
        let path = [self.root, &["repos", &self.owner, &self.name, "installation"]].concat();
        // That it is not there says nothing of what the token is wanted for.
        let absent = |error| match error {
            ForgeError::NotFound { .. } => {
                ForgeError::NotInstalled { id: self.id.clone(), repository: format!("{}/{}", self.owner, self.name) }
            }
            error => error,
        };
        let installation: Installation = wire.send_with(&Call::get(&path, action), &claim).await.map_err(absent)?;
        let number = installation.id.to_string();
        let path = [self.root, &["app", "installations", &number, "access_tokens"]].concat();
        let action = format!("get a token for the installation {number} of App {}", self.id);
        let call = Call::send(Method::POST, &path, json!({"repositories": [self.name]}), action);
        let made: Made = wire.send_with(&call, &claim).await.map_err(absent)?;
        Ok(InstallationToken { token: SecretString::from(made.token), expires_at: made.expires_at })
    }

    /// The last token is not accepted any more.
    pub(super) fn forget(&self) {
        *self.current() = Arc::default();
    }

    /// The JSON Web Token (RFC 7519, RS256) by which the App says who it is.
    fn claim(&self, now: Timestamp) -> Result<SecretString, ForgeError> {
        let failed = |reason: &str| ForgeError::Token { file: self.key_file.clone(), reason: reason.to_owned() };
        let pem = self.key()?;
        let no_key = |_| failed("it holds no private key in PEM form, as GitHub gives it");
        let key = PrivateKeyDer::from_pem_slice(pem.expose_secret().as_bytes()).map_err(no_key)?;
        let pair = match &key {
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
            PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
            _ => return Err(failed("its private key is no RSA key")),
        };
        let pair = pair.map_err(|_| failed("its private key is no RSA key of 2048 bits or more"))?;
        let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or_default();
        let now = now.as_second();
        let claims = json!({"iat": now - seconds(SKEW), "exp": now + seconds(CLAIM), "iss": self.id});
        let [header, claims] =
            [json!({"alg": "RS256", "typ": "JWT"}), claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let text = format!("{header}.{claims}");
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| failed("it could not be signed with"))?;
        Ok(SecretString::from(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }
}
