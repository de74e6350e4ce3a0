//! What people say by commits: that they approve, or that something is to be let through.
//!
//! A commit speaks for its author alone, whomever else it names.

use std::fmt;

use domain::{ClusterName, PlanDigest};
use jiff::Timestamp;
use policy::{GivenApproval, GivenTick, Means, Override, Person};
use rollout::{ApprovalScope, Retry};

/// To what a commit answers.
pub const ANSWER: &str = "Stepgate-Answer";
/// By whom a proposal was approved.
const APPROVED_BY: &str = "Stepgate-Approved-By";
/// Which box of the check list was ticked, and by whom: `NAME by Somebody <address>`.
const TICKED: &str = "Stepgate-Ticked";
/// Who let something through that the rules would have held.
const OVERRIDE_BY: &str = "Stepgate-Override-By";
/// Why.
const OVERRIDE_REASON: &str = "Stepgate-Override-Reason";
/// What was missing then.
const MISSING: &str = "Stepgate-Missing";

/// Where somebody said it, and who knew them there.
const SAID_ON: &str = "Stepgate-Said-On";

/// Which attempt at a stage somebody wants, who, and by which comment.
const RETRY: &str = "Stepgate-Retry";
const RETRY_BY: &str = "Stepgate-Retry-By";
const RETRY_PLACE: &str = "Stepgate-Retry-Place";

/// The longest reason that is kept, in characters.
const LONGEST: usize = 1000;

/// What is answered: one scope of one plan of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The cluster.
    pub cluster: ClusterName,
    /// What for.
    pub scope: ApprovalScope,
    /// The plan that was looked at.
    pub plan: PlanDigest,
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, scope, plan } = self;
        match scope {
            ApprovalScope::Rollout => write!(formatter, "{cluster} rollout {plan}"),
            ApprovalScope::Stage(stage) => write!(formatter, "{cluster} {stage} {plan}"),
        }
    }
}

/// The last paragraph of a commit that answers, perhaps for several clusters at once.
pub fn paragraph(subjects: &[&Subject], approvers: &[String], overriding: Option<(&str, &str, &[String])>) -> String {
    let mut text: String = subjects.iter().map(|subject| format!("{ANSWER}: {subject}\n")).collect();
    for approver in approvers {
        text.push_str(&format!("{APPROVED_BY}: {approver}\n"));
    }
    if let Some((by, reason, missing)) = overriding {
        text.push_str(&format!("{OVERRIDE_BY}: {by}\n{OVERRIDE_REASON}: {}\n", one_line(reason)));
        for line in missing {
            text.push_str(&format!("{MISSING}: {}\n", one_line(line)));
        }
    }
    text
}

/// The last paragraph of a commit that ticks a box of the check list.
pub fn tick_paragraph(subject: &Subject, name: &str, by: &str) -> String {
    format!("{ANSWER}: {subject}\n{TICKED}: {} by {by}\n", one_line(name))
}

/// A line more of that paragraph: where it was said, if not by the commit itself.
pub fn said_on(place: Option<&str>) -> String {
    place.map(|place| format!("{SAID_ON}: {}\n", one_line(place))).unwrap_or_default()
}

/// The last paragraph of a commit that wants another attempt.
pub fn retry_paragraph(subject: &Subject, attempt: u32, by: &str, place: Option<&str>) -> String {
    let place = place.map(|place| format!("{RETRY_PLACE}: {}\n", one_line(place))).unwrap_or_default();
    format!("{ANSWER}: {subject}\n{RETRY}: {attempt}\n{RETRY_BY}: {by}\n{place}")
}

/// What somebody said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// It is approved.
    Approved(GivenApproval),
    /// A box is ticked.
    Ticked(GivenTick),
    /// It is let through all the same.
    Overridden(Override),
    /// It is to be committed once more.
    Retried(Retry),
}

