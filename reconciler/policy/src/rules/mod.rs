//! Whose approval is enough.
//!
//! Architecture Invariant: what is not known of somebody does not let anything through. A name that may be the author's, a team that nobody
//! resolves, a file of owners that cannot be read: each is missing, and said so.

mod check_list;
mod judge;
mod owners;
mod person;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use domain::PlanDigest;

pub use check_list::{CheckBox, GivenTick, TickedBox, ticked};
pub use judge::{Discounted, Missing, Question, Verdict};
pub use owners::{Owners, OwnersDialect, OwnersError};
pub use person::{InvalidPerson, Person};

use person::Kinship;

/// What approvals are enough for one stage. Without any rule, one of anybody is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApprovalRules {
    /// How many people at least; never counted as fewer than one.
    pub minimum: u32,
    /// How many of each named group.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, u32>,
    /// Whether every entry of CODEOWNERS that owns a changed path has to be heard.
    pub code_owners: bool,
    /// Whether who wrote what is rolled out may approve it.
    pub author: bool,
    /// Whether a stage without a way back is approved apart from the rest of its rollout, by somebody who has approved none of that.
    pub separate: bool,
    /// What is ticked before it is approved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub check_list: Vec<CheckBox>,
}

impl Default for ApprovalRules {
    fn default() -> Self {
        Self {
            minimum: 1,
            groups: BTreeMap::new(),
            code_owners: false,
            author: true,
            separate: false,
            check_list: Vec::new(),
        }
    }
}

impl ApprovalRules {
    /// Whether anybody's approval is enough, so that nobody has to be named.
    #[must_use]
    pub fn take_anybody(&self) -> bool {
        Self { minimum: self.minimum.max(1), ..self.clone() } == Self::default()
    }

    /// Rules that are met where both are.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut groups = self.groups.clone();
        for (name, wanted) in &other.groups {
            let known = groups.entry(name.clone()).or_default();
            *known = (*known).max(*wanted);
        }
        let mut check_list = self.check_list.clone();
        check_list.extend(other.check_list.iter().filter(|it| !self.check_list.contains(it)).cloned());
        Self {
            check_list,
            minimum: self.minimum.max(other.minimum),
            groups,
            code_owners: self.code_owners || other.code_owners,
            author: self.author && other.author,
            separate: self.separate || other.separate,
        }
    }
}

impl fmt::Display for ApprovalRules {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minimum = self.minimum.max(1);
        write!(formatter, "{minimum} approval{}", if minimum == 1 { "" } else { "s" })?;
        for (group, wanted) in &self.groups {
            write!(formatter, ", {wanted} of group {group}")?;
        }
        if self.code_owners {
            formatter.write_str(", the owners by CODEOWNERS")?;
        }
        if !self.author {
            formatter.write_str(", not by who wrote it")?;
        }
        if self.separate {
            formatter.write_str(", apart where there is no way back")?;
        }
        if !self.check_list.is_empty() {
            let names: Vec<&str> = self.check_list.iter().map(|it| it.name.as_str()).collect();
            write!(formatter, ", ticked: {}", names.join(" "))?;
        }
        Ok(())
    }
}

/// Who is who: what `stepgate.yaml` says of people, and said before what is judged was pushed.
///
/// Where both say different things, whatever lets less through counts: a word counts for a person or for a group if all of them say so, and two
/// names are one person's, such as an author's, if any of them does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Roster {
    /// The members of each group.
    pub groups: BTreeMap<String, Vec<Person>>,
    /// The names of one person each.
    pub people: Vec<Vec<Person>>,
    /// What earlier policies said that count as well; these have none before them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Roster>,
}

