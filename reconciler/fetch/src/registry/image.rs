//! Whether a registry has an image, and for which machines.

use bundles::{Digest, ImageReference};
use overlays::FetchError;
use serde::Deserialize;

use super::credentials::{Credential, Credentials};
use super::session::Session;
use super::{MAXIMUM_MANIFEST, Registry};

/// Images for several machines, and images for one.
const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, \
                        application/vnd.docker.distribution.manifest.list.v2+json, \
                        application/vnd.oci.image.manifest.v1+json, \
                        application/vnd.docker.distribution.manifest.v2+json";

/// The largest configuration of an image, in bytes.
const MAXIMUM_CONFIG: u64 = 4 << 20;

/// What a registry says of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageAnswer {
    /// It is there.
    Found {
        /// The architectures of Linux that it is for; empty where it does not say.
        architectures: Vec<String>,
    },
    /// It is not.
    Missing {
        /// In the registry's words.
        reason: String,
    },
    /// Its registry gives it to nobody who shows no other login.
    Refused {
        /// In the registry's words.
        reason: String,
    },
    /// It cannot be told.
    Unknown {
        /// Why, without the image.
        reason: String,
    },
}

/// An answer, and whether its registry gave none at all.
pub(crate) struct Looked {
    pub(crate) answer: ImageAnswer,
    pub(crate) is_silent: bool,
}

/// Where an image lies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Host and port.
    pub(crate) host: String,
    repository: String,
    /// Tag or digest.
    reference: String,
    digest: Option<Digest>,
}

/// An image, or the list of those for several machines.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    #[serde(default)]
    manifests: Vec<Child>,
    config: Option<Config>,
}

#[derive(Deserialize)]
struct Child {
    digest: String,
    #[serde(default)]
    platform: Platform,
}

#[derive(Deserialize)]
struct Config {
    digest: String,
}

/// Of an entry of a list, and of a configuration alike.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Platform {
    architecture: String,
    os: String,
}

impl Place {
    /// Reads a reference as container runtimes do: without a host it is of Docker Hub, without a tag the latest.
    pub(crate) fn parse(image: &str) -> Result<Self, String> {
        // Without its text: what somebody has written may hold a login.
        let parsed = image
            .parse::<ImageReference>()
            .map_err(|error| format!("it is not a valid image reference: {}", error.reason()))?;
        let is_host = |part: &str| part.contains(['.', ':']) || part == "localhost";
        let (host, repository) = match parsed.repository().split_once('/') {
            Some((host, repository)) if is_host(host) => (host.to_ascii_lowercase(), repository.to_owned()),
            Some(_) => (String::from("docker.io"), parsed.repository().to_owned()),
            None => (String::from("docker.io"), format!("library/{}", parsed.repository())),
        };
        let host = match host.as_str() {
            "docker.io" | "index.docker.io" => String::from("registry-1.docker.io"),
            // What an address leaves out.
            host => host.strip_suffix(":443").unwrap_or(host).to_owned(),
        };
        let tag = parsed.tag().unwrap_or("latest").to_owned();
        let reference = parsed.digest().map_or(tag, |digest| digest.to_string());
        Ok(Self { host, repository, reference, digest: parsed.digest() })
    }

    /// The host as images name it.
    pub(crate) fn named_host(&self) -> &str {
        if self.host == "registry-1.docker.io" { "docker.io" } else { &self.host }
    }

    /// The repository on it.
    pub(crate) fn repository(&self) -> &str {
        &self.repository
    }
}

impl Registry {
    /// Asks for the manifest of an image, and for those that it lists, with the login of the Docker configuration.
    pub(crate) async fn look(&self, image: &str, place: &Place) -> Looked {
        self.look_with(image, place, &self.credentials).await
    }

    /// The same with this login, which goes to the host of the image and its token server alone.
    pub(crate) async fn look_as(&self, image: &str, place: &Place, login: &Credential) -> Looked {
        self.look_with(image, place, &Credentials::given(&place.host, login.clone())).await
    }

