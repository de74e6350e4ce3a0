//! What people change on a proposed branch, where `acceptEdits` says that it may become what is proposed.

use std::path::Path;

use stepgate::reconcile::proposal::{self, AnswerError, Approval, Consent};
use stepgate::reconcile::{ClusterOutcome, Controller, ReconcileReport};

use crate::approvals::{Git, Merge, OVERLAY, waits_for_people};
use crate::fleet::{Fleet, assert_no_stage_twice, outcome, told};

const MANIFEST: &str = "clusters/mgmt/cert-manager/cert-manager.yaml";

/// One stage of one cluster asks for another priority class.
fn asking(policy: &str) -> (Fleet, Controller) {
    let fleet = Fleet::with_policy(|text| text + "approval: stage\n" + policy);
    let controller = fleet.controller();
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    fleet.run_until(&controller, waits_for_people);
    (fleet, controller)
}

/// Somebody changes a file of a proposed branch.
fn edit(git: &Git, branch: &str, who: &str, path: &str, change: impl Fn(&str) -> String) {
    let reference = format!("refs/heads/{branch}");
    let before = git.0.find_reference(&reference).unwrap().peel_to_commit().unwrap();
    let mut index = git2::Index::new().unwrap();
    index.read_tree(&before.tree().unwrap()).unwrap();
    let entry = index.get_path(Path::new(path), 0);
    let old = entry.as_ref().map(|entry| git.0.find_blob(entry.id).unwrap().content().to_vec()).unwrap_or_default();
    let text = change(std::str::from_utf8(&old).unwrap());
    let entry = entry.unwrap_or_else(|| {
        let any = index.get_path(Path::new(MANIFEST), 0).unwrap();
        git2::IndexEntry { path: path.as_bytes().to_vec(), ..any }
    });
    if text.is_empty() {
        index.remove(Path::new(path), 0).unwrap();
    } else {
        index.add(&git2::IndexEntry { id: git.0.blob(text.as_bytes()).unwrap(), ..entry }).unwrap();
    }
    let tree = git.0.find_tree(index.write_tree_to(&git.0).unwrap()).unwrap();
    let email = format!("{}@example.com", who.to_lowercase());
    let person = git2::Signature::new(who, &email, &before.time()).unwrap();
    git.0.commit(Some(&reference), &person, &person, "Better\n", &tree, &[&before]).unwrap();
}

fn class(text: &str) -> String {
    text.replace("system-node-critical", "team-critical")
}

fn file(git: &Git, commit: git2::Oid, path: &str) -> String {
    let tree = git.0.find_commit(commit).unwrap().tree().unwrap();
    let blob = tree.get_path(Path::new(path)).unwrap().to_object(&git.0).unwrap();
    String::from_utf8(blob.as_blob().unwrap().content().to_vec()).unwrap()
}

fn says(fleet: &Fleet, who: &str) -> Result<Approval, AnswerError> {
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, "mgmt").unwrap();
    let by = format!("{who} <{}@example.com>", who.to_lowercase()).parse().unwrap();
    proposal::answer(&planner, &reading, &view, Some(&by), &Consent::Word, fleet.clock_now())
}

fn message(pass: &ReconcileReport) -> String {
    outcome(pass, "mgmt").message()
}

/// Stepgate has made the branch anew with what people changed.
fn is_taken_up(git: &Git) -> bool {
    git.of_cluster("mgmt").is_some_and(|(_, head)| {
        let commit = git.0.find_commit(head).unwrap();
        commit.author().name() == Ok("Stepgate") && file(git, head, "clusters/mgmt/rollout.yaml").contains("edits:")
    })
}

