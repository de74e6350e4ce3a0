//! Bugs that are planted: each has to be found by the invariant that it breaks. A harness that finds nothing wrong with a wrong
//! controller would prove nothing. Those of upgrades in place are in `in_place.rs`.

#[cfg(test)]
mod planted {
    use simulator::model::{
        Controller, Defect, Played, Scenario, Story, play, scenario, tanzu_scenario, wave_scenario,
    };

    /// In which scenarios a defect shows soonest.
    #[derive(Debug, Clone, Copy)]
    enum Where {
        /// Everything goes well.
        Calm,
        /// Faults, and people who change their minds.
        Trouble,
        /// Many clusters in waves.
        Waves,
        /// A rendered cluster of Tanzu, with faults.
        Tanzu,
    }

    /// Where the defect shows, and by which invariants.
    fn expected(defect: Defect) -> (Where, &'static [&'static str]) {
        use Where::{Calm, Trouble, Waves};
        match defect {
            Defect::IgnoresPause => (Trouble, &["I7"]),
            Defect::IgnoresPrerequisites => (Calm, &["I13"]),
            Defect::RebasesItsCommits => (Calm, &["I1", "I2", "I3", "I6"]),
            Defect::TrustsItsMemory | Defect::NeverLooks | Defect::DropsItsCommits | Defect::NeverCloses => {
                (Calm, &["end"])
            }
            Defect::NeverAsks | Defect::LeavesOutTheLastStage => (Calm, &["end"]),
            Defect::IgnoresApprovals | Defect::TakesAskedForApproved | Defect::TakesApprovalsOfOtherStages => {
                (Calm, &["I5"])
            }
            Defect::TakesApprovalsOfOtherPlans => (Trouble, &["I5"]),
            Defect::OrdersStagesBackwards => (Calm, &["I1"]),
            Defect::NeedsNoSoak => (Calm, &["I3"]),
            Defect::ForgetsItsLedger => (Calm, &["I3"]),
            Defect::RecordsNoStage | Defect::RecordsAnotherStage | Defect::RecordsNoEvidence => (Calm, &["I2"]),
            Defect::RecordsEvidenceOfNoCommit | Defect::RecordsEvidenceOfTheFuture => (Calm, &["I3"]),
            Defect::RendersFromAnotherSource => (Calm, &["I6"]),
            Defect::CommitsTwiceInATurn | Defect::WaitsInSilence | Defect::SaysNothing => (Calm, &["I9"]),
            Defect::RevertsWithoutReasons | Defect::HoldsWithoutHelp => (Trouble, &["I9"]),
            Defect::JudgesByCounts
            | Defect::TakesAnyRevision
            | Defect::TrustsMachineObjects
            | Defect::TrustsDeployments
            | Defect::TrustsDaemonSets
            | Defect::TrustsControlPlanes
            | Defect::TrustsWorkers
            | Defect::TrustsEtcd => (Calm, &["gate"]),
            Defect::IgnoresWaves
            | Defect::IgnoresEarlierWaves
            | Defect::TakesOnePlaceMore
            | Defect::ToleratesOneFailureMore => (Waves, &["I12"]),
        }
    }

    /// What the violation has to name besides, where others of its kind could be found by chance.
    fn named(defect: Defect) -> &'static str {
        match defect {
            Defect::TrustsDeployments => " Deployment ",
            Defect::TrustsDaemonSets => "DaemonSet ",
            Defect::TrustsControlPlanes => "KubeadmControlPlane ",
            Defect::TrustsWorkers => "MachineDeployment ",
            Defect::TrustsEtcd => "EtcdadmCluster ",
            _ => "",
        }
    }

    fn played(place: Where, seed: u64, defect: Defect) -> Played {
        let start = |scenario: Scenario| play(&scenario, seed, |simulation| Controller::start_with(simulation, defect));
        match place {
            Where::Calm => start(scenario(seed, true)),
            Where::Trouble => start(scenario(seed, false)),
            Where::Tanzu => start(tanzu_scenario(seed, false)),
            Where::Waves => {
                // One process alone: two that both lead are kept apart by their lease.
                let Scenario { mut simulation, deadline, .. } = wave_scenario(25);
                let mut controller = Controller::start_with(&simulation, defect);
                let last = controller.run(&mut simulation, deadline);
                simulation.check_end();
                Played { simulation, controller, last }
            }
        }
    }

    /// Defects to look for: one alone where `STEPGATE_DEFECT` names it.
    #[expect(clippy::disallowed_methods, reason = "which defect to look for is the caller's choice")]
    fn defects() -> Vec<Defect> {
        let named = std::env::var("STEPGATE_DEFECT").ok();
        let wanted = |defect: &Defect| named.as_ref().is_none_or(|named| *named == format!("{defect:?}"));
        Defect::ALL.into_iter().filter(wanted).collect()
    }

    /// How many seeds are tried for each.
    #[expect(clippy::disallowed_methods, reason = "how many seeds to try is the caller's choice")]
    fn limit() -> u64 {
        std::env::var("STEPGATE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
    }

    /// The smallest scenario in which the bug shows, for a person who reads of it.
    fn story(defect: Defect, seed: u64, expected: &[&str]) -> Story {
        Story::of_seed(seed).shrink(|scenario| {
            let played = play(scenario, seed, |simulation| Controller::start_with(simulation, defect));
            played.simulation.violations().iter().any(|known| expected.contains(&known.invariant))
        })
    }

    /// The first violation by which a defect is found, told with its seed.
    fn found(defect: Defect, place: Where, expected: &[&str]) -> Option<String> {
        let seeds = if matches!(place, Where::Waves) { 1 } else { limit() };
        (0..seeds).find_map(|seed| {
            let played = played(place, seed, defect);
            let mut violations = played.simulation.violations().iter();
            let violation =
                violations.find(|known| expected.contains(&known.invariant) && known.message.contains(named(defect)));
            let told = violation.map(|violation| format!("seed {seed}: {violation}"));
            let in_trouble = told.is_some() && matches!(place, Where::Trouble);
            in_trouble.then(|| println!("{defect:?}:\n{}", story(defect, seed, expected)));
            told
        })
    }

    #[test]
    fn every_planted_bug_is_found_by_the_invariant_it_breaks() {
        let mut missed = Vec::new();
        for defect in defects() {
            let (place, expected) = expected(defect);
            let found = found(defect, place, expected);
            println!("{defect:?}: {found:?}");
            missed.extend(found.is_none().then_some(defect));
        }
        assert!(missed.is_empty(), "not found: {missed:?}");
    }

    #[test]
    fn planted_bugs_are_found_in_rendered_clusters_of_tanzu_too() {
        let planted = [
            (Defect::OrdersStagesBackwards, "I1"),
            (Defect::NeedsNoSoak, "I3"),
            (Defect::ForgetsItsLedger, "I3"),
            (Defect::TrustsControlPlanes, "gate"),
            (Defect::TrustsWorkers, "gate"),
            (Defect::NeverCloses, "end"),
        ];
        for (defect, expected) in planted {
            let found = found(defect, Where::Tanzu, &[expected]);
            println!("{defect:?}: {found:?}");
            assert!(found.is_some(), "{defect:?} was not found");
        }
    }
}
