//! What people have said of a wave as a whole, and whether that is enough.

use std::collections::BTreeMap;

use domain::{ClusterName, PlanDigest};
use jiff::Timestamp;
use policy::{ApprovalRules, GivenApproval, Means, Person, Question, Roster, Verdict, Wave};
use serde::{Deserialize, Serialize};

use crate::verdict::Reason;

use super::standing::{Standing, Turn, WaveMember};

/// What somebody is asked of a wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaveQuestion {
    /// Whether it may begin.
    Before,
    /// Whether the next one may, by what has become of it.
    After,
}

/// What somebody answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum WaveAnswer {
    /// Yes.
    Approve,
    /// No.
    Reject {
        /// Why.
        reason: String,
    },
}

/// What somebody said of a wave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaveWord {
    /// The wave.
    pub wave: String,
    /// Of what.
    pub question: WaveQuestion,
    /// What.
    #[serde(flatten)]
    pub answer: WaveAnswer,
    /// Who.
    pub by: Person,
    /// When.
    pub at: Timestamp,
    /// The plans that were looked at, by cluster; for any other it is void.
    pub plans: BTreeMap<ClusterName, PlanDigest>,
    /// Who wrote what these roll out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<Person>,
}

/// Everything that was said of waves, in the order in which it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaveWords {
    /// What counts.
    pub words: Vec<WaveWord>,
    /// Why it cannot be read; then nothing counts.
    pub problem: Option<String>,
}

/// Whose approval is enough for a wave, by every policy that counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaveAsks {
    /// Before it begins; none where nobody is asked.
    pub before: Option<ApprovalRules>,
    /// When it is done.
    pub after: Option<ApprovalRules>,
    /// Who is who; where several count, each of them has to say so.
    pub rosters: Vec<Roster>,
}

/// What is missing for a wave to go on, as far as people are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaveConsent {
    /// Before it begins; none where it may.
    pub before: Option<Reason>,
    /// Before the next one begins, once it is done.
    pub after: Option<Reason>,
}

impl WaveAsks {
    /// Asks this as well.
    pub fn ask(&mut self, question: WaveQuestion, rules: &ApprovalRules) {
        let asked = match question {
            WaveQuestion::Before => &mut self.before,
            WaveQuestion::After => &mut self.after,
        };
        *asked = Some(asked.as_ref().map_or_else(|| rules.clone(), |known| known.and(rules)));
    }

    /// Lets this roster count as well.
    pub fn know(&mut self, roster: &Roster) {
        if !self.rosters.contains(roster) {
            self.rosters.push(roster.clone());
        }
    }

    /// Whose approval is enough for this; none where nobody is asked.
    #[must_use]
    pub fn rules(&self, question: WaveQuestion) -> Option<&ApprovalRules> {
        match question {
            WaveQuestion::Before => self.before.as_ref(),
            WaveQuestion::After => self.after.as_ref(),
        }
    }

    /// What is missing for a question about these plans, a line each, by what was said of exactly them, and why it was rejected where it was.
    #[must_use]
    pub fn missing(
        &self,
        question: WaveQuestion,
        plans: &BTreeMap<ClusterName, PlanDigest>,
        said: &[&WaveWord],
    ) -> Vec<String> {
        let Some(rules) = self.rules(question) else { return Vec::new() };
        let rejected = said.iter().rposition(|word| word.answer != WaveAnswer::Approve);
        let (before, since) = said.split_at(rejected.map_or(0, |place| place.saturating_add(1)));
        if let (Some(WaveWord { by, answer: WaveAnswer::Reject { reason }, .. }), []) = (before.last(), since) {
            return vec![format!("{by} has rejected it: {reason}")];
        }
        let plan = digest(plans);
        let given: Vec<GivenApproval> = since.iter().map(|word| word.given(&plan)).collect();
        let mut authors: Vec<Person> = Vec::new();
        for author in since.iter().flat_map(|word| &word.authors) {
            if !authors.contains(author) {
                authors.push(author.clone());
            }
        }
        let mut missing: Vec<String> = Vec::new();
        for roster in self.all_rosters() {
            let lines = judge(rules, roster, &plan, &given, &authors).lines();
            missing.extend(lines.into_iter().filter(|line| !missing.contains(line)).collect::<Vec<_>>());
        }
        missing
    }

    /// Why the approval of whoever says this counts for nothing; none where it may count.
    #[must_use]
    pub fn refusal(&self, word: &WaveWord) -> Option<String> {
        let rules = self.rules(word.question).filter(|_| word.answer == WaveAnswer::Approve)?;
        let plan = digest(&word.plans);
        let given = [word.given(&plan)];
        // As many of groups as are enough at all: then nobody else is asked.
        let is_closed = rules.groups.values().sum::<u32>() >= rules.minimum.max(1);
        let is_of = |group: &String, roster: &Roster| {
            let of_group = ApprovalRules { groups: [(group.clone(), 1)].into(), ..ApprovalRules::default() };
            matches!(judge(&of_group, roster, &plan, &given, &[]), Verdict::Met(_))
        };
        self.all_rosters().find_map(|roster| {
            if let Verdict::Unmet { discounted, .. } = judge(rules, roster, &plan, &given, &word.authors)
                && let Some(discounted) = discounted.first()
            {
                return Some(discounted.to_string());
            }
            if !is_closed || rules.groups.keys().any(|group| is_of(group, roster)) {
                return None;
            }
            let groups: Vec<&str> = rules.groups.keys().map(String::as_str).collect();
            Some(format!("{} is not of group {}", word.by, groups.join(" or ")))
        })
    }

