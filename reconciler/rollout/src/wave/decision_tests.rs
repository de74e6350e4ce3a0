//! Waves by where their clusters stand.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use policy::{First, Lease, Share, Skip, Wave, WaveOrder};

use super::{Binds, Standing, Turn, WaveConsent, WaveHold, WaveMember, WaveState, ranked, wave_turn};

/// Where a wave of which nobody is asked stands.
fn wave_state(wave: &Wave, members: &[WaveMember], now: Timestamp) -> WaveState {
    super::wave_state(wave, members, &WaveConsent::default(), now)
}

const READY: Standing = Standing::Ahead(Turn::Ready);

fn time(minute: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
}

fn wave(change: impl FnOnce(&mut Wave)) -> Wave {
    let mut wave = Wave::named("prod");
    change(&mut wave);
    wave
}

fn under_way(minute: i64) -> Standing {
    Standing::UnderWay { started: time(minute), is_known: true }
}

fn failed(why: &str) -> Standing {
    Standing::Failed { started: Some(time(0)), why: why.to_owned() }
}

fn done(minute: i64) -> Standing {
    Standing::Done { started: Some(time(0)), since: Some(time(minute)) }
}

fn members(standings: &[(&str, Standing)]) -> Vec<WaveMember> {
    let member = |(name, standing): &(&str, Standing)| WaveMember {
        cluster: name.parse().unwrap(),
        machines: None,
        standing: standing.clone(),
        plan: None,
        is_replanned: false,
    };
    standings.iter().map(member).collect()
}

fn turn(wave: &Wave, standings: &[(&str, Standing)], own: &str, minute: i64) -> Option<WaveHold> {
    wave_turn(wave, &members(standings), &WaveConsent::default(), &own.parse().unwrap(), time(minute))
}

/// The clusters of which nothing is in the way at that minute.
fn may_go(wave: &Wave, standings: &[(&str, Standing)], minute: i64) -> Vec<String> {
    let free = standings.iter().filter(|(name, _)| turn(wave, standings, name, minute).is_none());
    free.map(|(name, _)| (*name).to_owned()).collect()
}

fn skip(cluster: &str, minute: i64) -> Skip {
    let lease = Lease { reason: "racks move".to_owned(), until: time(minute), by: "storage".to_owned() };
    Skip { cluster: cluster.to_owned(), lease }
}

#[test]
fn as_many_begin_as_there_are_places_and_by_name() {
    let all = [("c", READY), ("a", READY), ("d", READY), ("b", READY)];
    for (concurrency, free) in [
        (Share::Count(1), &["a"][..]),
        (Share::Percent(25), &["a"][..]),
        (Share::Percent(50), &["a", "b"][..]),
        (Share::Count(9), &["c", "a", "d", "b"][..]),
    ] {
        assert_eq!(may_go(&wave(|wave| wave.concurrency = concurrency), &all, 0), free, "{concurrency}");
    }
    // One that is under way takes a place; one that something else keeps takes none and keeps nobody waiting.
    let two = wave(|wave| wave.concurrency = Share::Count(2));
    let some = [("a", under_way(1)), ("b", Standing::Ahead(Turn::NotReady)), ("c", READY), ("d", READY)];
    assert_eq!(may_go(&two, &some, 5), ["a", "b", "c"]);
    let hold = turn(&two, &some, "d", 5).unwrap();
    assert_eq!((hold.reason.message.as_str(), hold.binds), ("cluster c goes before it in wave prod", Binds::Start));
    let full = [("a", under_way(1)), ("b", under_way(2)), ("c", READY)];
    let hold = turn(&two, &full, "c", 5).unwrap();
    assert_eq!(hold.reason.message, "cluster a comes first: 2 go at once in wave prod, now a, b");
    // Nobody goes ahead of one that has not been looked at.
    let unknown = [("a", Standing::Ahead(Turn::Unknown)), ("b", READY)];
    assert!(turn(&wave(|_| {}), &unknown, "b", 0).is_some());
}