    async fn look_with(&self, image: &str, place: &Place, credentials: &Credentials) -> Looked {
        let Place { host, repository, .. } = place;
        if !self.http.options.allow.allows(host, repository) {
            let reason = format!("fetch.allow of stepgate.yaml does not list {host}");
            return Looked { answer: ImageAnswer::Unknown { reason }, is_silent: false };
        }
        let mut session = Session::new(&self.http, credentials, image, host, repository);
        let answer = match read(&mut session, place).await {
            Ok(architectures) => ImageAnswer::Found { architectures },
            Err(error) => match of_error(host, error) {
                ImageAnswer::Unknown { reason } if session.is_refused() => ImageAnswer::Refused { reason },
                answer => answer,
            },
        };
        Looked { answer, is_silent: session.is_silent() }
    }
}

/// The architectures of an image whose manifests are all there.
async fn read(session: &mut Session<'_>, place: &Place) -> Result<Vec<String>, FetchError> {
    let bytes = session.get(&format!("manifests/{}", place.reference), ACCEPTED, MAXIMUM_MANIFEST).await?;
    let found = Digest::of(&bytes);
    if let Some(wanted) = place.digest.filter(|wanted| *wanted != found) {
        return Err(session.failed(format!("a manifest has digest {found}, and {wanted} is asked for")));
    }
    let manifest: Manifest = serde_json::from_slice(&bytes)
        .map_err(|_| session.failed(String::from("a manifest is not a valid one of an image")))?;
    let mut architectures = Vec::new();
    for child in &manifest.manifests {
        let Platform { architecture, os } = &child.platform;
        if os != "linux" || architectures.contains(architecture) {
            continue;
        }
        session.head(&format!("manifests/{}", digest(session, &child.digest)?), ACCEPTED).await?;
        architectures.push(architecture.clone());
    }
    if let Some(config) = &manifest.config {
        let path = format!("blobs/{}", digest(session, &config.digest)?);
        let bytes = session.get(&path, "application/octet-stream", MAXIMUM_CONFIG).await?;
        // What is not an image in the strict sense does not say for whom it is.
        let platform: Platform = serde_json::from_slice(&bytes).unwrap_or_default();
        architectures.extend(Some(platform.architecture).filter(|name| !name.is_empty()));
    }
    architectures.sort();
    Ok(architectures)
}

/// A digest that becomes part of an address.
fn digest(session: &Session<'_>, text: &str) -> Result<Digest, FetchError> {
    let digest = Some(text).filter(|text| text.starts_with("sha256:")).and_then(|text| text.parse().ok());
    digest.ok_or_else(|| session.failed(String::from("a manifest names a digest that is not a sha256 digest")))
}

fn of_error(host: &str, error: FetchError) -> ImageAnswer {
    match error {
        FetchError::NotFound { searched, .. } => ImageAnswer::Missing { reason: searched },
        FetchError::NotAllowed { .. } => {
            ImageAnswer::Unknown { reason: format!("fetch.allow of stepgate.yaml does not list {host}") }
        }
        FetchError::SentOn { host: other, .. } => ImageAnswer::Unknown {
            reason: format!("{host} sends on to {other}, which fetch.allow of stepgate.yaml does not list"),
        },
        FetchError::Failed { message, .. } => ImageAnswer::Unknown { reason: format!("{host}: {message}") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_container_runtimes_read_them() {
        let digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
        let pinned = format!("public.ecr.aws/eks/cilium:v1@{digest}");
        for (image, host, repository, reference) in [
            ("nginx", "registry-1.docker.io", "library/nginx", "latest"),
            ("flux/source:v1", "registry-1.docker.io", "flux/source", "v1"),
            ("docker.io/library/nginx:1", "registry-1.docker.io", "library/nginx", "1"),
            ("localhost/x:1", "localhost", "x", "1"),
            ("10.0.0.1:443/eks/x:1", "10.0.0.1", "eks/x", "1"),
            ("R.example:5000/x:1", "r.example:5000", "x", "1"),
            (pinned.as_str(), "public.ecr.aws", "eks/cilium", digest),
        ] {
            let place = Place::parse(image).unwrap();
            let seen = (place.host.as_str(), place.repository.as_str(), place.reference.as_str());
            assert_eq!(seen, (host, repository, reference), "{image}");
        }
        assert!(Place::parse("<placeholder>").unwrap_err().contains("is not a valid image reference"));
    }
}
