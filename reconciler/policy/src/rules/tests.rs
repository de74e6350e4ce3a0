use std::collections::{BTreeMap, BTreeSet};

use super::*;

fn person(text: &str) -> Person {
    text.parse().unwrap()
}

fn plan(number: u8) -> PlanDigest {
    PlanDigest::of([&[number][..]])
}

fn given(who: &str) -> GivenApproval {
    GivenApproval { who: person(who), plan: plan(1), at: None, means: Means::Review }
}

/// A question in a few words.
#[derive(Clone, Default)]
struct Scene {
    rules: ApprovalRules,
    roster: Roster,
    given: Vec<GivenApproval>,
    ticks: Vec<GivenTick>,
    authors: Vec<Person>,
    owners: Vec<OwningEntry>,
    earlier: Vec<Person>,
    one_way: bool,
}

impl Scene {
    fn groups(mut self, groups: &[(&str, &[&str])]) -> Self {
        let members = |names: &&[&str]| names.iter().map(|name| person(name)).collect();
        self.roster.groups = groups.iter().map(|(name, names)| ((*name).to_owned(), members(names))).collect();
        self
    }

    fn given(mut self, people: &[&str]) -> Self {
        self.given = people.iter().map(|who| given(who)).collect();
        self
    }

    fn judge(&self) -> Verdict {
        let plan = plan(1);
        Question {
            rules: &self.rules,
            roster: &self.roster,
            plan: &plan,
            given: &self.given,
            ticks: &self.ticks,
            authors: &self.authors,
            owners: Ok(&self.owners),
            earlier: &self.earlier,
            one_way: self.one_way,
        }
        .judge()
    }

    fn lines(&self) -> Vec<String> {
        self.judge().lines()
    }
}

#[test]
fn without_rules_anybody_is_enough() {
    assert!(ApprovalRules::default().take_anybody());
    assert!(ApprovalRules { minimum: 0, ..ApprovalRules::default() }.take_anybody());
    assert!(!ApprovalRules { minimum: 2, ..ApprovalRules::default() }.take_anybody());
    assert_eq!(Scene::default().lines(), ["0 of 1 approval"]);
    assert_eq!(Scene::default().given(&["alice"]).lines(), [""; 0]);
}

#[test]
fn what_is_missing_is_said_in_words() {
    let rules = ApprovalRules { minimum: 2, groups: [("platform".to_owned(), 1)].into(), ..ApprovalRules::default() };
    let scene = Scene { rules, ..Scene::default() }.groups(&[("platform", &["carol"])]).given(&["alice"]);
    assert_eq!(scene.lines().join("; "), "1 of 2 approvals; group platform missing");
    assert_eq!(scene.rules.to_string(), "2 approvals, 1 of group platform");
    let scene = Scene { roster: Roster::default(), ..scene };
    assert_eq!(scene.lines()[1], "group platform is not under groups in stepgate.yaml");
}

#[test]
fn one_person_counts_once_whatever_the_name() {
    let rules = ApprovalRules { minimum: 2, ..ApprovalRules::default() };
    let mut scene = Scene { rules, ..Scene::default() };
    for (people, given, enough) in [
        (&["alice", "@ALICE"][..], &[][..], false),
        (&["a@x.org", "A <a@x.org>"], &[], false),
        // Whether these two are one is not known.
        (&["alice", "b@x.org"], &[], false),
        (&["alice", "b@x.org"], &["bob", "b@x.org"], true),
        (&["bob", "b@x.org"], &["bob", "b@x.org"], false),
        (&["alice", "bob"], &[], true),
        (&["a@x.org", "b@x.org"], &[], true),
        (&["z", "a@x.org", "b@x.org"], &[], true),
    ] {
        scene.roster.people = vec![given.iter().map(|name| person(name)).collect()];
        scene = scene.given(people);
        assert_eq!(scene.lines().is_empty(), enough, "{people:?} {given:?}: {:?}", scene.lines());
    }
}

