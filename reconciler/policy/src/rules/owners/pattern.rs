//! Which paths a line is about.

use regex::{Regex, RegexBuilder};

use super::OwnersDialect;

/// The most memory that one pattern may take, in bytes.
const LARGEST: usize = 1 << 20;

#[derive(Debug, Clone)]
pub(super) struct Pattern(Regex);

impl Pattern {
    pub(super) fn read(text: &str, dialect: OwnersDialect) -> Result<Self, String> {
        let expression = match dialect {
            OwnersDialect::Gitea => format!("^(?:{text})$"),
            OwnersDialect::GitHub | OwnersDialect::GitLab => expression(text, dialect)?,
        };
        let built = RegexBuilder::new(&expression).size_limit(LARGEST).build();
        built.map(Self).map_err(|_| format!("`{text}` is not a valid pattern"))
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}

/// A pattern of blanks and stars as a regular expression.
fn expression(text: &str, dialect: OwnersDialect) -> Result<String, String> {
    if dialect == OwnersDialect::GitHub && text.contains(['[', ']']) {
        return Err(format!("`{text}`: sets of characters have no meaning here"));
    }
    if text == "*" {
        return Ok("^.*$".to_owned());
    }
    let folder = text.ends_with('/');
    let body = text.trim_matches('/');
    if body.is_empty() {
        return if text == "/" { Ok("^.*$".to_owned()) } else { Err(format!("`{text}` is not a valid pattern")) };
    }
    // GitHub ties what has a slash in the middle to the top, as git does; GitLab only what begins with one.
    let tied = text.starts_with('/') || (dialect == OwnersDialect::GitHub && body.contains('/'));
    let mut expression = if tied { "^".to_owned() } else { "^(?:.*/)?".to_owned() };
    let segments: Vec<&str> = body.split('/').collect();
    for (index, segment) in segments.iter().enumerate() {
        let last = index + 1 == segments.len();
        match (*segment, last) {
            ("**", false) => expression.push_str("(?:.*/)?"),
            ("**", true) => expression.push_str(".+"),
            (segment, _) => {
                expression.push_str(&within_segment(segment));
                if !last {
                    expression.push('/');
                }
            }
        }
    }
    let star = segments.last().is_some_and(|last| *last == "*");
    expression.push_str(match dialect {
        _ if folder => "/.*$",
        // Whatever lies below a folder of that name is meant too, except by a star alone.
        OwnersDialect::GitHub if !star => "(?:/.*)?$",
        OwnersDialect::GitHub | OwnersDialect::GitLab | OwnersDialect::Gitea => "$",
    });
    Ok(expression)
}

fn within_segment(segment: &str) -> String {
    let mut expression = String::new();
    for character in segment.chars() {
        match character {
            '*' => expression.push_str("[^/]*"),
            '?' => expression.push_str("[^/]"),
            other => expression.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    expression
}
