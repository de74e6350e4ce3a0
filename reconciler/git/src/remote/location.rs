//! Where a fleet repository is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A repository on this machine, or one that the `git` program talks to.
///
/// `Display` and `Debug` never show a password or token that the URL carries.
#[derive(Clone, PartialEq, Eq)]
pub enum RepositoryLocation {
    /// A folder: a bare repository, a work tree, or its `.git` folder. Read and written in place.
    Local(PathBuf),
    /// `file://`, `http://`, `https://`, `ssh://` or `user@host:path`. Read and written through a bare copy of our own.
    Remote(RepositoryUrl),
}

/// A URL that the `git` program understands and that cannot be taken for an option or a command.
#[derive(Clone, PartialEq, Eq)]
pub struct RepositoryUrl {
    text: String,
    shown: String,
    transport: Transport,
    host: String,
}

/// How a remote repository is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// `file://`: another folder, through the same programs as a server.
    File,
    /// `http://` or `https://`.
    Http,
    /// `ssh://` or `user@host:path`.
    Ssh,
}

/// Why a text names no repository.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// Nothing given.
    #[error("the repository must not be empty")]
    Empty,
    /// Begins with `-`, or its user, host or path does: a program could take it for an option.
    #[error("repository {0:?} must not hold a part that begins with `-`")]
    OptionLike(String),
    /// A line break or another control character, which credential helpers would misread.
    #[error("repository {0:?} must not hold control characters")]
    ControlCharacter(String),
    /// Some other scheme, or a `helper::address` form, which runs a program.
    #[error("repository {shown:?} uses {scheme:?}; use a folder, file://, https://, ssh:// or user@host:path")]
    Scheme {
        /// The refused text without its password.
        shown: String,
        /// What stands before `:`.
        scheme: String,
    },
    /// A URL without a host.
    #[error("repository {0:?} names no host")]
    NoHost(String),
}

impl FromStr for RepositoryLocation {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        if text.is_empty() {
            return Err(LocationError::Empty);
        }
        if text.starts_with('-') {
            return Err(LocationError::OptionLike(redact(text)));
        }
        if text.chars().any(char::is_control) {
            return Err(LocationError::ControlCharacter(redact(text)));
        }
        let colon = text.find(':');
        let before_slash = colon.filter(|colon| text.find('/').is_none_or(|slash| *colon < slash));
        match (text.split_once("://"), before_slash) {
            (Some((scheme, rest)), Some(_)) => RepositoryUrl::with_scheme(text, scheme, rest).map(Self::Remote),
            (_, Some(colon)) => {
                let (authority, path) = text.split_at(colon);
                RepositoryUrl::like_scp(text, authority, path.trim_start_matches(':')).map(Self::Remote)
            }
            (_, None) => Ok(Self::Local(PathBuf::from(text))),
        }
    }
}

impl From<&Path> for RepositoryLocation {
    fn from(path: &Path) -> Self {
        Self::Local(path.to_owned())
    }
}

impl RepositoryUrl {
    fn with_scheme(text: &str, scheme: &str, rest: &str) -> Result<Self, LocationError> {
        let transport = match scheme.to_ascii_lowercase().as_str() {
            "file" => Transport::File,
            "http" | "https" => Transport::Http,
            "ssh" => Transport::Ssh,
            _ => return Err(LocationError::Scheme { shown: redact(text), scheme: scheme.to_owned() }),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Self::checked(text, transport, authority, path.trim_start_matches('/'))
    }

    fn like_scp(text: &str, authority: &str, path: &str) -> Result<Self, LocationError> {
        // `ext::sh -c …` and every other `helper::address` would run a program of the caller's choice.
        if text.get(authority.len()..).is_some_and(|rest| rest.starts_with("::")) {
            return Err(LocationError::Scheme { shown: redact(text), scheme: format!("{authority}::") });
        }
        Self::checked(text, Transport::Ssh, authority, path)
    }

    fn checked(text: &str, transport: Transport, authority: &str, path: &str) -> Result<Self, LocationError> {
        let (user, host_and_port) = authority.rsplit_once('@').unwrap_or(("", authority));
        let host = match host_and_port.strip_prefix('[') {
            Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
            None => host_and_port.split(':').next().unwrap_or_default(),
        };
        if host.is_empty() && transport != Transport::File {
            return Err(LocationError::NoHost(redact(text)));
        }
        if [user, host, path].iter().any(|part| part.starts_with('-')) {
            return Err(LocationError::OptionLike(redact(text)));
        }
        Ok(Self { text: text.to_owned(), shown: redact(text), transport, host: host.to_owned() })
    }

    /// The URL as given, with its password. Only for the `git` program.
    pub(crate) fn with_secrets(&self) -> &str {
        &self.text
    }

    /// How the repository is reached.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Host name or address, without user and port; empty for most `file://` URLs.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// `scheme://host[:port]` of a web URL, which is what credentials may be given to.
    pub(crate) fn origin(&self) -> Option<String> {
        if self.transport != Transport::Http {
            return None;
        }
        let (scheme, rest) = self.text.split_once("://")?;
        let authority = rest.split('/').next()?;
        let host = authority.rsplit('@').next()?;
        Some(format!("{}://{host}", scheme.to_ascii_lowercase()))
    }
}

/// Replaces the user information of every URL in `text` by `***`, so that messages of the `git` program can be shown.
pub(crate) fn redact(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(found) = rest.find("://") {
        let (before, after) = rest.split_at(found + 3);
        shown.push_str(before);
        let end = after
            .find(|character: char| {
                character == '/' || character.is_whitespace() || character == '\'' || character == '"'
            })
            .unwrap_or(after.len());
        let (authority, tail) = after.split_at(end);
        match authority.rsplit_once('@') {
            // A user alone (`ssh://git@host`) is no secret, except in web URLs, where it is often a token.
            Some((user, host)) if before.ends_with("ssh://") && !user.contains(':') => {
                shown.push_str(user);
                shown.push('@');
                shown.push_str(host);
            }
            Some((_, host)) => {
                shown.push_str("***@");
                shown.push_str(host);
            }
            None => shown.push_str(authority),
        }
        rest = tail;
    }
    shown.push_str(rest);
    shown
}

impl fmt::Display for RepositoryUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)
    }
}