impl Roster {
    /// Itself, and those before.
    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.before)
    }

    /// What is known of two names: the same where any roster says so, and different where all do.
    fn kinship(&self, left: &Person, right: &Person) -> Kinship {
        let mut all = Kinship::Different;
        for roster in self.all() {
            match roster.own_kinship(left, right) {
                Kinship::Same => return Kinship::Same,
                Kinship::Different => {}
                Kinship::Unknown => all = Kinship::Unknown,
            }
        }
        all
    }

    /// What this roster alone knows of two names, also by the other names of either.
    fn own_kinship(&self, left: &Person, right: &Person) -> Kinship {
        let (left, right) = (self.names(left), self.names(right));
        let mut kinship = Kinship::Unknown;
        for (left, right) in left.iter().flat_map(|left| right.iter().map(move |right| (left, right))) {
            match left.kinship(right) {
                Kinship::Same => return Kinship::Same,
                Kinship::Different => kinship = Kinship::Different,
                Kinship::Unknown => {}
            }
        }
        kinship
    }

    fn names<'a>(&'a self, person: &'a Person) -> Vec<&'a Person> {
        let known = |names: &&Vec<Person>| names.iter().any(|name| name.kinship(person) == Kinship::Same);
        std::iter::once(person).chain(self.people.iter().filter(known).flatten()).collect()
    }

    /// Whether any roster says who is in a group.
    fn describes(&self, group: &str) -> bool {
        self.all().any(|roster| roster.groups.contains_key(group))
    }

    /// Whether every roster that describes a group counts this person to it.
    fn is_member(&self, group: &str, person: &Person) -> bool {
        let describing = || self.all().filter(|roster| roster.groups.contains_key(group));
        describing().next().is_some() && describing().all(|roster| roster.is_own_member(group, person))
    }

    fn is_own_member(&self, group: &str, person: &Person) -> bool {
        let mut members = self.groups.get(group).into_iter().flatten();
        members.any(|member| self.own_kinship(member, person) == Kinship::Same)
    }

    /// Whether every roster names this person at all.
    #[must_use]
    pub fn names_person(&self, person: &Person) -> bool {
        let names = |roster: &Self| {
            let mut named = roster.groups.values().chain(&roster.people).flatten();
            named.any(|name| name.kinship(person) == Kinship::Same)
        };
        self.all().all(names)
    }

    /// Whether this person is, by every roster, one of the owners or in one of the teams among them.
    fn owns(&self, owners: &[Owner], person: &Person) -> bool {
        let by = |roster: &Self| {
            owners.iter().any(|owner| {
                let is_it = matches!(owner, Owner::Person(owner) if roster.own_kinship(owner, person) == Kinship::Same);
                is_it || roster.group_of(owner).is_some_and(|group| roster.is_own_member(group, person))
            })
        };
        self.all().all(by)
    }

    /// Whether every roster knows who is behind an owner.
    fn resolves(&self, owner: &Owner) -> bool {
        self.all().all(|roster| roster.group_of(owner).is_some())
    }

    /// The group that an owner stands for: the one of the same name, with or without its organisation. GitLab writes groups like users.
    fn group_of(&self, owner: &Owner) -> Option<&str> {
        let team = match owner {
            Owner::Team(team) | Owner::Person(Person::Login(team)) => team.trim_start_matches('@'),
            Owner::Person(Person::Commit { .. }) => return None,
        };
        let short = team.rsplit('/').next().unwrap_or(team);
        let named = |wanted: &str| self.groups.keys().find(|name| name.as_str() == wanted).map(String::as_str);
        named(team).or_else(|| named(short))
    }
}

/// How somebody approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// By merging it.
    Merge,
    /// By a review on the forge.
    Review,
    /// By a comment on the forge.
    Comment,
    /// By `stepgate approve`.
    Command,
}

/// That somebody approved a plan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GivenApproval {
    /// Who.
    pub who: Person,
    /// The plan that was looked at; for any other it is void.
    pub plan: PlanDigest,
    /// When, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// How.
    pub means: Means,
}

/// That somebody let something through although the rules were not met, or although it was merged too late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    /// Who.
    pub who: Person,
    /// When.
    pub at: Timestamp,
    /// The plan that was looked at.
    pub plan: PlanDigest,
    /// Why, in that person's words.
    pub reason: String,
    /// What was missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// An entry of CODEOWNERS that owns something of what is changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwningEntry {
    /// The entry as it is called: its pattern, and its line.
    pub entry: String,
    /// How many of its owners have to be heard.
    pub wanted: u32,
    /// Its owners.
    pub owners: Vec<Owner>,
}

/// An owner, as CODEOWNERS names one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Owner {
    /// A person.
    Person(Person),
    /// A team, or a group, of the forge.
    Team(String),
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(person) => write!(formatter, "{person}"),
            Self::Team(team) => write!(formatter, "@{}", team.trim_start_matches('@')),
        }
    }
}
