//! What the checks of a gate found, gathered before it is judged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use jiff::Timestamp;

use crate::observation::{Condition, ConditionStatus, Observation};
use crate::verdict::{Fact, GateVerdict, Reason};
use domain::CommitId;

/// How many reasons a wait spells out, of as many objects as there are; more are counted.
const SPELLED_OUT: usize = 4;

/// How telling a reason to wait is: what is told first comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Something has failed.
    Failing,
    /// Something is being done, and says how far it is.
    Underway,
    /// Something is not there yet.
    Missing,
    /// Something waits for something else.
    Dependent,
    /// A revision or a status is behind: it says nothing by itself.
    Behind,
}

/// What the checks of a gate found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    facts: Vec<Fact>,
    settled: Vec<String>,
    waits: Vec<(Rank, Reason)>,
    fails: Vec<Reason>,
    applied_revision: Option<CommitId>,
    /// When what is waited for is over by itself.
    until: Option<Timestamp>,
    proves_nothing: bool,
    /// Whether Flux has not even tried the stage's commit: what has failed then is what was there before.
    untried: bool,
}

impl Findings {
    /// Notes that the reading itself cannot be relied on.
    pub(super) fn proves_nothing(&mut self) {
        self.proves_nothing = true;
    }

    /// Notes that Flux has not tried the stage's commit yet, so that failures are of the state before it and only make the gate wait.
    pub(super) fn untried(&mut self) {
        self.untried = true;
    }

    /// Whether the reading can be relied on, whatever it says.
    pub(super) fn proves(&self) -> bool {
        !self.proves_nothing
    }

    /// Notes a fact that evidence will name.
    pub(super) fn fact(&mut self, object: impl Into<String>, seen: impl Into<String>) {
        self.facts.push(Fact::new(object, seen));
    }

    /// Notes what was done to a node, and how long it took.
    pub(super) fn timed_fact(&mut self, object: impl Into<String>, seen: impl Into<String>, seconds: Option<u64>) {
        self.facts.push(Fact { seconds, ..Fact::new(object, seen) });
    }

    /// Notes a value that has to stay the same from read to read.
    pub(super) fn settle(&mut self, value: impl Into<String>) {
        self.settled.push(value.into());
    }

    pub(super) fn wait(&mut self, reason: Reason) {
        self.waits.push((Rank::Missing, reason));
    }

    /// Waits for something that has failed, and may be put right.
    pub(super) fn failing(&mut self, reason: Reason) {
        self.waits.push((Rank::Failing, reason));
    }

    /// Waits for something that is being done, and says how far it is.
    pub(super) fn underway(&mut self, reason: Reason) {
        self.waits.push((Rank::Underway, reason));
    }

    /// Waits for something that itself waits for something else.
    pub(super) fn dependent(&mut self, reason: Reason) {
        self.waits.push((Rank::Dependent, reason));
    }

    /// Waits for a revision or a status that is behind.
    pub(super) fn behind(&mut self, reason: Reason) {
        self.waits.push((Rank::Behind, reason));
    }

    pub(super) fn fail(&mut self, reason: Reason) {
        self.fails.push(reason);
    }

    /// Notes the revision that Flux has applied.
    pub(super) fn applied(&mut self, revision: &CommitId) {
        self.applied_revision = Some(revision.clone());
    }

    /// Notes that something that is waited for has its own time.
    pub(super) fn until(&mut self, end: Timestamp) {
        self.until = Some(self.until.map_or(end, |known| known.min(end)));
    }

    pub(super) fn waits(&self) -> bool {
        !self.waits.is_empty()
    }

    /// The most telling reason to wait; none where everything holds.
    pub(super) fn first_wait(self) -> Option<Reason> {
        let fails = self.fails.into_iter().map(|reason| (Rank::Failing, reason));
        let (told, behind) = most_telling_first(fails.chain(self.waits).collect());
        told.into_iter().chain(behind).next()
    }

    pub(super) fn holds(&self) -> bool {
        self.waits.is_empty() && self.fails.is_empty()
    }

    pub(super) fn settled(&self) -> String {
        self.settled.join("; ")
    }

    /// Facts and applied revision where everything holds, else the verdict.
    pub(super) fn into_verdict(self) -> Result<(Vec<Fact>, Option<CommitId>), Box<GateVerdict>> {
        if !self.fails.is_empty() && !self.untried {
            return Err(Box::new(GateVerdict::Fail { reasons: self.fails }));
        }
        let fails = self.fails.into_iter().map(|reason| (Rank::Failing, reason));
        let (told, left) = spelled_out(most_telling_first(fails.chain(self.waits).collect()));
        let Some(mut reason) = told.into_iter().reduce(Reason::and) else {
            return Ok((self.facts, self.applied_revision));
        };
        if left > 0 {
            reason = reason.and(Reason::new(format!("and {left} more")));
        }
        Err(Box::new(GateVerdict::Wait { reason, until: self.until }))
    }

    /// Waits if a kind could not be read; says whether it could.
    pub(super) fn was_read(&mut self, kind: &str, observation: &Observation) -> bool {
        match observation.unread.get(kind) {
            None => true,
            Some(reason) => {
                self.wait(Reason::on(kind, format!("could not be read: {reason}")));
                self.proves_nothing();
                false
            }
        }
    }

    /// Waits unless the status was computed from the current generation.
    pub(super) fn observed(&mut self, object: &str, generation: i64, observed: Option<i64>, help: &str) {
        let field = "status.observedGeneration";
        match observed {
            None => {
                self.behind(Reason::on(object, format!("not set, {generation} is expected")).field(field).help(help));
            }
            Some(observed) if observed != generation => {
                let message = format!("{observed}, but the object is at generation {generation}: its status is stale");
                self.behind(Reason::on(object, message).field(field).help(help));
            }
            Some(_) => {}
        }
    }

