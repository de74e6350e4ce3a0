//! Stages that people approve by merging what is proposed, without any forge.

use std::collections::BTreeSet;

use git::{Identity, StageTrailers};
use git2::{BranchType, Commit, Oid};
use jiff::{SignedDuration, Timestamp};
use rollout::StageName;
use simulator::Fault;
use stepgate::reconcile::proposal::{self, AnswerError};
use stepgate::reconcile::{ClusterOutcome, Controller, ReconcileReport};

use crate::fleet::{CLUSTERS, Fleet, assert_no_stage_twice, is_done, outcome, told};

pub const OVERLAY: &str = "overlays/cert-manager/kustomization.yaml";

fn asking(approval: &str) -> Fleet {
    Fleet::with_policy(|policy| policy + &format!("approval: {approval}\n"))
}

fn person() -> Identity {
    "A Person <person@example.com>".parse().unwrap()
}

/// How people merge.
#[derive(Clone, Copy)]
pub enum Merge {
    /// A commit with two parents.
    Commit,
    /// One commit with the same changes and a message of its own.
    Squash,
    /// The proposed commit on top of the branch, its message kept.
    Rebase,
}

pub struct Git(pub git2::Repository);

impl Git {
    pub fn of(fleet: &Fleet) -> Self {
        Self(git2::Repository::open_bare(fleet.repository.folder()).unwrap())
    }

    /// The proposed branches and what they hold.
    pub fn proposed(&self) -> Vec<(String, Oid)> {
        let branches = self.0.branches(Some(BranchType::Local)).unwrap().map(|branch| branch.unwrap().0);
        let all = branches.map(|branch| (branch.name().unwrap().unwrap().to_owned(), branch.get().target().unwrap()));
        let mut proposed: Vec<_> = all.filter(|(name, _)| name.starts_with("stepgate/")).collect();
        proposed.sort();
        proposed
    }

