//! Which release is meant.

use super::{DistributionVersion, DistributionVersionError, Standing, TanzuRelease, VersionHint};

/// How a specification names its release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// `distribution.version` alone: the newest release that is offered and begins so.
    Hint(VersionHint),
    /// `distribution.fullVersion` alone.
    Full(DistributionVersion),
    /// Both, which have to agree.
    Both(VersionHint, DistributionVersion),
    /// `tkr.reference.name`: the name of a release, or its beginning.
    Name(VersionHint),
}

/// Why no release is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Hint and full version are of two releases.
    #[error("version hint {hint} is not the beginning of full version {full}")]
    Disagree {
        /// The hint.
        hint: VersionHint,
        /// The full version.
        full: DistributionVersion,
    },
    /// A beginning alone, and no release is known.
    #[error("{hint} is the beginning of a version, and no release is recorded that it could mean")]
    NothingRecorded {
        /// What was asked for.
        hint: VersionHint,
    },
    /// No release is called so, or begins so.
    #[error("no recorded release is {wanted}{}", list("; the newest are", recorded))]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// The newest that are recorded.
        recorded: Vec<String>,
    },
    /// Releases begin so, and none of them is offered.
    #[error("no release of {hint} is offered{}", list(":", excluded))]
    NoneOffered {
        /// What was asked for.
        hint: VersionHint,
        /// What begins so, and why it is not offered.
        excluded: Vec<String>,
    },
    /// Several releases that have no order are the newest.
    #[error("{hint} may be any of {}: they differ in what has no order", versions.join(", "))]
    Ambiguous {
        /// What was asked for.
        hint: VersionHint,
        /// The releases.
        versions: Vec<String>,
    },
}

/// How many releases a refusal names.
const NAMED: usize = 3;

fn list(before: &str, items: &[String]) -> String {
    if items.is_empty() { String::new() } else { format!("{before} {}", items.join(", ")) }
}

impl Request {
    /// What `distribution.version` and `distribution.fullVersion` ask for together; `None` where both are empty.
    ///
    /// # Errors
    /// A text that is neither version nor beginning of one.
    pub fn of_distribution(hint: &str, full: &str) -> Result<Option<Self>, DistributionVersionError> {
        Ok(match (hint.is_empty(), full.is_empty()) {
            (true, true) => None,
            (false, true) => Some(Self::Hint(hint.parse()?)),
            (true, false) => Some(Self::Full(full.parse()?)),
            (false, false) => Some(Self::Both(hint.parse()?, full.parse()?)),
        })
    }

    /// The version, as far as the specification alone says it.
    #[must_use]
    pub fn as_written(&self) -> &str {
        match self {
            Self::Hint(hint) | Self::Name(hint) => hint.as_str(),
            Self::Full(full) | Self::Both(_, full) => full.as_str(),
        }
    }

    /// The version, where the specification names a whole one.
    #[must_use]
    pub fn whole(&self) -> Option<DistributionVersion> {
        let named = |hint: &VersionHint| {
            let is_of_distribution = hint.as_str().contains("-tkg.");
            hint.as_str().parse::<DistributionVersion>().ok().filter(|_| is_of_distribution)
        };
        match self {
            Self::Full(full) | Self::Both(_, full) => Some(full.clone()),
            Self::Hint(hint) | Self::Name(hint) => named(hint),
        }
    }
}

/// The release that is meant, by the rules of the Supervisor; what is recorded is all that there is.
///
/// A hint means the newest release that is offered and begins so; a release that is named exactly like it counts alone. A
/// full version stands, also where its release is offered no more: clusters that run it go on.
///
/// # Errors
/// [`Refusal`] where none is meant.
pub fn resolve<'a>(request: &Request, releases: &'a [TanzuRelease]) -> Result<&'a TanzuRelease, Refusal> {
    match request {
        Request::Full(full) => exact(full, releases),
        Request::Both(hint, full) if full.begins_with(hint) => exact(full, releases),
        Request::Both(hint, full) => Err(Refusal::Disagree { hint: hint.clone(), full: full.clone() }),
        Request::Name(hint) => match releases.iter().find(|release| release.version.name() == hint.as_str()) {
            Some(release) => Ok(release),
            None => newest(hint, releases),
        },
        Request::Hint(hint) => newest(hint, releases),
    }
}

fn exact<'a>(full: &DistributionVersion, releases: &'a [TanzuRelease]) -> Result<&'a TanzuRelease, Refusal> {
    let found = releases.iter().find(|release| release.version == *full);
    found.ok_or_else(|| Refusal::Unknown { wanted: full.to_string(), recorded: newest_of_all(releases) })
}

fn newest<'a>(hint: &VersionHint, releases: &'a [TanzuRelease]) -> Result<&'a TanzuRelease, Refusal> {
    if releases.is_empty() {
        return Err(Refusal::NothingRecorded { hint: hint.clone() });
    }
    let of_hint: Vec<&TanzuRelease> = releases.iter().filter(|release| release.version.begins_with(hint)).collect();
    let named: Vec<&TanzuRelease> =
        of_hint.iter().copied().filter(|release| release.version.name() == hint.as_str()).collect();
    let candidates = if named.is_empty() { of_hint } else { named };
    if candidates.is_empty() {
        return Err(Refusal::Unknown { wanted: hint.to_string(), recorded: newest_of_all(releases) });
    }
    let offered = candidates.iter().copied().filter(|release| release.standing == Standing::Offered);
    let Some(first) = offered.clone().max_by(|left, right| left.version.order(&right.version)) else {
        let excluded = candidates.iter().map(|release| match &release.standing {
            Standing::Excluded(reason) => format!("{} ({reason})", release.version),
            Standing::Offered => release.version.to_string(),
        });
        return Err(Refusal::NoneOffered { hint: hint.clone(), excluded: excluded.take(NAMED).collect() });
    };
    let mut equals: Vec<String> = offered
        .filter(|release| release.version.order(&first.version).is_eq())
        .map(|release| release.version.to_string())
        .collect();
    equals.sort();
    equals.dedup();
    if equals.len() > 1 {
        return Err(Refusal::Ambiguous { hint: hint.clone(), versions: equals });
    }
    Ok(first)
}

fn newest_of_all(releases: &[TanzuRelease]) -> Vec<String> {
    let mut sorted: Vec<&TanzuRelease> = releases.iter().collect();
    sorted.sort_by(|left, right| {
        right.version.order(&left.version).then_with(|| right.version.as_str().cmp(left.version.as_str()))
    });
    sorted.iter().take(NAMED).map(|release| release.version.to_string()).collect()
}