#[test]
fn who_wrote_it_or_may_have_does_not_count() {
    let rules = ApprovalRules { author: false, ..ApprovalRules::default() };
    let mut scene = Scene { rules, authors: vec![person("Alice <alice@x.org>")], ..Scene::default() };
    scene = scene.given(&["A. <ALICE@x.org>"]);
    assert!(scene.lines()[1].contains("may not approve it"), "{:?}", scene.lines());
    scene = scene.given(&["bob"]);
    let lines = scene.lines().join("; ");
    assert!(lines.contains("bob may be Alice <alice@x.org>") && lines.contains("under people"), "{lines}");
    scene.roster.people = vec![vec![person("bob"), person("bob@x.org")]];
    assert_eq!(scene.lines(), [""; 0]);
    scene.roster.people = vec![vec![person("bob"), person("alice@x.org")]];
    assert!(scene.lines()[1].contains("bob wrote"), "{:?}", scene.lines());
    scene.roster.people = vec![vec![person("alice"), person("alice@x.org")]];
    assert_eq!(scene.lines(), [""; 0], "bob is another user than alice");
}

#[test]
fn each_owning_entry_is_heard_and_a_team_is_the_group_of_its_name() {
    let entry = |name: &str, owners: &[Owner]| OwningEntry { entry: name.into(), wanted: 1, owners: owners.to_vec() };
    let team = Owner::Team("@org/platform".into());
    let owners =
        vec![entry("`*` (line 1)", &[Owner::Person(person("alice"))]), entry("`/clusters/` (line 2)", &[team])];
    let rules = ApprovalRules { code_owners: true, ..ApprovalRules::default() };
    let mut scene = Scene { rules, owners, ..Scene::default() }.given(&["alice", "carol"]);
    let lines = scene.lines();
    assert!(lines.len() == 1 && lines[0].contains("who is in @org/platform is not known"), "{lines:?}");
    for group in ["platform", "org/platform"] {
        scene = scene.groups(&[(group, &["carol"])]);
        assert_eq!(scene.lines(), [""; 0], "{group}");
    }
    scene = scene.given(&["carol"]);
    assert_eq!(scene.lines(), ["owner of `*` (line 1) missing: alice"]);
    let (plan, error) = (plan(1), "line 3: no owner");
    let question = Question {
        rules: &scene.rules,
        roster: &scene.roster,
        plan: &plan,
        given: &scene.given,
        ticks: &[],
        authors: &[],
        owners: Err(error),
        earlier: &[],
        one_way: false,
    };
    assert_eq!(question.judge().lines(), ["CODEOWNERS cannot be followed: line 3: no owner"]);
}

#[test]
fn boxes_are_ticked_by_members_of_their_group_for_this_plan() {
    let known = |name: &str, by: Option<&str>| CheckBox {
        name: name.to_owned(),
        says: "no alert is new".to_owned(),
        by: by.map(str::to_owned),
    };
    let check_list = vec![known("alerts", Some("coordinator")), known("logs", None)];
    let rules = ApprovalRules { check_list, ..ApprovalRules::default() };
    assert_eq!(rules.to_string(), "1 approval, ticked: alerts logs");
    let scene = Scene { rules, ..Scene::default() }.groups(&[("coordinator", &["dave"])]).given(&["alice"]);
    let tick = |name: &str, who: &str, number: u8| GivenTick {
        name: name.to_owned(),
        who: person(who),
        plan: plan(number),
        at: None,
        means: Means::Comment,
    };
    let lines = |ticks: &[GivenTick]| Scene { ticks: ticks.to_vec(), ..scene.clone() }.lines();
    let alerts = "alerts is not ticked by group coordinator: no alert is new";
    assert_eq!(lines(&[]), [alerts, "logs is not ticked: no alert is new"]);
    assert_eq!(lines(&[tick("alerts", "alice", 1), tick("logs", "alice", 1)]), [alerts]);
    assert_eq!(lines(&[tick("alerts", "dave", 2), tick("logs", "alice", 1)]), [alerts], "of another plan");
    assert_eq!(lines(&[tick("alerts", "dave", 1), tick("logs", "alice", 1)]), [""; 0]);
    let nobody = Scene { roster: Roster::default(), ..scene.clone() };
    assert!(nobody.lines().contains(&"group coordinator is not under groups in stepgate.yaml".to_owned()));
}

