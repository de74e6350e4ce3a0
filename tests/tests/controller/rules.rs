//! Whose approvals are enough, and what becomes of a merge that came too early or too late.

use rollout::StageName;
use simulator::Fault;
use stepgate::reconcile::proposal::{self, AnswerError, Approval, Consent};
use stepgate::reconcile::{ClusterOutcome, Controller, ReconcileReport};

use crate::approvals::{Git, Merge, OVERLAY, waits_for_people};
use crate::fleet::{Fleet, assert_no_stage_twice, outcome, told};

/// One stage of one cluster is changed, and these rules say who approves it.
fn asking(rules: &str) -> (Fleet, Controller) {
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\n" + rules);
    let controller = fleet.controller();
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    (fleet, controller)
}

fn says(fleet: &Fleet, who: &str, consent: &Consent<'_>) -> Result<Approval, AnswerError> {
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, "mgmt").unwrap();
    let by = format!("{who} <{}@example.com>", who.to_lowercase()).parse().unwrap();
    proposal::answer(&planner, &reading, &view, Some(&by), consent, fleet.clock_now())
}

fn approves(fleet: &Fleet, who: &str) -> Vec<String> {
    says(fleet, who, &Consent::Word).unwrap().missing
}

fn is_held(pass: &ReconcileReport) -> bool {
    matches!(outcome(pass, "mgmt"), ClusterOutcome::Held { .. })
}

fn message(pass: &ReconcileReport) -> String {
    outcome(pass, "mgmt").message()
}

fn ledger(fleet: &Fleet) -> String {
    fleet.deployed("clusters/mgmt/rollout.yaml").unwrap()
}

#[test]
fn two_people_approve_and_neither_is_who_wrote_it() {
    let (fleet, controller) = asking("approvers: {minimum: 2}\n");
    let pass = fleet.run_until(&controller, waits_for_people);
    assert!(message(&pass).contains("; 0 of 2 approvals"), "{}", told(&pass));
    let missing = approves(&fleet, "Person");
    assert!(missing[0] == "0 of 2 approvals" && missing[1].contains("wrote what is rolled out"), "{missing:?}");
    let head = fleet.head();
    assert_eq!(approves(&fleet, "Alice")[0], "1 of 2 approvals");
    assert_eq!(approves(&fleet, "Alice")[0], "1 of 2 approvals", "said twice, it counts once");
    let pass = fleet.run_until(&fleet.controller(), waits_for_people);
    assert!(message(&pass).contains("; 1 of 2 approvals"), "{}", told(&pass));
    assert_eq!(fleet.head(), head, "nothing has landed");
    assert_eq!(approves(&fleet, "Bob"), [""; 0]);
    fleet.run_to_the_end(&controller);
    assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
    let ledger = ledger(&fleet);
    for wanted in ["who: Alice <alice@example.com>", "who: Bob <bob@example.com>", "plan: sha256:", "means: command"] {
        assert!(ledger.contains(wanted), "{wanted} is missing in {ledger}");
    }
    assert!(!ledger.contains("who: Person"), "{ledger}");
    assert_no_stage_twice(&fleet);
}

#[test]
fn a_stage_lands_once_every_box_is_ticked_by_its_group() {
    let (fleet, controller) = asking(
        "approvers: {author: true, checkList: [{name: dashboards, says: no alert is new, by: coordinator}]}\n\
         groups: {coordinator: [carol@example.com]}\n",
    );
    let pass = fleet.run_until(&controller, waits_for_people);
    let unticked = "dashboards is not ticked by group coordinator: no alert is new";
    assert!(message(&pass).contains(&format!("; 0 of 1 approval; {unticked}")), "{}", told(&pass));
    let head = fleet.head();
    assert_eq!(approves(&fleet, "Alice"), [unticked]);
    let ticks = |who: &str, name: &str| says(&fleet, who, &Consent::Tick(name)).map(|answer| answer.missing);
    assert!(matches!(ticks("Carol", "pagers"), Err(AnswerError::NoSuchBox { .. })));
    assert_eq!(ticks("Alice", "dashboards").unwrap(), [unticked], "she is not of the group");
    fleet.run_until(&controller, waits_for_people);
    assert_eq!(fleet.head(), head, "nothing has landed");
    assert_eq!(ticks("Carol", "dashboards").unwrap(), [""; 0]);
    fleet.run_to_the_end(&controller);
    let ledger = ledger(&fleet);
    for wanted in ["name: dashboards", "who: Carol <carol@example.com>", "who: Alice <alice@example.com>"] {
        assert!(ledger.contains(wanted), "{wanted} is missing in {ledger}");
    }
    assert_no_stage_twice(&fleet);
}

