//! Stages that people approve, through the program: proposals are branches, and merging one is the approval.

use crate::support::Fleet;

const AS: [&str; 2] = ["--as", "A Person <person@example.com>"];

/// A fleet whose every stage is proposed, with a change of cert-manager in the management cluster that is.
pub fn asked() -> Fleet {
    asked_with("")
}

/// The same, with these rules.
fn asked_with(rules: &str) -> Fleet {
    let fleet = Fleet::settled();
    let policy = fleet.text("main", "stepgate.yaml") + "approval: stage\n" + rules;
    fleet.write("main", "stepgate.yaml", policy.as_bytes());
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-cluster-critical", "system-node-critical");
    let run = fleet.demo();
    assert_eq!(run.json()["complete"], false, "{}", run.stderr);
    fleet
}

fn proposed(fleet: &Fleet) -> Vec<String> {
    let branches = fleet.repository.branches(Some(git2::BranchType::Local)).unwrap();
    let names = branches.map(|branch| branch.unwrap().0.name().unwrap().unwrap().to_owned());
    names.filter(|name| name.starts_with("stepgate/")).collect()
}

#[test]
fn approve_is_dry_by_default_and_then_carries_the_rollout_on() {
    let fleet = asked();
    let head = fleet.head("deploy");
    let [branch] = proposed(&fleet).try_into().unwrap();
    let plan = fleet.run(&["plan", "--cluster", "mgmt"]);
    assert!(plan.stdout.contains("approval: people are asked before each of cert-manager"), "{}", plan.text());
    let dry = fleet.run(&["approve", "mgmt"]);
    assert_eq!((dry.code, fleet.head("deploy")), (0, head), "{}", dry.stderr);
    assert!(dry.stdout.contains(&branch) && dry.stdout.contains("--yes"), "{}", dry.stdout);

    let yes = fleet.run(&[&["approve", "mgmt", "--yes"][..], &AS].concat());
    assert!(yes.code == 0 && yes.stdout.contains("approved stage cert-manager"), "{}", yes.text());
    assert_ne!(fleet.head("deploy"), head);
    assert_eq!(proposed(&fleet), Vec::<String>::new());
    let run = fleet.demo();
    assert_eq!((run.code, &run.json()["complete"]), (0, &true.into()), "{}", run.stderr);
    let text = fleet.text("deploy", "clusters/mgmt/cert-manager/cert-manager.yaml");
    assert!(text.contains("system-node-critical"));
    let ledger: serde_yaml::Value = serde_yaml::from_str(&fleet.text("deploy", "clusters/mgmt/rollout.yaml")).unwrap();
    assert_eq!((&ledger["state"], ledger["approvals"].as_sequence().unwrap().len()), (&"done".into(), 1));
    let tree = fleet.repository.find_commit(fleet.head("deploy").unwrap()).unwrap().tree().unwrap();
    let left = tree.get_path(std::path::Path::new("clusters/mgmt/proposal.md"));
    assert!(left.is_err(), "the question is still there");
}

#[test]
fn reject_needs_a_reason_and_holds_with_it() {
    let fleet = asked();
    let head = fleet.head("deploy");
    assert_eq!(fleet.run(&["reject", "mgmt", "--yes"]).code, 2);
    let run = fleet.run(&[&["reject", "mgmt", "--reason", "change freeze", "--yes"][..], &AS].concat());
    assert!(run.code == 0 && run.stdout.contains("rejected stage cert-manager"), "{}", run.text());
    let run = fleet.demo();
    let report = run.json();
    let mgmt = &report["clusters"][0];
    assert_eq!((&mgmt["state"], fleet.head("deploy")), (&"held".into(), head), "{report}");
    let message = mgmt["message"].as_str().unwrap();
    assert!(message.contains("rejected by A Person") && message.contains("change freeze"), "{message}");
    // It can be approved after all.
    let run = fleet.run(&[&["approve", "mgmt", "--yes"][..], &AS].concat());
    assert_eq!(run.code, 0, "{}", run.text());
    assert_eq!(fleet.demo().json()["complete"], true);
}

#[test]
fn there_is_nothing_to_approve_where_nothing_is_proposed() {
    let fleet = Fleet::settled();
    for verb in [&["approve", "mgmt", "--yes"][..], &["reject", "mgmt", "--reason", "x", "--yes"]] {
        let run = fleet.run(&[verb, &AS].concat());
        assert!(run.code == 2 && run.stderr.contains("nothing is proposed for cluster mgmt"), "{}", run.text());
        assert!(run.stderr.contains("stepgate why mgmt"), "{}", run.stderr);
    }
    let run = fleet.run(&["approve", "mgmt", "--yes", "--as", "nobody"]);
    assert!(run.code == 2 && run.stderr.contains("Name <address>"), "{}", run.text());
}

