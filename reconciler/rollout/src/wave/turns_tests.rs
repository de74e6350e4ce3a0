//! A wave that is kept up to date against one that is made anew.

use jiff::{SignedDuration, Timestamp};
use policy::{First, Lease, Share, Skip, Wave, WaveOrder};

use super::{Standing, Turn, WaveConsent, WaveMember, WaveTurns};
use crate::verdict::Reason;

fn time(minute: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(i64::try_from(minute).unwrap())
}

fn standing(random: &mut fastrand::Rng) -> Standing {
    let some_time = |random: &mut fastrand::Rng| random.bool().then(|| time(random.u64(..20)));
    match random.u8(..8) {
        0 => Standing::Ahead(Turn::Unknown),
        1 | 2 => Standing::Ahead(Turn::Ready),
        3 => Standing::Ahead(Turn::NotReady),
        4 => Standing::UnderWay { started: time(random.u64(..20)), is_known: random.u8(..4) > 0 },
        5 => Standing::Failed { started: some_time(random), why: "held at capi".to_owned() },
        _ => Standing::Done { started: some_time(random), since: some_time(random) },
    }
}

fn wave(random: &mut fastrand::Rng) -> Wave {
    let mut wave = Wave::named("prod");
    wave.concurrency = Share::Count(random.u32(1..4));
    wave.max_failures = Share::Count(random.u32(..3));
    wave.order = *random.choice(&[WaveOrder::Name, WaveOrder::Listed, WaveOrder::Smallest]).unwrap();
    wave.clusters = vec!["c3".to_owned(), "c*".to_owned()];
    wave.soak = std::time::Duration::from_secs(60 * random.u64(..8));
    wave.deadline = random.bool().then(|| std::time::Duration::from_secs(60 * random.u64(..30)));
    wave.first = match random.u8(..3) {
        0 => First::Count(random.u32(..3)),
        1 => First::Named(vec!["c2".to_owned(), "c4".to_owned()]),
        _ => First::Named(vec!["c9".to_owned()]),
    };
    if random.bool() {
        let lease = Lease { reason: "it moves".to_owned(), until: time(random.u64(..20)), by: "team".to_owned() };
        wave.skip.push(Skip { cluster: "c2".to_owned(), lease });
    }
    wave
}

#[test]
fn a_wave_that_is_kept_up_to_date_says_what_a_new_one_says() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..2_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let wave = wave(&mut random);
        let now = time(random.u64(..20));
        let consent = WaveConsent {
            before: (random.u8(..4) == 0).then(|| Reason::new("somebody has to approve it")),
            after: (random.u8(..4) == 0).then(|| Reason::new("somebody has to approve the next")),
        };
        let member = |number: usize, random: &mut fastrand::Rng| WaveMember {
            cluster: format!("c{number}").parse().unwrap(),
            machines: Some(u32::try_from(7 - number).unwrap()),
            standing: standing(random),
            plan: None,
            is_replanned: random.u8(..5) == 0,
        };
        let mut members: Vec<WaveMember> = (0..random.usize(1..7)).map(|number| member(number, &mut random)).collect();
        let mut kept = WaveTurns::new(wave.clone(), members.clone(), consent.clone(), now);
        for _ in 0..10 {
            let number = random.usize(..members.len());
            members[number] = member(number, &mut random);
            kept.update(members[number].clone());
            let new = WaveTurns::new(wave.clone(), members.clone(), consent.clone(), now);
            assert_eq!(kept.state(now), new.state(now), "seed {seed}: {members:?}");
            seen.insert(new.state(now).word());
            for member in &members {
                let hold = new.hold(&member.cluster, now);
                assert_eq!(kept.hold(&member.cluster, now), hold, "seed {seed}: {}", member.cluster);
            }
            let left: Vec<&WaveMember> = new.left().collect();
            assert_eq!(kept.left().collect::<Vec<_>>(), left, "seed {seed}");
        }
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
}