    /// The commits of a branch that the deploy branch does not hold, oldest first.
    pub fn commits(&self, head: Oid) -> Vec<Commit<'_>> {
        let mut walk = self.0.revwalk().unwrap();
        walk.push(head).unwrap();
        walk.hide(self.deploy().id()).unwrap();
        let mut commits: Vec<_> = walk.map(|id| self.0.find_commit(id.unwrap()).unwrap()).collect();
        commits.reverse();
        commits
    }

    /// The cluster and the stage of each commit that is proposed on a branch.
    pub fn parts(&self, head: Oid) -> Vec<(String, String)> {
        let trailers = |commit: Commit<'_>| {
            let trailers = StageTrailers::parse(commit.message().unwrap())?;
            Some((trailers.cluster.to_string(), trailers.stage.to_string()))
        };
        self.commits(head).into_iter().filter_map(trailers).collect()
    }

    /// The one that proposes something for a cluster.
    pub fn of_cluster(&self, cluster: &str) -> Option<(String, Oid)> {
        let proposes = |id: Oid| self.parts(id).iter().any(|(name, _)| name == cluster);
        self.proposed().into_iter().find(|(_, id)| proposes(*id))
    }

    /// The branch that proposes something for a cluster, and what people have brought it to.
    pub fn of_branch(&self, cluster: &str) -> (String, Oid) {
        let own = format!("Stepgate-Answer: {cluster} ");
        let said = |id: Oid| self.0.find_commit(id).unwrap().message().unwrap().contains(&own);
        self.proposed().into_iter().find(|(_, id)| said(*id)).unwrap()
    }

    /// Somebody commits to a branch; a file that is named is changed with it.
    pub fn follow(&self, branch: &str, message: &str, changed: Option<&str>) -> Oid {
        let reference = format!("refs/heads/{branch}");
        let before = self.0.find_reference(&reference).unwrap().peel_to_commit().unwrap();
        let mut index = git2::Index::new().unwrap();
        index.read_tree(&before.tree().unwrap()).unwrap();
        if let Some(path) = changed {
            let entry = index.get_path(std::path::Path::new(path), 0).unwrap();
            let blob = self.0.blob(b"kind: Secret\n").unwrap();
            index.add(&git2::IndexEntry { id: blob, ..entry }).unwrap();
        }
        let tree = self.0.find_tree(index.write_tree_to(&self.0).unwrap()).unwrap();
        let person = git2::Signature::new("A Person", "person@example.com", &before.time()).unwrap();
        self.0.commit(Some(&reference), &person, &person, message, &tree, &[&before]).unwrap()
    }

    /// A branch holds a commit of the same author and message once more, of which one text in ledger, proposal and message is another one.
    pub fn again(&self, branch: &str, commit: Oid, from: &str, to: &str) -> Oid {
        let commit = self.0.find_commit(commit).unwrap();
        let mut index = git2::Index::new().unwrap();
        index.read_tree(&commit.tree().unwrap()).unwrap();
        for path in ["clusters/mgmt/rollout.yaml", "clusters/mgmt/proposal.md"] {
            let entry = index.get_path(std::path::Path::new(path), 0).unwrap();
            let text = String::from_utf8(self.0.find_blob(entry.id).unwrap().content().to_vec()).unwrap();
            let blob = self.0.blob(text.replace(from, to).as_bytes()).unwrap();
            index.add(&git2::IndexEntry { id: blob, ..entry }).unwrap();
        }
        let tree = self.0.find_tree(index.write_tree_to(&self.0).unwrap()).unwrap();
        let message = commit.message().unwrap().replace(from, to);
        let parents: Vec<Commit<'_>> = commit.parents().collect();
        let parents: Vec<&Commit<'_>> = parents.iter().collect();
        let id = self.0.commit(None, &commit.author(), &commit.committer(), &message, &tree, &parents).unwrap();
        self.0.reference(&format!("refs/heads/{branch}"), id, true, "forged").unwrap();
        id
    }

    /// Somebody puts a commit in the place of the proposed one, with its message and its author, in
    /// which a file says something else.
    pub fn forge(&self, branch: &str, path: &str, change: impl Fn(&str) -> String) -> Oid {
        let reference = format!("refs/heads/{branch}");
        let ours = self.0.find_reference(&reference).unwrap().peel_to_commit().unwrap();
        let mut index = git2::Index::new().unwrap();
        index.read_tree(&ours.tree().unwrap()).unwrap();
        let entry = index.get_path(std::path::Path::new(path), 0).unwrap();
        let old = self.0.find_blob(entry.id).unwrap();
        let text = change(std::str::from_utf8(old.content()).unwrap());
        assert_ne!(text.as_bytes(), old.content());
        let blob = self.0.blob(text.as_bytes()).unwrap();
        index.add(&git2::IndexEntry { id: blob, ..entry }).unwrap();
        let tree = self.0.find_tree(index.write_tree_to(&self.0).unwrap()).unwrap();
        let (author, message) = (ours.author(), ours.message().unwrap());
        let forged = self.0.commit(None, &author, &author, message, &tree, &[&ours.parent(0).unwrap()]).unwrap();
        self.0.reference(&reference, forged, true, "forged").unwrap();
        forged
    }

    /// Somebody merges a history of its own into the source branch, which is older than all by its clock and holds this policy alone.
    pub fn unrelated(&self, policy: &str) -> Oid {
        let main = self.0.find_reference("refs/heads/main").unwrap().peel_to_commit().unwrap();
        let mut tree = self.0.treebuilder(None).unwrap();
        tree.insert("stepgate.yaml", self.0.blob(policy.as_bytes()).unwrap(), 0o100_644).unwrap();
        let tree = self.0.find_tree(tree.write().unwrap()).unwrap();
        let old = git2::Signature::new("A Person", "person@example.com", &git2::Time::new(1, 0)).unwrap();
        let root = self.0.commit(None, &old, &old, "Begin", &tree, &[]).unwrap();
        let root = self.0.find_commit(root).unwrap();
        let person = git2::Signature::new("A Person", "person@example.com", &main.time()).unwrap();
        let merged = self.0.commit(None, &person, &person, "Merge", &main.tree().unwrap(), &[&root, &main]).unwrap();
        self.0.reference("refs/heads/main", merged, true, "merged").unwrap();
        merged
    }

    pub fn deploy(&self) -> Commit<'_> {
        self.0.find_reference("refs/heads/deploy").unwrap().peel_to_commit().unwrap()
    }

    pub fn merge(&self, proposed: Oid, how: Merge, at: Timestamp) {
        let commits = match how {
            Merge::Rebase => self.commits(proposed).iter().map(Commit::id).collect(),
            Merge::Commit | Merge::Squash => vec![proposed],
        };
        for commit in commits {
            self.merge_one(commit, how, at);
        }
    }

    fn merge_one(&self, proposed: Oid, how: Merge, at: Timestamp) {
        let (deploy, proposed) = (self.deploy(), self.0.find_commit(proposed).unwrap());
        let mut index = match how {
            Merge::Rebase => self.0.cherrypick_commit(&proposed, &deploy, 0, None).unwrap(),
            Merge::Commit | Merge::Squash => self.0.merge_commits(&deploy, &proposed, None).unwrap(),
        };
        assert!(!index.has_conflicts());
        let tree = self.0.find_tree(index.write_tree_to(&self.0).unwrap()).unwrap();
        let time = git2::Time::new(at.as_second(), 0);
        let person = git2::Signature::new("A Person", "person@example.com", &time).unwrap();
        let author = if matches!(how, Merge::Rebase) { proposed.author().to_owned() } else { person.clone() };
        let reference = Some("refs/heads/deploy");
        let (message, parents) = match how {
            Merge::Commit => ("Merge what was proposed\n", vec![&deploy, &proposed]),
            Merge::Squash => ("What was proposed (#1)\n", vec![&deploy]),
            Merge::Rebase => (proposed.message().unwrap(), vec![&deploy]),
        };
        self.0.commit(reference, &author, &person, message, &tree, &parents).unwrap();
    }
}

