//! Who approves what, by the newest policy and by those before it.

use std::collections::BTreeMap;

use policy::{ApproverRules, Policy};
use policy::{InvalidPerson, Person, Roster};
use rollout::Block;

use crate::policies::{Befores, Field};

/// Who is who, as far as it can be read.
pub fn roster(policy: &Policy) -> Roster {
    let read = |names: &Vec<String>| names.iter().filter_map(|name| name.parse().ok()).collect();
    let one = |(login, others): (&String, &Vec<String>)| -> Vec<Person> {
        std::iter::once(login).chain(others).filter_map(|name| name.parse().ok()).collect()
    };
    Roster {
        groups: policy.groups.iter().map(|(name, members)| (name.clone(), read(members))).collect(),
        people: policy.people.iter().map(one).collect(),
        before: Vec::new(),
    }
}

/// Who is who by the newest policy and by those before it: what a push says of people counts where all of them agree.
pub fn roster_since(policy: &Policy, befores: &Befores) -> Roster {
    let mut roster = roster(policy);
    for before in &befores.known {
        let (people, groups) =
            (befores.said(Field::People, before, policy), befores.said(Field::Groups, before, policy));
        let mut groups = self::roster(groups).groups;
        // Whom a rule wants and nobody describes it wants of nobody, whatever is described since.
        for rules in rules_of(&before.policy).filter(|_| befores.of(Field::Groups).next().is_some()) {
            for name in rules.groups.iter().flat_map(BTreeMap::keys) {
                groups.entry(name.clone()).or_default();
            }
        }
        let before = Roster { groups, people: self::roster(people).people, before: Vec::new() };
        let is_new = (&before.groups, &before.people) != (&roster.groups, &roster.people);
        if is_new && !roster.before.contains(&before) {
            roster.before.push(before);
        }
    }
    roster
}

/// The rules for approvals of every level.
fn rules_of(policy: &Policy) -> impl Iterator<Item = &ApproverRules> {
    let levels = policy.environments.values().chain(policy.clusters.values().map(|cluster| &cluster.own));
    let levels = levels.map(|level| (&level.settings, &level.stages));
    let levels = std::iter::once((&policy.settings, &policy.stages)).chain(levels);
    levels.flat_map(|(settings, stages)| std::iter::once(settings).chain(stages.values())).map(|it| &it.approvers)
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
    use crate::policies::Before;

    #[test]
    fn whoever_was_who_before_counts_besides() {
        let policy =
            |text: &str| policy::read_policy(&domain::RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes()).0;
        let befores = |texts: &[&str]| {
            let before = |text: &&str| Before { commit: "a".repeat(40).parse().unwrap(), policy: policy(text).into() };
            Befores { known: texts.iter().map(before).collect(), unreadable: Vec::new() }
        };
        let now = policy("groups: {platform: [alice, mallory]}\npeople: {alice: [mallory@example.com]}\n");
        let same = "people: {alice: [mallory@example.com]}\ngroups: {platform: [alice, mallory]}\n";
        assert_eq!(roster_since(&now, &befores(&[same])), roster(&now));
        assert_eq!(roster_since(&now, &Befores::default()), roster(&now));
        let before = "groups: {platform: [alice]}\n";
        let known = roster_since(&now, &befores(&[before, before]));
        assert_eq!(known.before, [roster(&policy(before))]);
        assert_eq!((known.groups, known.people), (roster(&now).groups, roster(&now).people));
        // A rule that nobody could meet before is met by nobody that is described since.
        let wanted = "stages: {etcd: {approvers: {groups: {platform: 1}}}}\n";
        assert!(roster_since(&now, &befores(&[wanted])).before[0].groups["platform"].is_empty());
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
