//! What clusters say to each other by what is recorded of them, and by what was decided.

use jiff::{SignedDuration, Timestamp};
use overlays::{Fleet, MemoryFiles};
use rollout::{Binds, Decision};

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
fn keeps(fleet: &Fleet, progress: &FleetProgress, cluster: &str, commit: u8, minute: i64) -> String {
    let cluster = fleet.cluster(cluster).unwrap();
    let others = others(fleet, cluster, progress, &source(commit), time(minute));
    let prerequisite = others.prerequisite.map(|it| format!("{}: {}", it.cluster, it.state));
    prerequisite.or(others.wave.map(|wave| wave.reason.message)).unwrap_or_default()
}

#[test]
fn what_a_process_does_not_know_yet_has_neither_failed_nor_is_it_done() {
    let fleet = fleet("waves: [{name: all, clusters: ['*'], concurrency: 3}]\n", &["a", "b", "c"]);
    let mut progress = FleetProgress::default();
    assert!(keeps(&fleet, &progress, "c", 1, 0).is_empty(), "there are places for all");
    progress.note(&name("a"), ClusterProgress::under_way(time(0), &source(1)));
    progress.note(&name("b"), ClusterProgress::ahead("capi"));
    let kept = keeps(&fleet, &progress, "b", 1, 5);
    assert!(kept.contains("cluster a of wave all is under way, and has not been looked at yet"), "{kept}");
    progress.decide(&name("a"), &source(1), Decision::GoesOn);
    assert_eq!(keeps(&fleet, &progress, "b", 1, 5), "");
    // The source branch has moved: it is looked at again first.
    assert!(keeps(&fleet, &progress, "b", 2, 5).contains("has not been looked at yet"));
    progress.give_up(&name("a"), &source(2));
    assert_eq!(keeps(&fleet, &progress, "b", 2, 5), "", "nobody waits for one that does not answer");
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
        assert_eq!(keeps(&fleet, &progress, "b", commit, 5), stopped);
        progress.give_up(&name("a"), &source(commit));
    }
    assert_eq!(keeps(&fleet, &progress, "a", 2, 5), "", "it may be mended");
    let before = progress.changes();
    progress.decide(&name("a"), &source(2), Decision::GoesOn);
    assert_eq!((keeps(&fleet, &progress, "b", 2, 5).as_str(), progress.changes() > before), ("", true));
    // One that nothing is committed of is only not done.
    progress.decide(&name("b"), &source(2), held());
    assert_eq!(keeps(&fleet, &progress, "c", 2, 5), "");
}

#[test]
fn an_earlier_wave_is_waited_for_until_it_is_done_and_healthy_for_long_enough() {
    let waves = "waves: [{name: first, clusters: [a, b], soak: 10m}, {name: last, clusters: [c]}]\n";
    let fleet = fleet(waves, &["a", "b", "c"]);
    let mut progress = FleetProgress::default();
    assert_eq!(keeps(&fleet, &progress, "c", 1, 0), "cluster a comes first: it has no plan yet");
    progress.note(&name("a"), ClusterProgress::done(time(1), &source(1)));
    progress.note(&name("b"), ClusterProgress::ahead("capi"));
    assert_eq!(keeps(&fleet, &progress, "c", 1, 2), "cluster b comes first: its next stage is capi");
    progress.note(&name("b"), ClusterProgress::done(time(5), &source(1)));
    assert_eq!(keeps(&fleet, &progress, "c", 1, 14), "wave first soaks until 1970-01-01T00:15:00Z");
    assert_eq!(keeps(&fleet, &progress, "c", 1, 15), "");
    // What breaks starts it anew.
    progress.note_health(&name("a"), Some("done, and Flux fails at it since".to_owned()), time(12));
    let kept = keeps(&fleet, &progress, "c", 1, 15);
    assert!(kept.contains("wave first is stopped: a (done, and Flux fails at it since)"), "{kept}");
    progress.note_health(&name("a"), None, time(20));
    assert_eq!(keeps(&fleet, &progress, "c", 1, 29), "wave first soaks until 1970-01-01T00:30:00Z");
    assert_eq!(keeps(&fleet, &progress, "c", 1, 30), "");
}

#[test]
fn waves_bind_those_of_later_ones_before_machines_and_their_own_to_the_end() {
    let fleet = fleet("waves: [{name: first, clusters: [a]}, {name: last, clusters: [b, c]}]\n", &["a", "b", "c"]);
    let mut progress = FleetProgress::default();
    progress.note(&name("a"), ClusterProgress::under_way(time(0), &source(1)));
    progress.decide(&name("a"), &source(1), held());
    let of = |progress: &FleetProgress, cluster: &str| {
        others(&fleet, fleet.cluster(cluster).unwrap(), progress, &source(1), time(5)).wave.map(|wave| wave.binds)
    };
    assert_eq!(of(&progress, "b"), Some(Binds::BeforeMachines));
    progress.note(&name("a"), ClusterProgress::done(time(1), &source(1)));
    progress.note(&name("b"), ClusterProgress::under_way(time(2), &source(1)));
    progress.decide(&name("b"), &source(1), held());
    assert_eq!(of(&progress, "c"), Some(Binds::EveryStage));
    let reports = waves(&fleet, &progress, &source(1), time(5));
    let words: Vec<_> = reports.iter().map(|report| (report.wave.name.as_str(), report.state.word())).collect();
    assert_eq!(words, [("first", "done"), ("last", "stopped")]);
    assert!(reports[1].members.iter().all(|member| member.machines == Some(5)));
    assert!(underway(&fleet, &progress, &source(1), time(5)).is_empty(), "what has failed takes no place");
}
