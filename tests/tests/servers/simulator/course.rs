//! What gates say in the course of a step, compared without regard to how often and when they were read.
//!
//! A real cluster is read at other moments than a simulated one, and takes other times for the same things: it may be seen waiting once or ten
//! times, and some of what it passes through is never seen. Three things do not depend on that: where the gate cannot pass, where it ends, and
//! which reasons come after which.

use std::collections::BTreeSet;

/// What a gate passes with.
pub const PASS: &str = "pass";

/// What the simulated gate says in one step, in several runs of it.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// What it says in the end.
    pub ends: BTreeSet<String>,
    /// What it says on the way there, one course a run: distinct words, each as often as it came back.
    pub courses: Vec<Vec<String>>,
}

impl Expected {
    /// Why this cannot be what a gate says of the same happenings; none where it can.
    pub fn contradiction(&self, real: &[String]) -> Option<String> {
        self.impossible(real).or_else(|| self.disorder(real))
    }

    /// A verdict that ends something, where no simulated gate gives it.
    fn impossible(&self, real: &[String]) -> Option<String> {
        let is_known = |word: &String| self.courses.iter().any(|course| course.contains(word));
        let word = real.iter().find(|word| is_final(word) && !is_known(word))?;
        Some(format!("it says `{word}`, which no simulated gate says here"))
    }

    /// Something that every simulated gate says only before something else, said after it.
    fn disorder(&self, real: &[String]) -> Option<String> {
        real.iter().enumerate().find_map(|(at, later)| {
            let mut before = real.get(..at).unwrap_or_default().iter();
            let earlier = before.rfind(|earlier| self.precedes(later, earlier))?;
            Some(format!("it says `{later}` after `{earlier}`, which every simulated gate says the other way round"))
        })
    }

    /// Whether all simulated gates that say both say `first` for the last time before they say `second` at all, and one does.
    fn precedes(&self, first: &str, second: &str) -> bool {
        let mut with_both = self.courses.iter().filter_map(|course| {
            let last = course.iter().rposition(|word| word == first)?;
            let begin = course.iter().position(|word| word == second)?;
            Some(last < begin)
        });
        let is_so = with_both.next().unwrap_or_default();
        is_so && with_both.all(|is_so| is_so)
    }
}

/// Whether somebody acts on a verdict: a wait is no more than another look.
fn is_final(word: &str) -> bool {
    word == PASS || word.starts_with("fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[track_caller]
    fn check(courses: &[&str], real: &str, expected: Option<&str>) {
        let courses = courses.iter().map(|course| words(course)).collect();
        let expected_courses = Expected { courses, ..Expected::default() };
        let found = expected_courses.contradiction(&words(real));
        match expected {
            None => assert_eq!(found, None, "{real}"),
            Some(words) => assert!(found.as_ref().is_some_and(|found| found.contains(words)), "{real}: {found:?}"),
        }
    }

    #[test]
    fn how_often_a_gate_waits_and_what_is_not_seen_of_it_makes_no_difference() {
        let courses = ["flux pods pass", "flux pods pods pass"];
        for real in
            ["flux pods pass", "pass", "pods pass", "flux flux pods pods pass", "flux", "flux other pods pass", ""]
        {
            check(&courses, real, None);
        }
        // One that goes on passing while Flux applies a commit of others, however often that is seen.
        for real in ["pass", "pass flux pass", "pass flux pass flux", "flux pass flux pass", "flux"] {
            check(&["pass flux pass"], real, None);
        }
    }

    #[test]
    fn a_pass_that_comes_early_or_where_there_can_be_none_is_found() {
        check(&["flux pods"], "flux pods pass", Some("`pass`, which no simulated gate says"));
        check(&["flux pods pass"], "pass flux pods pass", Some("`flux` after `pass`"));
        check(&["flux pods pass"], "flux pass pods pass", Some("`pods` after `pass`"));
        check(&["flux pass"], "flux fail", Some("`fail`"));
    }

    #[test]
    fn reasons_come_in_the_same_order_where_all_simulated_gates_agree_on_it() {
        check(&["flux pods pass"], "pods flux pass", Some("`flux` after `pods`"));
        check(&["a b pass", "b a pass"], "b a pass", None);
        check(&["a b a pass"], "b a pass", None);
    }
}
