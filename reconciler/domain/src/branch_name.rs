//! Names of branches.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The name of a branch, without `refs/heads/`, by the rules of `git check-ref-format --branch`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct BranchName(String);

/// Why a text is not a valid branch name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid branch name: see git-check-ref-format for the rules")]
pub struct BranchNameError(String);

impl BranchName {
    /// The name, for example `deploy`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The full reference, for example `refs/heads/deploy`.
    pub fn reference(&self) -> String {
        format!("refs/heads/{}", self.0)
    }
}

impl FromStr for BranchName {
    type Err = BranchNameError;

    fn from_str(text: &str) -> Result<Self, BranchNameError> {
        let valid = !text.starts_with('-')
            && text != "HEAD"
            && text.len() <= 244
            && !text.chars().any(char::is_control)
            && gix_validate::reference::name(format!("refs/heads/{text}").as_str().into()).is_ok();
        if valid { Ok(Self(text.to_owned())) } else { Err(BranchNameError(text.to_owned())) }
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_names_follow_git() {
        for (text, valid) in [
            ("main", true),
            ("team/deploy", true),
            ("deploy-1.30", true),
            ("", false),
            ("-d", false),
            ("HEAD", false),
            ("a..b", false),
            ("a b", false),
            ("a/", false),
            ("/a", false),
            ("a.lock", false),
            ("a@{1}", false),
            ("a\\b", false),
            ("a:b", false),
            ("a\nb", false),
            ("refs//x", false),
        ] {
            assert_eq!(text.parse::<BranchName>().is_ok(), valid, "{text:?}");
        }
    }
}
