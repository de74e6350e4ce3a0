//! Logins as kubelets have them: the Docker configuration in a pull secret, found by host and path of an image.
//!
//! Nothing that such a configuration names is run or read, no credential helper either: whoever writes it is not the
//! operator of this machine. Sources: `pkg/credentialprovider/config.go` and `keyring.go` of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bundles::Digest;
use serde::Deserialize;

use super::credentials::Credential;
use super::image::Place;

/// Padded or not.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// How a configuration names Docker Hub, whose images name `docker.io`.
const DOCKER_HUB: [&str; 2] = ["docker.io", "index.docker.io"];

/// What one pull secret holds. Its `Debug` form names no login.
#[derive(Clone, Debug)]
pub struct PullSecret {
    name: String,
    entries: Vec<Entry>,
    /// Of what it holds, so that another login is another question.
    digest: Digest,
}

#[derive(Clone, Debug)]
struct Entry {
    host: String,
    /// What the repository begins with; empty for all.
    path: String,
    credential: Credential,
}

/// `kubernetes.io/dockerconfigjson`.
#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl PullSecret {
    /// What a Secret of the type `kubernetes.io/dockerconfigjson` holds.
    ///
    /// # Errors
    /// Where it cannot be read, without a word of it.
    pub fn docker_config_json(name: impl Into<String>, text: &str) -> Result<Self, &'static str> {
        let read = serde_json::from_str::<Configuration>(text);
        let configuration = read.map_err(|_| "data[.dockerconfigjson] is not a valid Docker configuration")?;
        Ok(Self::of(name.into(), configuration.auths, text))
    }

    /// What one of the older type `kubernetes.io/dockercfg` holds.
    ///
    /// # Errors
    /// Where it cannot be read, without a word of it.
    pub fn docker_cfg(name: impl Into<String>, text: &str) -> Result<Self, &'static str> {
        let read = serde_json::from_str::<BTreeMap<String, Auth>>(text);
        let auths = read.map_err(|_| "data[.dockercfg] is not a valid Docker configuration")?;
        Ok(Self::of(name.into(), auths, text))
    }

    /// One login for one host.
    #[must_use]
    pub fn of_host(name: impl Into<String>, host: &str, user: &str, password: &str) -> Self {
        let auth = Auth { username: Some(user.to_owned()), password: Some(password.to_owned()), ..Auth::default() };
        Self::of(name.into(), [(host.to_owned(), auth)].into(), &[host, user, password].join("\0"))
    }

    fn of(name: String, auths: BTreeMap<String, Auth>, text: &str) -> Self {
        let entry = |(place, auth): (String, Auth)| {
            let (host, path) = place_of(&place)?;
            Some(Entry { host, path, credential: credential(auth)? })
        };
        let mut entries: Vec<Entry> = auths.into_iter().filter_map(entry).collect();
        // The last of them are the more specific ones, as kubelets have it.
        entries.sort_by(|one, other| (&other.host, &other.path).cmp(&(&one.host, &one.path)));
        let digest = Digest::of(format!("{name}\0{text}").as_bytes());
        Self { name, entries, digest }
    }

    /// `namespace/name`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// Its logins for an image, in the order in which they are tried.
    pub(crate) fn of_image<'a>(&'a self, place: &'a Place) -> impl Iterator<Item = &'a Credential> {
        let holds = |entry: &&Entry| entry.is_for(place.named_host(), place.repository());
        self.entries.iter().filter(holds).map(|entry| &entry.credential)
    }
}

impl Entry {
    fn is_for(&self, host: &str, repository: &str) -> bool {
        let is_hub = DOCKER_HUB.contains(&host) && DOCKER_HUB.contains(&self.host.as_str());
        (is_hub || is_host(&self.host, host)) && repository.starts_with(&self.path)
    }
}

/// Whether a host is one of those that a pattern means: label by label, `*` and `?` within a label alone.
fn is_host(pattern: &str, host: &str) -> bool {
    fn split(text: &str) -> (&str, &str) {
        text.rsplit_once(':').unwrap_or((text, ""))
    }
    let ((pattern, pattern_port), (host, port)) = (split(pattern), split(host));
    let (patterns, labels) = (pattern.split('.'), host.split('.'));
    pattern_port == port
        && patterns.clone().count() == labels.clone().count()
        && patterns.zip(labels).all(|(pattern, label)| is_label(pattern.as_bytes(), label.as_bytes()))
}

fn is_label(pattern: &[u8], label: &[u8]) -> bool {
    // Where in the label the pattern may stand so far: as many steps as both are long, whatever somebody has written.
    let mut reached = BTreeSet::from([0]);
    for wanted in pattern {
        reached = match wanted {
            b'*' => reached.first().map(|first| (*first..=label.len()).collect()).unwrap_or_default(),
            _ => {
                let goes_on = |at: &&usize| label.get(**at).is_some_and(|found| *wanted == b'?' || wanted == found);
                reached.iter().filter(goes_on).map(|at| at + 1).collect()
            }
        };
    }
    reached.contains(&label.len())
}

