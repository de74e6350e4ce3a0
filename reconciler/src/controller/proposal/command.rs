//! What people tell Stepgate below a pull request, and what it answers: one comment of its own, written anew instead of another one each time.
//!
//! The comments are all the state there is: who reads them again comes to the same result.

use std::collections::BTreeMap;
use std::fmt;

use crate::forge::{Comment, Permission};

/// What Stepgate's own comment begins with.
const MARK: &str = "<!-- stepgate -->";

/// What begins a command, at the beginning of a line.
const PREFIX: &str = "/stepgate";

/// The longest part of a comment that is repeated in an answer, in characters.
const REPEATED: usize = 40;

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    /// Merge it, in my name.
    Approve,
    /// Do not let it be merged.
    Hold,
    /// Let it be merged after all.
    Resume,
    /// Commit it once more, although it was reverted as often as the policy says.
    Retry,
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
            Self::Plan => "plan",
        })
    }
}

/// What the comments below a pull request come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conversation {
    /// Who holds it.
    pub held_by: Option<String>,
    /// Who approved it last, unless it is held.
    pub approved_by: Option<String>,
    /// Everybody who approved it.
    pub approvers: Vec<String>,
    /// Who wants another attempt, and the number of the comment that says so.
    pub retried: Option<(String, u64)>,
    /// One line for each command.
    answers: Vec<String>,
    /// Stepgate's own comment.
    own: Option<Comment>,
}

/// The people who gave commands, whose permission has to be known.
pub(super) fn speakers(comments: &[Comment]) -> Vec<&str> {
    let mut speakers: Vec<&str> =
        comments.iter().filter(|comment| read(&comment.body).is_some()).map(|comment| comment.by.as_str()).collect();
    speakers.sort_unstable();
    speakers.dedup();
    speakers
}

impl Conversation {
    /// Goes through the comments below a pull request that `author` opened for Stepgate. `standing` answers who asks for the plan.
    pub fn of(comments: &[Comment], author: &str, permissions: &BTreeMap<String, Permission>, standing: &str) -> Self {
        let mut conversation = Self::default();
        for comment in comments {
            if comment.by == author && comment.body.trim_start().starts_with(MARK) {
                conversation.own = Some(comment.clone());
                continue;
            }
            let Some(wanted) = read(&comment.body) else { continue };
            let by = &comment.by;
            let answer = match wanted {
                Err(word) => format!("`{PREFIX} {word}` is not known; approve, hold, resume, retry and plan are"),
                Ok(command) if !permissions.contains_key(by) => {
                    let why =
                        "Stepgate may not look up what you may do; its user has to administer the repository for that";
                    format!("`{PREFIX} {command}` is refused: {why}")
                }
                Ok(command) if permissions.get(by) != Some(&Permission::Write) => {
                    format!("`{PREFIX} {command}` is refused: it takes the permission to write here")
                }
                Ok(Command::Approve) if by == author => {
                    format!("`{PREFIX} approve` is refused: whoever opened it does not approve it")
                }
                Ok(Command::Approve) => {
                    conversation.approved_by = Some(by.clone());
                    conversation.approvers.retain(|known| known != by);
                    conversation.approvers.push(by.clone());
                    format!("`{PREFIX} approve`: yes")
                }
                Ok(Command::Hold) => {
                    conversation.held_by = Some(by.clone());
                    format!("`{PREFIX} hold`: it is not merged before somebody says `{PREFIX} resume`")
                }
                Ok(Command::Resume) => {
                    conversation.held_by = None;
                    format!("`{PREFIX} resume`: it may be merged")
                }
                Ok(Command::Retry) => {
                    conversation.retried = Some((by.clone(), comment.id));
                    format!(
                        "`{PREFIX} retry`: once it is reverted as often as the policy says, it is committed once more"
                    )
                }
                Ok(Command::Plan) => format!("`{PREFIX} plan`: {standing}"),
            };
            conversation.answers.push(format!("- {by}: {answer}\n"));
        }
        if conversation.held_by.is_some() {
            conversation.approved_by = None;
        }
        conversation
    }

