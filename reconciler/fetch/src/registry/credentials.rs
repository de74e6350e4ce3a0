//! Credentials for registries: those of the Docker configuration, or one that is given for one host.

use std::fmt;
use std::io;
use std::path::PathBuf;

use docker_credential::{CredentialRetrievalError, DockerCredential};

use host::disk;

/// The largest configuration that is read, in bytes.
const MAXIMUM_BYTES: u64 = 4 << 20;

/// What a registry may be shown.
#[derive(Clone, Debug)]
pub(super) enum Credentials {
    /// A Docker configuration file, read anew for every chart: people log in and out.
    Docker(Option<PathBuf>),
    /// This one, and the Docker configuration counts for nothing.
    Given {
        /// The host that it is for.
        host: String,
        credential: Credential,
    },
}

/// What to show a registry or its token server.
#[derive(Clone)]
pub(crate) enum Credential {
    Password {
        name: String,
        password: String,
    },
    /// A refresh token, which is exchanged for tokens.
    IdentityToken(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credential(…)")
    }
}

impl Credentials {
    /// `config.json` in `$DOCKER_CONFIG`, else in `~/.docker`.
    pub fn of_environment() -> Self {
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker"));
        let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from).or_else(home);
        Self::Docker(folder.map(|folder| folder.join("config.json")))
    }

    /// This credential for this host, and none for another.
    pub fn given(host: &str, credential: Credential) -> Self {
        Self::Given { host: host.to_owned(), credential }
    }

    /// What helps somebody who is refused by `host`, who lacks this right.
    pub fn remedy(&self, host: &str, right: &str) -> String {
        match self {
            Self::Docker(_) => format!("log in with `docker login {host}`, or give the right to {right}"),
            Self::Given { .. } => format!("renew the login for {host}, or give it the right to {right}"),
        }
    }

    #[cfg(test)]
    pub fn from_file(file: PathBuf) -> Self {
        Self::Docker(Some(file))
    }

    #[cfg(test)]
    pub fn none() -> Self {
        Self::Docker(None)
    }

    /// The credential for `host`, if there is one. A helper program that the file names is asked, as Docker does.
    pub fn of(&self, host: &str) -> Result<Option<Credential>, String> {
        let path = match self {
            Self::Docker(Some(path)) => path,
            Self::Docker(None) => return Ok(None),
            Self::Given { host: of, credential } => return Ok(Some(credential.clone()).filter(|_| of == host)),
        };
        let config = match disk::read(path, MAXIMUM_BYTES) {
            Ok(config) => config,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        match docker_credential::get_credential_from_reader(config.as_slice(), host) {
            Ok(DockerCredential::UsernamePassword(name, password)) => Ok(Some(Credential::Password { name, password })),
            Ok(DockerCredential::IdentityToken(token)) => Ok(Some(Credential::IdentityToken(token))),
            Err(CredentialRetrievalError::NoCredentialConfigured) => Ok(None),
            // What a helper prints when it fails is not for logs. Most often it knows no login for the host.
            Err(CredentialRetrievalError::HelperFailure { helper, .. }) => {
                tracing::debug!(helper, host, "the credential helper gave nothing; going on without a login");
                Ok(None)
            }
            Err(error) => Err(format!("the login for {host} in {} cannot be used: {error}", path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(config: &str, host: &str) -> Result<Option<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        std::fs::write(&file, config).unwrap();
        let shown = |credential| match credential {
            Credential::Password { name, password } => format!("{name}:{password}"),
            Credential::IdentityToken(token) => format!("token {token}"),
        };
        Credentials::from_file(file).of(host).map(|credential| credential.map(shown))
    }

    #[test]
    fn logins_are_found_by_host() {
        // user:pass:word
        let config = r#"{"auths": {"registry.example.org": {"auth": "dXNlcjpwYXNzOndvcmQ="}, "https://index.docker.io/v1/":
            {"username": "a", "password": "b"}, "c.example.org:5000": {"identitytoken": "t"}, "broken": {"auth": "%"}}}"#;
        assert_eq!(of(config, "registry.example.org"), Ok(Some("user:pass:word".to_owned())));
        assert_eq!(of(config, "registry-1.docker.io"), Ok(Some("a:b".to_owned())));
        assert_eq!(of(config, "c.example.org:5000"), Ok(Some("token t".to_owned())));
        assert_eq!(of(config, "other.example.org"), Ok(None));
        assert_eq!(of("{}", "registry.example.org"), Ok(None));
        for (config, host) in [("[", "a"), (config, "broken"), (r#"{"credsStore": "is-not-there"}"#, "a")] {
            assert!(of(config, host).is_err(), "{config}");
        }
    }

    #[test]
    fn without_a_file_there_is_no_login() {
        assert!(Credentials::none().of("a").unwrap().is_none());
        let folder = tempfile::tempdir().unwrap();
        assert!(Credentials::from_file(folder.path().join("config.json")).of("a").unwrap().is_none());
    }

    #[test]
    fn secrets_are_not_printed() {
        let credential = Credential::Password { name: "user".to_owned(), password: "secret".to_owned() };
        assert_eq!(format!("{credential:?}"), "Credential(…)");
    }
}
