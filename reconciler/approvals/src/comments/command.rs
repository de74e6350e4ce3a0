//! What people tell Stepgate in a comment below a pull request.

use std::fmt;

use crate::Comment;

/// What begins a command, at the beginning of a line.
pub const PREFIX: &str = "/stepgate";

/// The longest part of a comment that is repeated in an answer, in characters.
const REPEATED: usize = 63;

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Merge it, in my name.
    Approve,
    /// Do not let it be merged.
    Hold,
    /// Let it be merged after all.
    Resume,
    /// Commit it once more, although it was reverted as often as the policy says.
    Retry,
    /// Tick a box of the check list.
    Tick,
    /// Say where it stands.
    Plan,
}

impl fmt::Display for Command {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Approve => "approve",
            Self::Hold => "hold",
            Self::Resume => "resume",
            Self::Retry => "retry",
            Self::Tick => "tick",
            Self::Plan => "plan",
        })
    }
}

/// The people who gave commands, whose permission has to be known.
pub fn speakers(comments: &[Comment]) -> Vec<&str> {
    let mut speakers: Vec<&str> =
        comments.iter().filter(|comment| read(&comment.body).is_some()).map(|comment| comment.by.as_str()).collect();
    speakers.sort_unstable();
    speakers.dedup();
    speakers
}

/// The first command of a comment with the words after it; an error holds a word that is none.
pub fn read(body: &str) -> Option<Result<(Command, Vec<String>), String>> {
    let mut fenced = false;
    for line in body.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let Some(rest) = line.strip_prefix(PREFIX).filter(|rest| !fenced && rest.starts_with([' ', '\t'])) else {
            continue;
        };
        let mut words = rest.split_whitespace();
        let word = words.next()?;
        let known = [Command::Approve, Command::Hold, Command::Resume, Command::Retry, Command::Tick, Command::Plan];
        return Some(match known.into_iter().find(|command| command.to_string() == word) {
            Some(command) => Ok((command, words.map(harmless).collect())),
            None => Err(harmless(word)),
        });
    }
    None
}

/// A word of somebody as it may be put between backticks again.
fn harmless(word: &str) -> String {
    word.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c)).take(REPEATED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_a_line_is_a_command() {
        for (body, wanted) in [
            ("/stepgate approve", Some(Ok((Command::Approve, vec![])))),
            ("Looks good.\n\n/stepgate  hold please", Some(Ok((Command::Hold, vec!["please".to_owned()])))),
            ("/stepgate retry", Some(Ok((Command::Retry, vec![])))),
            ("/stepgate merge", Some(Err("merge".to_owned()))),
            ("/stepgate `x` <b>", Some(Err("x".to_owned()))),
            ("> /stepgate approve", None),
            ("I would say /stepgate approve", None),
            ("```\n/stepgate approve\n```", None),
            ("/stepgateapprove", None),
            ("/stepgate", None),
        ] {
            assert_eq!(read(body), wanted, "{body}");
        }
    }
}
