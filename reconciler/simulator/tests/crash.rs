//! Crashes and faults: whatever happens, a rollout ends at the same tree, commits no stage twice or early, and never waits
//! without a reason.
//!
//! `STEPGATE_SEEDS` says how many plans are tried (10,000 with faults and people, 1,000 elsewhere), `STEPGATE_SEED` tries one
//! seed alone. A failing seed is printed as the smallest story that fails, and replays with `STEPGATE_SEED` or from
//! `fixtures/simulation`.

#[cfg(test)]
mod harness {
    use std::{
        collections::{BTreeMap, BTreeSet},
        time::Instant,
    };

    use domain::ClusterName;
    use jiff::SignedDuration;
    use policy::ControlPlaneGate;
    use rollout::{Effect, StageName};
    use simulator::model::{
        Controller, Crash, Scenario, Simulation, Story, Torn, in_place_scenario, play, scenario, tanzu_scenario,
    };

    #[expect(clippy::disallowed_methods, reason = "how many plans to try is the caller's choice")]
    fn setting(name: &str) -> Option<u64> {
        std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")))
    }

    const USUAL: u64 = 1_000;

    /// How many plans to try, where there are so many by default.
    fn plans(usual: u64) -> u64 {
        setting("STEPGATE_SEEDS").unwrap_or(usual)
    }

    /// The seeds to try: one, or as many as there are plans.
    fn seeds(usual: u64) -> Vec<u64> {
        setting("STEPGATE_SEED").map_or_else(|| (0..plans(usual)).collect(), |seed| vec![seed])
    }

    #[expect(clippy::disallowed_methods, reason = "figures are printed, nothing is decided by them")]
    fn clock() -> Instant {
        Instant::now()
    }

    /// Stops with everything there is to know when an invariant is broken.
    fn check(simulation: &Simulation, last: &BTreeMap<ClusterName, Vec<Effect>>, scenario: &Scenario, context: &str) {
        if !simulation.violations().is_empty() {
            let violations: Vec<String> = simulation.violations().iter().map(ToString::to_string).collect();
            panic!(
                "{context}\n{}\nhistory: {:#?}\nlast decided at {}: {last:#?}\nviolations: {violations:#?}",
                scenario.summary.join("\n"),
                simulation.history(),
                simulation.now()
            );
        }
    }

    /// Runs to the end.
    fn finish(simulation: &mut Simulation, controller: &mut Controller, scenario: &Scenario, context: &str) {
        let last = controller.run(simulation, scenario.deadline);
        simulation.check_end();
        check(simulation, &last, scenario, context);
    }

    /// Plays a story. One that ends badly is made as small as it can be, and told so that it can be kept in `fixtures/simulation`.
    fn tell(story: &Story) {
        let ends_badly =
            |scenario: &Scenario| !play(scenario, story.seed, Controller::start).simulation.violations().is_empty();
        let scenario = story.scenario();
        let mut played = play(&scenario, story.seed, Controller::start);
        let context = if played.simulation.violations().is_empty() {
            format!("STEPGATE_SEED={}", story.seed)
        } else {
            format!("STEPGATE_SEED={}, or as a story:\n{}", story.seed, story.clone().shrink(ends_badly))
        };
        check(&played.simulation, &played.last, &scenario, &context);
        stand_still(&mut played.simulation, &mut played.controller, &context);
    }

