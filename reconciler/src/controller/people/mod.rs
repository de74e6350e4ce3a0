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
