//! What is told to people, and to programs that want names: trees, events, the demonstration's story.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::support::{Fleet, stepgate};

#[test]
fn status_is_a_tree_of_clusters_and_their_stages() {
    let fleet = Fleet::pending();
    let status = fleet.run(&["status"]).stdout;
    let lines: Vec<&str> = status.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("mgmt ")).unwrap();
    assert!(lines[at].contains("waiting at preflight, cert-manager is next: rollout "), "{status}");
    assert!(lines[at + 1].starts_with("│  ") && lines[at + 1].contains("cannot be reached"), "{status}");
    let stages: Vec<&str> = lines[at + 2..].iter().take_while(|line| !line.starts_with("team")).copied().collect();
    assert!(stages.first().unwrap().starts_with("├─ preflight ") && stages.len() > 8, "{status}");
    assert!(stages.last().unwrap().starts_with("└─ verify "), "{status}");
    assert!(
        stages.iter().any(|line| line.starts_with("├─ control-plane ") && line.ends_with(" 5 machines")),
        "{status}"
    );
    let done = Fleet::settled().run(&["status", "--cluster", "team-a"]).stdout;
    assert!(done.starts_with("team-a  ✓ done\n") && !done.contains("─"), "{done}");
}

#[test]
fn names_alone_and_wide_tables_are_for_other_programs() {
    let fleet = Fleet::pending();
    for verb in ["status", "plan"] {
        assert_eq!(fleet.run(&[verb, "-o", "name"]).stdout, "mgmt\nteam-a\nteam-b\n", "{verb}");
    }
    let wide = fleet.run(&["plan", "-o", "wide", "--cluster", "mgmt"]).stdout;
    assert!(wide.lines().any(|line| line.chars().count() > 100), "{wide}");
    assert!(fleet.run(&["status", "-o", "wide"]).stdout.starts_with("CLUSTER  STATE "));
}