impl fmt::Debug for RepositoryUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RepositoryUrl({:?})", self.shown)
    }
}

impl fmt::Display for RepositoryLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => write!(formatter, "{}", path.display()),
            Self::Remote(url) => url.fmt(formatter),
        }
    }
}

impl fmt::Debug for RepositoryLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => formatter.debug_tuple("Local").field(path).finish(),
            Self::Remote(url) => formatter.debug_tuple("Remote").field(&url.shown).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RepositoryLocation {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn folders_and_urls_are_told_apart() {
        for local in ["fleet.git", "./a:b", "/srv/fleet.git", "../x", "a/b:c"] {
            assert_eq!(parse(local), RepositoryLocation::Local(local.into()), "{local}");
        }
        for (text, transport, host) in [
            ("file:///srv/fleet.git", Transport::File, ""),
            ("https://git.example.com/fleet.git", Transport::Http, "git.example.com"),
            ("https://user:pass@git.example.com:8443/fleet.git", Transport::Http, "git.example.com"),
            ("ssh://git@git.example.com:22/fleet.git", Transport::Ssh, "git.example.com"),
            ("ssh://git@[::1]:22/fleet.git", Transport::Ssh, "::1"),
            ("git@git.example.com:fleet.git", Transport::Ssh, "git.example.com"),
        ] {
            let RepositoryLocation::Remote(url) = parse(text) else { panic!("{text} was taken for a folder") };
            assert_eq!((url.transport(), url.host()), (transport, host), "{text}");
        }
    }

    #[test]
    fn what_could_run_a_program_is_refused() {
        for text in [
            "",
            "--upload-pack=touch x",
            "-x",
            "ssh://-oProxyCommand=x/y",
            "ssh://-oProxyCommand=x@host/y",
            "-oProxyCommand=x:y",
            "git@-oProxyCommand=x:y",
            "git@host:-x",
            "ext::sh -c true",
            "fd::17",
            "helper::https://host/x",
            "git://host/x",
            "ftp://host/x",
            "https:///x",
            "https://host/x\ny",
            "ssh://host/\0",
        ] {
            assert!(text.parse::<RepositoryLocation>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn passwords_are_never_shown() {
        for text in [
            "https://user:CANARY@host/x",
            "https://CANARY@host/x",
            "ssh://user:CANARY@host/x",
            "https://user:CA@NARY:CANARY@host/x",
        ] {
            let location = parse(text);
            for shown in
                [format!("{location}"), format!("{location:?}"), redact(&format!("fatal: '{text}' and {text}"))]
            {
                assert!(!shown.contains("CANARY") && !shown.contains("NARY"), "{shown}");
                assert!(shown.contains("host/x"), "{shown}");
            }
        }
        for error in ["gopher://user:CANARY@host/x", "-https://user:CANARY@host/x", "https://user:CANARY@host/\n"] {
            let error = error.parse::<RepositoryLocation>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("CANARY"), "{error}");
        }
    }

    #[test]
    fn credentials_are_bound_to_scheme_host_and_port() {
        let origin = |text| match parse(text) {
            RepositoryLocation::Remote(url) => url.origin(),
            RepositoryLocation::Local(_) => None,
        };
        assert_eq!(origin("HTTPS://u:p@host:8443/a/b").as_deref(), Some("https://host:8443"));
        assert_eq!(origin("git@host:a"), None);
    }
}
