//! Who approves what: the team's rules and names, in the form that decisions use, and what is known of people besides.

mod authors;
pub mod facts;
mod owners;
pub mod words;

use overlays::{ApproverRules, Policy};
use rollout::{ApprovalRules, Block, InvalidPerson, Person, Roster};

/// The rules that are written. Whoever writes any of them means that nobody approves alone what is their own.
pub fn rules(written: &ApproverRules) -> ApprovalRules {
    ApprovalRules {
        minimum: written.minimum.unwrap_or(1),
        groups: written.groups.clone().unwrap_or_default(),
        code_owners: written.code_owners.unwrap_or(false),
        author: written.author.unwrap_or(written.is_empty()),
        separate: written.separate.unwrap_or(false),
    }
}

/// Who is who, as far as it can be read.
pub fn roster(policy: &Policy) -> Roster {
    let read = |names: &Vec<String>| names.iter().filter_map(|name| name.parse().ok()).collect();
    let one = |(login, others): (&String, &Vec<String>)| -> Vec<Person> {
        std::iter::once(login).chain(others).filter_map(|name| name.parse().ok()).collect()
    };
    Roster {
        groups: policy.groups.iter().map(|(name, members)| (name.clone(), read(members))).collect(),
        people: policy.people.iter().map(one).collect(),
    }
}

/// The same, without those that have come into a group, and without two that have become different people, since `before`: who says so
/// in the same push as what is rolled out counts by it afterwards.
pub fn roster_not_below(policy: &Policy, before: Option<&Policy>) -> Roster {
    let mut roster = roster(policy);
    let Some(before) = before.map(self::roster) else { return roster };
    for (group, members) in before.groups {
        let now = roster.groups.remove(&group);
        let stay = |member: &Person| now.as_ref().is_none_or(|now| now.contains(member));
        roster.groups.insert(group, members.into_iter().filter(stay).collect());
    }
    for person in before.people {
        if !roster.people.contains(&person) {
            roster.people.push(person);
        }
    }
    roster
}

/// A name that nobody has would leave a rule without those it was meant for: better nothing moves, and it is said.
pub fn unusable_names(policy: &Policy) -> Vec<Block> {
    let groups = policy.groups.values().flatten();
    let people = policy.people.iter().flat_map(|(login, others)| std::iter::once(login).chain(others));
    let wrong = groups.chain(people).filter_map(|name| name.parse::<Person>().err());
    wrong.map(|error: InvalidPerson| block(&error)).collect()
}

fn block(error: &InvalidPerson) -> Block {
    Block {
        code: "unknown-person".to_owned(),
        stage: None,
        message: error.to_string(),
        help: "correct groups and people in stepgate.yaml".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_writes_a_rule_means_that_authors_do_not_approve() {
        assert!(rules(&ApproverRules::default()).take_anybody());
        let two = ApproverRules { minimum: Some(2), ..ApproverRules::default() };
        assert_eq!((rules(&two).minimum, rules(&two).author), (2, false));
        assert!(rules(&ApproverRules { author: Some(true), ..two }).author);
    }

    #[test]
    fn nobody_joins_a_group_by_what_the_group_approves() {
        let policy = |groups: &str, people: &str| {
            let text = format!("groups: {groups}\npeople: {people}\n");
            overlays::read_policy(&overlays::RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes()).0
        };
        let before = policy("{platform: [alice, bob], old: [carol]}", "{alice: [alice@example.com]}");
        let now = policy("{platform: [alice, mallory], new: [dave]}", "{mallory: [mallory@example.com]}");
        let roster = roster_not_below(&now, Some(&before));
        let members = |group: &str| roster.groups[group].iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            (members("platform"), members("old"), members("new")),
            (vec!["alice".to_owned()], vec!["carol".to_owned()], vec!["dave".to_owned()])
        );
        assert_eq!(roster.people.len(), 2);
        assert_eq!(roster_not_below(&now, None), super::roster(&now));
    }

    #[test]
    fn a_name_that_nobody_has_stops_what_depends_on_it() {
        let mut policy = Policy::default();
        policy.groups.insert("platform".to_owned(), vec!["alice".to_owned(), "bob bell".to_owned()]);
        policy.people.insert("alice".to_owned(), vec!["alice@example.com".to_owned()]);
        let blocks = unusable_names(&policy);
        assert!(blocks.len() == 1 && blocks[0].message.contains("\"bob bell\" names nobody"), "{blocks:?}");
        let roster = roster(&policy);
        assert!(roster.names_person(&"alice@example.com".parse().unwrap()) && roster.groups["platform"].len() == 1);
    }
}