/// Everything waits for people, or is done.
pub fn waits_for_people(pass: &ReconcileReport) -> bool {
    pass.clusters.iter().all(|cluster| {
        cluster.outcome == ClusterOutcome::Done
            || cluster.outcome.message().contains("waits for approval")
            || cluster.outcome.message().contains("comes first")
    })
}

/// A merge: the branch, and the cluster and the stage of each of its commits.
type Merged = (String, Vec<(String, String)>);

/// People merge whatever is proposed until nothing is left. What was merged, in order.
fn merge_all(fleet: &Fleet, controller: &Controller, how: Merge) -> Vec<Merged> {
    let git = Git::of(fleet);
    let mut merged = Vec::new();
    loop {
        let pass = fleet.run_until(controller, waits_for_people);
        if is_done(&pass) {
            return merged;
        }
        let head = fleet.head();
        fleet.pass(controller);
        assert_eq!(fleet.head(), head, "something landed that nobody merged");
        let proposed = git.proposed();
        let done = pass.clusters.iter().all(|cluster| cluster.outcome == ClusterOutcome::Done);
        assert!(done || !proposed.is_empty(), "it waits for people who are not asked: {}", told(&pass));
        for (name, id) in proposed {
            let parts = git.parts(id);
            git.merge(id, how, fleet.clock_now());
            merged.push((name, parts));
        }
    }
}

