//! References to container images and charts in a registry.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::Digest;

/// `repository[:tag][@sha256:…]`, for an image or a chart.
///
/// The repository includes the registry host and its port, where the reference names them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageReference {
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Why a text is no [`ImageReference`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid image reference: {reason}")]
pub struct ImageReferenceError {
    text: String,
    reason: &'static str,
}

impl ImageReferenceError {
    /// Why, without the text: it may hold a login.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }
}

impl ImageReference {
    /// Host, port and path, without tag and digest.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest that pins the content.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The same repository and tag, pinned to `digest`: `repository:tag@sha256:…`.
    #[must_use]
    pub fn pinned(mut self, digest: Digest) -> Self {
        self.digest = Some(digest);
        self
    }
}

impl FromStr for ImageReference {
    type Err = ImageReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |reason| ImageReferenceError { text: text.chars().take(200).collect(), reason };
        let (name, digest) = match text.split_once('@') {
            None => (text, None),
            Some((name, digest)) if digest.starts_with("sha256:") => {
                let digest =
                    digest.parse().map_err(|_| error("its digest is not `sha256:` and 64 hexadecimal digits"))?;
                (name, Some(digest))
            }
            Some(_) => return Err(error("its digest does not start with `sha256:`")),
        };
        // A colon before the last slash belongs to the port of the registry.
        let path_start = name.rfind('/').map_or(0, |slash| slash + 1);
        let (repository, tag) = match name.get(path_start..).and_then(|path| path.split_once(':')) {
            None => (name, None),
            Some((path, tag)) => (name.get(..path_start + path.len()).unwrap_or(name), Some(tag)),
        };
        if let Some(tag) = tag {
            let valid = tag.len() <= 128
                && tag.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
                && tag.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '.' | '-'));
            if !valid {
                return Err(error("its tag is empty, too long or has a character that tags do not have"));
            }
        }
        let valid = repository.split('/').enumerate().all(|(index, part)| {
            let host = index == 0;
            part.starts_with(|first: char| first.is_ascii_alphanumeric())
                && part
                    .chars()
                    .all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '.' | '-') || host && it == ':')
        });
        if !valid {
            return Err(error("its repository is empty or has a character that repositories do not have"));
        }
        Ok(Self { repository: repository.to_owned(), tag: tag.map(str::to_owned), digest })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.repository)?;
        if let Some(tag) = &self.tag {
            write!(formatter, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(formatter, "@{digest}")?;
        }
        Ok(())
    }
}

impl Serialize for ImageReference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ImageReference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn parts_are_split_and_come_back() {
        let check = |text: &str, repository: &str, tag: Option<&str>, digest: bool| {
            let reference: ImageReference = text.parse().unwrap();
            assert_eq!((reference.repository(), reference.tag()), (repository, tag), "{text}");
            assert_eq!(reference.digest().is_some(), digest, "{text}");
            assert_eq!(reference.to_string(), text);
        };
        check(
            "public.ecr.aws/eks/cilium/cilium:v1.17.8-0",
            "public.ecr.aws/eks/cilium/cilium",
            Some("v1.17.8-0"),
            false,
        );
        check("localhost:5000/flux", "localhost:5000/flux", None, false);
        check("localhost:5000/flux:v2", "localhost:5000/flux", Some("v2"), false);
        check(&format!("ghcr.io/a/b:v1@{DIGEST}"), "ghcr.io/a/b", Some("v1"), true);
        check(&format!("ghcr.io/a/b@{DIGEST}"), "ghcr.io/a/b", None, true);
        check("busybox", "busybox", None, false);
    }

    #[test]
    fn what_names_no_image_is_refused() {
        let texts = [
            "",
            "<placeholder>",
            "https://example.org/a.tgz",
            "a:",
            "a:b:c",
            "a//b",
            "a/b c",
            "a@sha512:00",
            "a@sha256:00",
            "/a",
            "a:-tag",
            "-a",
        ];
        for text in texts {
            assert!(text.parse::<ImageReference>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_comes_back(text in "[a-z0-9./:@_<>-]{0,40}") {
            if let Ok(reference) = text.parse::<ImageReference>() {
                prop_assert_eq!(reference.to_string(), text);
            }
        }
    }
}
