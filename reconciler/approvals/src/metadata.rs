//! What the text of a pull request tells Stepgate itself, in lines that people do not see: which plan was shown for which cluster, from which
//! head and which comment on. So a word counts for what was shown when it was said, and for nothing that came later.
//!
//! Whoever may write in the repository may edit the text. So the lines are sealed: of lines that somebody else has written, or that were taken from
//! another pull request, no approval follows.

use std::collections::BTreeMap;
use std::fmt;

use domain::{ClusterName, CommitId, PlanDigest};

use crate::{MetadataSigner, PullRequest};

/// What the lines begin and end with.
const BEGIN: &str = "<!-- stepgate:shown";
const END: &str = "-->";

/// How many heads are remembered: a review of an older one counts for nothing.
const HEADS: usize = 40;

/// Git's name for no commit: it stands for heads that are not known.
const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

/// As much of a plan's digest as is written down, in hexadecimal.
const DIGITS: usize = 32;

/// How long the plan of one cluster has been shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The plan, shortened.
    plan: String,
    /// The head at which it was shown first.
    from: u64,
    /// The last comment that was written before.
    since: u64,
}

/// What a pull request has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullRequestMetadata {
    /// What its branch has held, by number, the newest last.
    heads: BTreeMap<u64, String>,
    /// What it asks for.
    parts: BTreeMap<ClusterName, Mark>,
    place: Place,
}

/// Which pull request they were written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The one with this number.
    Number(u64),
    /// The one that was to be opened after this one of the same branch: before that it has no number. 0 where it is the first.
    After(u64),
}

impl Default for Place {
    fn default() -> Self {
        Self::After(0)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::After(number) => write!(formatter, "after:{number}"),
        }
    }
}

impl Place {
    fn read(text: &str) -> Option<Self> {
        match text.strip_prefix("after:") {
            Some(number) => number.parse().ok().map(Self::After),
            None => text.parse().ok().map(Self::Number),
        }
    }
}

impl PullRequestMetadata {
    /// Reads them out of a text, whoever wrote it: enough to find it, and to hold something back. What is not written as we write it is not there.
    pub fn read(text: &str) -> Self {
        Self::read_with_seal(text).0
    }

    /// Those of a pull request, if they are ours and are its own; else what nobody is known to have seen. `before` is the number of the one
    /// before it of the same branch, 0 where there is none.
    pub fn sealed_in(pull: &PullRequest, before: u64, seal: &MetadataSigner) -> Self {
        let (marks, found) = Self::read_with_seal(&pull.body);
        let is_own = match marks.place {
            Place::Number(number) => number == pull.number,
            Place::After(number) => number == before,
        };
        let is_ours = found.is_some_and(|found| seal.is_of(&marks.sealed_text(&pull.branch), &found));
        if is_own && is_ours { marks } else { Self::not_known() }
    }

    /// Marks of something that may have shown anything: its next head is not its first one.
    fn not_known() -> Self {
        Self { heads: BTreeMap::from([(0, NO_COMMIT.to_owned())]), ..Self::default() }
    }

    /// Whether they are those of a text that cannot be relied on.
    pub fn is_not_known(&self) -> bool {
        *self == Self::not_known()
    }

