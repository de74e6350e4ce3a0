//! What clusters say to each other by what is recorded of them, and by what was decided.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use overlays::{Fleet, MemoryFiles};
use rollout::{Binds, Decision, WaveAnswer, WaveQuestion, WaveWord};

use super::*;

fn fleet(waves: &str, names: &[&str]) -> Fleet {
    let cluster = |name: &&str| {
        let text = format!(
            "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec:\n  \
             controlPlaneConfiguration: {{count: 3}}\n  kubernetesVersion: '1.33'\n  managementCluster: {{name: {name}}}\n  \
             workerNodeGroupConfigurations: [{{name: md-0, count: 2}}]\n"
        );
        (format!("clusters/{name}/cluster.yaml").parse().unwrap(), text.into_bytes())
    };
    let policy = ("stepgate.yaml".parse().unwrap(), waves.as_bytes().to_vec());
    let fleet = overlays::read_fleet(&names.iter().map(cluster).chain([policy]).collect::<MemoryFiles>());
    assert_eq!(fleet.clusters.len(), names.len(), "{:?}", fleet.problems);
    assert!(!fleet.policy.waves.is_empty(), "{:?}", fleet.problems);
    fleet
}

fn source(number: u8) -> CommitId {
    format!("{number:040x}").parse().unwrap()
}

fn time(minute: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
}

fn name(name: &str) -> ClusterName {
    name.parse().unwrap()
}

fn held() -> Decision {
    Decision::Held { stage: "capi".parse().unwrap() }
}

/// What keeps a cluster then, in words; the empty text where nothing does.
fn keeps(fleet: &Fleet, progress: &mut FleetProgress, cluster: &str, commit: u8, minute: i64) -> String {
    let cluster = fleet.cluster(cluster).unwrap();
    let others = others(fleet, cluster, progress, &source(commit), time(minute));
    let prerequisite = others.prerequisite.map(|it| format!("{}: {}", it.cluster, it.state));
    prerequisite.or(others.wave.map(|wave| wave.reason.message)).unwrap_or_default()
}

#[test]
fn what_a_process_does_not_know_yet_has_neither_failed_nor_is_it_done() {
    let fleet = fleet("waves: [{name: all, clusters: ['*'], concurrency: 3}]\n", &["a", "b", "c"]);
    let mut progress = FleetProgress::default();
    assert!(keeps(&fleet, &mut progress, "c", 1, 0).is_empty(), "there are places for all");
    progress.note(&name("a"), ClusterProgress::under_way(time(0), &source(1)));
    progress.note(&name("b"), ClusterProgress::ahead("capi"));
    let kept = keeps(&fleet, &mut progress, "b", 1, 5);
    assert!(kept.contains("cluster a of wave all is under way, and has not been looked at yet"), "{kept}");
    progress.decide(&name("a"), &source(1), Decision::GoesOn);
    assert_eq!(keeps(&fleet, &mut progress, "b", 1, 5), "");
    // The source branch has moved: it is looked at again first.
    assert!(keeps(&fleet, &mut progress, "b", 2, 5).contains("has not been looked at yet"));
    progress.give_up(&name("a"), &source(2));
    assert_eq!(keeps(&fleet, &mut progress, "b", 2, 5), "", "nobody waits for one that does not answer");
}

#[test]
fn who_was_held_stays_held_until_it_is_decided_about_again() {
    let fleet = fleet("waves: [{name: all, clusters: ['*'], concurrency: 3}]\n", &["a", "b", "c"]);
    let mut progress = FleetProgress::default();
    progress.note(&name("a"), ClusterProgress::under_way(time(0), &source(1)));
    progress.note(&name("b"), ClusterProgress::ahead("capi"));
    progress.decide(&name("a"), &source(1), held());
    let stopped = "wave all is stopped: a (held at capi); 0 of its 3 clusters may fail";
    for commit in [1, 2] {
        assert_eq!(keeps(&fleet, &mut progress, "b", commit, 5), stopped);
        progress.give_up(&name("a"), &source(commit));
    }
    assert_eq!(keeps(&fleet, &mut progress, "a", 2, 5), "", "it may be mended");
    let before = progress.changes();
    progress.decide(&name("a"), &source(2), Decision::GoesOn);
    assert_eq!((keeps(&fleet, &mut progress, "b", 2, 5).as_str(), progress.changes() > before), ("", true));
    // One that nothing is committed of is only not done.
    progress.decide(&name("b"), &source(2), held());
    assert_eq!(keeps(&fleet, &mut progress, "c", 2, 5), "");
}

