//! Names and digests that tie a rollout together.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use smol_str::SmolStr;

/// A text that is no valid identifier of its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}: expected {expected}")]
pub struct InvalidIdentifier {
    /// Which identifier was read, in words.
    what: &'static str,
    /// What was given, as far as its first 100 characters go.
    text: String,
    /// The accepted form.
    expected: &'static str,
}

macro_rules! identifier {
    ($(#[$documentation:meta])* $name:ident, $what:literal, $expected:literal, $read:expr) => {
        $(#[$documentation])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(SmolStr);

        impl $name {
            /// The text, as it is written in git, logs and metrics.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidIdentifier;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let read: fn(&str) -> Option<String> = $read;
                read(text).map(|text| Self(text.into())).ok_or_else(|| InvalidIdentifier { what: $what, text: text.chars().take(100).collect(), expected: $expected })
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidIdentifier;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

identifier!(
    /// Name of a cluster: letters, digits, `-`, `.` and `_`, at most 253 bytes, so it is also one segment of a path.
    ClusterName,
    "cluster name",
    "1 to 253 letters, digits, `-`, `.` or `_`, with a letter or digit at both ends",
    segment
);
identifier!(
    /// Name of a worker node group (EKS-A `workerNodeGroupConfigurations[].name`, or a MachineDeployment's own name).
    GroupName,
    "worker group name",
    "1 to 253 letters, digits, `-`, `.` or `_`, with a letter or digit at both ends",
    segment
);
identifier!(
    /// Object id of a git commit: 40 (SHA-1) or 64 (SHA-256) lower-case hexadecimal digits.
    CommitId,
    "commit id",
    "40 or 64 lower-case hexadecimal digits",
    |text| (matches!(text.len(), 40 | 64) && lower_hex(text)).then(|| text.to_owned())
);
identifier!(
    /// SHA-256 over a rendered tree (paths, lengths and bytes). Written `sha256:<64 hexadecimal digits>`; bare digits are accepted.
    TreeDigest,
    "tree digest",
    "`sha256:` and 64 lower-case hexadecimal digits",
    sha256
);
identifier!(
    /// SHA-256 over what a plan is about to do. Written `sha256:<64 hexadecimal digits>`; bare digits are accepted.
    PlanDigest,
    "plan digest",
    "`sha256:` and 64 lower-case hexadecimal digits",
    sha256
);
identifier!(
    /// Name of a rollout: the first 12 hexadecimal digits of its plan digest.
    RolloutId,
    "rollout id",
    "12 lower-case hexadecimal digits",
    |text| (text.len() == 12 && lower_hex(text)).then(|| text.to_owned())
);

impl From<[u8; 32]> for TreeDigest {
    fn from(digest: [u8; 32]) -> Self {
        Self(written(&digest).into())
    }
}

impl TreeDigest {
    /// The digest of `parts`, each preceded by its length, so that no two lists of parts have the same input.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self(hash(parts).into())
    }
}

impl PlanDigest {
    /// The digest of `parts`, each preceded by its length, so that no two lists of parts have the same input.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self(hash(parts).into())
    }

    /// The name of the rollout that carries out this plan.
    #[must_use]
    pub fn rollout_id(&self) -> RolloutId {
        RolloutId(self.0.chars().skip("sha256:".len()).take(12).collect())
    }
}

fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    written(&hasher.finalize())
}

/// `sha256:` and the digits of `digest`.
fn written(digest: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    "sha256:".chars().chain(digits.filter_map(|digit| DIGITS.get(usize::from(digit)).copied())).collect()
}

fn lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn sha256(text: &str) -> Option<String> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    (digits.len() == 64 && lower_hex(digits)).then(|| format!("sha256:{digits}"))
}

fn segment(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let ends =
        bytes.first().is_some_and(u8::is_ascii_alphanumeric) && bytes.last().is_some_and(u8::is_ascii_alphanumeric);
    (ends && bytes.len() <= 253 && bytes.iter().all(inner)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_names_are_safe_path_segments() {
        for (text, valid) in [
            ("mgmt", true),
            ("prod-1.eu", true),
            ("", false),
            (".", false),
            ("..", false),
            ("a/b", false),
            ("-a", false),
            ("a-", false),
            ("a b", false),
        ] {
            assert_eq!(text.parse::<ClusterName>().is_ok(), valid, "{text:?}");
        }
    }

    #[test]
    fn tree_digests_accept_both_spellings_and_print_one() {
        let digits = "ab".repeat(32);
        let bare: TreeDigest = digits.parse().unwrap();
        let prefixed: TreeDigest = format!("sha256:{digits}").parse().unwrap();
        assert_eq!(bare, prefixed);
        assert_eq!(bare.to_string(), format!("sha256:{digits}"));
        assert!("sha256:AB".parse::<TreeDigest>().is_err());
    }

    #[test]
    fn a_rollout_is_named_by_the_first_twelve_digits_of_its_plan() {
        let digest = PlanDigest::of([b"a".as_slice()]);
        assert!(digest.as_str().starts_with(&format!("sha256:{}", digest.rollout_id())));
        assert_eq!(digest.rollout_id().as_str().len(), 12);
    }

    #[test]
    fn parts_are_hashed_with_their_lengths() {
        assert_ne!(PlanDigest::of([b"ab".as_slice(), b"c"]), PlanDigest::of([b"a".as_slice(), b"bc"]));
    }

    #[test]
    fn json_refuses_what_the_parser_refuses() {
        assert!(serde_json::from_str::<CommitId>("\"HEAD\"").is_err());
        let commit = "0".repeat(40);
        assert_eq!(serde_json::from_str::<CommitId>(&format!("\"{commit}\"")).unwrap().as_str(), commit);
    }
}