    /// Stepgate's comment as it has to be, and its number where there is one; none where it is so already, or nobody has to see one.
    pub fn comment(&self, event: Option<&str>) -> Option<(Option<u64>, String)> {
        let event = match (event, &self.own) {
            (Some(event), _) => format!("{event}\n\n"),
            (None, None) if self.answers.is_empty() => return None,
            // What was said before is not so any more.
            (None, Some(_)) if self.answers.is_empty() => "Merging this approves it.\n".to_owned(),
            (None, _) => String::new(),
        };
        let text = format!("{MARK}\n{event}{}", self.answers.concat());
        let same = self.own.as_ref().is_some_and(|own| own.body.replace("\r\n", "\n").trim_end() == text.trim_end());
        (!same).then(|| (self.own.as_ref().map(|own| own.id), text))
    }
}

/// The first command of a comment; an error holds a word that is none.
fn read(body: &str) -> Option<Result<Command, String>> {
    let mut fenced = false;
    for line in body.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let Some(rest) = line.strip_prefix(PREFIX).filter(|rest| !fenced && rest.starts_with([' ', '\t'])) else {
            continue;
        };
        let word = rest.split_whitespace().next()?;
        let known = [Command::Approve, Command::Hold, Command::Resume, Command::Retry, Command::Plan];
        return Some(match known.into_iter().find(|command| command.to_string() == word) {
            Some(command) => Ok(command),
            // It is put between backticks again.
            None => Err(word.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(REPEATED).collect()),
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comment(id: u64, by: &str, body: &str) -> Comment {
        Comment { id, by: by.to_owned(), body: body.to_owned() }
    }

    fn conversation(comments: &[Comment]) -> Conversation {
        let permissions = [("alice", Permission::Write), ("bob", Permission::Write), ("olga", Permission::Read)];
        let permissions = permissions.map(|(name, permission)| (name.to_owned(), permission)).into();
        Conversation::of(comments, "bot", &permissions, "stage x")
    }

    #[test]
    fn only_the_beginning_of_a_line_is_a_command() {
        for (body, wanted) in [
            ("/stepgate approve", Some(Ok(Command::Approve))),
            ("Looks good.\n\n/stepgate  hold please", Some(Ok(Command::Hold))),
            ("/stepgate retry", Some(Ok(Command::Retry))),
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

    #[test]
    fn commands_count_of_people_who_may_write_and_a_hold_outweighs_an_approval() {
        let mut comments = vec![comment(1, "olga", "/stepgate approve"), comment(2, "stranger", "/stepgate hold")];
        let refused = conversation(&comments);
        assert_eq!((refused.approved_by.as_deref(), refused.held_by.as_deref()), (None, None));
        let said = refused.comment(None).unwrap().1;
        assert!(said.contains("olga: `/stepgate approve` is refused: it takes the permission to write"), "{said}");
        assert!(said.contains("stranger: `/stepgate hold` is refused: Stepgate may not look up"), "{said}");
        comments.push(comment(3, "alice", "/stepgate approve"));
        comments.push(comment(4, "bob", "/stepgate hold"));
        let held = conversation(&comments);
        assert_eq!((held.approved_by, held.held_by.as_deref()), (None, Some("bob")));
        comments.push(comment(5, "bob", "/stepgate resume"));
        assert_eq!(conversation(&comments).approved_by.as_deref(), Some("alice"));
        assert_eq!(conversation(&[comment(6, "bot", "/stepgate approve")]).approved_by, None);
    }

    #[test]
    fn there_is_one_comment_which_is_written_anew() {
        assert_eq!(conversation(&[comment(1, "alice", "nice")]).comment(None), None);
        let mut comments = vec![comment(1, "alice", "/stepgate plan")];
        let (id, text) = conversation(&comments).comment(None).unwrap();
        assert!(id.is_none() && text.contains("stage x"), "{text}");
        comments.push(comment(2, "bot", &text));
        assert_eq!(conversation(&comments).comment(None), None);
        comments.push(comment(3, "alice", "/stepgate hold"));
        let (id, text) = conversation(&comments).comment(Some("Rejected.")).unwrap();
        assert!(id == Some(2) && text.contains("Rejected.") && text.contains("hold"), "{text}");
        // Somebody else's comment is never taken for our own.
        comments.push(comment(4, "alice", &text));
        assert_eq!(conversation(&comments).comment(None).unwrap().0, Some(2));
    }
}
