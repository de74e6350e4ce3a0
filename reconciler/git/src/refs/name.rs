//! Names of branches and of the people in a commit.

use std::fmt;
use std::str::FromStr;

/// Name and address that a commit carries for its author and committer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    name: String,
    email: String,
}

/// Why a text is no [`Identity`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid author: write `Name <address>` without `<`, `>` and line breaks inside either part")]
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
    fn branch_names_are_those_of_the_git_library() {
        let pieces =
            ["a", "é", "/", ".", "..", "@", "@{", ".lock", "~", "^", ":", "?", "*", "[", "\\", " ", "-", "\u{7f}"];
        for one in pieces {
            for two in pieces {
                for three in pieces {
                    let name = format!("x{one}{two}{three}");
                    let by_library = git2::Reference::is_valid_name(&format!("refs/heads/{name}"));
                    let ours = name.parse::<domain::BranchName>().is_ok();
                    assert_eq!(ours, by_library && !name.chars().any(char::is_control), "{name:?}");
                }
            }
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
