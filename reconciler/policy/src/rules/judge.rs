//! What is missing.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::check_list::{CheckBox, ticked};
use super::person::Kinship;
use super::{ApprovalRules, GivenApproval, GivenTick, Owner, OwningEntry, Person, Roster};
use domain::PlanDigest;

/// Everything that says whether something is approved.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// What is enough.
    pub rules: &'a ApprovalRules,
    /// Who is who.
    pub roster: &'a Roster,
    /// The plan that is asked for.
    pub plan: &'a PlanDigest,
    /// What people gave.
    pub given: &'a [GivenApproval],
    /// What people ticked.
    pub ticks: &'a [GivenTick],
    /// Who wrote what the plan rolls out.
    pub authors: &'a [Person],
    /// The entries of CODEOWNERS that own what is changed, or why they are not known.
    pub owners: Result<&'a [OwningEntry], &'a str>,
    /// Who approved other stages of the same rollout.
    pub earlier: &'a [Person],
    /// Whether there is no way back from it.
    pub one_way: bool,
}

/// Something that is not there yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Missing {
    /// More people.
    Approvals {
        /// How many there are.
        given: u32,
        /// How many there have to be.
        wanted: u32,
    },
    /// More people of a group.
    Group {
        /// The group.
        group: String,
        /// How many of it there are.
        given: u32,
        /// How many there have to be.
        wanted: u32,
    },
    /// A group that `stepgate.yaml` does not describe.
    UnknownGroup(String),
    /// An owner of a changed path.
    Owners {
        /// The entry of CODEOWNERS.
        entry: String,
        /// Its owners.
        owners: Vec<String>,
        /// Those of them that are teams and not described in `stepgate.yaml`.
        unresolved: Vec<String>,
    },
    /// CODEOWNERS cannot be followed.
    UnreadableOwners(String),
    /// Somebody who ticks a box of the check list.
    Unticked {
        /// Its name.
        name: String,
        /// What is to be looked at.
        says: String,
        /// The group whose members tick it.
        by: Option<String>,
    },
    /// Somebody who has not approved the other stages, since there is no way back from this one.
    Separate,
}

/// An approval that does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Discounted {
    /// Of another plan.
    OtherPlan(Person),
    /// Of somebody who wrote what is rolled out.
    Author(Person),
    /// Of somebody who may have written it: a commit and the forge name people differently.
    PerhapsAuthor(Person, Person),
}

/// Whether something is approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is, by these.
    Met(Vec<GivenApproval>),
    /// Not yet.
    Unmet {
        /// What is missing; never empty.
        missing: Vec<Missing>,
        /// What does not count.
        discounted: Vec<Discounted>,
    },
}

impl Verdict {
    /// What is missing and what does not count, a line each; none where it is approved.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::Met(_) => Vec::new(),
            Self::Unmet { missing, discounted } => {
                missing.iter().map(ToString::to_string).chain(discounted.iter().map(ToString::to_string)).collect()
            }
        }
    }
}

