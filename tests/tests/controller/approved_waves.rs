//! Waves that people approve as a whole: nothing begins without their word, which counts for the plans that they looked at.

use std::process::Command;

use forge::ForgeAccess;
use git::{CommitDraft, CommitMessage, CommitOutcome, Repository, Signing};
use jiff::SignedDuration;
use stepgate::reconcile::waves::{AnsweredWave, Said, WaveError, answer_wave};
use stepgate::reconcile::{ClusterOutcome, Controller, ReconcileReport};

use crate::fleet::{Fleet, assert_stage_once, outcome};

const TEAMS: [&str; 2] = ["team-a", "team-b"];

const WAITS: &str = "wave teams waits for approval before it begins: ";

/// The management cluster is a wave, and the teams are the next one, of which this is said.
fn fleet(hub: &str, teams: &str, more: &str) -> Fleet {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::create(&folder.path().join("fleet.git"), &"main".parse().unwrap()).unwrap();
    let waves = format!(
        "{more}waves:\n- {{name: hub, clusters: [mgmt]{hub}}}\n- {{name: teams, clusters: ['team-*'], concurrency: 2{teams}}}\n"
    );
    let fleet =
        Fleet::of_many(folder, repository, ForgeAccess::default(), &TEAMS.map(str::to_owned), |policy| policy + &waves);
    fleet.bump();
    fleet
}

fn says(fleet: &Fleet, who: &str, wave: &str, said: Said<'_>) -> Result<AnsweredWave, WaveError> {
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let by = format!("{who} <{}@example.com>", who.to_lowercase()).parse().unwrap();
    let answered = answer_wave(&planner, &reading, wave, Some(&by), said, fleet.clock_now());
    fleet.follow();
    answered
}

fn approves(fleet: &Fleet, who: &str, wave: &str) -> Vec<String> {
    says(fleet, who, wave, Said::Yes).unwrap().missing
}

fn message(pass: &ReconcileReport) -> String {
    outcome(pass, "team-a").message()
}

/// Passes until the teams wait for people.
fn until_asked(fleet: &Fleet, controller: &Controller) -> String {
    message(&fleet.run_until(controller, |pass| message(pass).contains("waits for approval")))
}

/// Passes over two hours; nothing of the teams is committed meanwhile.
fn nothing_begins(fleet: &Fleet, controller: &Controller) -> String {
    for _ in 0..8 {
        fleet.pass(controller);
        fleet.clock.advance(SignedDuration::from_mins(15));
    }
    let said = until_asked(fleet, controller);
    assert!(TEAMS.iter().all(|team| fleet.stages(team).is_empty()), "{said}");
    said
}

#[test]
fn a_wave_begins_once_its_plans_are_approved() {
    let fleet = fleet("", ", approval: before", "");
    let controller = fleet.controller();
    let asked = until_asked(&fleet, &controller);
    assert_eq!(asked, format!("{WAITS}0 of 1 approval"));
    let pass = fleet.pass(&controller);
    assert_eq!(outcome(&pass, "team-a").help().unwrap(), "`stepgate approve --wave teams --yes`");
    assert_eq!(pass.waves[1].state.word(), "waits for approval");
    assert_eq!(nothing_begins(&fleet, &controller), asked);
    assert_eq!(nothing_begins(&fleet, &fleet.controller()), asked, "nor by a process that was just started");
    let answered = says(&fleet, "Alice", "teams", Said::Yes).unwrap();
    assert_eq!((answered.plans.len(), answered.missing.len()), (2, 0));
    let message = fleet.head_message();
    assert!(message.starts_with("approve wave teams\n") && message.contains("- team-a: sha256:"), "{message}");
    // The rest is carried out by processes that were not there, with the same word.
    fleet.run_until(&controller, |_| !fleet.stages("team-a").is_empty());
    fleet.run_to_the_end(&fleet.controller());
    assert_stage_once(&fleet, &TEAMS);
    let none_is_left = says(&fleet, "Alice", "teams", Said::Yes);
    assert!(matches!(none_is_left, Err(WaveError::NotNow { .. })), "{none_is_left:?}");
}

#[test]
fn another_plan_of_one_cluster_makes_the_approval_of_all_void() {
    let fleet = fleet("", ", approval: before", "");
    let controller = fleet.controller();
    assert_eq!(approves(&fleet, "Alice", "teams"), [""; 0], "whoever wants to may say so before its turn");
    fleet.edit("clusters/team-b/cluster.yaml", |text| text.replace("count: 3", "count: 5"));
    let asked = until_asked(&fleet, &controller);
    let void = "; what Alice <alice@example.com> approved is void: cluster team-b has another plan since";
    assert_eq!(asked, format!("{WAITS}0 of 1 approval{void}"));
    assert_eq!(nothing_begins(&fleet, &fleet.controller()), asked);
    assert_eq!(approves(&fleet, "Bob", "teams"), [""; 0]);
    fleet.run_to_the_end(&controller);
    assert_stage_once(&fleet, &TEAMS);
}

#[test]
fn a_rejected_wave_stands_still_until_somebody_approves_it() {
    let fleet = fleet("", ", approval: before", "");
    let controller = fleet.controller();
    until_asked(&fleet, &controller);
    says(&fleet, "Alice", "teams", Said::Yes).unwrap();
    says(&fleet, "Bob", "teams", Said::No("the quarter ends")).unwrap();
    let rejected = format!("{WAITS}Bob <bob@example.com> has rejected it: the quarter ends");
    assert_eq!(nothing_begins(&fleet, &controller), rejected);
    assert_eq!(approves(&fleet, "Carol", "teams"), [""; 0]);
    fleet.run_to_the_end(&controller);
}

