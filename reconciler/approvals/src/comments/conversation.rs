//! What the comments below a pull request come to, and what Stepgate answers: one comment of its own, written anew instead of another one each
//! time.
//!
//! The comments are all the state there is: who reads them again comes to the same result.

use std::collections::BTreeMap;

use crate::comments::command::{Command, PREFIX, read};
use crate::{Comment, Permission};

/// What Stepgate's own comment begins with.
const MARK: &str = "<!-- stepgate -->";

/// What somebody wants, and may want.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Order {
    command: Command,
    by: String,
    /// The number of the comment that says so.
    comment: u64,
    /// The clusters that it names; none for all of them.
    only: Vec<String>,
    /// The box that is ticked.
    ticks: Option<String>,
}

/// What the comments below a pull request come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// What people want, in order.
    orders: Vec<Order>,
    /// One line for each command.
    answers: Vec<String>,
    /// Stepgate's own comment.
    own: Option<Comment>,
    /// The newest comment.
    pub last: u64,
}

/// What they come to for one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Who holds it.
    pub held_by: Option<String>,
    /// Whether that names the cluster, so that others are not held with it.
    pub apart: bool,
    /// Who approved it last, and by which comment, unless it is held.
    pub approved_by: Option<(String, u64)>,
    /// Everybody who approved it.
    pub approvers: Vec<String>,
    /// Boxes that were ticked, each with who did.
    pub ticks: Vec<(String, String)>,
    /// Who wants another attempt, and the number of the comment that says so.
    pub retried: Option<(String, u64)>,
}

impl Conversation {
    /// Goes through the comments below a pull request that `author` opened for Stepgate. `standing` answers who asks for the plan, and
    /// `clusters` are those that can be named.
    pub fn of(
        comments: &[Comment],
        author: &str,
        permissions: &BTreeMap<String, Permission>,
        clusters: &[&str],
        standing: &str,
    ) -> Self {
        let mut conversation = Self::default();
        for comment in comments {
            conversation.last = conversation.last.max(comment.id);
            if comment.by == author && comment.body.trim_start().starts_with(MARK) {
                conversation.own = Some(comment.clone());
                continue;
            }
            let Some(wanted) = read(&comment.body) else { continue };
            let answer = conversation.hear(comment, wanted, author, permissions, clusters, standing);
            conversation.answers.push(format!("- {}: {answer}\n", comment.by));
        }
        conversation
    }

    /// What is answered to a command, which is kept where it counts.
    fn hear(
        &mut self,
        comment: &Comment,
        wanted: Result<(Command, Vec<String>), String>,
        author: &str,
        permissions: &BTreeMap<String, Permission>,
        clusters: &[&str],
        standing: &str,
    ) -> String {
        let by = &comment.by;
        let (command, mut words) = match wanted {
            Ok(wanted) => wanted,
            Err(word) => {
                return format!("`{PREFIX} {word}` is not known; approve, hold, resume, retry, tick and plan are");
            }
        };
        match permissions.get(by) {
            None => {
                let why =
                    "Stepgate may not look up what you may do; its user has to administer the repository for that";
                return format!("`{PREFIX} {command}` is refused: {why}");
            }
            Some(Permission::Write) => {}
            Some(_) => return format!("`{PREFIX} {command}` is refused: it takes the permission to write here"),
        }
        if matches!(command, Command::Approve | Command::Tick) && by == author {
            return format!("`{PREFIX} {command}` is refused: whoever opened it does not approve it");
        }
        let ticks = match command {
            Command::Tick if words.is_empty() => {
                return format!("`{PREFIX} tick` is refused: name the box, as the check list does");
            }
            Command::Tick => Some(words.remove(0)),
            _ => None,
        };
        // Others may edit it too, and nobody sees what it said before. Holding does no harm.
        if comment.edited && !matches!(command, Command::Hold | Command::Plan) {
            return format!("`{PREFIX} {command}` is refused: the comment was edited; say it in a new one");
        }
        let only: Vec<String> = words.iter().filter(|word| clusters.contains(&word.as_str())).cloned().collect();
        // A hold that is meant for one and holds all does no harm; an approval does.
        let misses = only.len() < words.len() && matches!(command, Command::Approve | Command::Resume | Command::Tick);
        if let Some(word) = words.iter().find(|word| misses && !only.contains(word)) {
            return format!("`{PREFIX} {command}` is refused: no cluster `{word}` is asked for here");
        }
        let which = if only.is_empty() { String::new() } else { format!(" {}", only.join(" ")) };
        let answer = match command {
            Command::Approve => "yes".to_owned(),
            Command::Hold => format!("it is not merged before somebody says `{PREFIX} resume`"),
            Command::Resume => "it may be merged".to_owned(),
            Command::Tick => format!("{} is ticked", ticks.as_deref().unwrap_or_default()),
            Command::Retry => "once it is reverted as often as the policy says, it is committed once more".to_owned(),
            Command::Plan => return format!("`{PREFIX} plan`: {standing}"),
        };
        self.orders.push(Order { command, by: by.clone(), comment: comment.id, only, ticks });
        format!("`{PREFIX} {command}{which}`: {answer}")
    }