#[test]
fn an_approval_of_another_plan_is_void() {
    let mut scene = Scene::default().given(&["alice"]);
    scene.given[0].plan = plan(2);
    assert_eq!(scene.lines(), ["0 of 1 approval", "alice approved another plan"]);
}

#[test]
fn rules_together_are_met_where_both_are() {
    let left = ApprovalRules { minimum: 2, groups: [("a".into(), 2), ("b".into(), 1)].into(), ..Default::default() };
    let right = ApprovalRules { author: false, groups: [("b".into(), 3)].into(), ..Default::default() };
    let both = left.and(&right);
    assert_eq!((both.minimum, both.author), (2, false));
    assert_eq!(both.groups, BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 3)]));
    assert_eq!(both, right.and(&left));
}

/// Every small world: three people, of whom any approved, any wrote it and any approved another stage, under all rules.
#[test]
fn every_small_world_is_judged_as_it_is_written() {
    let people = ["alice", "bob", "carol"].map(person);
    let of = |bits: u32| -> BTreeSet<usize> { (0..3).filter(|bit| bits & (1 << bit) != 0).collect() };
    let list = |set: &BTreeSet<usize>| set.iter().map(|index| people[*index].clone()).collect::<Vec<_>>();
    let (group, owners) = (BTreeSet::from([1, 2]), BTreeSet::from([0, 2]));
    let entry = |index: &usize| Owner::Person(people[*index].clone());
    let entries = vec![OwningEntry { entry: "`*`".into(), wanted: 1, owners: owners.iter().map(entry).collect() }];
    let mut worlds = 0_u32;
    for (minimum, of_group) in (0..4).flat_map(|minimum| (0..3).map(move |of_group| (minimum, of_group))) {
        for flags in 0..16_u32 {
            let (code_owners, author) = (flags & 1 != 0, flags & 2 != 0);
            let (separate, one_way) = (flags & 4 != 0, flags & 8 != 0);
            let groups = [("group".to_owned(), of_group)].into();
            let rules = ApprovalRules { minimum, groups, code_owners, author, separate, check_list: Vec::new() };
            let mut scene = Scene { rules, owners: entries.clone(), one_way, ..Scene::default() }
                .groups(&[("group", &["bob", "carol"])]);
            for sets in 0..(8 * 8 * 8) {
                let (gave, wrote, earlier) = (of(sets & 7), of((sets >> 3) & 7), of(sets >> 6));
                scene.given = list(&gave).into_iter().map(|who| GivenApproval { who, ..given("nobody") }).collect();
                scene.authors = list(&wrote);
                scene.earlier = list(&earlier);
                let counted: BTreeSet<usize> =
                    gave.iter().copied().filter(|who| author || !wrote.contains(who)).collect();
                let met = counted.len() >= minimum.max(1) as usize
                    && counted.intersection(&group).count() >= of_group as usize
                    && (!code_owners || counted.intersection(&owners).count() > 0)
                    && (!(separate && one_way) || counted.difference(&earlier).count() > 0);
                let verdict = scene.judge();
                assert_eq!(verdict.lines().is_empty(), met, "{gave:?} {wrote:?} {earlier:?} {:?}", scene.rules);
                match verdict {
                    Verdict::Met(approvals) => assert_eq!(approvals.len(), counted.len()),
                    Verdict::Unmet { missing, discounted } => {
                        assert!(!missing.is_empty());
                        assert_eq!(discounted.len(), gave.len() - counted.len());
                    }
                }
                worlds += 1;
            }
        }
    }
    assert_eq!(worlds, 4 * 3 * 16 * 512);
}

