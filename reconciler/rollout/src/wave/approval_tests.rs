//! What people say of waves counts for the plans that they looked at.

use std::collections::BTreeMap;

use domain::PlanDigest;
use jiff::{SignedDuration, Timestamp};
use policy::{ApprovalRules, Roster, Wave};

use super::{
    Binds, Standing, Turn, WaveAnswer, WaveAsks, WaveConsent, WaveMember, WaveQuestion, WaveState, WaveWord, WaveWords,
    wave_consent, wave_state, wave_turn,
};

const AHEAD: Standing = Standing::Ahead(Turn::Ready);

fn time(minute: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
}

fn plan(text: &str) -> PlanDigest {
    PlanDigest::of([text.as_bytes()])
}

fn member(name: &str, of: &str, standing: Standing) -> WaveMember {
    let cluster = name.parse().unwrap();
    WaveMember { cluster, machines: None, standing, plan: Some(plan(of)), is_replanned: false }
}

fn under_way() -> Standing {
    Standing::UnderWay { started: time(0), is_known: true }
}

fn done() -> Standing {
    Standing::Done { started: Some(time(0)), since: Some(time(1)) }
}

fn asking(question: WaveQuestion, rules: &ApprovalRules) -> WaveAsks {
    let mut asks = WaveAsks::default();
    asks.ask(question, rules);
    asks
}

fn word(by: &str, question: WaveQuestion, plans: &[(&str, &str)]) -> WaveWord {
    let plans = plans.iter().map(|(cluster, of)| (cluster.parse().unwrap(), plan(of))).collect::<BTreeMap<_, _>>();
    let (wave, answer, by) = ("w".to_owned(), WaveAnswer::Approve, by.parse().unwrap());
    WaveWord { wave, question, answer, by, at: time(0), plans, authors: vec!["author@x.org".parse().unwrap()] }
}

fn consent(asks: &WaveAsks, words: &[WaveWord], members: &[WaveMember]) -> WaveConsent {
    let words = WaveWords { words: words.to_vec(), problem: None };
    wave_consent(&Wave::named("w"), asks, &words, members, time(9))
}

/// What is missing before it begins; the empty text where nothing is.
fn missing(asks: &WaveAsks, words: &[WaveWord], members: &[WaveMember]) -> String {
    consent(asks, words, members).before.map(|reason| reason.message).unwrap_or_default()
}

const WAITS: &str = "wave w waits for approval before it begins: ";

#[test]
fn nobody_begins_before_the_plans_of_all_are_approved() {
    let asks = asking(WaveQuestion::Before, &ApprovalRules::default());
    let members = [member("a", "1", AHEAD), member("b", "1", AHEAD)];
    let both = word("ann@x.org", WaveQuestion::Before, &[("a", "1"), ("b", "1")]);
    assert_eq!(missing(&asks, &[], &members), format!("{WAITS}0 of 1 approval"));
    assert_eq!(missing(&asks, std::slice::from_ref(&both), &members), "");
    let before = consent(&asks, &[], &members);
    assert_eq!(before.before.as_ref().unwrap().help.as_deref(), Some("`stepgate approve --wave w --yes`"));
    let hold = wave_turn(&Wave::named("w"), &members, &before, &"a".parse().unwrap(), time(9)).unwrap();
    assert_eq!(hold.binds, Binds::Start);
    assert_eq!(wave_state(&Wave::named("w"), &members, &before, time(9)).word(), "waits for approval");
    // Of some of them, of another question, or of another wave it says nothing.
    let of_one = word("ann@x.org", WaveQuestion::Before, &[("a", "1")]);
    let after = WaveWord { question: WaveQuestion::After, ..both.clone() };
    let other = WaveWord { wave: "v".to_owned(), ..both };
    for word in [of_one, after, other] {
        assert!(missing(&asks, std::slice::from_ref(&word), &members).starts_with(WAITS), "{word:?}");
    }
}

