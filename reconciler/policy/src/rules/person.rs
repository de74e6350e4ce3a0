//! People, by whichever name a forge, a commit or `stepgate.yaml` calls them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One name of a person.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Person {
    /// The name that somebody signs in with on the forge, in lower case: forges do not tell `Alice` from `alice`.
    Login(String),
    /// What a commit says. People are told apart by the address alone, in lower case.
    Commit {
        /// The name; none where only the address is written.
        name: Option<String>,
        /// The address.
        email: String,
    },
}

/// A text that names nobody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names nobody: expected a user of the forge (alice), an address (alice@example.com) or both (Alice <alice@example.com>)"
)]
pub struct InvalidPerson(String);

/// What is known of two names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinship {
    Same,
    Different,
    /// One is a user of the forge and the other a commit's, and nobody said whether they are one.
    Unknown,
}

impl Person {
    pub(super) fn kinship(&self, other: &Self) -> Kinship {
        let same = match (self, other) {
            (Self::Login(left), Self::Login(right)) => left == right,
            (Self::Commit { email: left, .. }, Self::Commit { email: right, .. }) => left == right,
            (Self::Login(_), Self::Commit { .. }) | (Self::Commit { .. }, Self::Login(_)) => return Kinship::Unknown,
        };
        if same { Kinship::Same } else { Kinship::Different }
    }
}

impl FromStr for Person {
    type Err = InvalidPerson;

    fn from_str(text: &str) -> Result<Self, InvalidPerson> {
        let refused = || InvalidPerson(text.to_owned());
        let plain = |part: &str| !part.is_empty() && !part.chars().any(|c| c.is_control() || "<>,;\"".contains(c));
        let address = |part: &str| {
            let whole = part
                .split_once('@')
                .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'));
            (whole && plain(part) && !part.contains(char::is_whitespace)).then(|| part.to_lowercase())
        };
        let text = text.trim();
        if let Some((name, rest)) = text.split_once('<') {
            let email = rest.strip_suffix('>').and_then(|rest| address(rest.trim())).ok_or_else(refused)?;
            let name = name.trim();
            let name = if name.is_empty() { None } else { Some(name).filter(|name| plain(name)) };
            return Ok(Self::Commit { name: name.map(str::to_owned), email });
        }
        let login = text.strip_prefix('@').unwrap_or(text);
        if let Some(email) = address(login) {
            return Ok(Self::Commit { name: None, email });
        }
        let known = plain(login) && !login.contains('@') && !login.contains(char::is_whitespace);
        if known { Ok(Self::Login(login.to_lowercase())) } else { Err(refused()) }
    }
}

impl TryFrom<String> for Person {
    type Error = InvalidPerson;

    fn try_from(text: String) -> Result<Self, InvalidPerson> {
        text.parse()
    }
}

impl From<Person> for String {
    fn from(person: Person) -> Self {
        person.to_string()
    }
}

impl fmt::Display for Person {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Login(login) => formatter.write_str(login),
            Self::Commit { name: Some(name), email } => write!(formatter, "{name} <{email}>"),
            Self::Commit { name: None, email } => formatter.write_str(email),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_read_as_they_are_written() {
        for (text, shown) in [
            ("alice", "alice"),
            ("@Alice", "alice"),
            ("Alice@Example.com", "alice@example.com"),
            ("Alice Ames <alice@example.com>", "Alice Ames <alice@example.com>"),
            ("<alice@example.com>", "alice@example.com"),
            ("renovate[bot]", "renovate[bot]"),
        ] {
            let person: Person = text.parse().unwrap();
            assert_eq!(person.to_string(), shown);
            assert_eq!(shown.parse::<Person>().unwrap(), person);
        }
        for text in ["", "@", "alice ames", "a@", "@a@b@", "Alice <alice>", "Alice <a@b", "a,b", "a\nb"] {
            assert!(text.parse::<Person>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_of_two_kinds_say_nothing_of_each_other() {
        let of = |left: &str, right: &str| left.parse::<Person>().unwrap().kinship(&right.parse().unwrap());
        assert_eq!(of("alice", "@ALICE"), Kinship::Same);
        assert_eq!(of("alice", "bob"), Kinship::Different);
        assert_eq!(of("A <a@x.org>", "B <A@x.org>"), Kinship::Same);
        assert_eq!(of("a@x.org", "a@y.org"), Kinship::Different);
        assert_eq!(of("alice", "alice@x.org"), Kinship::Unknown);
    }
}
