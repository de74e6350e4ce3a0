//! Names of branches and of the people in a commit.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The name of a branch, without `refs/heads/`, by the rules of `git check-ref-format --branch`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct BranchName(String);

/// Why a text is no branch name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no branch name: see git-check-ref-format for the rules")]
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
            && git2::Reference::is_valid_name(&format!("refs/heads/{text}"));
        if valid { Ok(Self(text.to_owned())) } else { Err(BranchNameError(text.to_owned())) }
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Name and address that a commit carries for its author and committer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    name: String,
    email: String,
}

/// Why a text is no [`Identity`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no author: write `Name <address>` without `<`, `>` and line breaks inside either part")]
pub struct IdentityError(String);

impl Identity {
    /// The name, for example `Stepgate`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address, for example `stepgate@example.com`.
    pub fn email(&self) -> &str {
        &self.email
    }
}

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let refused = || IdentityError(text.to_owned());
        let (name, rest) = text.split_once('<').ok_or_else(refused)?;
        let email = rest.strip_suffix('>').ok_or_else(refused)?;
        let clean = |part: &str| {
            let text = part.trim();
            let refused = part.chars().any(|c| c.is_control() || matches!(c, '<' | '>'));
            (!text.is_empty() && !refused).then(|| text.to_owned())
        };
        match (clean(name), clean(email)) {
            (Some(name), Some(email)) => Ok(Self { name, email }),
            _ => Err(refused()),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} <{}>", self.name, self.email)
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

    #[test]
    fn an_author_cannot_break_out_of_its_header() {
        let identity: Identity = "Step Gate <stepgate@example.com>".parse().unwrap();
        assert_eq!((identity.name(), identity.email()), ("Step Gate", "stepgate@example.com"));
        assert_eq!(identity.to_string().parse::<Identity>().unwrap(), identity);
        for text in ["", "a", "<a@b>", "a <>", "a\nparent 1 <a@b>", "a <a@b\n>", "a <a>b>", "a <<a@b>"] {
            assert!(text.parse::<Identity>().is_err(), "{text:?}");
        }
    }
}