    fn read_with_seal(text: &str) -> (Self, Option<String>) {
        let (mut marks, mut seal) = (Self::default(), None);
        let Some((_, rest)) = text.split_once(BEGIN) else { return (marks, seal) };
        let lines = rest.split_once(END).map_or("", |(lines, _)| lines);
        for line in lines.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["head", number, commit] => {
                    if let (Ok(number), Ok(commit)) = (number.parse(), commit.parse::<CommitId>()) {
                        marks.heads.insert(number, commit.to_string());
                    }
                }
                ["part", cluster, plan, from, since] => {
                    if let (Ok(cluster), Ok(from), Ok(since)) = (cluster.parse(), from.parse(), since.parse()) {
                        marks.parts.insert(cluster, Mark { plan: (*plan).to_owned(), from, since });
                    }
                }
                ["seal", place, found] => {
                    if let Some(place) = Place::read(place) {
                        (marks.place, seal) = (place, Some((*found).to_owned()));
                    }
                }
                _ => {}
            }
        }
        (marks, seal)
    }

    /// The marks once these plans are shown at this head. `last_comment` is the newest comment that there is.
    #[must_use]
    pub fn shown<'a>(
        &self,
        place: Place,
        head: &CommitId,
        parts: impl IntoIterator<Item = (&'a ClusterName, &'a PlanDigest)>,
        last_comment: u64,
    ) -> Self {
        let mut heads = self.heads.clone();
        let number = match heads.last_key_value() {
            Some((number, newest)) if newest == head.as_str() => *number,
            Some((number, _)) => number.saturating_add(1),
            None => 0,
        };
        heads.insert(number, head.to_string());
        while heads.len() > HEADS {
            heads.pop_first();
        }
        let part = |(cluster, plan): (&ClusterName, &PlanDigest)| {
            let plan = shortened(plan);
            let known = self.parts.get(cluster).filter(|known| known.plan == plan).cloned();
            (cluster.clone(), known.unwrap_or(Mark { plan, from: number, since: last_comment }))
        };
        let parts = parts.into_iter().map(part).collect();
        // As long as nothing else changes the text stays.
        let place = if (&heads, &parts) == (&self.heads, &self.parts) { self.place } else { place };
        Self { heads, parts, place }
    }

    /// How this plan of a cluster is shown, if it is.
    pub fn of(&self, cluster: &ClusterName, plan: &PlanDigest) -> Option<&Mark> {
        self.parts.get(cluster).filter(|mark| mark.plan == shortened(plan))
    }

    /// The clusters that it asks for.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.parts.keys()
    }

    /// Whether another plan of the cluster is shown than this one; none where the cluster is not there at all.
    pub fn differs(&self, cluster: &ClusterName, plan: &PlanDigest) -> Option<bool> {
        self.parts.get(cluster).map(|mark| mark.plan != shortened(plan))
    }

    /// Whether whoever looked at this commit saw the plan of this mark. Where a forge does not tell the commit, only what has been shown
    /// from the beginning was seen for certain.
    pub fn was_seen(&self, mark: &Mark, commit: Option<&str>) -> bool {
        match commit {
            Some(commit) => self.heads.iter().any(|(number, head)| head == commit && *number >= mark.from),
            None => mark.from == 0,
        }
    }
}

impl Mark {
    /// Whether this comment was written once the plan was shown.
    pub fn is_before(&self, comment: u64) -> bool {
        self.since < comment
    }
}

impl PullRequestMetadata {
    /// The lines for the text of a pull request from this branch.
    pub fn sealed(&self, branch: &str, seal: &MetadataSigner) -> String {
        format!("{BEGIN}\n{self}seal {} {}\n{END}\n", self.place, seal.of(&self.sealed_text(branch)))
    }

    /// What the seal stands below: forges may change line ends and spaces, so it is what was read.
    fn sealed_text(&self, branch: &str) -> String {
        format!("{branch} {}\n{self}", self.place)
    }
}

impl fmt::Display for PullRequestMetadata {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, head) in &self.heads {
            writeln!(formatter, "head {number} {head}")?;
        }
        for (cluster, Mark { plan, from, since }) in &self.parts {
            writeln!(formatter, "part {cluster} {plan} {from} {since}")?;
        }
        Ok(())
    }
}