#[test]
fn another_plan_of_any_cluster_makes_an_approval_void_and_that_is_told() {
    let asks = asking(WaveQuestion::Before, &ApprovalRules::default());
    let both = [word("Ann <ann@x.org>", WaveQuestion::Before, &[("a", "1"), ("b", "1")])];
    let moved = [member("a", "1", AHEAD), member("b", "2", AHEAD)];
    let told = "0 of 1 approval; what Ann <ann@x.org> approved is void: cluster b has another plan since";
    assert_eq!(missing(&asks, &both, &moved), format!("{WAITS}{told}"));
    // What is done is not asked for any more, and who is under way goes on by its own plan.
    assert_eq!(missing(&asks, &both, &[member("a", "1", AHEAD), member("b", "2", done())]), "");
    let running = WaveMember { is_replanned: true, ..member("b", "2", under_way()) };
    let members = [member("a", "1", under_way()), running];
    let void = consent(&asks, &both, &members);
    let turn = |own: &str| {
        wave_turn(
            &Wave { concurrency: policy::Share::Count(2), ..Wave::named("w") },
            &members,
            &void,
            &own.parse().unwrap(),
            time(9),
        )
    };
    assert_eq!(turn("a"), None);
    assert_eq!(turn("b").unwrap().binds, Binds::BeforeMachines);
    let unknown = WaveMember { plan: None, ..member("b", "1", AHEAD) };
    let told = missing(&asks, &both, &[member("a", "1", AHEAD), unknown]);
    assert!(told.ends_with("; the plan of cluster b is not known yet"), "{told}");
    // One of which no plan can be made stops nobody else.
    let broken = WaveMember { plan: None, ..member("b", "1", Standing::Ahead(Turn::NotReady)) };
    assert_eq!(missing(&asks, &both, &[member("a", "1", AHEAD), broken]), "");
}

#[test]
fn a_rejection_counts_until_somebody_approves_after_it() {
    let asks = asking(WaveQuestion::Before, &ApprovalRules::default());
    let members = [member("a", "1", AHEAD)];
    let yes = word("ann@x.org", WaveQuestion::Before, &[("a", "1")]);
    let no = WaveWord { answer: WaveAnswer::Reject { reason: "not today".to_owned() }, ..yes.clone() };
    let told = missing(&asks, &[yes.clone(), no.clone()], &members);
    assert_eq!(told, format!("{WAITS}ann@x.org has rejected it: not today"));
    assert_eq!(missing(&asks, &[yes.clone(), no.clone(), yes.clone()], &members), "");
    let two = ApprovalRules { minimum: 2, ..ApprovalRules::default() };
    let two = asking(WaveQuestion::Before, &two);
    let bob = WaveWord { by: "bob@x.org".parse().unwrap(), ..yes.clone() };
    assert_eq!(
        missing(&two, &[bob, no, yes], &members),
        format!("{WAITS}1 of 2 approvals"),
        "what was said before it is gone"
    );
}

#[test]
fn only_those_count_whom_every_policy_lets_approve() {
    let rules =
        ApprovalRules { groups: [("platform".to_owned(), 1)].into(), author: false, ..ApprovalRules::default() };
    let mut asks = asking(WaveQuestion::Before, &rules);
    let roster = |names: &[&str]| Roster {
        groups: [("platform".to_owned(), names.iter().map(|name| name.parse().unwrap()).collect())].into(),
        ..Roster::default()
    };
    asks.know(&roster(&["ann@x.org", "bob@x.org", "author@x.org"]));
    let members = [member("a", "1", AHEAD)];
    let by = |who: &str| [word(who, WaveQuestion::Before, &[("a", "1")])];
    assert_eq!(missing(&asks, &by("bob@x.org"), &members), "");
    assert_eq!(missing(&asks, &by("eve@x.org"), &members), format!("{WAITS}group platform missing"));
    assert!(missing(&asks, &by("author@x.org"), &members).contains("author@x.org wrote what is rolled out"));
    // Who was not in the group before the push is in none.
    asks.know(&roster(&["ann@x.org"]));
    assert_eq!(missing(&asks, &by("bob@x.org"), &members), format!("{WAITS}group platform missing"));
    assert_eq!(missing(&asks, &by("ann@x.org"), &members), "");
}

#[test]
fn a_wave_that_is_done_waits_for_whoever_approves_its_result() {
    let asks = asking(WaveQuestion::After, &ApprovalRules::default());
    let state = |words: &[WaveWord], members: &[WaveMember]| {
        wave_state(&Wave::named("w"), members, &consent(&asks, words, members), time(9))
    };
    assert_eq!(state(&[], &[member("a", "1", under_way())]).word(), "under way");
    let members = [member("a", "1", done()), member("b", "2", done())];
    let WaveState::Unapproved(reason) = state(&[], &members) else { panic!("{:?}", state(&[], &members)) };
    assert_eq!(reason.message, "wave w is done and waits for approval before the next one begins: 0 of 1 approval");
    let both = [word("ann@x.org", WaveQuestion::After, &[("a", "1"), ("b", "2")])];
    assert_eq!(state(&both, &members), WaveState::Done);
    let again = [member("a", "1", done()), member("b", "3", done())];
    assert_eq!(state(&both, &again).word(), "waits for approval", "another rollout, another result");
    // What nothing was ever rolled out of has no result.
    let never = [WaveMember { plan: None, ..member("a", "1", done()) }];
    assert_eq!(state(&[], &never), WaveState::Done);
}