#[test]
fn each_stage_lands_by_a_merge_of_any_kind_and_the_end_is_the_same() {
    let without = Fleet::new();
    without.bump();
    without.run_to_the_end(&without.controller());
    for how in [Merge::Commit, Merge::Squash, Merge::Rebase] {
        let fleet = asking("stage");
        let before = fleet.tree();
        fleet.bump();
        let merged = merge_all(&fleet, &fleet.controller(), how);
        let stages: usize = CLUSTERS.iter().map(|cluster| without.stages(cluster).len() - 1).sum();
        let parts: Vec<_> = merged.iter().flat_map(|(_, parts)| parts).collect();
        assert_eq!(parts.len(), stages, "{merged:?}");
        assert_eq!(parts.iter().collect::<BTreeSet<_>>().len(), stages, "asked twice for one stage: {merged:?}");
        assert!(merged.iter().any(|(_, parts)| parts.len() == 2), "nothing was asked together: {merged:?}");
        assert_eq!(fleet.tree(), without.tree());
        assert_ne!(fleet.tree(), before);
        assert_no_stage_twice(&fleet);
        assert_eq!(Git::of(&fleet).proposed(), [], "what was merged is tidied away");
        let ledger = fleet.deployed("clusters/mgmt/rollout.yaml").unwrap();
        assert_eq!(ledger.matches("- scope:").count(), without.stages("mgmt").len() - 1, "{ledger}");
        // Of a rebase git does not tell who did it.
        let named = if matches!(how, Merge::Rebase) { 0 } else { without.stages("mgmt").len() - 1 };
        assert_eq!(ledger.matches("by: A Person <person@example.com>").count(), named, "{ledger}");
    }
}

#[test]
fn one_merge_approves_a_whole_rollout() {
    let fleet = asking("rollout");
    fleet.bump();
    let merged = merge_all(&fleet, &fleet.controller(), Merge::Commit);
    let asked: Vec<&str> = merged.iter().flat_map(|(_, parts)| parts).map(|(cluster, _)| cluster.as_str()).collect();
    assert_eq!(asked, CLUSTERS, "each once: {merged:?}");
    assert!(merged.iter().all(|(name, _)| name.ends_with("/rollout")), "{merged:?}");
    assert_no_stage_twice(&fleet);
}

#[test]
fn what_is_proposed_tells_people_what_they_are_asked() {
    let fleet = asking("stage");
    fleet.bump();
    let controller = fleet.controller();
    let pass = fleet.run_until(&controller, waits_for_people);
    let git = Git::of(&fleet);
    let (name, id) = git.of_cluster("mgmt").unwrap();
    let message = outcome(&pass, "mgmt").message();
    assert!(message.contains(&format!("branch {name}")) && name.ends_with("/cert-manager"), "{message} {name}");
    let tree = git.0.find_commit(id).unwrap().tree().unwrap();
    let blob = tree.get_path(std::path::Path::new("clusters/mgmt/proposal.md")).unwrap().to_object(&git.0).unwrap();
    let text = String::from_utf8(blob.as_blob().unwrap().content().to_vec()).unwrap();
    for wanted in
        ["# mgmt: cert-manager", "| stage | component |", "## What the gate before it saw", "stepgate approve mgmt"]
    {
        assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
    }
    // A process that has just been started asks for the same.
    let anew = fleet.controller();
    fleet.run_until(&anew, waits_for_people);
    assert_eq!(git.of_cluster("mgmt"), Some((name, id)));
}

#[test]
fn another_target_makes_what_was_proposed_void_and_asks_anew() {
    let fleet = asking("stage");
    let controller = fleet.controller();
    fleet.bump();
    fleet.run_until(&controller, waits_for_people);
    let git = Git::of(&fleet);
    let (name, old) = git.of_cluster("mgmt").unwrap();
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    // Before the controller has seen it, the old proposal can no longer be approved.
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, "mgmt").unwrap();
    let answer = proposal::approve(&planner, &reading, &view, Some(&person()), fleet.clock_now());
    assert!(matches!(answer, Err(AnswerError::Void { .. })), "{answer:?}");
    fleet.run_until(&controller, |pass| waits_for_people(pass) && git.of_cluster("mgmt").is_some_and(|it| it.1 != old));
    let proposed = git.proposed();
    assert_eq!(
        proposed.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        [&name],
        "the void one is replaced in its place"
    );
    assert!(git.commits(proposed[0].1).iter().all(|commit| commit.id() != old));
    merge_all(&fleet, &controller, Merge::Commit);
    assert!(fleet.deployed("clusters/mgmt/cert-manager/cert-manager.yaml").unwrap().contains("system-node-critical"));
    assert_no_stage_twice(&fleet);
}