#[test]
fn the_order_is_by_name_as_listed_or_by_size() {
    let mut of = members(&[("c", READY), ("a", READY), ("b", READY), ("x", READY)]);
    for (member, machines) in of.iter_mut().zip([Some(3), None, Some(9), Some(3)]) {
        member.machines = machines;
    }
    for (order, wanted) in [
        (WaveOrder::Name, ["a", "b", "c", "x"]),
        (WaveOrder::Listed, ["b", "c", "a", "x"]),
        (WaveOrder::Smallest, ["c", "x", "b", "a"]),
    ] {
        let wave = wave(|wave| (wave.order, wave.clusters) = (order, vec!["b".into(), "c".into(), "a".into()]));
        let found: Vec<&str> = ranked(&wave, &of).iter().map(|member| member.cluster.as_str()).collect();
        assert_eq!(found, wanted, "{order:?}");
    }
}

#[test]
fn canaries_go_alone_and_the_rest_waits_until_they_have_soaked() {
    let named = wave(|wave| {
        wave.first = First::Named(vec!["c".to_owned()]);
        (wave.concurrency, wave.soak) = (Share::Count(3), Duration::from_secs(600));
    });
    let at = |standing: Standing| [("a", READY), ("b", READY), ("c", standing)];
    assert_eq!(may_go(&named, &at(READY), 0), ["c"]);
    assert_eq!(may_go(&named, &at(under_way(0)), 5), ["c"]);
    let hold = turn(&named, &at(failed("held at capi")), "a", 5).unwrap();
    assert!(hold.reason.message.contains("wave prod is stopped: c (held at capi)"), "{hold:?}");
    let tolerant = Wave { max_failures: Share::Count(1), ..named.clone() };
    let hold = turn(&tolerant, &at(failed("held at capi")), "a", 5).unwrap();
    assert_eq!(hold.reason.message, "cluster c goes first in wave prod: held at capi", "whatever may fail");
    let hold = turn(&named, &at(done(5)), "a", 14).unwrap();
    assert_eq!((hold.until, hold.binds), (Some(time(15)), Binds::Start));
    assert_eq!(may_go(&named, &at(done(5)), 15), ["a", "b", "c"]);
    // The first ones by order, at once only as many as there are places.
    let two = wave(|wave| (wave.first, wave.concurrency) = (First::Count(2), Share::Count(1)));
    assert_eq!(may_go(&two, &at(READY), 0), ["a"]);
    assert_eq!(may_go(&two, &[("a", done(1)), ("b", READY), ("c", READY)], 2), ["a", "b"]);
    assert_eq!(may_go(&two, &[("a", done(1)), ("b", done(2)), ("c", READY)], 2), ["a", "b", "c"]);
    // A canary that its wave goes without is waited for by nobody.
    let without = Wave { skip: vec![skip("c", 30)], ..named };
    assert_eq!(may_go(&without, &at(READY), 0), ["a", "b"]);
    // One that is not there would never be done.
    let missing = wave(|wave| wave.first = First::Named(vec!["z".to_owned()]));
    let hold = turn(&missing, &at(READY), "a", 0).unwrap();
    assert!(hold.reason.message.contains("names cluster z, which the fleet does not have"), "{hold:?}");
}

#[test]
fn nobody_begins_or_goes_on_once_more_have_failed_than_may() {
    let of = |wave: &Wave, own: &str| {
        let all = [("a", failed("held at capi")), ("b", under_way(1)), ("c", READY), ("d", done(1))];
        turn(wave, &all, own, 5)
    };
    let none = wave(|wave| wave.concurrency = Share::Count(4));
    for own in ["b", "c"] {
        let hold = of(&none, own).unwrap();
        assert_eq!(hold.binds, Binds::EveryStage, "{own}");
        assert_eq!(hold.reason.message, "wave prod is stopped: a (held at capi); 0 of its 4 clusters may fail");
        assert!(hold.reason.help.unwrap().contains("`skip` of the wave"));
    }
    // Its own failure is decided about now: what has failed is not kept from being mended.
    assert_eq!(of(&none, "a"), None);
    for (max_failures, is_stopped) in [
        (Share::Count(1), false),
        (Share::Percent(24), true),
        (Share::Percent(25), false),
        (Share::Percent(100), false),
    ] {
        let tolerant = Wave { max_failures, ..none.clone() };
        assert_eq!(of(&tolerant, "c").is_some(), is_stopped, "{max_failures}");
    }
    // What has failed gives its place back as long as it may fail.
    let one = Wave { max_failures: Share::Count(1), ..wave(|_| {}) };
    assert_eq!(may_go(&one, &[("a", failed("held at capi")), ("b", READY)], 5), ["a", "b"]);
    // A skip takes it out of the count, until it ends.
    let skipping = Wave { skip: vec![skip("a", 30)], ..none };
    let all = [("a", failed("held at capi")), ("b", READY)];
    assert_eq!(turn(&skipping, &all, "b", 29), None);
    assert!(turn(&skipping, &all, "b", 30).is_some());
}