    fn all_rosters(&self) -> impl Iterator<Item = &Roster> {
        static NOBODY: Roster = Roster { groups: BTreeMap::new(), people: Vec::new(), before: Vec::new() };
        let nobody = self.rosters.is_empty().then_some(&NOBODY);
        self.rosters.iter().chain(nobody)
    }
}

/// One digest of all of these plans.
fn digest(plans: &BTreeMap<ClusterName, PlanDigest>) -> PlanDigest {
    let parts = plans.iter().flat_map(|(cluster, plan)| [cluster.as_str(), plan.as_str()]);
    PlanDigest::of(parts.map(str::as_bytes))
}

fn judge(
    rules: &ApprovalRules,
    roster: &Roster,
    plan: &PlanDigest,
    given: &[GivenApproval],
    authors: &[Person],
) -> Verdict {
    let (ticks, owners, earlier, one_way) = (&[], Ok(&[] as &[_]), &[], false);
    Question { rules, roster, plan, given, ticks, authors, owners, earlier, one_way }.judge()
}

/// The plans that a question is about, by cluster; of a cluster whose plan is not known yet there is none. Empty where there is nothing to ask.
/// Nobody waits for a cluster of which no plan can be made: once one can, it joins, and is asked about.
#[must_use]
pub fn asked_plans(
    wave: &Wave,
    members: &[WaveMember],
    question: WaveQuestion,
    now: Timestamp,
) -> BTreeMap<ClusterName, Option<PlanDigest>> {
    let active = members.iter().filter(|member| wave.skipped(member.cluster.as_str(), now).is_none());
    let is_done = |member: &WaveMember| matches!(member.standing, Standing::Done { .. });
    let has_none = |member: &WaveMember| member.plan.is_none() && member.standing == Standing::Ahead(Turn::NotReady);
    let plans = active.map(|member| (member, member.plan.clone()));
    match question {
        WaveQuestion::Before => {
            let left = plans.filter(|(member, _)| !is_done(member) && !has_none(member));
            left.map(|(member, plan)| (member.cluster.clone(), plan)).collect()
        }
        // What nothing was ever carried out of has no result.
        WaveQuestion::After => plans
            .filter(|(member, plan)| is_done(member) && plan.is_some())
            .map(|(member, plan)| (member.cluster.clone(), plan))
            .collect(),
    }
}

/// What is missing for a wave to go on, by what was said of it.
#[must_use]
pub fn wave_consent(
    wave: &Wave,
    asks: &WaveAsks,
    words: &WaveWords,
    members: &[WaveMember],
    now: Timestamp,
) -> WaveConsent {
    let of = |question| missing(wave, asks, words, members, question, now);
    WaveConsent { before: of(WaveQuestion::Before), after: of(WaveQuestion::After) }
}

fn missing(
    wave: &Wave,
    asks: &WaveAsks,
    words: &WaveWords,
    members: &[WaveMember],
    question: WaveQuestion,
    now: Timestamp,
) -> Option<Reason> {
    asks.rules(question)?;
    let asked = asked_plans(wave, members, question, now);
    if asked.is_empty() {
        return None;
    }
    let name = &wave.name;
    let waits = match question {
        WaveQuestion::Before => format!("wave {name} waits for approval before it begins"),
        WaveQuestion::After => format!("wave {name} is done and waits for approval before the next one begins"),
    };
    if let Some(unknown) = asked.iter().find(|(_, plan)| plan.is_none()).map(|(cluster, _)| cluster) {
        return Some(Reason::new(format!("{waits}; the plan of cluster {unknown} is not known yet")));
    }
    let help = format!("`stepgate approve --wave {} --yes`", quoted(name));
    if let Some(problem) = &words.problem {
        return Some(Reason::new(format!("{waits}; what was said of it cannot be read: {problem}")).help(help));
    }
    let plans: BTreeMap<ClusterName, PlanDigest> =
        asked.into_iter().filter_map(|(cluster, plan)| Some((cluster, plan?))).collect();
    let said: Vec<&WaveWord> =
        words.words.iter().filter(|word| word.wave == *name && word.question == question).collect();
    let (about, others): (Vec<&WaveWord>, Vec<&WaveWord>) = said.into_iter().partition(|word| word.is_about(&plans));
    let missing = asks.missing(question, &plans, &about);
    if missing.is_empty() {
        return None;
    }
    let mut message = format!("{waits}: {}", missing.join("; "));
    if let Some((void, other)) =
        others.last().filter(|_| about.is_empty()).and_then(|word| Some((word, word.other(&plans)?)))
    {
        let said = if void.answer == WaveAnswer::Approve { "approved" } else { "rejected" };
        message.push_str(&format!("; what {} {said} is void: cluster {other} has another plan since", void.by));
    }
    Some(Reason::new(message).help(help))
}

impl WaveWord {
    /// What is given by it for plans of this digest.
    fn given(&self, plan: &PlanDigest) -> GivenApproval {
        GivenApproval { who: self.by.clone(), plan: plan.clone(), at: Some(self.at), means: Means::Command }
    }

    /// Whether it is about all of these plans.
    #[must_use]
    pub fn is_about(&self, plans: &BTreeMap<ClusterName, PlanDigest>) -> bool {
        self.other(plans).is_none()
    }

    /// The first cluster of which it is about another plan, or none.
    fn other<'a>(&self, plans: &'a BTreeMap<ClusterName, PlanDigest>) -> Option<&'a ClusterName> {
        plans.iter().find(|(cluster, plan)| self.plans.get(*cluster) != Some(plan)).map(|(cluster, _)| cluster)
    }
}

/// A name as a shell takes it for one word.
fn quoted(name: &str) -> String {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}