    /// What once ended badly, or shows by what a planted bug is found.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "stories are kept in files")]
    fn stories_that_are_kept_end_well() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/simulation");
        let mut told = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            tell(&text.parse().unwrap());
            told += 1;
        }
        assert!(told > 0, "{folder} is empty");
    }

    /// Half an hour more, in which nothing may be written.
    fn stand_still(simulation: &mut Simulation, controller: &mut Controller, context: &str) {
        let written = simulation.branch().commits().len();
        let end = simulation.now() + SignedDuration::from_mins(30);
        while controller.wakes_at().is_some_and(|at| at < end) {
            controller.turn(simulation);
        }
        assert_eq!(simulation.branch().commits().len(), written, "{context}: I8: written after the end");
    }

    /// What of an effect makes a crash at it a plan of its own: a wait is told apart from the one before by its reason.
    fn kind(effect: &Effect) -> String {
        match effect {
            Effect::Wait { stage, reason, .. } => format!("wait {stage:?} {} {:?}", reason.object, reason.field),
            Effect::Observe { .. } => "observe".to_owned(),
            Effect::Hold { stage, .. } => format!("hold {stage}"),
            Effect::Backup { .. }
            | Effect::Etcd(_)
            | Effect::Cluster(_)
            | Effect::OrderMachines { .. }
            | Effect::RequestApproval(_)
            | Effect::Commit(_)
            | Effect::Revert(_)
            | Effect::Close(_)
            | Effect::Blocked { .. }
            | Effect::Done => {
                format!("{effect:?}")
            }
        }
    }

    /// Every way in which a process can end or fail at an effect.
    fn crashes(effect: &Effect) -> Vec<Crash> {
        let whole = [Crash::Before, Crash::After, Crash::AnswerLost];
        let torn = Torn::ways(effect).into_iter().flat_map(|torn| [Crash::Within(torn), Crash::Failed(torn)]);
        whole.into_iter().chain(torn).collect()
    }

    /// Stops at every single effect of calm rollouts, and in the middle of it, in every way, and
    /// resumes with nothing but git and the cluster.
    #[test]
    fn a_crash_at_any_effect_changes_nothing() {
        let started = clock();
        let (mut tried, mut torn, mut scenarios) = (0, 0, 0);
        for seed in seeds(USUAL) {
            if tried >= plans(USUAL) {
                break;
            }
            scenarios += 1;
            let calm = scenario(seed, true);
            let mut simulation = calm.simulation.clone();
            let mut controller = Controller::start(&simulation);
            let mut branches: Vec<(Simulation, Controller, usize, String, Vec<Crash>)> = Vec::new();
            let mut before = String::new();
            // The undisturbed run, and where it could be disturbed.
            loop {
                let (simulation_before, controller_before) = (simulation.clone(), controller.clone());
                let Some(turn) = controller.turn(&mut simulation) else { break };
                for (index, effect) in turn.effects.iter().enumerate() {
                    let kind = kind(effect);
                    if kind != before {
                        let (simulation, controller) = (simulation_before.clone(), controller_before.clone());
                        branches.push((simulation, controller, index, kind.clone(), crashes(effect)));
                    }
                    before = kind;
                }
                let over = simulation.fleet().iter().all(|cluster| {
                    let wanted = simulation.source().and_then(|source| source.wanted.get(cluster.name()));
                    simulation.deployed(cluster.name()).is_some_and(|tree| Some(&tree.parts) == wanted)
                });
                if over && turn.effects == [Effect::Done] && !simulation.expects_more() {
                    break;
                }
            }
            let context = format!("STEPGATE_SEED={seed}");
            finish(&mut simulation, &mut controller, &calm, &context);
            stand_still(&mut simulation, &mut controller, &context);
            let (history, tree) = (simulation.history(), simulation.branch().head().unwrap().tree.clone());
            for (simulation, controller, index, kind, crashes) in branches {
                for crash in crashes {
                    let context = format!("STEPGATE_SEED={seed}, {crash:?} effect {kind} at {}", simulation.now());
                    let (mut simulation, mut controller) = (simulation.clone(), controller.clone());
                    let turn = controller.decide(&mut simulation).unwrap();
                    let mut effects = 0;
                    controller.perform(&mut simulation, &turn, |_| {
                        effects += 1;
                        (effects == index + 1).then_some(crash)
                    });
                    finish(&mut simulation, &mut controller, &calm, &context);
                    assert_eq!(simulation.history(), history, "{context}: other stages, or in another order");
                    let end = simulation.branch().head().unwrap();
                    for (name, cluster) in tree.iter() {
                        assert_eq!(end.tree[name].parts, cluster.parts, "{context}: another tree");
                    }
                    tried += 1;
                    torn += u32::from(matches!(crash, Crash::Within(_) | Crash::Failed(_)));
                }
            }
        }
        assert!(torn > 0 || tried < plans(USUAL), "no effect of several writes was torn");
        println!(
            "{tried} crashes, {torn} of them in the middle of an effect, in {scenarios} rollouts: {:?}, {:?} each",
            started.elapsed(),
            started.elapsed() / u32::try_from(tried).unwrap()
        );
    }

    /// Faults, changed minds, pauses, crashes and two controllers at once.
    #[test]
    fn rollouts_end_well_whatever_happens() {
        let started = clock();
        let seeds = seeds(10 * USUAL);
        for seed in &seeds {
            tell(&Story::of_seed(*seed));
        }
        let each = started.elapsed() / u32::try_from(seeds.len()).unwrap();
        println!("{} simulations in {:?}, {each:?} each", seeds.len(), started.elapsed());
    }

    /// Machines that stay, while nodes, the extension, Cluster API and Stepgate itself fail.
    #[test]
    fn machines_that_stay_end_upgraded_whatever_happens() {
        let started = clock();
        let seeds: Vec<u64> =
            seeds(USUAL).into_iter().filter(|seed| seed % 4 == 0 || setting("STEPGATE_SEED").is_some()).collect();
        for seed in &seeds {
            let scenario = in_place_scenario(*seed);
            let mut played = play(&scenario, *seed, Controller::start);
            let context = format!("STEPGATE_SEED={seed}");
            check(&played.simulation, &played.last, &scenario, &context);
            stand_still(&mut played.simulation, &mut played.controller, &context);
        }
        let each = started.elapsed() / u32::try_from(seeds.len()).unwrap();
        println!("{} simulations in {:?}, {each:?} each", seeds.len(), started.elapsed());
    }

    /// Rendered clusters of Tanzu: machines that never come up, certificates that go, and everything else that can go wrong.
    #[test]
    fn rendered_clusters_of_tanzu_end_well_whatever_happens() {
        let started = clock();
        let seeds = seeds(USUAL);
        let mut stages: BTreeSet<String> = BTreeSet::new();
        for seed in &seeds {
            let scenario = tanzu_scenario(*seed, false);
            let mut played = play(&scenario, *seed, Controller::start);
            let context = format!("STEPGATE_SEED={seed}");
            check(&played.simulation, &played.last, &scenario, &context);
            stand_still(&mut played.simulation, &mut played.controller, &context);
            let trailers = played.simulation.branch().commits().iter().filter_map(|commit| commit.trailer.as_ref());
            stages.extend(trailers.map(|trailer| trailer.stage.to_string()));
        }
        if seeds.len() > 20 {
            let expected = ["addons", "control-plane", "templates", "workers/batch", "workers/steady"];
            assert_eq!(stages.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        }
        let each = started.elapsed() / u32::try_from(seeds.len()).unwrap();
        println!("{} simulations in {:?}, {each:?} each", seeds.len(), started.elapsed());
    }

    /// Where the first node is enough, workers begin while the rest of the control plane rolls, and the end is whole.
    #[test]
    fn workers_begin_beside_the_rest_of_a_control_plane() {
        let begins_beside = |seed: &u64| {
            let calm = scenario(*seed, true);
            let mut simulation = calm.simulation.clone();
            let mut controller = Controller::start(&simulation);
            let mut beside = false;
            while let Some(turn) = controller.turn(&mut simulation).filter(|turn| turn.at < calm.deadline) {
                let begins = |effect: &Effect| matches!(effect, Effect::Commit(commit) if matches!(commit.stage.name, StageName::Workers(_)));
                let cluster = simulation.cluster(&turn.cluster).map(|cluster| cluster.policy.machines.gate);
                let rolls = simulation.simulated(&turn.cluster).map(|known| known.unfinished()).unwrap_or_default();
                let rolls = rolls.iter().any(|object| object.starts_with("KubeadmControlPlane"));
                if rolls && turn.effects.iter().any(begins) {
                    assert_eq!(cluster, Some(ControlPlaneGate::FirstNode), "STEPGATE_SEED={seed}");
                    beside = true;
                }
            }
            simulation.check_end();
            assert!(simulation.violations().is_empty(), "STEPGATE_SEED={seed}: {:?}", simulation.violations());
            beside
        };
        assert!((0..400).any(|seed| begins_beside(&seed)), "no worker began beside its control plane");
    }
}