#[test]
fn nobody_begins_while_it_is_not_known_whether_another_has_failed() {
    let unknown = Standing::UnderWay { started: time(0), is_known: false };
    let wave = wave(|wave| wave.concurrency = Share::Count(5));
    let all = [("a", unknown), ("b", under_way(1)), ("c", READY)];
    for own in ["b", "c"] {
        let hold = turn(&wave, &all, own, 5).unwrap();
        assert!(
            hold.reason.message.contains("cluster a of wave prod is under way, and has not been looked at"),
            "{hold:?}"
        );
    }
    assert_eq!(turn(&wave, &all, "a", 5), None, "it is being looked at now");
}

#[test]
fn the_last_to_begin_wait_where_a_wave_has_fewer_places_than_clusters_under_way() {
    let two = wave(|wave| wave.concurrency = Share::Count(2));
    let all = [("a", under_way(3)), ("b", under_way(1)), ("c", under_way(2)), ("d", READY)];
    assert_eq!(may_go(&two, &all, 5), ["b", "c"]);
    assert_eq!(turn(&two, &all, "a", 5).unwrap().binds, Binds::EveryStage);
    // One that comes back to life is where it was.
    let back = [("a", failed("held at capi")), ("b", under_way(1)), ("c", under_way(2))];
    let tolerant = Wave { max_failures: Share::Count(1), ..two };
    assert_eq!(may_go(&tolerant, &back, 5), ["a", "b", "c"], "it began before both");
    assert_eq!(may_go(&tolerant, &[("a", under_way(0)), ("b", under_way(1)), ("c", under_way(2))], 5), ["a", "b"]);
}

#[test]
fn a_skip_leaves_one_out_until_it_ends_and_brings_what_has_begun_to_its_end() {
    let wave = wave(|wave| wave.skip = vec![skip("a", 30), skip("b", 30)]);
    let all = [("a", READY), ("b", under_way(1)), ("c", READY)];
    let hold = turn(&wave, &all, "a", 29).unwrap();
    assert_eq!((hold.until, hold.binds), (Some(time(30)), Binds::Start));
    assert!(hold.reason.message.ends_with("by storage: racks move"), "{hold:?}");
    assert_eq!(may_go(&wave, &all, 29), ["b", "c"], "it takes no place");
    assert_eq!(may_go(&wave, &all, 30), ["b"]);
    assert_eq!(turn(&wave, &[("a", READY), ("b", done(1)), ("c", done(2))], "a", 30), None);
}

#[test]
fn a_deadline_stops_what_has_not_begun_and_what_is_under_way() {
    let wave = wave(|wave| (wave.deadline, wave.concurrency) = (Some(Duration::from_secs(600)), Share::Count(3)));
    let all = [("a", done(1)), ("b", under_way(4)), ("c", READY)];
    assert_eq!(may_go(&wave, &all, 9), ["a", "b", "c"], "the first one began at 0");
    for own in ["b", "c"] {
        let hold = turn(&wave, &all, own, 10).unwrap();
        assert_eq!((hold.binds, hold.until), (Binds::EveryStage, None));
        assert!(hold.reason.message.contains("its deadline was 1970-01-01T00:10:00Z"), "{hold:?}");
    }
    assert!(matches!(wave_state(&wave, &members(&all), time(10)), WaveState::Stopped(_)));
    assert_eq!(wave_state(&wave, &members(&[("a", done(1)), ("b", done(9))]), time(99)), WaveState::Done);
    // A rollout of another time says nothing.
    let before = [("a", Standing::Done { started: None, since: Some(time(0)) }), ("b", READY)];
    assert_eq!(wave_state(&wave, &members(&before), time(99)), WaveState::UnderWay);
}