fn shortened(plan: &PlanDigest) -> String {
    plan.as_str().trim_start_matches("sha256:").chars().take(DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PullRequestState;

    fn seal() -> MetadataSigner {
        MetadataSigner::new(&"secret".into(), "a/b")
    }

    fn pull(body: String, number: u64) -> PullRequest {
        PullRequest {
            number,
            branch: "stepgate/prod/capi".to_owned(),
            url: String::new(),
            title: String::new(),
            body,
            head: "1".repeat(40),
            author: "bot".to_owned(),
            comments: None,
            state: PullRequestState::Open,
        }
    }

    fn cluster(name: &str) -> ClusterName {
        name.parse().unwrap()
    }

    fn plan(of: &str) -> PlanDigest {
        PlanDigest::of([of.as_bytes()])
    }

    fn head(digit: &str) -> CommitId {
        digit.repeat(40).parse().unwrap()
    }

    #[test]
    fn marks_read_back_whatever_stands_around_them() {
        let (a, b) = (cluster("a"), cluster("b--c"));
        let (one, two) = (plan("1"), plan("2"));
        let marks = PullRequestMetadata::default().shown(Place::Number(7), &head("1"), [(&a, &one), (&b, &two)], 0);
        let sealed = marks.sealed("stepgate/prod/capi", &seal());
        let text = format!("# Title\n\n{sealed}\nrest <!-- more -->\n").replace('\n', "\r\n");
        assert_eq!(PullRequestMetadata::read(&text), marks);
        assert_eq!(
            marks.shown(Place::Number(7), &head("1"), [(&a, &one), (&b, &two)], 9),
            marks,
            "shown again, nothing is new"
        );
        for hostile in ["", "<!-- stepgate:shown", "<!-- stepgate:shown\npart ../x y 0 0\nhead 0 zz\npart a\n-->"] {
            assert_eq!(PullRequestMetadata::read(hostile), PullRequestMetadata::default(), "{hostile}");
        }
    }

    #[test]
    fn a_plan_that_stays_keeps_its_words_and_another_one_begins_anew() {
        let (a, b) = (cluster("a"), cluster("b"));
        let (one, two, other) = (plan("1"), plan("2"), plan("3"));
        let first = PullRequestMetadata::default().shown(Place::Number(7), &head("1"), [(&a, &one)], 0);
        let joined = first.shown(Place::Number(7), &head("2"), [(&a, &one), (&b, &two)], 7);
        let replaced = joined.shown(Place::Number(7), &head("3"), [(&a, &one), (&b, &other)], 9);
        let (stayed, new) = (replaced.of(&a, &one).unwrap(), replaced.of(&b, &other).unwrap());
        assert!(replaced.of(&b, &two).is_none() && replaced.differs(&b, &two) == Some(true));
        for (commit, counts) in [("1", (true, false)), ("2", (true, false)), ("3", (true, true)), ("4", (false, false))]
        {
            let commit = head(commit).to_string();
            let seen = (replaced.was_seen(stayed, Some(&commit)), replaced.was_seen(new, Some(&commit)));
            assert_eq!(seen, counts, "{commit}");
        }
        assert!(replaced.was_seen(stayed, None) && !replaced.was_seen(new, None));
        assert!(stayed.is_before(1) && !new.is_before(9) && new.is_before(10));
        let without = replaced.shown(Place::Number(7), &head("4"), [(&a, &one)], 9);
        assert_eq!(without.clusters().collect::<Vec<_>>(), [&a]);
        // Whoever comes back is asked for anew.
        let back = without.shown(Place::Number(7), &head("5"), [(&a, &one), (&b, &other)], 12);
        assert!(!back.was_seen(back.of(&b, &other).unwrap(), Some(head("3").as_str())));
    }

    #[test]
    fn marks_count_as_they_were_written_and_where() {
        let (a, one) = (cluster("a"), plan("1"));
        let branch = "stepgate/prod/capi";
        let opened = PullRequestMetadata::default().shown(Place::After(3), &head("1"), [(&a, &one)], 0);
        let renewed = opened.shown(Place::Number(7), &head("2"), [(&a, &one)], 9);
        assert_eq!(
            opened.shown(Place::Number(7), &head("1"), [(&a, &one)], 9),
            opened,
            "nothing is written anew for its number"
        );
        let (first, second) = (opened.sealed(branch, &seal()), renewed.sealed(branch, &seal()));
        // Copied to the one before, or to one that was opened later, they are not its own.
        for (known, body, number, before) in [
            (true, &first, 7, 3),
            (false, &first, 3, 0),
            (false, &first, 9, 7),
            (true, &second, 7, 3),
            (false, &second, 3, 0),
            (false, &second, 9, 7),
        ] {
            let found = PullRequestMetadata::sealed_in(&pull(body.replace('\n', "\r\n"), number), before, &seal());
            assert_eq!(!found.is_not_known(), known, "{body} {number} {before}");
        }
        // Edited, sealed by somebody else, of another branch, or not sealed at all.
        let other = MetadataSigner::new(&"other".into(), "a/b");
        let since = second.replace(" 0 0\n", " 0 1\n");
        assert_ne!(since, second);
        for body in [since, renewed.sealed(branch, &other), renewed.sealed("other", &seal()), String::new()] {
            let found = PullRequestMetadata::sealed_in(&pull(body, 7), 3, &seal());
            assert!(found.is_not_known());
            let shown = found.shown(Place::Number(7), &head("2"), [(&a, &one)], 4);
            assert_eq!(PullRequestMetadata::sealed_in(&pull(shown.sealed(branch, &seal()), 7), 3, &seal()), shown);
            let mark = shown.of(&a, &one).unwrap();
            let seen = [Some(head("2")), Some(head("1")), None]
                .map(|at| shown.was_seen(mark, at.as_ref().map(CommitId::as_str)));
            assert_eq!(seen, [true, false, false], "what is shown now counts from now on");
            assert!(!mark.is_before(4) && mark.is_before(5));
        }
    }

    #[test]
    fn old_heads_are_forgotten() {
        let (a, one) = (cluster("a"), plan("1"));
        let mut marks = PullRequestMetadata::default();
        for number in 0..100 {
            marks = marks.shown(Place::Number(7), &format!("{number:040}").parse().unwrap(), [(&a, &one)], 0);
        }
        assert_eq!(PullRequestMetadata::read(&marks.sealed("b", &seal())), marks);
        let mark = marks.of(&a, &one).unwrap();
        assert!(
            marks.was_seen(mark, Some(&format!("{:040}", 99))) && !marks.was_seen(mark, Some(&format!("{:040}", 3)))
        );
    }
}