impl Question<'_> {
    /// The answer. It follows from the question alone, whatever the order of what was given.
    #[must_use]
    pub fn judge(&self) -> Verdict {
        let mut given: Vec<&GivenApproval> = self.given.iter().collect();
        given.sort();
        let (mut counted, mut discounted) = (Vec::new(), Vec::new());
        for approval in given {
            match self.discount(approval) {
                None => counted.push(approval),
                Some(reason) if !discounted.contains(&reason) => discounted.push(reason),
                Some(_) => {}
            }
        }
        let people: Vec<&Person> = counted.iter().map(|approval| &approval.who).collect();
        let missing = self.missing(&people);
        if missing.is_empty() {
            Verdict::Met(counted.into_iter().cloned().collect())
        } else {
            Verdict::Unmet { missing, discounted }
        }
    }

    fn discount(&self, approval: &GivenApproval) -> Option<Discounted> {
        let who = &approval.who;
        if &approval.plan != self.plan {
            return Some(Discounted::OtherPlan(who.clone()));
        }
        if self.rules.author {
            return None;
        }
        let kin = |wanted: Kinship| self.authors.iter().find(|author| self.roster.kinship(author, who) == wanted);
        match (kin(Kinship::Same), kin(Kinship::Unknown)) {
            (Some(_), _) => Some(Discounted::Author(who.clone())),
            (None, Some(author)) => Some(Discounted::PerhapsAuthor(who.clone(), author.clone())),
            (None, None) => None,
        }
    }

    fn missing(&self, people: &[&Person]) -> Vec<Missing> {
        let mut missing = Vec::new();
        let (given, wanted) = (self.count(people), self.rules.minimum.max(1));
        if given < wanted {
            missing.push(Missing::Approvals { given, wanted });
        }
        for (group, wanted) in self.rules.groups.iter().filter(|(_, wanted)| **wanted > 0) {
            if !self.roster.describes(group) {
                missing.push(Missing::UnknownGroup(group.clone()));
                continue;
            }
            let members: Vec<&Person> =
                people.iter().copied().filter(|person| self.roster.is_member(group, person)).collect();
            let given = self.count(&members);
            if given < *wanted {
                missing.push(Missing::Group { group: group.clone(), given, wanted: *wanted });
            }
        }
        match self.owners {
            Ok(entries) if self.rules.code_owners => {
                missing.extend(entries.iter().filter_map(|entry| self.unheard(entry, people)));
            }
            Err(reason) if self.rules.code_owners => missing.push(Missing::UnreadableOwners(reason.to_owned())),
            Ok(_) | Err(_) => {}
        }
        let apart = |person: &&Person| {
            self.earlier.iter().all(|earlier| self.roster.kinship(earlier, person) == Kinship::Different)
        };
        if self.rules.separate && self.one_way && !people.iter().copied().any(|person| apart(&person)) {
            missing.push(Missing::Separate);
        }
        for known in ticked(&self.rules.check_list, self.ticks, self.plan, self.roster) {
            let CheckBox { name, says, by } = known.of;
            missing.extend(by.iter().filter(|group| !self.roster.describes(group)).cloned().map(Missing::UnknownGroup));
            if known.by.is_none() {
                missing.push(Missing::Unticked { name: name.clone(), says: says.clone(), by: by.clone() });
            }
        }
        missing
    }

    fn unheard(&self, entry: &OwningEntry, people: &[&Person]) -> Option<Missing> {
        let heard: Vec<&Person> =
            people.iter().copied().filter(|person| self.roster.owns(&entry.owners, person)).collect();
        if entry.owners.is_empty() || self.count(&heard) >= entry.wanted.max(1) {
            return None;
        }
        let unresolved = entry.owners.iter().filter_map(|owner| match owner {
            Owner::Team(_) if !self.roster.resolves(owner) => Some(owner.to_string()),
            Owner::Team(_) | Owner::Person(_) => None,
        });
        Some(Missing::Owners {
            entry: entry.entry.clone(),
            owners: entry.owners.iter().map(ToString::to_string).collect(),
            unresolved: unresolved.collect(),
        })
    }

    /// How many people these are for certain: two names that may be one person's count once.
    fn count(&self, people: &[&Person]) -> u32 {
        let certain = |kind: fn(&Person) -> bool| {
            let mut distinct: Vec<&Person> = Vec::new();
            for person in people.iter().copied().filter(|person| kind(person)) {
                if distinct.iter().all(|known| self.roster.kinship(known, person) == Kinship::Different) {
                    distinct.push(person);
                }
            }
            distinct
        };
        // Users of the forge, and beside them only those of commits who are known to be others; and the other way round.
        let beside = |first: Vec<&Person>, second: Vec<&Person>| {
            let other =
                |person: &&Person| first.iter().all(|known| self.roster.kinship(known, person) == Kinship::Different);
            first.len() + second.iter().copied().filter(|person| other(person)).count()
        };
        let login = |person: &Person| matches!(person, Person::Login(_));
        let commit = |person: &Person| matches!(person, Person::Commit { .. });
        let most = beside(certain(login), certain(commit)).max(beside(certain(commit), certain(login)));
        u32::try_from(most).unwrap_or(u32::MAX)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approvals { given, wanted } => {
                write!(formatter, "{given} of {wanted} approval{}", if *wanted == 1 { "" } else { "s" })
            }
            Self::Group { group, given: 0, wanted: 1 } => write!(formatter, "group {group} missing"),
            Self::Group { group, given, wanted } => write!(formatter, "{given} of {wanted} of group {group}"),
            Self::UnknownGroup(group) => write!(formatter, "group {group} is not under groups in stepgate.yaml"),
            Self::Owners { entry, owners, unresolved } => {
                write!(formatter, "owner of {entry} missing: {}", owners.join(" or "))?;
                if !unresolved.is_empty() {
                    let teams = unresolved.join(", ");
                    write!(formatter, " (who is in {teams} is not known: name a group so in stepgate.yaml)")?;
                }
                Ok(())
            }
            Self::UnreadableOwners(reason) => write!(formatter, "CODEOWNERS cannot be followed: {reason}"),
            Self::Unticked { name, says, by } => {
                let by = by.as_ref().map(|group| format!(" by group {group}")).unwrap_or_default();
                write!(formatter, "{name} is not ticked{by}: {says}")
            }
            Self::Separate => formatter.write_str(
                "there is no way back from this stage: it needs somebody who has approved no other stage of the rollout",
            ),
        }
    }
}

impl fmt::Display for Discounted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherPlan(person) => write!(formatter, "{person} approved another plan"),
            Self::Author(person) => write!(formatter, "{person} wrote what is rolled out, and may not approve it"),
            Self::PerhapsAuthor(person, author) => write!(
                formatter,
                "{person} may be {author}, who wrote what is rolled out: somebody else approves it, or both are named under people in stepgate.yaml, \
                 which counts once a rollout has ended with it"
            ),
        }
    }
}