#[test]
fn a_merge_by_hand_counts_for_one_and_holds_until_the_others_have_approved() {
    for how in [Merge::Commit, Merge::Squash, Merge::Rebase] {
        let (fleet, controller) = asking("approvers: {minimum: 2, author: true}\n");
        fleet.run_until(&controller, waits_for_people);
        let git = Git::of(&fleet);
        git.merge(git.of_cluster("mgmt").unwrap().1, how, fleet.clock_now());
        // Of a rebase git does not tell who did it.
        let given = if matches!(how, Merge::Rebase) { "0 of 2" } else { "1 of 2" };
        for controller in [&controller, &fleet.controller()] {
            let pass = fleet.run_until(controller, is_held);
            assert!(message(&pass).contains(&format!("merged too early: {given} approvals")), "{}", told(&pass));
        }
        assert!(approves(&fleet, "Alice").is_empty() != matches!(how, Merge::Rebase));
        if matches!(how, Merge::Rebase) {
            assert_eq!(approves(&fleet, "Bob"), [""; 0]);
        }
        fleet.run_to_the_end(&controller);
        assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
        assert!(ledger(&fleet).contains("who: Alice <alice@example.com>"), "{}", ledger(&fleet));
        assert_no_stage_twice(&fleet);
    }
}

#[test]
fn what_people_said_on_a_branch_that_is_merged_by_hand_counts() {
    let (fleet, controller) = asking("approvers: {minimum: 2, author: true}\n");
    fleet.run_until(&controller, waits_for_people);
    approves(&fleet, "Alice");
    let git = Git::of(&fleet);
    git.merge(git.of_branch("mgmt").1, Merge::Commit, fleet.clock_now());
    fleet.run_to_the_end(&controller);
    let ledger = ledger(&fleet);
    assert!(ledger.contains("who: Alice <alice@example.com>") && ledger.contains("means: merge"), "{ledger}");
}

#[test]
fn nobody_speaks_for_somebody_else_and_a_word_hides_no_edit() {
    let (fleet, controller) = asking("approvers: {minimum: 2}\n");
    fleet.run_until(&controller, waits_for_people);
    approves(&fleet, "Alice");
    let git = Git::of(&fleet);
    let (name, said) = git.of_branch("mgmt");
    let forged = git.0.find_commit(said).unwrap().message().unwrap().replace("Alice <alice", "Bob <bob");
    git.follow(&name, &forged, None);
    let pass = fleet.run_until(&fleet.controller(), waits_for_people);
    assert!(message(&pass).contains("1 of 2 approvals"), "{}", told(&pass));
    git.follow(&name, &forged, Some("clusters/mgmt/cert-manager/cert-manager.yaml"));
    let answer = says(&fleet, "Bob", &Consent::Word);
    assert!(matches!(answer, Err(AnswerError::Edited { .. })), "{answer:?}");
}

#[test]
fn groups_and_owners_are_heard() {
    let (fleet, controller) = asking(
        "groups: {platform: [carol@example.com], owners: [dave@example.com]}\n\
         approvers: {groups: {platform: 1}, codeOwners: true}\n",
    );
    let pass = fleet.run_until(&controller, waits_for_people);
    for wanted in ["group platform missing", "the deploy branch has no .github/CODEOWNERS"] {
        assert!(message(&pass).contains(wanted), "{wanted} is missing in {}", told(&pass));
    }
    fleet.meddle(
        "CODEOWNERS",
        Some("/clusters/ @organisation/security\n/clusters/mgmt/cert-manager/ @organisation/owners\n"),
    );
    let pass = fleet.run_until(&controller, waits_for_people);
    assert!(message(&pass).contains("who is in @organisation/security is not known"), "{}", told(&pass));
    fleet.meddle(
        "CODEOWNERS",
        Some("/clusters/ carol@example.com\n/clusters/mgmt/cert-manager/ @organisation/owners\n"),
    );
    fleet.run_until(&controller, waits_for_people);
    let missing = approves(&fleet, "Carol");
    assert!(
        missing.len() == 1 && missing[0].contains("`/clusters/mgmt/cert-manager/` (CODEOWNERS, line 2)"),
        "{missing:?}"
    );
    assert_eq!(approves(&fleet, "Dave"), [""; 0]);
    fleet.run_to_the_end(&controller);
    assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
}

