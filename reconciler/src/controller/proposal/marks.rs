//! What the text of a pull request tells Stepgate itself, in lines that people do not see: which plan was shown for which cluster, from which
//! head and which comment on. So a word counts for what was shown when it was said, and for nothing that came later.

use std::collections::BTreeMap;
use std::fmt;

use rollout::{ClusterName, CommitId, PlanDigest};

/// What the lines begin and end with.
const BEGIN: &str = "<!-- stepgate:shown";
const END: &str = "-->";

/// How many heads are remembered: a review of an older one counts for nothing.
const HEADS: usize = 40;

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
pub struct Marks {
    /// What its branch has held, by number, the newest last.
    heads: BTreeMap<u64, String>,
    /// What it asks for.
    parts: BTreeMap<ClusterName, Mark>,
}

impl Marks {
    /// Reads them out of a text. What is not written as we write it is not there.
    pub fn read(text: &str) -> Self {
        let mut marks = Self::default();
        let Some((_, rest)) = text.split_once(BEGIN) else { return marks };
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
                _ => {}
            }
        }
        marks
    }

    /// The marks once these plans are shown at this head. `last_comment` is the newest comment that there is.
    #[must_use]
    pub fn shown<'a>(
        &self,
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
        Self { heads, parts: parts.into_iter().map(part).collect() }
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

impl fmt::Display for Marks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{BEGIN}")?;
        for (number, head) in &self.heads {
            writeln!(formatter, "head {number} {head}")?;
        }
        for (cluster, Mark { plan, from, since }) in &self.parts {
            writeln!(formatter, "part {cluster} {plan} {from} {since}")?;
        }
        writeln!(formatter, "{END}")
    }
}

fn shortened(plan: &PlanDigest) -> String {
    plan.as_str().trim_start_matches("sha256:").chars().take(DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let marks = Marks::default().shown(&head("1"), [(&a, &one), (&b, &two)], 0);
        let text = format!("# Title\n\n{marks}\nrest <!-- more -->\n").replace('\n', "\r\n");
        assert_eq!(Marks::read(&text), marks);
        assert_eq!(marks.shown(&head("1"), [(&a, &one), (&b, &two)], 9), marks, "shown again, nothing is new");
        for hostile in ["", "<!-- stepgate:shown", "<!-- stepgate:shown\npart ../x y 0 0\nhead 0 zz\npart a\n-->"] {
            assert_eq!(Marks::read(hostile), Marks::default(), "{hostile}");
        }
    }

    #[test]
    fn a_plan_that_stays_keeps_its_words_and_another_one_begins_anew() {
        let (a, b) = (cluster("a"), cluster("b"));
        let (one, two, other) = (plan("1"), plan("2"), plan("3"));
        let first = Marks::default().shown(&head("1"), [(&a, &one)], 0);
        let joined = first.shown(&head("2"), [(&a, &one), (&b, &two)], 7);
        let replaced = joined.shown(&head("3"), [(&a, &one), (&b, &other)], 9);
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
        let without = replaced.shown(&head("4"), [(&a, &one)], 9);
        assert_eq!(without.clusters().collect::<Vec<_>>(), [&a]);
        // Whoever comes back is asked for anew.
        let back = without.shown(&head("5"), [(&a, &one), (&b, &other)], 12);
        assert!(!back.was_seen(back.of(&b, &other).unwrap(), Some(head("3").as_str())));
    }

    #[test]
    fn old_heads_are_forgotten() {
        let (a, one) = (cluster("a"), plan("1"));
        let mut marks = Marks::default();
        for number in 0..100 {
            marks = marks.shown(&format!("{number:040}").parse().unwrap(), [(&a, &one)], 0);
        }
        assert_eq!(Marks::read(&marks.to_string()), marks);
        let mark = marks.of(&a, &one).unwrap();
        assert!(
            marks.was_seen(mark, Some(&format!("{:040}", 99))) && !marks.was_seen(mark, Some(&format!("{:040}", 3)))
        );
    }
}
