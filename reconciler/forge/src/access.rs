//! Who may see the token.
//!
//! Architecture Invariant: a token goes where its owner sent it. `stepgate.yaml` names the forge,
//! and everybody who can push writes it; the token is sent to the repository's own host and to
//! those named beside it by `--forge-host` only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use policy::{ForgeKind, ForgePolicy};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};

use super::app::App;
use super::error::ForgeError;
use super::forge_http::{Credential, ForgeHttp};
use super::patience::Patience;
use super::{Forge, GitHub, GitLab, Gitea};
use git::RepositoryLocation;
use host::disk;

/// Longest token or key that is read, in bytes.
const LONGEST: u64 = 16 << 10;

/// What whoever runs Stepgate gives it. `stepgate.yaml` names the forge, and everybody who can push writes `stepgate.yaml`: so the token goes to
/// no host that was not named here, or is not the fleet repository's own.
#[derive(Clone, Debug, Default)]
pub struct ForgeAccess {
    /// What Stepgate shows the forge to be let in.
    pub credential: Option<ForgeCredential>,
    /// Hosts that may see the token, besides the fleet repository's.
    pub hosts: Vec<String>,
}

/// By what a forge knows Stepgate. Files are read whenever they are needed, so that they can be replaced at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgeCredential {
    /// File that holds a token.
    Token(PathBuf),
    /// A GitHub App that is installed on the fleet repository.
    App {
        /// Its id, or its client id.
        id: String,
        /// File that holds its private key, in PEM form.
        key_file: PathBuf,
    },
}

/// The token in a file, without the line break that files end with.
///
/// # Errors
/// [`ForgeError::Token`].
pub(super) fn read_token(file: &Path) -> Result<SecretString, ForgeError> {
    let text = read_secret(file)?;
    let text = text.expose_secret().trim();
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_graphic()) {
        let reason = "it holds no token: one line of letters, digits and signs".to_owned();
        return Err(ForgeError::Token { file: file.to_owned(), reason });
    }
    Ok(SecretString::from(text))
}

/// What a file holds that is not too long for a token or key.
///
/// # Errors
/// [`ForgeError::Token`].
pub(super) fn read_secret(file: &Path) -> Result<SecretString, ForgeError> {
    let failed = |error: std::io::Error| ForgeError::Token { file: file.to_owned(), reason: error.to_string() };
    disk::read_text(file, LONGEST).map(SecretString::from).map_err(failed)
}

impl ForgeAccess {
    fn consents(&self, host: &str, repository: &RepositoryLocation) -> bool {
        let own = match repository {
            RepositoryLocation::Remote(url) => Some(url.host()),
            RepositoryLocation::Local(_) => None,
        };
        own.into_iter().chain(self.hosts.iter().map(String::as_str)).any(|known| known.eq_ignore_ascii_case(host))
    }
}

/// The forge that a policy names, connected to. Connections and what was answered before are kept.
#[derive(Default)]
pub struct Forges {
    access: ForgeAccess,
    known: Mutex<BTreeMap<String, Arc<Forge>>>,
    patience: Arc<Patience>,
}

impl Forges {
    /// Forges that are given this.
    pub fn new(access: ForgeAccess) -> Self {
        Self { access, ..Self::default() }
    }

    /// A pass begins. A forge that did not answer in the one before is asked again, until it has kept this one waiting too long as well.
    pub fn begin_pass(&self) {
        self.patience.renew();
    }

    /// The forge of a policy, for the fleet repository at `repository`. No request is made.
    ///
    /// # Errors
    /// [`ForgeError::NoToken`], [`ForgeError::Host`], [`ForgeError::Setup`].
    pub fn get(&self, policy: &ForgePolicy, repository: &RepositoryLocation) -> Result<Arc<Forge>, ForgeError> {
        let setup = |reason: String| ForgeError::Setup { url: policy.url.clone(), reason };
        let url = Url::parse(&policy.url).map_err(|error| setup(error.to_string()))?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let Some(credential) = &self.access.credential else { return Err(ForgeError::NoToken(policy.url.clone())) };
        if !self.access.consents(host, repository) {
            return Err(ForgeError::Host(host.to_owned()));
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = format!("{policy:?}");
        if let Some(forge) = known.get(&key) {
            return Ok(Arc::clone(forge));
        }
        let (url, root, accept) = match policy.kind {
            ForgeKind::GitHub => GitHub::interface(url),
            ForgeKind::Gitea | ForgeKind::GitLab => (url, &[][..], "application/json"),
        };
        let credential = match (credential, policy.kind) {
            (ForgeCredential::Token(file), _) => Credential::Token(file.clone()),
            (ForgeCredential::App { id, key_file }, ForgeKind::GitHub) => {
                Credential::App(App::new(id, key_file.clone(), root, &policy.repository))
            }
            (ForgeCredential::App { .. }, ForgeKind::Gitea | ForgeKind::GitLab) => {
                return Err(setup("only GitHub has Apps: give a token instead".to_owned()));
            }
        };
        let wire = ForgeHttp::new(url, credential, accept, Arc::clone(&self.patience)).map_err(setup)?;
        let name = &policy.repository;
        let forge = Arc::new(match policy.kind {
            ForgeKind::Gitea => Forge::Gitea(Gitea::new(wire, name)),
            ForgeKind::GitHub => Forge::GitHub(GitHub::new(wire, root, name)),
            ForgeKind::GitLab => Forge::GitLab(GitLab::new(wire, name)),
        });
        // Of the policies before, none is asked any more.
        known.clear();
        known.insert(key, Arc::clone(&forge));
        Ok(forge)
    }
}