#[test]
fn an_override_is_recorded_before_and_after_the_merge() {
    for merged in [false, true] {
        let (fleet, controller) = asking("approvers: {minimum: 2}\n");
        fleet.run_until(&controller, waits_for_people);
        let git = Git::of(&fleet);
        if merged {
            git.merge(git.of_cluster("mgmt").unwrap().1, Merge::Commit, fleet.clock_now());
            fleet.run_until(&controller, is_held);
        }
        says(&fleet, "Alice", &Consent::Override("the certificates expire tonight")).unwrap();
        let message = git.deploy().message().unwrap().to_owned();
        for wanted in [
            "Stepgate-Override-By: Alice <alice@example.com>",
            "Stepgate-Override-Reason: the certificates expire tonight",
            "Stepgate-Missing: 1 of 2 approvals",
            "cert-manager sha256:",
        ] {
            assert!(message.contains(wanted), "{wanted} is missing in {message}");
        }
        fleet.run_to_the_end(&controller);
        assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
        let ledger = ledger(&fleet);
        assert!(ledger.contains("reason: the certificates expire tonight"), "{ledger}");
        assert_no_stage_twice(&fleet);
    }
}

#[test]
fn a_merge_of_what_the_source_branch_has_left_behind_is_taken_back_where_the_policy_says_so() {
    for how in [Merge::Commit, Merge::Squash] {
        let (fleet, controller) = asking("onStaleMerge: revert\n");
        fleet.run_until(&controller, waits_for_people);
        let git = Git::of(&fleet);
        let (_, old) = git.of_cluster("mgmt").unwrap();
        let before = fleet.tree();
        fleet.edit(OVERLAY, |text| text.replace("system-node-critical", "another-class"));
        let asked_anew =
            |pass: &ReconcileReport| waits_for_people(pass) && git.of_cluster("mgmt").is_some_and(|it| it.1 != old);
        fleet.run_until(&controller, asked_anew);
        git.merge(old, how, fleet.clock_now());
        for _ in 0..10 {
            let pass = fleet.pass(&controller);
            if fleet.stages("mgmt").len() == 2 {
                break;
            }
            fleet.wait(Some(&pass));
        }
        assert_eq!(fleet.stages("mgmt").len(), 2, "the merge, and what takes it back");
        assert!(fleet.head_message().contains("after the source branch had moved on at"), "{}", fleet.head_message());
        // What is asked now lands as usual.
        let pass = fleet.run_until(&controller, waits_for_people);
        let wanted = fleet.folder("clusters/mgmt/cert-manager");
        assert_eq!(wanted, before.below("clusters/mgmt/cert-manager"), "{}", told(&pass));
        let (_, new) = git.of_cluster("mgmt").unwrap();
        git.merge(new, Merge::Commit, fleet.clock_now());
        fleet.run_to_the_end(&controller);
        let deployed = fleet.deployed("clusters/mgmt/cert-manager/cert-manager.yaml").unwrap();
        assert!(deployed.contains("another-class"), "{deployed}");
    }
}

#[test]
fn a_merge_of_what_the_source_branch_has_left_behind_is_held() {
    for how in [Merge::Commit, Merge::Squash] {
        let (fleet, controller) = asking("");
        fleet.run_until(&controller, waits_for_people);
        let git = Git::of(&fleet);
        let (_, old) = git.of_cluster("mgmt").unwrap();
        fleet.edit(OVERLAY, |text| text.replace("system-node-critical", "another-class"));
        fleet.run_until(&controller, |pass| {
            waits_for_people(pass) && git.of_cluster("mgmt").is_some_and(|it| it.1 != old)
        });
        git.merge(old, how, fleet.clock_now());
        for controller in [&controller, &fleet.controller()] {
            let pass = fleet.run_until(controller, is_held);
            assert!(message(&pass).contains("after the source branch had moved on at"), "{}", told(&pass));
            assert!(outcome(&pass, "mgmt").help().unwrap().contains("--override"), "{}", told(&pass));
        }
        let head = fleet.head();
        fleet.pass(&controller);
        assert_eq!(fleet.head(), head);
        // A person takes it as it is; the newer plan asks on its own.
        says(&fleet, "Alice", &Consent::Override("it is harmless")).unwrap();
        let pass = fleet.run_until(&controller, waits_for_people);
        let (_, new) = git.of_cluster("mgmt").unwrap();
        assert!(new != old, "{}", told(&pass));
    }
}

