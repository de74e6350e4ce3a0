//! Machines that stay, whatever happens to them: no node upgraded twice, none left cordoned without a reason, no machine
//! replaced, no gate open early.
//!
//! `STEPGATE_SEEDS` says how many seeds are tried (500 by default), `STEPGATE_SEED` tries one seed alone.

#[cfg(test)]
#[path = "in_place/course.rs"]
mod course;

#[cfg(test)]
mod harness {
    use std::time::Instant;

    use simulator::UpgradeDefect;

    use super::course::{Course, Setting};

    #[expect(clippy::disallowed_methods, reason = "how many seeds to try is the caller's choice")]
    fn setting(name: &str) -> Option<u64> {
        std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")))
    }

    #[expect(clippy::disallowed_methods, reason = "figures are printed, nothing is decided by them")]
    fn clock() -> Instant {
        Instant::now()
    }

    fn seeds() -> Vec<u64> {
        let count = setting("STEPGATE_SEEDS").unwrap_or(500);
        setting("STEPGATE_SEED").map_or_else(|| (0..count).collect(), |seed| vec![seed])
    }

    #[test]
    fn machines_stay_whatever_happens_to_them() {
        let (started, seeds) = (clock(), seeds());
        for seed in &seeds {
            let course = Course::play(&Setting::of_seed(*seed), None, seeds.len() == 1);
            assert!(course.found.is_empty(), "STEPGATE_SEED={seed}: {:#?}\n{}", course.found, course.told.join("\n"));
        }
        let each = started.elapsed() / u32::try_from(seeds.len()).unwrap();
        println!("{} clusters in {:?}, {each:?} each", seeds.len(), started.elapsed());
    }

    /// A harness that finds nothing wrong with a wrong controller would prove nothing.
    #[test]
    fn wrong_upgrades_are_found() {
        for defect in UpgradeDefect::ALL {
            let expected = match defect {
                UpgradeDefect::SkipsSoak => "without a soak",
                UpgradeDefect::ForgetsUncordon => "nothing says why",
                UpgradeDefect::UpgradesTwoAtOnce => "two nodes at once",
                UpgradeDefect::ResumesEarly => "though machines stay",
                UpgradeDefect::KeepsLeader => "while it leads etcd",
                UpgradeDefect::LeavesHealthChecks => "would have it replaced",
            };
            let found = (0..200).find_map(|seed| {
                let course = Course::play(&Setting::calm(seed), Some(defect), false);
                let found = course.found.into_iter().find(|found| found.contains(expected));
                found.map(|found| format!("seed {seed}: {found}"))
            });
            println!("{defect:?}: {found:?}");
            assert!(found.is_some(), "{defect:?} was not found");
        }
    }
}