#[test]
fn only_approvers_approve_and_neither_is_who_wrote_it() {
    let rules = "groups: {platform: [alice@example.com, bob@example.com, person@example.com]}\n";
    let fleet = fleet("", ", approval: before, approvers: {minimum: 2, groups: {platform: 2}}", rules);
    let controller = fleet.controller();
    assert_eq!(until_asked(&fleet, &controller), format!("{WAITS}0 of 2 approvals; 0 of 2 of group platform"));
    for (who, why) in [("Mallory", "is not of group platform"), ("Person", "wrote what is rolled out")] {
        let head = fleet.head();
        let Err(WaveError::NotAnApprover { why: told, .. }) = says(&fleet, who, "teams", Said::Yes) else {
            panic!("{who}")
        };
        assert!(told.contains(why), "{told}");
        assert_eq!(fleet.head(), head, "nothing is written");
    }
    assert_eq!(approves(&fleet, "Alice", "teams"), ["1 of 2 approvals", "1 of 2 of group platform"]);
    assert_eq!(approves(&fleet, "Alice", "teams"), ["1 of 2 approvals", "1 of 2 of group platform"]);
    nothing_begins(&fleet, &controller);
    assert_eq!(approves(&fleet, "Bob", "teams"), [""; 0]);
    fleet.run_to_the_end(&controller);
}

#[test]
fn a_commit_speaks_for_its_author_alone() {
    let fleet = fleet(
        "",
        ", approval: before, approvers: {groups: {platform: 1}}",
        "groups: {platform: [alice@example.com]}\n",
    );
    let controller = fleet.controller();
    until_asked(&fleet, &controller);
    let before = fleet.head();
    approves(&fleet, "Alice", "teams");
    let words = fleet.deployed("waves.yaml").unwrap();
    // Somebody else writes the very same, beside what was there before.
    let draft = CommitDraft {
        parent: Some(before),
        merges: None,
        prefix: None,
        edits: [("waves.yaml".parse().unwrap(), Some(format!("{words}# again\n").into_bytes().into()))].into(),
        message: CommitMessage { subject: "approve wave teams".to_owned(), body: String::new(), trailers: Vec::new() },
        author: "Mallory <mallory@example.com>".parse().unwrap(),
        time: fleet.clock_now(),
        allow_empty: false,
    };
    let CommitOutcome::Created(forged) = fleet.repository.commit(&draft, &Signing::None).unwrap() else { panic!() };
    let branch = format!("refs/heads/{}", fleet.layout.branch);
    let mut git = Command::new("git");
    git.args(["update-ref", &branch, forged.as_str()]).current_dir(fleet.repository.folder());
    assert!(git.status().unwrap().success());
    assert!(nothing_begins(&fleet, &controller).contains("group platform missing"));
    assert_eq!(approves(&fleet, "Alice", "teams"), [""; 0]);
    fleet.run_to_the_end(&controller);
}

#[test]
fn the_next_wave_begins_once_the_result_of_the_one_before_is_approved() {
    let fleet = fleet(", soak: 30m, approval: after", "", "");
    let controller = fleet.controller();
    let early = says(&fleet, "Alice", "hub", Said::Yes);
    assert!(
        matches!(&early, Err(WaveError::NotNow { why, .. }) if why.contains("nothing was rolled out")),
        "{early:?}"
    );
    fleet.run_until(&controller, |pass| *outcome(pass, "mgmt") == ClusterOutcome::Done);
    let early = says(&fleet, "Alice", "hub", Said::Yes);
    assert!(matches!(&early, Err(WaveError::NotNow { why, .. }) if why.contains("soaks until")), "{early:?}");
    let asked = until_asked(&fleet, &controller);
    assert_eq!(asked, "wave hub is done and waits for approval before the next one begins: 0 of 1 approval");
    assert_eq!(nothing_begins(&fleet, &fleet.controller()), asked);
    assert_eq!(approves(&fleet, "Alice", "hub"), [""; 0]);
    fleet.run_to_the_end(&controller);
    assert_stage_once(&fleet, &TEAMS);
}

#[test]
fn a_push_that_takes_the_question_away_waits_for_the_answer() {
    let fleet = fleet(
        ", approval: after",
        ", approval: before, approvers: {groups: {platform: 1}}",
        "groups: {platform: [alice@example.com]}\n",
    );
    let controller = fleet.controller();
    fleet.run_until(&controller, |pass| *outcome(pass, "mgmt") == ClusterOutcome::Done);
    fleet.edit("stepgate.yaml", |text| {
        text.replace(", approval: after", "")
            .replace(", approval: before, approvers: {groups: {platform: 1}}", "")
            .replace("[alice@example.com]", "[alice@example.com, mallory@example.com]")
    });
    until_asked(&fleet, &controller);
    nothing_begins(&fleet, &controller);
    approves(&fleet, "Mallory", "hub");
    assert_eq!(until_asked(&fleet, &controller), format!("{WAITS}0 of 1 approval; group platform missing"));
    let refused = says(&fleet, "Mallory", "teams", Said::Yes);
    assert!(matches!(refused, Err(WaveError::NotAnApprover { .. })), "{refused:?}");
    assert_eq!(approves(&fleet, "Alice", "teams"), [""; 0]);
    fleet.run_to_the_end(&controller);
}
