//! Components that go up one minor at a time, and the versions in between.

use serde::{Deserialize, Serialize};

use super::version::Version;

/// Components (by the manifest's own key) whose upstream asks for one minor at a time.
pub(super) const ONE_MINOR_AT_A_TIME: &[&str] = &["certManager", "cilium"];

/// Minors between two versions for which no version is at hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("no version of {} is at hand between {deployed} and {target}", minors.join(", "))]
pub struct MissingHops {
    /// What is deployed.
    pub deployed: String,
    /// What is wanted.
    pub target: String,
    /// The missing minors, such as `1.18`.
    pub minors: Vec<String>,
}

/// The intermediate versions on the way from `deployed` to `target`, one for each minor in between, lowest first: the highest that is offered.
/// Empty where the way is one step, goes down, or cannot be compared.
///
/// # Errors
///
/// [`MissingHops`] where no version of a minor in between is offered.
pub fn hops<'a>(
    deployed: &str,
    target: &str,
    offered: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<String>, MissingHops> {
    let (Some(from), Some(to)) = (Version::parse(deployed), Version::parse(target)) else { return Ok(Vec::new()) };
    if from.major != to.major || to.minor <= from.minor.saturating_add(1) {
        return Ok(Vec::new());
    }
    let offered: Vec<(Version, &str)> =
        offered.into_iter().filter_map(|text| Some((Version::parse(text)?, text))).collect();
    let (mut found, mut minors) = (Vec::new(), Vec::new());
    for minor in from.minor + 1..to.minor {
        let of_minor = offered.iter().filter(|(version, _)| version.major == from.major && version.minor == minor);
        match of_minor.max_by_key(|(version, text)| (version.key(), *text)) {
            Some((_, text)) => found.push((*text).to_owned()),
            None => minors.push(format!("{}.{minor}", from.major)),
        }
    }
    if minors.is_empty() {
        Ok(found)
    } else {
        Err(MissingHops { deployed: deployed.to_owned(), target: target.to_owned(), minors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(deployed: &str, target: &str, offered: &[&str], expected: Result<&[&str], &[&str]>) {
        let seen = hops(deployed, target, offered.iter().copied());
        let expected = expected.map(|hops| hops.iter().map(ToString::to_string).collect::<Vec<_>>());
        let seen = seen.map_err(|missing| missing.minors);
        let expected = expected.map_err(|minors| minors.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(seen, expected, "{deployed} {target}");
    }

    #[test]
    fn minors_in_between_are_taken_one_by_one() {
        check("v1.17.8-0", "v1.18.2-0", &[], Ok(&[]));
        check("v1.17.8-0", "v1.17.9-0", &[], Ok(&[]));
        check("v1.17.8-0", "v1.19.1-0", &["v1.18.2-0", "v1.18.10-0", "v1.18.9-1"], Ok(&["v1.18.10-0"]));
        check("v1.15.16-eksa.1", "v1.18.0-0", &["v1.16.1-0", "v1.17.8-0"], Ok(&["v1.16.1-0", "v1.17.8-0"]));
    }

    #[test]
    fn missing_minors_are_named() {
        check("v1.15.16-eksa.1", "v1.19.1-0", &["v1.17.8-0"], Err(&["1.16", "1.18"]));
    }

    #[test]
    fn what_cannot_be_compared_has_no_hops() {
        check("deprecated", "v1.19.1-0", &[], Ok(&[]));
        check("v1.19.1-0", "v1.15.0-0", &[], Ok(&[]));
    }
}