#[test]
fn events_are_told_in_the_order_of_time() {
    let fleet = Fleet::settled();
    let report = fleet.run(&["events", "-o", "json"]).json();
    let events = report["events"].as_array().unwrap();
    let times: Vec<&str> = events.iter().map(|event| event["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        *counts.entry(event["event"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!(counts, BTreeMap::from([("adopted", 3), ("committed", 15), ("done", 3), ("pushed", 1)]));
    let one = fleet.run(&["events", "team-a", "-o", "json"]).json();
    let clusters = one["events"].as_array().unwrap().iter().map(|event| event["cluster"].as_str());
    assert!(clusters.flatten().all(|cluster| cluster == "team-a"), "{one}");
    let text = fleet.run(&["events"]);
    assert!(text.code == 0 && text.stdout.starts_with("WHEN ") && text.stdout.contains("capi was committed"));
    assert_eq!(fleet.run(&["events", "--since", "1h"]).stdout, "nothing has happened\n");
}

#[test]
fn what_people_approved_and_what_others_wrote_are_events() {
    let fleet = Fleet::settled();
    fleet.write("deploy", "clusters/team-b/notes.txt", b"by hand");
    let report = fleet.run(&["events", "team-b", "-o", "json"]).json();
    let last = report["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["event"], &last["stage"]), (&"foreign".into(), &serde_json::Value::Null));
    assert_eq!(last["who"], "A Person <person@example.com>");
}

/// What `demo` prints, and the commands that it ends with.
fn story(arguments: &[&str]) -> (String, Vec<String>) {
    let run = stepgate(&[&["demo"], arguments].concat());
    assert_eq!(run.code, 0, "{}", run.text());
    let command = |line: &str| ["  stepgate ", "  git "].iter().any(|begin| line.starts_with(begin));
    let commands = run.stdout.lines().filter(|line| command(line)).map(|line| line.trim().to_owned()).collect();
    (run.stdout, commands)
}

#[test]
fn a_demonstration_tells_its_story_in_one_screen_and_its_commands_work() {
    let (story, commands) = story(&[]);
    assert!(
        story.lines().count() <= 30 && story.lines().all(|line| line.chars().count() <= 100 || !line.contains("  "))
    );
    for wanted in [
        "every cluster is done: 18 commits",
        "the bump: kubernetes 1.33 to 1.34",
        "no way back: ",
        "cilium ▸ control-plane ▸ workers/general ▸ verify",
        "what opened capi of mgmt: ",
        "clusters/mgmt/capi/",
    ] {
        assert!(story.contains(wanted), "{wanted}\n{story}");
    }
    assert_eq!(commands.len(), 3, "{story}");
    for command in &commands {
        let words: Vec<&str> = command.split(' ').collect();
        let program = if words[0] == "git" { "git" } else { env!("CARGO_BIN_EXE_stepgate") };
        let output = Command::new(program).args(&words[1..]).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{command}");
    }
    let kept = story.lines().find_map(|line| line.split_once("everything is kept in ")).unwrap().1;
    assert!(Path::new(kept).join("fleet.git").is_dir(), "{story}");
    std::fs::remove_dir_all(kept).unwrap();
}

#[test]
fn a_broken_demonstration_tells_what_held_it() {
    let folder = tempfile::tempdir().unwrap();
    let (story, _) = story(&["--break", "cert-manager", "--dir", folder.path().to_str().unwrap()]);
    for wanted in ["broken on purpose: cert-manager of mgmt, by ", "  why: ", "  what helps: kubectl ", "went on"] {
        assert!(story.contains(wanted), "{wanted}\n{story}");
    }
    assert!(story.lines().count() <= 40, "{story}");
}

#[test]
fn a_program_beside_kubectl_or_flux_is_called_as_their_verb() {
    let folder = tempfile::tempdir().unwrap();
    for host in ["kubectl", "flux"] {
        let link = folder.path().join(format!("{host}-stepgate"));
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_stepgate"), &link).unwrap();
        let help = |arguments: &[&str]| {
            String::from_utf8(Command::new(&link).args(arguments).output().unwrap().stdout).unwrap()
        };
        assert!(help(&["--help"]).contains(&format!("Usage: {host} stepgate ")));
        assert!(help(&["plan", "--help"]).contains(&format!("Usage: {host} stepgate plan [OPTIONS]")));
    }
}

#[test]
fn a_misspelt_cluster_is_answered_with_the_nearest() {
    let run = Fleet::settled().run(&["why", "team-aa"]);
    assert!(run.code == 2 && run.stderr.contains("did you mean team-a?"), "{}", run.text());
}

/// What a shell is answered for the last of these words.
fn completed(fleet: &Fleet, words: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate"));
    command.env("STEPGATE_COMPLETE", "fish").env("STEPGATE_REPO", fleet.place()).arg("--").arg("stepgate").args(words);
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn a_shell_completes_clusters_stages_and_rollouts() {
    let fleet = Fleet::settled();
    assert_eq!(completed(&fleet, &["why", "te"]), ["team-a", "team-b"]);
    assert_eq!(completed(&fleet, &["plan", "--cluster", "m"]), ["mgmt"]);
    let workers = ["workers/general", "workers/gpu", "workers/md-0"];
    let mut stages = completed(&fleet, &["diff", "--stage", "work"]);
    stages.sort();
    assert_eq!(stages, workers);
    assert_eq!(completed(&fleet, &["wait", "mgmt", "--for", "stage=cap"]), ["stage=capi"]);
    let rollouts = completed(&fleet, &["show", ""]);
    let status = fleet.run(&["history", "mgmt", "-o", "json"]).json();
    let newest = status["commits"][0]["rollout"].as_str().unwrap();
    assert!(rollouts.iter().any(|rollout| rollout == newest), "{rollouts:?}");
    let other = Fleet::pending();
    assert_eq!(completed(&fleet, &["why", "--repo", &other.place(), "mg"]), ["mgmt"]);
    assert!(stepgate(&["completion", "bash"]).stdout.contains("STEPGATE_COMPLETE"));
}