#[test]
fn an_earlier_wave_is_waited_for_until_it_is_done_and_healthy_for_long_enough() {
    let waves = "waves: [{name: first, clusters: [a, b], soak: 10m}, {name: last, clusters: [c]}]\n";
    let fleet = fleet(waves, &["a", "b", "c"]);
    let mut progress = FleetProgress::default();
    assert_eq!(keeps(&fleet, &mut progress, "c", 1, 0), "cluster a comes first: it has no plan yet");
    progress.note(&name("a"), ClusterProgress::done(time(1), &source(1)));
    progress.note(&name("b"), ClusterProgress::ahead("capi"));
    assert_eq!(keeps(&fleet, &mut progress, "c", 1, 2), "cluster b comes first: its next stage is capi");
    progress.note(&name("b"), ClusterProgress::done(time(5), &source(1)));
    assert_eq!(keeps(&fleet, &mut progress, "c", 1, 14), "wave first soaks until 1970-01-01T00:15:00Z");
    assert_eq!(keeps(&fleet, &mut progress, "c", 1, 15), "");
    // What breaks starts it anew.
    progress.note_health(&name("a"), Some("done, and Flux fails at it since".to_owned()), time(12));
    let kept = keeps(&fleet, &mut progress, "c", 1, 15);
    assert!(kept.contains("wave first is stopped: a (done, and Flux fails at it since)"), "{kept}");
    progress.note_health(&name("a"), None, time(20));
    assert_eq!(keeps(&fleet, &mut progress, "c", 1, 29), "wave first soaks until 1970-01-01T00:30:00Z");
    assert_eq!(keeps(&fleet, &mut progress, "c", 1, 30), "");
}

#[test]
fn waves_bind_those_of_later_ones_before_machines_and_their_own_to_the_end() {
    let fleet = fleet("waves: [{name: first, clusters: [a]}, {name: last, clusters: [b, c]}]\n", &["a", "b", "c"]);
    let mut progress = FleetProgress::default();
    progress.note(&name("a"), ClusterProgress::under_way(time(0), &source(1)));
    progress.decide(&name("a"), &source(1), held());
    let of = |progress: &mut FleetProgress, cluster: &str| {
        others(&fleet, fleet.cluster(cluster).unwrap(), progress, &source(1), time(5)).wave.map(|wave| wave.binds)
    };
    assert_eq!(of(&mut progress, "b"), Some(Binds::BeforeMachines));
    progress.note(&name("a"), ClusterProgress::done(time(1), &source(1)));
    progress.note(&name("b"), ClusterProgress::under_way(time(2), &source(1)));
    progress.decide(&name("b"), &source(1), held());
    assert_eq!(of(&mut progress, "c"), Some(Binds::EveryStage));
    let reports = waves(&fleet, &progress, &source(1), time(5));
    let words: Vec<_> = reports.iter().map(|report| (report.wave.name.as_str(), report.state.word())).collect();
    assert_eq!(words, [("first", "done"), ("last", "stopped")]);
    assert!(reports[1].members.iter().all(|member| member.machines == Some(5)));
    assert!(underway(&fleet, &progress, &source(1), time(5)).is_empty(), "what has failed takes no place");
}

fn approval(wave: &str, question: WaveQuestion, plans: &[(&str, &str)]) -> WaveWord {
    let plan = |(cluster, plan): &(&str, &str)| (name(cluster), domain::PlanDigest::of([plan.as_bytes()]));
    WaveWord {
        wave: wave.to_owned(),
        question,
        answer: WaveAnswer::Approve,
        by: "ann@x.org".parse().unwrap(),
        at: time(0),
        plans: plans.iter().map(plan).collect(),
        authors: Vec::new(),
    }
}

fn heard(progress: &mut FleetProgress, words: &[WaveWord]) {
    progress.hear(&Arc::new(WaveWords { words: words.to_vec(), problem: None }));
}

#[test]
fn a_wave_waits_for_its_approval_once_it_is_its_turn() {
    let text =
        "waves: [{name: first, clusters: [a], approval: after}, {name: last, clusters: [b, c], approval: before}]\n";
    let fleet = fleet(text, &["a", "b", "c"]);
    let mut progress = FleetProgress::default();
    progress.note(&name("a"), ClusterProgress::under_way(time(0), &source(1)));
    progress.note(&name("b"), ClusterProgress::ahead("capi").planned("b", &source(1)));
    progress.note(&name("c"), ClusterProgress::ahead("capi").planned("c", &source(1)));
    progress.decide(&name("a"), &source(1), Decision::GoesOn);
    let words = |progress: &FleetProgress| -> Vec<&str> {
        waves(&fleet, progress, &source(1), time(5)).iter().map(|wave| wave.state.word()).collect()
    };
    assert_eq!(words(&progress), ["under way", "ahead"], "nobody is asked before it is its turn");
    progress.note(&name("a"), ClusterProgress::done(time(1), &source(1)));
    assert_eq!(words(&progress), ["waits for approval", "ahead"]);
    let kept = keeps(&fleet, &mut progress, "b", 1, 5);
    assert!(kept.starts_with("wave first is done and waits for approval"), "{kept}");
    let result = approval("first", WaveQuestion::After, &[("a", "1")]);
    heard(&mut progress, std::slice::from_ref(&result));
    assert_eq!(words(&progress), ["done", "waits for approval"]);
    let kept = keeps(&fleet, &mut progress, "b", 1, 5);
    assert!(kept.starts_with("wave last waits for approval before it begins"), "{kept}");
    let before = progress.changes();
    heard(&mut progress, &[result, approval("last", WaveQuestion::Before, &[("b", "b"), ("c", "c")])]);
    assert_eq!((keeps(&fleet, &mut progress, "b", 1, 5).as_str(), progress.changes() > before), ("", true));
    // Of a newer commit it is not known yet what it asks for.
    let kept = keeps(&fleet, &mut progress, "b", 2, 5);
    assert!(kept.ends_with("; the plan of cluster b is not known yet"), "{kept}");
    progress.note(&name("b"), ClusterProgress::ahead("capi").planned("b", &source(2)));
    progress.note(&name("c"), ClusterProgress::ahead("capi").planned("other", &source(2)));
    let kept = keeps(&fleet, &mut progress, "b", 2, 5);
    assert!(kept.ends_with("what ann@x.org approved is void: cluster c has another plan since"), "{kept}");
}