#[test]
fn an_accepted_edit_is_proposed_anew_and_lands_as_it_is_by_every_kind_of_merge() {
    for how in [Merge::Commit, Merge::Squash, Merge::Rebase] {
        let (fleet, controller) = asking("acceptEdits: true\n");
        let git = Git::of(&fleet);
        let (branch, first) = git.of_cluster("mgmt").unwrap();
        edit(&git, &branch, "Alice", MANIFEST, class);
        let pass = fleet.run_until(&controller, |pass| waits_for_people(pass) && is_taken_up(&git));
        assert!(!message(&pass).contains("changed by people"), "{}", told(&pass));
        let (again, head) = git.of_cluster("mgmt").unwrap();
        assert_eq!(again, branch);
        let parent = |commit| git.0.find_commit(commit).unwrap().parent_id(0).unwrap();
        assert_eq!(parent(head), parent(first), "one commit of ours");
        let text = file(&git, head, "clusters/mgmt/proposal.md");
        let wanted = "## Changed by people\n\n- Alice changed `clusters/mgmt/cert-manager/cert-manager.yaml`: changed Deployment";
        assert!(text.contains(wanted), "{text}");
        // Another process finds the same.
        fleet.run_until(&fleet.controller(), waits_for_people);
        assert_eq!(git.of_cluster("mgmt"), Some((branch, head)));
        let proposed = file(&git, head, MANIFEST);
        assert!(proposed.contains("team-critical") && !proposed.contains("system-node-critical"), "{proposed}");
        git.merge(head, how, fleet.clock_now());
        fleet.run_to_the_end(&controller);
        assert_eq!(fleet.deployed(MANIFEST).unwrap(), proposed);
        assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
        assert_no_stage_twice(&fleet);
        // It stays while the source branch renders the same, and is over when that renders something else.
        let (deployed, head) = (fleet.head(), fleet.deployed(MANIFEST));
        fleet.run_to_the_end(&fleet.controller());
        assert_eq!((fleet.head(), fleet.deployed(MANIFEST)), (deployed, head));
        fleet.edit(OVERLAY, |text| text.replace("system-node-critical", "other"));
        fleet.run_until(&controller, waits_for_people);
        let (_, head) = git.of_cluster("mgmt").unwrap();
        let next = file(&git, head, MANIFEST);
        assert!(next.contains("other") && !next.contains("team-critical"), "{next}");
        assert!(!file(&git, head, "clusters/mgmt/rollout.yaml").contains("edits:"));
    }
}

#[test]
fn an_edit_voids_what_was_approved_before_and_who_made_it_does_not_approve_it() {
    let (fleet, controller) = asking("acceptEdits: true\napprovers: {minimum: 2}\n");
    assert_eq!(says(&fleet, "Alice").unwrap().missing[0], "1 of 2 approvals");
    let git = Git::of(&fleet);
    let (branch, _) = git.of_branch("mgmt");
    edit(&git, &branch, "Carol", MANIFEST, class);
    let pass = fleet.run_until(&controller, |pass| waits_for_people(pass) && is_taken_up(&git));
    assert!(message(&pass).contains("0 of 2 approvals"), "{}", told(&pass));
    let missing = says(&fleet, "Carol").unwrap().missing;
    assert!(missing[0] == "0 of 2 approvals" && missing[1].contains("wrote what is rolled out"), "{missing:?}");
    assert_eq!(says(&fleet, "Alice").unwrap().missing[0], "1 of 2 approvals");
    // Somebody else changes it once more: both are its authors then.
    let (branch, _) = git.of_branch("mgmt");
    edit(&git, &branch, "Dave", MANIFEST, |text| text.replace("team-critical", "team-high"));
    let taken_up = |pass: &ReconcileReport| waits_for_people(pass) && message(pass).contains("0 of 2 approvals");
    fleet.run_until(&controller, taken_up);
    for author in ["Carol", "Dave"] {
        let missing = says(&fleet, author).unwrap().missing;
        assert!(missing[0] == "0 of 2 approvals", "{author}: {missing:?}");
    }
    says(&fleet, "Alice").unwrap();
    assert_eq!(says(&fleet, "Bob").unwrap().missing, [""; 0]);
    fleet.run_to_the_end(&controller);
    assert!(fleet.deployed(MANIFEST).unwrap().contains("team-high"));
    assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
}

/// What somebody makes of a file.
type Change<'a> = &'a dyn Fn(&str) -> String;