/// Host and path that a key of a configuration means: with or without a scheme, `/v1/` and `/v2/` as the host alone.
fn place_of(key: &str) -> Option<(String, String)> {
    let plain = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let (host, path) = plain.split_once('/').unwrap_or((plain, ""));
    let versions = ["v1", "v2"].into_iter().find_map(|version| path.strip_prefix(version));
    let path = match versions {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        Some(_) | None => path,
    };
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix(":443").unwrap_or(&host);
    (!host.is_empty()).then(|| (host.to_owned(), path.to_owned()))
}

fn credential(auth: Auth) -> Option<Credential> {
    if let Some(token) = auth.identitytoken.filter(|token| !token.is_empty()) {
        return Some(Credential::IdentityToken(token));
    }
    let written = auth.auth.filter(|text| !text.is_empty()).and_then(|text| {
        let decoded = String::from_utf8(ENGINE.decode(text.trim()).ok()?).ok()?;
        let (name, password) = decoded.split_once(':')?;
        Some((name.to_owned(), password.trim_matches('\0').to_owned()))
    });
    let (name, password) = written.or_else(|| Some((auth.username?, auth.password?)))?;
    Some(Credential::Password { name, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, image: &str) -> Vec<String> {
        let secret = PullSecret::docker_config_json("n/s", text).unwrap();
        let place = Place::parse(image).unwrap();
        let shown = |credential: &Credential| match credential {
            Credential::Password { name, password } => format!("{name}:{password}"),
            Credential::IdentityToken(token) => format!("token {token}"),
        };
        secret.of_image(&place).map(shown).collect()
    }

    #[test]
    fn a_login_is_for_the_host_and_the_path_that_it_names() {
        let of = |key: &str, image: &str| {
            let text = format!(r#"{{"auths": {{"{key}": {{"username": "u", "password": "p"}}}}}}"#);
            !names(&text, image).is_empty()
        };
        for (key, image) in [
            ("a.example", "a.example/x:1"),
            ("https://a.example/v2/", "a.example/x:1"),
            ("A.example:443", "a.example/x:1"),
            ("a.example/team", "a.example/team/x:1"),
            ("a.example:5000", "a.example:5000/x:1"),
            ("*.example", "a.example/x:1"),
            ("r?.*st.example", "r1.test.example/x:1"),
            ("https://index.docker.io/v1/", "nginx"),
            ("docker.io", "flux/source:v1"),
        ] {
            assert!(of(key, image), "{key} {image}");
        }
        for (key, image) in [
            ("a.example", "b.example/x:1"),
            ("a.example", "a.example.evil.test/x:1"),
            ("a.example", "evil.a.example/x:1"),
            ("a.example:5000", "a.example/x:1"),
            ("a.example/team", "a.example/other/x:1"),
            ("*.example", "b.a.example/x:1"),
            ("*", "a.example/x:1"),
            ("", "a.example/x:1"),
            ("https://index.docker.io/v1/", "quay.io/x:1"),
        ] {
            assert!(!of(key, image), "{key} {image}");
        }
    }

    #[test]
    fn logins_are_read_in_every_form_and_no_helper_is_run() {
        // user:pass:word
        let text = r#"{"auths": {"a.example": {"auth": "dXNlcjpwYXNzOndvcmQ="}, "b.example": {"auth": "%"},
            "c.example": {"identitytoken": "t", "auth": ""}, "a.example/x": {"username": "u", "password": "p"}},
            "credsStore": "evil", "credHelpers": {"d.example": "evil"}}"#;
        assert_eq!(names(text, "a.example/x:1"), ["u:p", "user:pass:word"]);
        assert_eq!(names(text, "c.example/x:1"), ["token t"]);
        for image in ["b.example/x:1", "d.example/x:1", "e.example/x:1"] {
            assert_eq!(names(text, image), [""; 0], "{image}");
        }
        let old = PullSecret::docker_cfg("n/s", r#"{"a.example": {"auth": "dXNlcjpwYXNzOndvcmQ="}}"#).unwrap();
        assert_eq!(old.of_image(&Place::parse("a.example/x").unwrap()).count(), 1);
        let broken = PullSecret::docker_config_json("n/s", "{\"auths\": {\"a.example\": \"hunter2\"}}").unwrap_err();
        assert!(!broken.contains("hunter2"), "{broken}");
        let shown = format!("{:?}", PullSecret::docker_config_json("n/s", text).unwrap());
        assert!(!shown.contains("word") && !shown.contains("user"), "{shown}");
    }
}