    /// What it comes to for one cluster. Approvals count from the comment on that `counts`: what was said before was said of another plan.
    pub fn about(&self, cluster: &str, counts: impl Fn(u64) -> bool) -> Said {
        let mut said = Said::default();
        let named = |order: &&Order| order.only.is_empty() || order.only.iter().any(|name| name == cluster);
        for order in self.orders.iter().filter(named) {
            let by = &order.by;
            match order.command {
                Command::Approve if counts(order.comment) => {
                    said.approved_by = Some((by.clone(), order.comment));
                    said.approvers.retain(|known| known != by);
                    said.approvers.push(by.clone());
                }
                Command::Hold => (said.held_by, said.apart) = (Some(by.clone()), !order.only.is_empty()),
                Command::Resume => (said.held_by, said.apart) = (None, false),
                Command::Retry => said.retried = Some((by.clone(), order.comment)),
                Command::Tick if counts(order.comment) => {
                    said.ticks.extend(order.ticks.clone().map(|name| (name, by.clone())));
                }
                Command::Approve | Command::Tick | Command::Plan => {}
            }
        }
        if said.held_by.is_some() {
            said.approved_by = None;
        }
        said
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

#[cfg(test)]
mod tests {
    use super::*;

    fn comment(id: u64, by: &str, body: &str) -> Comment {
        Comment { id, by: by.to_owned(), body: body.to_owned(), edited: false }
    }

    fn conversation(comments: &[Comment]) -> Conversation {
        let permissions = [("alice", Permission::Write), ("bob", Permission::Write), ("olga", Permission::Read)];
        let permissions = permissions.map(|(name, permission)| (name.to_owned(), permission)).into();
        Conversation::of(comments, "bot", &permissions, &["team-a", "team-b"], "stage x")
    }

    fn said(comments: &[Comment]) -> Said {
        conversation(comments).about("team-a", |_| true)
    }

    fn by(said: &Said) -> (Option<&str>, Option<&str>) {
        (said.approved_by.as_ref().map(|(by, _)| by.as_str()), said.held_by.as_deref())
    }

    #[test]
    fn commands_count_of_people_who_may_write_and_a_hold_outweighs_an_approval() {
        let mut comments = vec![comment(1, "olga", "/stepgate approve"), comment(2, "stranger", "/stepgate hold")];
        let refused = conversation(&comments);
        assert_eq!(by(&said(&comments)), (None, None));
        let told = refused.comment(None).unwrap().1;
        assert!(told.contains("olga: `/stepgate approve` is refused: it takes the permission to write"), "{told}");
        assert!(told.contains("stranger: `/stepgate hold` is refused: Stepgate may not look up"), "{told}");
        comments.push(comment(3, "alice", "/stepgate approve"));
        comments.push(comment(4, "bob", "/stepgate hold"));
        assert_eq!(by(&said(&comments)), (None, Some("bob")));
        comments.push(comment(5, "bob", "/stepgate resume"));
        assert_eq!(by(&said(&comments)), (Some("alice"), None));
        assert_eq!(by(&said(&[comment(6, "bot", "/stepgate approve")])), (None, None));
    }

    #[test]
    fn what_names_a_cluster_concerns_it_alone() {
        let mut comments =
            vec![comment(1, "alice", "/stepgate approve team-b"), comment(2, "bob", "/stepgate hold team-a")];
        let of = |comments: &[Comment], cluster: &str| conversation(comments).about(cluster, |_| true);
        assert_eq!(by(&of(&comments, "team-a")), (None, Some("bob")));
        assert_eq!(by(&of(&comments, "team-b")), (Some("alice"), None));
        // A name that is not asked for approves nothing, and holds everything.
        comments = vec![comment(3, "alice", "/stepgate approve team-c"), comment(4, "bob", "/stepgate hold team-c")];
        assert_eq!(by(&of(&comments, "team-b")), (None, Some("bob")));
        let told = conversation(&comments).comment(None).unwrap().1;
        assert!(told.contains("is refused: no cluster `team-c` is asked for here"), "{told}");
        comments.push(comment(5, "bob", "/stepgate resume team-a team-b"));
        assert_eq!(by(&of(&comments, "team-b")), (None, None));
    }

    #[test]
    fn an_approval_of_another_plan_counts_for_nothing_and_a_hold_stays() {
        let comments = [comment(1, "alice", "/stepgate approve"), comment(2, "bob", "/stepgate hold")];
        let said = conversation(&comments).about("team-a", |comment| comment > 2);
        assert_eq!((said.approvers.len(), by(&said)), (0, (None, Some("bob"))));
        assert_eq!(conversation(&comments).last, 2);
    }

    #[test]
    fn a_box_is_ticked_by_its_name_for_the_plan_that_is_shown() {
        let comments = [
            comment(1, "alice", "/stepgate tick old"),
            comment(2, "alice", "/stepgate tick dashboards"),
            comment(3, "bob", "/stepgate tick pagers team-b"),
            comment(4, "olga", "/stepgate tick refused"),
            comment(5, "bob", "/stepgate tick"),
            Comment { edited: true, ..comment(6, "bob", "/stepgate tick edited") },
        ];
        let of = |cluster: &str| conversation(&comments).about(cluster, |comment| comment > 1).ticks;
        let tick = |name: &str, by: &str| (name.to_owned(), by.to_owned());
        assert_eq!(of("team-a"), [tick("dashboards", "alice")]);
        assert_eq!(of("team-b"), [tick("dashboards", "alice"), tick("pagers", "bob")]);
        let told = conversation(&comments).comment(None).unwrap().1;
        assert!(told.contains("bob: `/stepgate tick` is refused: name the box"), "{told}");
        assert!(told.contains("alice: `/stepgate tick`: dashboards is ticked"), "{told}");
    }

    #[test]
    fn an_edited_comment_holds_and_lets_nothing_through() {
        let edited = |id, body| Comment { edited: true, ..comment(id, "alice", body) };
        let comments = [edited(1, "/stepgate approve"), edited(2, "/stepgate hold")];
        assert_eq!(by(&said(&comments)), (None, Some("alice")));
        let comments = [comment(1, "bob", "/stepgate hold"), edited(2, "/stepgate resume")];
        assert_eq!(by(&said(&comments)), (None, Some("bob")));
        let told = conversation(&comments).comment(None).unwrap().1;
        assert!(told.contains("`/stepgate resume` is refused: the comment was edited"), "{told}");
        assert_eq!(said(&[edited(3, "/stepgate retry")]).retried, None);
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
