//! One line of a file of owners.

use super::OwnersDialect;
use crate::rules::{Owner, Person};

/// What a line says.
pub(super) enum Line {
    Empty,
    Section(Section),
    Rule { pattern: String, excludes: bool, owners: Vec<Owner> },
}

/// What begins with `[Name]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// In lower case; empty before the first one.
    pub name: String,
    pub optional: bool,
    pub wanted: u32,
    /// Owners of entries that name none.
    pub owners: Vec<Owner>,
}

impl Line {
    pub(super) fn read(text: &str, dialect: OwnersDialect) -> Result<Self, String> {
        if dialect == OwnersDialect::GitLab
            && let Some(section) = section(text.trim())
        {
            return section.map(Self::Section);
        }
        let mut words = words(text).into_iter();
        let Some(first) = words.next() else { return Ok(Self::Empty) };
        let (excludes, pattern) = match first.strip_prefix('!') {
            Some(_) if dialect == OwnersDialect::GitHub => {
                return Err(format!("`{first}`: nothing can be taken out with `!` here"));
            }
            Some(rest) => (true, rest.to_owned()),
            None => (false, first),
        };
        Ok(Self::Rule { pattern, excludes, owners: owners(words)? })
    }
}

/// Words without the comment. A backslash before a blank or a number sign keeps that as part of the word.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.peek().is_some_and(|next| next.is_whitespace() || *next == '#') => {
                word.extend(characters.next());
            }
            '#' if word.is_empty() => break,
            blank if blank.is_whitespace() => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            other => word.push(other),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

fn owners(words: impl Iterator<Item = String>) -> Result<Vec<Owner>, String> {
    words
        .map(|word| {
            let is_team = word.starts_with("@@") || word.strip_prefix('@').is_some_and(|name| name.contains('/'));
            if is_team {
                return Ok(Owner::Team(word));
            }
            let whole = word.contains('@').then(|| word.parse::<Person>().ok()).flatten();
            whole
                .map(Owner::Person)
                .ok_or_else(|| format!("`{word}` is not a valid owner: @user, @organisation/team or an address"))
        })
        .collect()
}

/// `[Name]`, `^[Name]` or `[Name][2]`, with owners behind it; none for any other line.
fn section(text: &str) -> Option<Result<Section, String>> {
    let (optional, rest) = match text.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (name, rest) = rest.strip_prefix('[')?.split_once(']')?;
    let (wanted, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        None => (1, rest),
        Some((number, rest)) => match number.parse() {
            Ok(number) => (number, rest),
            Err(_) => return Some(Err(format!("`{number}` is not a valid number of approvals"))),
        },
    };
    let name = name.trim().to_lowercase();
    let read = owners(words(rest).into_iter());
    Some(read.map(|owners| Section { name, optional: optional || wanted == 0, wanted, owners }))
}