/// What a commit with this message and author says about a subject.
pub fn read(message: &str, author: &str, at: Timestamp, subject: &Subject) -> Vec<Word> {
    let paragraph = message.trim_end().rsplit("\n\n").next().unwrap_or_default();
    let values = |wanted: &'static str| {
        paragraph.lines().filter_map(move |line| line.strip_prefix(wanted)?.strip_prefix(':').map(str::trim))
    };
    let Ok(author) = author.parse::<Person>() else { return Vec::new() };
    let text = subject.to_string();
    if !values(ANSWER).any(|value| value == text) {
        return Vec::new();
    }
    let of_author = |name: &str| match (name.parse::<Person>(), &author) {
        (Ok(Person::Commit { email: named, .. }), Person::Commit { email, .. }) => &named == email,
        _ => false,
    };
    let plan = &subject.plan;
    let mut words = Vec::new();
    if let (ApprovalScope::Stage(stage), Some(attempt)) =
        (&subject.scope, values(RETRY).find_map(|value| value.parse().ok()))
        && values(RETRY_BY).any(of_author)
    {
        let (stage, who, place) = (stage.clone(), author.clone(), values(RETRY_PLACE).next().map(str::to_owned));
        words.push(Word::Retried(Retry { stage, plan: plan.clone(), attempt, who, at, place }));
    }
    let ticked = values(TICKED).filter_map(|value| value.split_once(" by ")).filter(|(_, by)| of_author(by));
    words.extend(ticked.map(|(name, _)| {
        let (name, who, plan) = (name.to_owned(), author.clone(), plan.clone());
        Word::Ticked(GivenTick { name, who, plan, at: Some(at), means: Means::Command })
    }));
    if values(APPROVED_BY).any(of_author) {
        let given = GivenApproval { who: author.clone(), plan: plan.clone(), at: Some(at), means: Means::Command };
        words.push(Word::Approved(given));
    }
    if let Some(reason) = values(OVERRIDE_REASON).next().filter(|_| values(OVERRIDE_BY).any(of_author)) {
        let (reason, missing) = (reason.to_owned(), values(MISSING).map(str::to_owned).collect());
        words.push(Word::Overridden(Override { who: author, at, plan: plan.clone(), reason, missing }));
    }
    words
}

/// A text that cannot begin another line of its paragraph.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject {
            cluster: "mgmt".parse().unwrap(),
            scope: ApprovalScope::Stage("capi".parse().unwrap()),
            plan: "ab".repeat(32).parse().unwrap(),
        }
    }

    #[test]
    fn a_commit_speaks_for_its_author_about_its_subject() {
        let (alice, bob) = ("Alice <alice@x.org>", "Bob <bob@x.org>");
        let text = format!("Approve\n\n{}", paragraph(&[&subject()], &[alice.to_owned(), bob.to_owned()], None));
        for author in [alice, bob] {
            let words = read(&text, author, Timestamp::UNIX_EPOCH, &subject());
            let [Word::Approved(given)] = words.as_slice() else { panic!("{words:?}") };
            assert_eq!((given.who.to_string().as_str(), &given.plan), (author, &subject().plan));
        }
        assert_eq!(read(&text, "Carol <carol@x.org>", Timestamp::UNIX_EPOCH, &subject()), []);
        let other = Subject { plan: "cd".repeat(32).parse().unwrap(), ..subject() };
        assert_eq!(read(&text, alice, Timestamp::UNIX_EPOCH, &other), []);
        assert_eq!(read(&format!("{text}\nSigned-off\n"), alice, Timestamp::UNIX_EPOCH, &subject()), []);
    }

    #[test]
    fn a_commit_ticks_a_box_for_its_author_alone() {
        let text = format!("Tick\n\n{}", tick_paragraph(&subject(), "dashboards", "Alice <alice@x.org>"));
        let words = read(&text, "Alice <alice@x.org>", Timestamp::UNIX_EPOCH, &subject());
        let [Word::Ticked(tick)] = words.as_slice() else { panic!("{words:?}") };
        assert_eq!((tick.name.as_str(), tick.who.to_string().as_str()), ("dashboards", "Alice <alice@x.org>"));
        assert_eq!(read(&text, "Bob <bob@x.org>", Timestamp::UNIX_EPOCH, &subject()), []);
    }

    #[test]
    fn a_reason_cannot_pass_for_somebodys_word() {
        let reason = format!("it burns\n{APPROVED_BY}: Alice <alice@x.org>");
        let missing = ["1 of 2 approvals".to_owned()];
        let overriding = Some(("Alice <alice@x.org>", reason.as_str(), &missing[..]));
        let text = format!("Override\n\n{}", paragraph(&[&subject()], &[], overriding));
        let words = read(&text, "Alice <alice@x.org>", Timestamp::UNIX_EPOCH, &subject());
        let [Word::Overridden(overridden)] = words.as_slice() else { panic!("{words:?}") };
        assert!(overridden.reason.starts_with("it burns ") && overridden.missing == missing, "{overridden:?}");
    }

    #[test]
    fn a_place_is_told_and_speaks_for_nobody() {
        let place = format!("dashboard\n{APPROVED_BY}: Alice <alice@x.org>");
        let text = format!("Approve\n\n{}{}", paragraph(&[&subject()], &[], None), said_on(Some(&place)));
        assert!(text.contains(&format!("\n{SAID_ON}: dashboard ")), "{text}");
        assert_eq!(read(&text, "Alice <alice@x.org>", Timestamp::UNIX_EPOCH, &subject()), []);
    }
}