    /// Waits until a pause has ended. What is paused goes on saying what it said before, and may look finished.
    pub(super) fn paused(&mut self, object: &str, field: &str, generation: i64, observed: Option<i64>, help: String) {
        let is_stale = observed.is_some_and(|observed| observed != generation);
        let message = if is_stale { "paused, and its status is stale" } else { "paused" };
        self.wait(Reason::on(object, message).field(field).help(help));
    }

    /// Waits unless a reported count is the expected one.
    pub(super) fn count(&mut self, object: &str, field: &str, seen: Option<u32>, expected: u32, help: &str) {
        if seen != Some(expected) {
            let message = match seen {
                Some(seen) => format!("{seen}, {expected} expected"),
                None => format!("not set, {expected} expected"),
            };
            self.wait(Reason::on(object, message).field(field).help(help));
        }
    }

    /// Waits unless a condition has the expected status, computed from the current generation.
    pub(super) fn condition(
        &mut self,
        object: &str,
        conditions: &BTreeMap<String, Condition>,
        name: &str,
        expected: ConditionStatus,
        generation: Option<i64>,
        help: &str,
    ) {
        let field = format!("status.conditions[{name}]");
        let Some(condition) = conditions.get(name) else {
            self.wait(Reason::on(object, format!("not reported, {expected} expected")).field(field).help(help));
            return;
        };
        if condition.status != expected {
            let message = format!("{}, {expected} expected", describe(condition));
            self.wait(Reason::on(object, message).field(field).help(help));
        } else if let (Some(observed), Some(generation)) = (condition.observed_generation, generation)
            && observed != generation
        {
            let message = format!("of generation {observed}, but the object is at generation {generation}");
            self.behind(Reason::on(object, message).field(field).help(help));
        }
    }

    /// Waits if a condition that need not be reported is anything but the expected status.
    pub(super) fn condition_if_reported(
        &mut self,
        object: &str,
        conditions: &BTreeMap<String, Condition>,
        name: &str,
        expected: ConditionStatus,
        help: &str,
    ) {
        if conditions.contains_key(name) {
            self.condition(object, conditions, name, expected, None, help);
        }
    }
}

/// What has failed first, and what is only behind apart. In between the first reason of each object, then all others: the machine that is stuck is
/// not hidden behind what its owner says of it.
fn most_telling_first(mut reasons: Vec<(Rank, Reason)>) -> (Vec<Reason>, Vec<Reason>) {
    reasons.sort_by_key(|(rank, _)| *rank);
    let mut seen = BTreeSet::new();
    let behind = reasons.split_off(reasons.partition_point(|(rank, _)| *rank < Rank::Behind));
    let (mut firsts, others): (Vec<Reason>, Vec<Reason>) = reasons
        .into_iter()
        .map(|(_, reason)| reason)
        .partition(|reason| reason.object.is_empty() || seen.insert(reason.object.clone()));
    firsts.extend(others);
    (firsts, behind.into_iter().map(|(_, reason)| reason).collect())
}

/// The reasons that are spelled out, and how many are left. The first that is behind is among them: while Flux has not applied the stage's commit,
/// all that is missing follows from that alone.
fn spelled_out((mut told, behind): (Vec<Reason>, Vec<Reason>)) -> (Vec<Reason>, usize) {
    let all = told.len() + behind.len();
    if all > SPELLED_OUT && !behind.is_empty() {
        told.truncate(SPELLED_OUT - 1);
    }
    told.extend(behind);
    told.truncate(SPELLED_OUT);
    let left = all - told.len();
    (told, left)
}

/// A condition in one line: `False (NotReady: message)`.
pub(super) fn describe(condition: &Condition) -> String {
    let message = condition.message.split_whitespace().collect::<Vec<_>>().join(" ");
    match (condition.reason.as_str(), message.as_str()) {
        ("", "") => condition.status.to_string(),
        (reason, "") => format!("{} ({reason})", condition.status),
        ("", message) => format!("{} ({message})", condition.status),
        (reason, message) => format!("{} ({reason}: {message})", condition.status),
    }
}

/// `Kind namespace/name`.
pub(super) fn object(kind: &str, namespace: &str, name: impl Display) -> String {
    format!("{kind} {namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_is_told_however_much_is_missing() {
        let told = |missing: usize, behind: usize| {
            let mut findings = Findings::default();
            for number in 0..behind {
                findings.behind(Reason::on(format!("source {number}"), "of another commit"));
            }
            for number in 0..missing {
                findings.wait(Reason::on(format!("machine {number}"), "of the old version"));
            }
            let Err(verdict) = findings.into_verdict() else { panic!("it waits for nothing") };
            let GateVerdict::Wait { reason, .. } = *verdict else { panic!("{verdict:?}") };
            reason.into_lines().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let machine = |number: usize| format!("machine {number}: of the old version");
        let source = |number: usize| format!("source {number}: of another commit");
        assert_eq!(told(6, 2), [machine(0), machine(1), machine(2), source(0), "and 4 more".to_owned()]);
        assert_eq!(told(2, 2), [machine(0), machine(1), source(0), source(1)]);
        assert_eq!(told(6, 0).last(), Some(&"and 2 more".to_owned()));
        assert_eq!(told(0, 6), [source(0), source(1), source(2), source(3), "and 2 more".to_owned()]);
    }
}