#[test]
fn a_wave_is_never_done_with_failures_in_it() {
    let word = |wave: &Wave, standings: &[(&str, Standing)], minute: i64| {
        wave_state(wave, &members(standings), time(minute)).word()
    };
    let tolerant = wave(|wave| (wave.max_failures, wave.soak) = (Share::Count(1), Duration::from_secs(600)));
    for (all, minute, wanted) in [
        (vec![], 0, "done"),
        (vec![("a", READY), ("b", READY)], 0, "ahead"),
        (vec![("a", done(1)), ("b", READY)], 1, "under way"),
        (vec![("a", under_way(1)), ("b", failed("held at capi"))], 1, "under way"),
        (vec![("a", failed("x")), ("b", failed("held at capi"))], 1, "stopped"),
        (vec![("a", done(1)), ("b", failed("held at capi"))], 99, "done with exceptions"),
        (vec![("a", done(1)), ("b", done(5))], 14, "soaking"),
        (vec![("a", done(1)), ("b", done(5))], 15, "done"),
    ] {
        assert_eq!(word(&tolerant, &all, minute), wanted, "{all:?} at {minute}");
    }
    let state = wave_state(&tolerant, &members(&[("a", done(1)), ("b", failed("held at capi"))]), time(99));
    let WaveState::DoneWithExceptions(reason) = state else { panic!("{state:?}") };
    assert_eq!(reason.message, "wave prod is done with exceptions: b (held at capi)");
    let without = Wave { skip: vec![skip("b", 60)], ..tolerant };
    assert_eq!(word(&without, &[("a", done(1)), ("b", failed("held at capi"))], 59), "done", "somebody lives with it");
    assert_eq!(word(&without, &[("a", done(1)), ("b", failed("held at capi"))], 60), "done with exceptions");
}

#[test]
fn every_fleet_of_four_keeps_its_budget_and_never_stands_still_for_nothing() {
    let standings = [
        READY,
        Standing::Ahead(Turn::NotReady),
        under_way(1),
        Standing::UnderWay { started: time(2), is_known: false },
        failed("held"),
        done(0),
    ];
    let names = ["a", "b", "c", "d"];
    for number in 0..standings.len().pow(4) {
        let pick = |place: u32| standings[number / standings.len().pow(place) % standings.len()].clone();
        let all: Vec<(&str, Standing)> = names.iter().zip(0..).map(|(name, place)| (*name, pick(place))).collect();
        for (concurrency, tolerated) in [(1, 0), (1, 1), (2, 0), (2, 2), (4, 1)] {
            let wave = wave(|wave| {
                (wave.concurrency, wave.max_failures) = (Share::Count(concurrency), Share::Count(tolerated));
            });
            let count = |is: &dyn Fn(&Standing) -> bool| all.iter().filter(|(_, standing)| is(standing)).count();
            let (places, tolerated) = (concurrency as usize, tolerated as usize);
            let failures = count(&|it| matches!(it, Standing::Failed { .. }));
            let busy = count(&|it| matches!(it, Standing::UnderWay { .. }));
            let unknown = count(&|it| matches!(it, Standing::UnderWay { is_known: false, .. }));
            let ready = count(&|it| *it == READY);
            let free = may_go(&wave, &all, 5);
            let starting = all.iter().filter(|(name, it)| *it == READY && free.iter().any(|free| free == name)).count();
            if failures > tolerated || unknown > 0 {
                assert_eq!(starting, 0, "{all:?} {concurrency} {tolerated}");
            } else {
                assert_eq!(starting, ready.min(places.saturating_sub(busy)), "{all:?} {concurrency} {tolerated}");
            }
            let state = wave_state(&wave, &members(&all), time(5));
            assert_eq!(state == WaveState::Done, count(&|it| matches!(it, Standing::Done { .. })) == 4, "{all:?}");
        }
    }
}