#[test]
fn a_rejection_holds_until_the_plan_is_another_one() {
    let fleet = asking("stage");
    let controller = fleet.controller();
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    fleet.run_until(&controller, waits_for_people);
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, "mgmt").unwrap();
    let head = fleet.head();
    proposal::reject(&planner, &reading, &view, Some(&person()), "change freeze", fleet.clock_now()).unwrap();
    for controller in [&controller, &fleet.controller()] {
        let pass = fleet.run_until(controller, |pass| matches!(outcome(pass, "mgmt"), ClusterOutcome::Held { .. }));
        let message = outcome(&pass, "mgmt").message();
        assert!(message.contains("rejected by A Person") && message.contains("change freeze"), "{message}");
    }
    assert_eq!(fleet.head(), head);
    fleet.edit(OVERLAY, |text| text.replace("system-node-critical", "high"));
    merge_all(&fleet, &controller, Merge::Commit);
    assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
}

#[test]
fn approving_merges_what_was_proposed_and_names_who_did() {
    let fleet = asking("stage");
    let controller = fleet.controller();
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    fleet.run_until(&controller, waits_for_people);
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, "mgmt").unwrap();
    let head = fleet.head();
    let dry = proposal::approve(&planner, &reading, &view, None, fleet.clock_now()).unwrap();
    assert_eq!((dry.commit, fleet.head()), (None, head));
    proposal::approve(&planner, &reading, &view, Some(&person()), fleet.clock_now()).unwrap();
    let git = Git::of(&fleet);
    let merge = git.deploy();
    assert_eq!(merge.parent_count(), 2);
    assert!(merge.message().unwrap().contains("Stepgate-Approved-By: A Person <person@example.com>"));
    assert_eq!(git.of_cluster("mgmt"), None);
    // Twice is once.
    let again = planner.read().unwrap();
    let view = planner.view(&again, "mgmt").unwrap();
    let answer = proposal::approve(&planner, &again, &view, Some(&person()), fleet.clock_now());
    assert!(matches!(answer, Err(AnswerError::NothingProposed(_))), "{answer:?}");
    merge_all(&fleet, &controller, Merge::Commit);
    assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
}

#[test]
fn what_people_change_on_a_proposed_branch_is_shown_and_is_not_approved_with_it() {
    let fleet = asking("stage");
    let controller = fleet.controller();
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    fleet.run_until(&controller, waits_for_people);
    let git = Git::of(&fleet);
    let (name, _) = git.of_cluster("mgmt").unwrap();
    let edited = git.follow(&name, "Better\n", Some("clusters/mgmt/cert-manager/cert-manager.yaml"));
    let pass = fleet.run_until(&controller, waits_for_people);
    assert!(outcome(&pass, "mgmt").message().contains("changed by people"), "{}", told(&pass));
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, "mgmt").unwrap();
    let answer = proposal::approve(&planner, &reading, &view, Some(&person()), fleet.clock_now());
    assert!(matches!(answer, Err(AnswerError::Edited { .. })), "{answer:?}");
    // Merged by hand all the same, it is a foreign change: held, and not taken for what was proposed.
    git.merge(edited, Merge::Commit, fleet.clock_now());
    let pass = fleet.run_until(&controller, |pass| matches!(outcome(pass, "mgmt"), ClusterOutcome::Held { .. }));
    assert!(outcome(&pass, "mgmt").message().contains("cert-manager.yaml"), "{}", told(&pass));
}