#[test]
fn what_a_policy_of_before_asks_of_a_wave_is_asked_still() {
    let before = |text: &str| {
        let policy = policy::read_policy(&"stepgate.yaml".parse().unwrap(), text.as_bytes()).0;
        crate::policies::Before { commit: source(1), policy: Arc::new(policy) }
    };
    let asked = "waves: [{name: w, clusters: [a], approval: before, approvers: {groups: {ops: 1}}}]\ngroups: {ops: [ann@x.org]}\n";
    let known = crate::policies::Befores { known: vec![before(asked)], unreadable: Vec::new() };
    let fleet = fleet("waves: [{name: w, clusters: [a]}]\ngroups: {ops: [ann@x.org, eve@x.org]}\n", &["a"]);
    let roster = Arc::new(crate::people::roster_since(&fleet.policy, &known));
    let judges = WaveJudges::of("a", &known, &roster);
    let mut progress = FleetProgress::default();
    progress.note(&name("a"), ClusterProgress::ahead("capi").planned("a", &source(1)).judged_by(judges));
    let kept = keeps(&fleet, &mut progress, "a", 1, 5);
    assert_eq!(kept, "wave w waits for approval before it begins: 0 of 1 approval; group ops missing");
    let word = approval("w", WaveQuestion::Before, &[("a", "a")]);
    heard(&mut progress, &[WaveWord { by: "eve@x.org".parse().unwrap(), ..word.clone() }]);
    assert!(
        keeps(&fleet, &mut progress, "a", 1, 5).ends_with(": group ops missing"),
        "who came into the group by the push"
    );
    heard(&mut progress, &[word]);
    assert_eq!(keeps(&fleet, &mut progress, "a", 1, 5), "");
}

#[test]
fn waves_that_are_kept_up_to_date_say_what_new_ones_say() {
    let waves = "waves:\n- {name: first, clusters: [a, b], soak: 5m}\n\
        - {name: many, clusters: ['c*'], concurrency: 2, maxFailures: 1, first: 1, deadline: 30m}\n\
        - {name: last, clusters: [d], approval: before}\n";
    let names = ["a", "b", "c1", "c2", "c3", "c4", "d", "e"];
    let fleet = fleet(waves, &names);
    let mut told = BTreeSet::new();
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut kept, mut new) = (FleetProgress::default(), FleetProgress::default());
        let mut minute = 0;
        for _ in 0..40 {
            minute += random.i64(0..3);
            let commit = source(random.u8(1..3));
            let cluster = name(random.choice(names).unwrap());
            let (kind, health, plan) = (random.u8(..9), random.bool(), random.u8(..2).to_string());
            for progress in [&mut kept, &mut new] {
                match kind {
                    0 | 1 => progress.note(&cluster, ClusterProgress::ahead("capi").planned(&plan, &commit)),
                    2 => progress
                        .note(&cluster, ClusterProgress::under_way(time(minute), &commit).planned(&plan, &commit)),
                    3 | 4 => progress.note(&cluster, ClusterProgress::done(time(minute), &commit)),
                    5 => progress.decide(&cluster, &commit, held()),
                    6 => progress.decide(&cluster, &commit, Decision::WaitsForTurn),
                    7 => progress.give_up(&cluster, &commit),
                    _ => progress.note_health(&cluster, health.then(|| "broken".to_owned()), time(minute)),
                }
            }
            for name in names {
                new.turns = None;
                let said = keeps(&fleet, &mut new, name, 1, minute);
                assert_eq!(keeps(&fleet, &mut kept, name, 1, minute), said, "seed {seed}, {name}");
                told.insert(said.split(' ').take(3).collect::<Vec<_>>().join(" "));
            }
        }
    }
    assert!(told.len() > 10, "{told:?}");
}
