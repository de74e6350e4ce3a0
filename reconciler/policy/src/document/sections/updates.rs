//! `updates` of `stepgate.yaml`: which new versions Stepgate proposes by itself, as changes of the source branch.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use yaml::Node;

use crate::MaintenanceWindow;
use crate::document::read::Reader;
use crate::document::schema::{DurationText, WindowText, every_field_is_optional};

const FIELDS: [&str; 7] = ["releases", "follow", "minimumAge", "ignore", "schedule", "kubernetes", "eks"];

/// How far one proposal of a bundle goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Follow {
    /// To later patches of the minor that there is.
    Patch,
    /// To the next minor too, never past it.
    Minor,
}

/// Two numbers: `0.26` of EKS Anywhere, `1.34` of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MinorVersion {
    /// The first.
    pub major: u64,
    /// The second.
    pub minor: u64,
}

/// A text is not a minor version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid minor version; write it as \"1.34\", in quotes")]
pub struct MinorVersionError(String);

impl FromStr for MinorVersion {
    type Err = MinorVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |part: &str| {
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| part.parse().ok()).flatten()
        };
        let parts = text.strip_prefix('v').unwrap_or(text).split_once('.');
        let numbers = parts.and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
        let (major, minor) = numbers.ok_or_else(|| MinorVersionError(text.to_owned()))?;
        Ok(Self { major, minor })
    }
}

impl fmt::Display for MinorVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// Versions of EKS Anywhere that are never proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoredVersion {
    /// All of a minor: `0.26`.
    Minor(MinorVersion),
    /// One: `v0.26.1`.
    Exact(String),
}

impl IgnoredVersion {
    /// Whether it is `version`, which has these first two numbers.
    #[must_use]
    pub fn is(&self, version: &str, minor: MinorVersion) -> bool {
        match self {
            Self::Minor(ignored) => *ignored == minor,
            Self::Exact(ignored) => {
                ignored.strip_prefix('v').unwrap_or(ignored) == version.strip_prefix('v').unwrap_or(version)
            }
        }
    }
}

/// Which new versions are proposed.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct UpdatePolicy {
    /// Address of the releases manifest of EKS Anywhere. Whoever runs Stepgate says which hosts may be asked.
    pub releases: Option<String>,
    /// How far one proposal goes.
    pub follow: Follow,
    /// How old a release has to be.
    #[schemars(with = "DurationText")]
    pub minimum_age: Duration,
    /// Versions of EKS Anywhere that are never proposed: `v0.26.1`, or all of `0.26`.
    #[schemars(with = "Vec<String>")]
    pub ignore: Vec<IgnoredVersion>,
    /// When something may be proposed; at any time without it.
    #[schemars(with = "Vec<WindowText>")]
    pub schedule: Vec<MaintenanceWindow>,
    /// Kubernetes minors that may be proposed for clusters of EKS Anywhere, each in a pull request of its own.
    #[schemars(with = "Vec<String>")]
    pub kubernetes: Vec<MinorVersion>,
    /// Kubernetes minors that may be proposed for clusters of eksctl, likewise.
    #[schemars(with = "Vec<String>")]
    pub eks: Vec<MinorVersion>,
}

impl Default for UpdatePolicy {
    fn default() -> Self {
        Self {
            releases: None,
            follow: Follow::Minor,
            minimum_age: Duration::from_secs(7 * 24 * 60 * 60),
            ignore: Vec::new(),
            schedule: Vec::new(),
            kubernetes: Vec::new(),
            eks: Vec::new(),
        }
    }
}