#[test]
fn what_may_not_be_edited_is_named_and_holds_until_it_is_taken_back() {
    let ledger = "clusters/mgmt/rollout.yaml";
    let secret = |text: &str| format!("{text}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: x}}\n");
    let comment = |text: &str| format!("{text}# more\n");
    let definition = |text: &str| text.replacen("kind: CustomResourceDefinition", "kind: Other", 1);
    let whole: [(&str, &str, Change<'_>, &str); 7] = [
        ("acceptEdits: false\n", MANIFEST, &class, "stage cert-manager of mgmt accepts no edits"),
        ("acceptEdits: true\n", ledger, &comment, "it is none of the manifests that stage cert-manager renders"),
        ("acceptEdits: true\n", "README.md", &comment, "it is none of the manifests"),
        ("acceptEdits: true\n", "clusters/team-a/x.yaml", &comment, "it is none of the manifests"),
        ("acceptEdits: true\n", MANIFEST, &secret, "it does not hold the objects that are rendered"),
        ("acceptEdits: true\n", MANIFEST, &definition, "it does not hold the objects that are rendered"),
        (
            "acceptEdits: true\n",
            "clusters/mgmt/cert-manager/more.yaml",
            &comment,
            "files are neither added nor removed",
        ),
    ];
    for (policy, path, change, reason) in whole {
        let (fleet, controller) = asking(policy);
        let git = Git::of(&fleet);
        let (branch, first) = git.of_cluster("mgmt").unwrap();
        edit(&git, &branch, "Alice", path, change);
        let edited = git.of_cluster("mgmt").unwrap().1;
        let pass = fleet.run_until(&controller, |pass| waits_for_people(pass) && message(pass).contains("changed by"));
        let wanted = format!("Alice changed `{path}`: {reason}");
        assert!(message(&pass).contains(&wanted), "{wanted} is missing in {}", told(&pass));
        let ClusterOutcome::Waiting { reason, .. } = outcome(&pass, "mgmt") else { panic!("{}", told(&pass)) };
        assert!(reason.help.as_deref().is_some_and(|help| help.contains("`git revert`")), "{reason:?}");
        assert!(matches!(says(&fleet, "Bob"), Err(AnswerError::Edited { .. })), "{path}");
        assert_eq!(git.of_cluster("mgmt").unwrap().1, edited, "what people wrote is left alone");
        // Taken back, it may be approved as before.
        let parent = git.0.find_commit(edited).unwrap().parent(0).unwrap();
        let (before, reference) = (git.0.find_commit(edited).unwrap(), format!("refs/heads/{branch}"));
        let person = before.author();
        git.0.commit(Some(&reference), &person, &person, "Revert\n", &parent.tree().unwrap(), &[&before]).unwrap();
        let pass = fleet.run_until(&controller, |pass| !message(pass).contains("changed by people"));
        assert!(message(&pass).contains("waits for approval"), "{}", told(&pass));
        says(&fleet, "Bob").unwrap();
        fleet.run_to_the_end(&controller);
        assert_eq!(fleet.deployed(MANIFEST).unwrap(), file(&git, first, MANIFEST));
    }
}

/// What is proposed says this, and asks for another priority class.
fn proposes(git: &Git, class: &str, wanted: &str) -> bool {
    git.of_cluster("mgmt").is_some_and(|(_, head)| {
        file(git, head, MANIFEST).contains(class) && file(git, head, "clusters/mgmt/proposal.md").contains(wanted)
    })
}

#[test]
fn an_edit_that_the_source_branch_overtakes_is_told_until_it_is_made_again() {
    let wanted = "## Not part of this any more\n\n- Alice changed `clusters/mgmt/cert-manager/cert-manager.yaml`, and that is not part of this: \
                  the source branch renders another file by now\n";
    for taken_up_first in [true, false] {
        let (fleet, controller) = asking("acceptEdits: true\n");
        let git = Git::of(&fleet);
        let (branch, _) = git.of_cluster("mgmt").unwrap();
        edit(&git, &branch, "Alice", MANIFEST, class);
        if taken_up_first {
            fleet.run_until(&controller, |pass| waits_for_people(pass) && is_taken_up(&git));
        }
        fleet.edit(OVERLAY, |text| text.replace("system-node-critical", "other"));
        fleet.run_until(&controller, |pass| waits_for_people(pass) && proposes(&git, "other", wanted));
        // It is still said when the source branch has moved once more, and another process finds the same.
        fleet.edit(OVERLAY, |text| text.replace("other", "another"));
        fleet.run_until(&fleet.controller(), |pass| waits_for_people(pass) && proposes(&git, "another", wanted));
        let (branch, head) = git.of_cluster("mgmt").unwrap();
        fleet.run_until(&fleet.controller(), waits_for_people);
        assert_eq!(git.of_cluster("mgmt"), Some((branch.clone(), head)));
        edit(&git, &branch, "Alice", MANIFEST, |text| text.replace("another", "team-critical"));
        fleet.run_until(&controller, |pass| waits_for_people(pass) && is_taken_up(&git));
        assert!(!proposes(&git, "", "Not part of this any more"));
    }
}

#[test]
fn an_edit_that_is_not_accepted_is_told_when_it_goes() {
    let (fleet, controller) = asking("acceptEdits: false\n");
    let git = Git::of(&fleet);
    let (branch, _) = git.of_cluster("mgmt").unwrap();
    edit(&git, &branch, "Alice", MANIFEST, class);
    fleet.run_until(&controller, |pass| waits_for_people(pass) && message(pass).contains("changed by"));
    fleet.edit(OVERLAY, |text| text.replace("system-node-critical", "other"));
    let wanted = "that is not part of this: stage cert-manager of mgmt accepts no edits";
    fleet.run_until(&controller, |pass| waits_for_people(pass) && proposes(&git, "other", wanted));
}

#[test]
fn a_commit_in_the_name_of_stepgate_is_replaced_and_told() {
    let (fleet, controller) = asking("acceptEdits: true\n");
    let git = Git::of(&fleet);
    let (branch, head) = git.of_cluster("mgmt").unwrap();
    edit(&git, &branch, "Mallory", MANIFEST, class);
    let edited = git.0.find_commit(git.of_cluster("mgmt").unwrap().1).unwrap();
    let ours = git.0.find_commit(head).unwrap();
    // The same message on other files, in the place of what was proposed.
    let (who, parent, tree) = (edited.author(), ours.parent(0).unwrap(), edited.tree().unwrap());
    let forged = git.0.commit(None, &who, &who, ours.message().unwrap(), &tree, &[&parent]).unwrap();
    git.0.reference(&format!("refs/heads/{branch}"), forged, true, "").unwrap();
    let id: String = forged.to_string().chars().take(10).collect();
    let wanted = format!("commit {id} lay here in Stepgate's name, written by Mallory as far as git tells");
    fleet.run_until(&controller, |pass| waits_for_people(pass) && proposes(&git, "system-node-critical", &wanted));
}

#[test]
fn an_edit_that_is_merged_before_it_is_taken_up_stops_the_cluster() {
    let (fleet, controller) = asking("acceptEdits: true\n");
    let git = Git::of(&fleet);
    let (branch, _) = git.of_cluster("mgmt").unwrap();
    edit(&git, &branch, "Alice", MANIFEST, class);
    git.merge(git.of_cluster("mgmt").unwrap().1, Merge::Commit, fleet.clock_now());
    let pass = fleet.run_until(&controller, |pass| matches!(outcome(pass, "mgmt"), ClusterOutcome::Held { .. }));
    assert!(message(&pass).contains("cert-manager.yaml"), "{}", told(&pass));
}

#[test]
fn an_edit_of_a_later_stage_is_taken_up_in_the_middle_of_a_rollout() {
    let fleet = Fleet::with_policy(|text| {
        text + "approval: stage\nacceptEdits: true\nclusters: {team-a: {approval: none}, team-b: {approval: none}}\n"
    });
    let controller = fleet.controller();
    let git = Git::of(&fleet);
    fleet.bump();
    let mut merged = Vec::new();
    let mut edited = None;
    loop {
        let pass = fleet.run_until(&controller, waits_for_people);
        let Some((branch, head)) = git.of_cluster("mgmt") else {
            assert_eq!(*outcome(&pass, "mgmt"), ClusterOutcome::Done, "{}", told(&pass));
            break;
        };
        let (cluster, stage) = git.parts(head).remove(0);
        assert_eq!(cluster, "mgmt");
        if stage == "cilium" && edited.is_none() {
            let folder = "clusters/mgmt/cilium";
            let tree = git.0.find_commit(head).unwrap().tree().unwrap();
            let tree = tree.get_path(Path::new(folder)).unwrap().to_object(&git.0).unwrap();
            let name = tree
                .as_tree()
                .unwrap()
                .iter()
                .map(|entry| entry.name().unwrap().to_owned())
                .find(|name| file(&git, head, &format!("{folder}/{name}")).contains("kind: DaemonSet"));
            let path = format!("{folder}/{}", name.unwrap());
            let owner = |text: &str| {
                let metadata = "kind: DaemonSet\nmetadata:\n";
                text.replacen(metadata, &format!("{metadata}  annotations:\n    team.example.com/owner: alice\n"), 1)
            };
            edit(&git, &branch, "Alice", &path, owner);
            fleet.run_until(&controller, |pass| waits_for_people(pass) && is_taken_up(&git));
            edited = Some(path);
            continue;
        }
        git.merge(head, Merge::Commit, fleet.clock_now());
        merged.push(stage);
    }
    let path = edited.unwrap();
    assert!(fleet.deployed(&path).unwrap().contains("team.example.com/owner: alice"), "{merged:?}");
    assert_no_stage_twice(&fleet);
}