#[test]
fn rules_are_set_aside_only_for_a_reason_that_is_told_afterwards() {
    let fleet = asked_with("approvers: {minimum: 2, author: true}\n");
    let plan = fleet.run(&["plan", "--cluster", "mgmt"]);
    assert!(plan.stdout.contains("approvers of cert-manager: 2 approvals"), "{}", plan.text());
    let head = fleet.head("deploy");
    let noted = fleet.run(&[&["approve", "mgmt", "--yes"][..], &AS].concat());
    assert!(noted.code == 0 && noted.stdout.contains("noted your approval of stage cert-manager"), "{}", noted.text());
    assert!(noted.stdout.contains("missing: 1 of 2 approvals"), "{}", noted.stdout);
    for incomplete in [&["approve", "mgmt", "--override", "--yes"][..], &["approve", "mgmt", "--reason", "x", "--yes"]]
    {
        assert_eq!(fleet.run(&[incomplete, &AS].concat()).code, 2);
    }
    assert_eq!(fleet.head("deploy"), head);
    let aside = ["approve", "mgmt", "--override", "--reason", "certificates expire tonight", "--yes"];
    let run = fleet.run(&[&aside[..], &AS].concat());
    assert!(run.code == 0 && run.stdout.contains("approved stage cert-manager"), "{}", run.text());
    let status = fleet.run(&["status"]);
    assert!(status.stdout.contains("set aside by A Person"), "{}", status.text());
    assert!(status.stdout.contains("certificates expire tonight"), "{}", status.text());
    assert_eq!(fleet.demo().json()["complete"], true);
    let ledger = fleet.text("deploy", "clusters/mgmt/rollout.yaml");
    assert!(ledger.contains("reason: certificates expire tonight"), "{ledger}");
}

const ALICE: [&str; 2] = ["--as", "Alice <alice@example.com>"];

/// The line of `stepgate.yaml` that begins with this.
fn line_of(fleet: &Fleet, field: &str) -> usize {
    fleet.text("main", "stepgate.yaml").lines().position(|line| line.starts_with(field)).unwrap() + 1
}

#[test]
fn a_push_does_not_lower_the_bar_that_judges_it() {
    let fleet = asked_with(
        "approvers: {groups: {platform: 1}, author: true}\ngroups: {platform: [alice@example.com]}\npeople: {bob: [bob@example.com]}\n",
    );
    assert_eq!(fleet.run(&[&["approve", "mgmt", "--yes"][..], &ALICE].concat()).code, 0);
    assert_eq!(fleet.demo().json()["complete"], true);
    // Whoever pushes becomes Alice by the very push that she has to approve.
    fleet.replace("stepgate.yaml", "people: {", "people: {alice@example.com: [person@example.com], ");
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-node-critical", "system-cluster-critical");
    fleet.demo();
    let (deploy, head) = (fleet.head("deploy"), fleet.head("main").unwrap().to_string());
    let noted = fleet.run(&[&["approve", "mgmt", "--yes"][..], &AS].concat());
    assert!(noted.stdout.contains("missing: group platform missing"), "{}", noted.text());
    let check = fleet.run(&["check"]);
    assert!(check.stdout.contains(&format!("stepgate.yaml:{}:1", line_of(&fleet, "people"))), "{}", check.stdout);
    assert!(check.stdout.contains("people is not what it was in commit"), "{}", check.stdout);
    assert!(check.stdout.contains(&format!("--trust-policy {head}")), "{}", check.stdout);
    assert_eq!(fleet.head("deploy"), deploy);
    // Nor does a push choose under whose name it lands.
    fleet.replace("stepgate.yaml", "name: Stepgate", "name: Mallory");
    let head = fleet.head("main").unwrap().to_string();
    let check = fleet.run(&["check"]);
    assert!(check.stdout.contains("author is Mallory <stepgate@example.com> now"), "{}", check.stdout);
    let plan = fleet.run(&["plan", "--cluster", "mgmt", "-o", "json"]);
    assert_eq!((plan.code, &plan.json()["clusters"][0]["blocked"][0]["code"]), (3, &"policy-unconfirmed".into()));
    let approve = fleet.run(&[&["approve", "mgmt", "--yes"][..], &ALICE].concat());
    assert!(approve.code == 2 && approve.stderr.contains(&format!("--trust-policy {head}")), "{}", approve.text());
    let why = fleet.run(&["why", "mgmt"]);
    assert!(why.text().contains("author is Mallory"), "{}", why.text());
    fleet.demo();
    assert_eq!(fleet.head("deploy"), deploy);
    let plan = fleet.run(&["plan", "--cluster", "mgmt", "--trust-policy", &head, "-o", "json"]);
    assert_eq!(
        (plan.code, plan.json()["clusters"][0]["blocked"].as_array().map(Vec::len)),
        (0, Some(0)),
        "{}",
        plan.text()
    );
}

#[test]
fn an_approval_outside_of_the_windows_is_noted_and_says_when_it_lands() {
    const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).weekday().to_monday_zero_offset();
    let later = DAYS[(usize::try_from(today).unwrap() + 3) % 7];
    let fleet = asked();
    let policy = fleet.text("main", "stepgate.yaml")
        + &format!("windows: [{{days: [{later}], from: \"08:00\", to: \"09:00\"}}]\n");
    fleet.write("main", "stepgate.yaml", policy.as_bytes());
    fleet.demo();
    let head = fleet.head("deploy");
    let run = fleet.run(&[&["approve", "mgmt", "--yes"][..], &AS].concat());
    assert!(run.code == 0 && run.stdout.contains("noted your approval of stage cert-manager"), "{}", run.text());
    for wanted in [
        "it waits for its time: the next maintenance window opens at",
        "`stepgate run` merges it then",
        "--override --reason TEXT",
    ] {
        assert!(run.stdout.contains(wanted), "{wanted} is missing in {}", run.stdout);
    }
    assert_eq!(fleet.head("deploy"), head);
    let burns = ["approve", "mgmt", "--override", "--reason", "it burns", "--yes"];
    let run = fleet.run(&[&burns[..], &AS].concat());
    assert!(run.code == 0 && fleet.head("deploy") != head, "{}", run.text());
}