impl Reader<'_> {
    pub(in crate::document) fn updates(&mut self, node: &Node) -> Option<UpdatePolicy> {
        let mut updates = UpdatePolicy::default();
        for entry in self.mapping(node, "updates")? {
            let value = &entry.value;
            match entry.key.as_str() {
                "releases" => updates.releases = self.releases(value),
                "follow" => {
                    let choices = [("patch", Follow::Patch), ("minor", Follow::Minor)];
                    // What cannot be read must not make proposals larger.
                    updates.follow = self.choice(value, "updates.follow", &choices).unwrap_or(Follow::Patch);
                }
                "minimumAge" => {
                    updates.minimum_age = self.duration(value, "updates.minimumAge").unwrap_or(updates.minimum_age);
                }
                "ignore" => updates.ignore = self.ignored_versions(value),
                "schedule" => updates.schedule = self.windows(value),
                "kubernetes" => updates.kubernetes = self.minors(value, "updates.kubernetes"),
                "eks" => updates.eks = self.minors(value, "updates.eks"),
                _ => self.unknown(entry, "updates", &FIELDS),
            }
        }
        if updates.releases.is_none() && updates.kubernetes.is_empty() && updates.eks.is_empty() {
            let hint = "write `releases`, `kubernetes` or `eks`, or leave `updates` out".to_owned();
            self.problem(node.span, "updates names nothing that could be proposed", Some(hint));
        }
        Some(updates)
    }

    fn releases(&mut self, node: &Node) -> Option<String> {
        let text = self.text(node, "updates.releases")?;
        let host = text.strip_prefix("https://").and_then(|rest| rest.split('/').next());
        let is_usable = host.is_some_and(|host| !host.is_empty() && !host.contains('@'))
            && !text.contains(|sign: char| sign.is_whitespace() || sign.is_control() || sign == '#');
        if !is_usable {
            let hint = "write the address of a releases manifest: https://HOST/PATH/manifest.yaml".to_owned();
            self.problem(node.span, format!("updates.releases {text:?} is not a valid address"), Some(hint));
        }
        is_usable.then_some(text)
    }

    fn ignored_versions(&mut self, node: &Node) -> Vec<IgnoredVersion> {
        let mut ignored = Vec::new();
        for text in self.texts(node, "updates.ignore") {
            let is_exact = |text: &str| {
                let core = text.strip_prefix('v').unwrap_or(text).split(['-', '+']).next().unwrap_or_default();
                let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
                core.split('.').count() == 3 && core.split('.').all(is_number)
            };
            match text.parse::<MinorVersion>() {
                Ok(minor) => ignored.push(IgnoredVersion::Minor(minor)),
                Err(_) if is_exact(&text) => ignored.push(IgnoredVersion::Exact(text)),
                Err(_) => {
                    let hint = "write a version such as \"v0.26.1\", or a minor such as \"0.26\"".to_owned();
                    let message = format!("updates.ignore: {text:?} is not a valid version");
                    self.problem(node.span, message, Some(hint));
                }
            }
        }
        ignored
    }

    fn minors(&mut self, node: &Node, place: &str) -> Vec<MinorVersion> {
        let mut minors = Vec::new();
        for text in self.texts(node, place) {
            match text.parse() {
                Ok(minor) => minors.push(minor),
                Err(error @ MinorVersionError(_)) => self.problem(node.span, format!("{place}: {error}"), None),
            }
        }
        minors.sort_unstable();
        minors.dedup();
        minors
    }
}

#[cfg(test)]
mod tests {
    use domain::RepoPath;

    use super::*;
    use crate::read_policy;

    fn read(text: &str) -> (Option<UpdatePolicy>, Vec<String>) {
        let (policy, problems) = read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        (policy.updates, problems.iter().map(|problem| problem.message.clone()).collect())
    }

    #[test]
    fn updates_are_read_with_their_defaults() {
        let (updates, problems) = read(
            "updates:\n  releases: https://example.com/manifest.yaml\n  ignore: [v0.26.1, \"0.27\"]\n  \
             kubernetes: [\"1.35\", \"1.34\"]\n",
        );
        let updates = updates.unwrap();
        assert_eq!(problems, [""; 0]);
        assert_eq!((updates.follow, updates.minimum_age.as_secs()), (Follow::Minor, 604_800));
        assert_eq!(updates.kubernetes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["1.34", "1.35"]);
        let is_ignored = |version: &str, minor: &str| {
            updates.ignore.iter().any(|ignored| ignored.is(version, minor.parse().unwrap()))
        };
        assert!(is_ignored("v0.26.1", "0.26") && is_ignored("v0.27.4", "0.27") && !is_ignored("v0.26.2", "0.26"));
    }

    #[test]
    fn what_cannot_be_meant_is_told() {
        for (text, expected) in [
            ("updates: {}", "updates names nothing that could be proposed"),
            ("updates: {releases: http://example.com/a}", "is not a valid address"),
            ("updates: {releases: \"https://user@example.com/a\"}", "is not a valid address"),
            ("updates: {eks: [\"1.34.2\"]}", "\"1.34.2\" is not a valid minor version"),
            ("updates: {eks: [\"1.34\"], ignore: [newest]}", "\"newest\" is not a valid version"),
            ("updates: {eks: [\"1.34\"], ignore: [v0.26.x]}", "\"v0.26.x\" is not a valid version"),
            ("updates: {eks: [\"1.34\"], folow: patch}", "unknown field \"folow\" in updates"),
            ("updates: {eks: [\"1.34\"], follow: major}", "updates.follow must be one of patch, minor"),
        ] {
            let (_, problems) = read(text);
            assert!(problems.iter().any(|problem| problem.contains(expected)), "{text}: {problems:?}");
        }
    }
}