#[test]
fn nothing_is_proposed_over_a_failed_gate() {
    let fleet = asking("stage");
    let controller = fleet.controller();
    let git = Git::of(&fleet);
    fleet.bump();
    fleet.run_until(&controller, |pass| waits_for_people(pass) && git.of_cluster("mgmt").is_some());
    let (next, id) = git.of_cluster("mgmt").unwrap();
    assert!(next.ends_with("/cert-manager"), "{next}");
    fleet.break_at("mgmt", StageName::CertManager, Fault::FailingPod);
    git.merge(id, Merge::Commit, fleet.clock_now());
    let pass = fleet.run_until(&controller, |pass| matches!(outcome(pass, "mgmt"), ClusterOutcome::Held { .. }));
    assert_eq!(git.of_cluster("mgmt"), None, "{}", told(&pass));
    fleet.heal("mgmt");
    merge_all(&fleet, &controller, Merge::Commit);
    assert_no_stage_twice(&fleet);
}

#[test]
fn two_controllers_at_once_ask_for_each_stage_once() {
    let fleet = asking("stage");
    let controllers = [fleet.controller(), fleet.controller()];
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    let git = Git::of(&fleet);
    let mut asked = BTreeSet::new();
    loop {
        for controller in &controllers {
            fleet.run_until(controller, waits_for_people);
        }
        let proposed = git.proposed();
        let mut stages: Vec<_> = proposed.iter().map(|(name, _)| name.clone()).collect();
        stages.dedup();
        assert_eq!(stages.len(), proposed.len());
        for (name, id) in proposed {
            assert!(asked.insert(name.clone()), "{name} was asked for twice");
            git.merge(id, Merge::Commit, fleet.clock_now());
        }
        if controllers.iter().all(|controller| is_done(&fleet.pass(controller))) {
            break;
        }
    }
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
    assert_no_stage_twice(&fleet);
}

#[test]
fn below_a_deploy_path_the_source_branch_itself_is_merged_into() {
    let fleet = Fleet::with_policy(|policy| {
        let policy = policy.replace("deploy:\n  branch: deploy\n", "deploy:\n  branch: main\n  path: deploy\n");
        policy + "approval: stage\n"
    });
    let controller = fleet.controller();
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    fleet.run_until(&controller, waits_for_people);
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, "mgmt").unwrap();
    proposal::approve(&planner, &reading, &view, Some(&person()), fleet.clock_now()).unwrap();
    fleet.run_to_the_end(&controller);
    let text = fleet.deployed("deploy/clusters/mgmt/cert-manager/cert-manager.yaml").unwrap();
    assert!(text.contains("system-node-critical"));
    assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
}

#[test]
fn a_stage_merged_days_after_it_was_proposed_has_its_whole_time() {
    for how in [Merge::Commit, Merge::Squash, Merge::Rebase] {
        let fleet = Fleet::with_policy(|policy| policy + "approval: stage\nonFailure: revert\n");
        let controller = fleet.controller();
        fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
        fleet.run_until(&controller, waits_for_people);
        let git = Git::of(&fleet);
        let (_, id) = git.of_cluster("mgmt").unwrap();
        fleet.clock.advance(SignedDuration::from_hours(72));
        git.merge(id, how, fleet.clock_now());
        fleet.run_to_the_end(&controller);
        assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
    }
}

#[test]
fn where_git_does_not_tell_when_a_stage_landed_no_timeout_is_counted() {
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\nonFailure: revert\n");
    let controller = fleet.controller();
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    fleet.run_until(&controller, waits_for_people);
    let git = Git::of(&fleet);
    let (_, id) = git.of_cluster("mgmt").unwrap();
    fleet.clock.advance(SignedDuration::from_hours(72));
    // A fast-forward leaves no trace of itself.
    git.0.reference("refs/heads/deploy", id, true, "merge: Fast-forward").unwrap();
    fleet.run_to_the_end(&controller);
    assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
}