#[test]
fn a_failing_stage_that_was_merged_too_early_is_reverted_all_the_same() {
    let fleet = Fleet::with_policy(|policy| {
        let own = "stages:\n  cert-manager: {onFailure: revert, approval: stage, approvers: {minimum: 2}}\n";
        policy.replace("stages:\n", own)
    });
    let controller = fleet.controller();
    fleet.break_at("mgmt", StageName::CertManager, Fault::FailingPod);
    fleet.bump();
    fleet.run_until(&controller, |pass| message(pass).contains("waits for approval"));
    let git = Git::of(&fleet);
    git.merge(git.of_cluster("mgmt").unwrap().1, Merge::Commit, fleet.clock_now());
    fleet.run_until(&controller, is_held);
    fleet.run_until(&controller, |pass| message(pass).contains("was committed once and reverted"));
    assert_eq!(fleet.stages("mgmt"), ["cert-manager", "cert-manager"]);
}

#[test]
fn a_reverted_stage_is_tried_once_more_where_somebody_wants_it() {
    let fleet =
        Fleet::with_policy(|policy| policy.replace("stages:\n", "stages:\n  cert-manager: {onFailure: revert}\n"));
    let controller = fleet.controller();
    let retries = |by: Option<&str>| {
        let planner = fleet.planner();
        let reading = planner.read().unwrap();
        let view = planner.view(&reading, "mgmt").unwrap();
        let by = by.map(|by| by.parse().unwrap());
        proposal::retry(&planner, &reading, &view, (by.as_ref(), None), None, fleet.clock_now())
    };
    assert!(matches!(retries(None), Err(AnswerError::NothingReverted(_))));
    fleet.break_at("mgmt", StageName::CertManager, Fault::FailingPod);
    fleet.bump();
    let pass = fleet.run_until(&controller, |pass| message(pass).contains("was committed once and reverted"));
    assert!(outcome(&pass, "mgmt").help().unwrap().contains("stepgate retry mgmt"), "{}", told(&pass));
    fleet.heal("mgmt");
    let head = fleet.head();
    assert_eq!((retries(None).unwrap().commit, fleet.head()), (None, head));
    let retried = retries(Some("Alice <alice@example.com>")).unwrap();
    assert_eq!((retried.stage.to_string().as_str(), retried.attempt), ("cert-manager", 2));
    fleet.run_until(&controller, |pass| outcome(pass, "mgmt") == &ClusterOutcome::Done);
    assert_eq!(fleet.stages("mgmt").iter().filter(|stage| *stage == "cert-manager").count(), 3);
    let ledger = ledger(&fleet);
    assert!(ledger.contains("attempt: 2") && ledger.contains("who: Alice <alice@example.com>"), "{ledger}");
}

#[test]
fn who_lowers_the_bar_stays_below_it_with_the_same_push() {
    let rules =
        "groups: {platform: [alice@example.com, bob@example.com]}\napprovers: {minimum: 2, groups: {platform: 2}}\n";
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\n" + rules);
    let controller = fleet.controller();
    // At once: other rules, nobody is asked, a friend in the group, and what is to be rolled out.
    let lowered = |text: &str| {
        text.replace("approval: stage\n", "approval: none\n")
            .replace(rules, "groups: {platform: [mallory@example.com]}\n")
    };
    fleet.edit("stepgate.yaml", lowered);
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    let pass = fleet.run_until(&controller, waits_for_people);
    assert!(message(&pass).contains("; 0 of 2 approvals; 0 of 2 of group platform"), "{}", told(&pass));
    for who in ["Mallory", "Alice", "Bob"] {
        assert_ne!(approves(&fleet, who), [""; 0], "{who}: two of the group as both know it, and there is nobody");
    }
    says(&fleet, "Alice", &Consent::Override("the group has changed")).unwrap();
    fleet.run_to_the_end(&controller);
    // Now it counts.
    fleet.edit(OVERLAY, |text| text.replace("system-node-critical", "high"));
    fleet.run_to_the_end(&controller);
    assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify", "cert-manager", "verify"]);
}