/// What was said of people before and is said now: a word counts where both agree, and an author is one where either says so.
#[test]
fn a_word_counts_for_a_person_where_both_rosters_agree() {
    let roster = |groups: &[(&str, &[&str])], people: &[&[&str]]| {
        let list = |names: &&[&str]| names.iter().map(|name| person(name)).collect::<Vec<_>>();
        Roster {
            groups: groups.iter().map(|(name, names)| ((*name).to_owned(), list(names))).collect(),
            people: people.iter().map(list).collect(),
            before: Vec::new(),
        }
    };
    let both = |now: Roster, before: Roster| Roster { before: vec![before], ..now };
    let platform: &[(&str, &[&str])] = &[("platform", &["alice@x.org"])];
    let rules = ApprovalRules { groups: [("platform".to_owned(), 1)].into(), author: true, ..ApprovalRules::default() };
    // Mallory's address becomes one of Alice's, by the push that is judged.
    let taken = roster(platform, &[&["alice@x.org", "mallory@x.org"]]);
    let mut scene = Scene { rules, roster: taken.clone(), ..Scene::default() }.given(&["mallory@x.org"]);
    assert_eq!(scene.lines(), [""; 0], "it counts by that roster alone");
    scene.roster = both(taken.clone(), roster(platform, &[]));
    assert_eq!(scene.lines(), ["group platform missing"]);
    scene.roster = both(roster(platform, &[]), taken);
    assert_eq!(scene.lines(), ["group platform missing"]);
    // Who joins, and who leaves.
    for (now, before) in
        [(&["alice@x.org", "mallory@x.org"][..], &["alice@x.org"][..]), (&["alice@x.org"], &["mallory@x.org"])]
    {
        scene.roster = both(roster(&[("platform", now)], &[]), roster(&[("platform", before)], &[]));
        assert_eq!(scene.lines(), ["group platform missing"], "{now:?} {before:?}");
    }
    // A group that is new, or gone, is what the one roster says that has it.
    for (now, before) in [(platform, &[][..]), (&[][..], platform)] {
        scene = Scene { roster: both(roster(now, &[]), roster(before, &[])), ..scene };
        assert_eq!(scene.lines(), ["group platform missing"]);
        scene = scene.given(&["alice@x.org"]);
        assert_eq!(scene.lines(), [""; 0]);
        scene = scene.given(&["mallory@x.org"]);
    }
    // Of an author two names are one person's as soon as either says so, and of two approvals as well.
    let known = roster(&[], &[&["mal", "mallory@x.org"]]);
    let other = roster(&[], &[&["mal", "other@x.org"]]);
    let rules = ApprovalRules { author: false, ..ApprovalRules::default() };
    scene = Scene { rules, authors: vec![person("mallory@x.org")], ..Scene::default() }.given(&["mal"]);
    for (now, before, counts) in [
        (&other, &other, true),
        (&other, &known, false),
        (&known, &other, false),
        // Who nobody knew before may be the author still.
        (&other, &Roster::default(), false),
    ] {
        scene.roster = both(now.clone(), before.clone());
        assert_eq!(scene.lines().is_empty(), counts, "{now:?} {before:?}");
    }
    scene = Scene { rules: ApprovalRules { minimum: 2, ..ApprovalRules::default() }, ..Scene::default() }
        .given(&["a@x.org", "b@x.org"]);
    let one = roster(&[], &[&["a@x.org", "b@x.org"]]);
    for (now, before, enough) in [
        (Roster::default(), Roster::default(), true),
        (one.clone(), Roster::default(), false),
        (Roster::default(), one, false),
    ] {
        scene.roster = both(now, before);
        assert_eq!(scene.lines().is_empty(), enough);
    }
    // An owner is one by both.
    let entry = OwningEntry { entry: "`*`".into(), wanted: 1, owners: vec![Owner::Team("@org/platform".into())] };
    let rules = ApprovalRules { code_owners: true, ..ApprovalRules::default() };
    scene = Scene { rules, owners: vec![entry], ..Scene::default() }.given(&["mallory@x.org"]);
    scene.roster = both(roster(&[("platform", &["mallory@x.org"])], &[]), Roster::default());
    assert!(scene.lines()[0].contains("who is in @org/platform is not known"), "{:?}", scene.lines());
    scene.roster = both(roster(&[("platform", &["mallory@x.org"])], &[]), roster(platform, &[]));
    assert_eq!(scene.lines(), ["owner of `*` (line 1) missing: @org/platform".replace(" (line 1)", "")]);
}
