//! Stage commits, foreign changes and lineages.

use std::collections::BTreeSet;

use rollout::Lineage;

use super::*;
use crate::{Chain, DeployLayout, HistoryEntry};

fn layout() -> DeployLayout {
    DeployLayout { branch: branch("deploy"), prefix: None }
}

fn stage(repository: &Repository, cluster: &str, stage: &str, edits: &[(&str, Option<&str>)]) -> CommitId {
    let parent = repository.head(&branch("deploy")).unwrap();
    let mut draft = draft(parent.as_ref(), edits);
    draft.message.subject = format!("{cluster}: {stage}");
    draft.message.trailers = vec![trailers(cluster, stage)];
    let id = commit(repository, &draft);
    assert_eq!(repository.push(&branch("deploy"), &id, parent.as_ref()).unwrap(), PushOutcome::Pushed);
    id
}

fn shown(entries: &[HistoryEntry]) -> Vec<String> {
    entries
        .iter()
        .map(|entry| match &entry.stage {
            Some(trailers) => trailers.stage.to_string(),
            None => format!("foreign: {}", entry.subject),
        })
        .collect()
}

#[test]
fn a_cluster_has_its_own_history() {
    let sandbox = Sandbox::empty();
    let repository = sandbox.open();
    stage(&repository, "a", "bundle", &[("clusters/a/bundle/x", Some("1"))]);
    stage(&repository, "b", "bundle", &[("clusters/b/bundle/x", Some("1"))]);
    let second = stage(&repository, "a", "cilium@v1.18.2-0", &[("clusters/a/cilium/x", Some("1"))]);
    let head = stage(&repository, "b", "cilium", &[("clusters/b/cilium/x", Some("1"))]);
    let history =
        |cluster: &str, limit| repository.history(&head, &layout(), &cluster.parse().unwrap(), limit).unwrap();
    assert_eq!(shown(&history("a", 10)), ["cilium@v1.18.2-0", "bundle"]);
    assert_eq!(shown(&history("b", 1)), ["cilium"]);
    assert!(history("absent", 10).is_empty());
    let (newest, foreign) = repository.stage_commit(&head, &layout(), &"a".parse().unwrap()).unwrap();
    assert_eq!((newest.unwrap().commit, foreign), (second.clone(), Vec::new()));
    assert_eq!(history("a", 1)[0].commit, second);
}

#[test]
fn a_persons_change_below_a_cluster_is_foreign_and_elsewhere_is_not() {
    let sandbox = Sandbox::empty();
    let repository = sandbox.open();
    let ours = stage(&repository, "a", "bundle", &[("clusters/a/bundle/x", Some("1"))]);
    let check = |expected: &[&str]| {
        let head = sandbox.head("deploy").unwrap();
        let (newest, foreign) = repository.stage_commit(&head, &layout(), &"a".parse().unwrap()).unwrap();
        assert_eq!(newest.map(|entry| entry.commit), Some(ours.clone()));
        assert_eq!(shown(&foreign), expected);
        foreign
    };
    sandbox.import("deploy", Some("deploy^0"), &[("clusters/b/x", "1"), ("README", "1")], "Not yours");
    check(&[]);
    sandbox.import("deploy", Some("deploy^0"), &[("clusters/a/bundle/x", "2")], "Quick fix");
    let foreign = check(&["foreign: Quick fix"]);
    assert_eq!(foreign[0].author, "A Person <person@example.com>");
    // Trailers of another cluster do not make it ours, and neither do half of them.
    let message = format!("Second fix\n\n{}", trailers("b", "bundle"));
    sandbox.import("deploy", Some("deploy^0"), &[("clusters/a/bundle/y", "2")], &message);
    let message = "Third fix\n\nStepgate-Cluster: a\nStepgate-Stage: bundle";
    sandbox.import("deploy", Some("deploy^0"), &[("clusters/a/bundle/z", "2")], message);
    check(&["foreign: Third fix", "foreign: Second fix", "foreign: Quick fix"]);
}

#[test]
fn a_merged_pull_request_is_the_stage_commit_it_carried() {
    let sandbox = Sandbox::empty();
    let repository = sandbox.open();
    let base = stage(&repository, "a", "bundle", &[("clusters/a/bundle/x", Some("1"))]);
    let mut proposal = draft(Some(&base), &[("clusters/a/cilium/x", Some("1"))]);
    proposal.message.trailers = vec![trailers("a", "cilium")];
    let proposal = commit(&repository, &proposal);
    sandbox.import("deploy", Some(base.as_str()), &[("clusters/b/x", "1")], "Meanwhile");
    let other = sandbox.head("deploy").unwrap();
    let tree = sandbox.git(&["merge-tree", "--write-tree", other.as_str(), proposal.as_str()]);
    let merge =
        sandbox.git(&["commit-tree", "-m", "Merge", "-p", other.as_str(), "-p", proposal.as_str(), tree.trim()]);
    sandbox.git(&["update-ref", "refs/heads/deploy", &merge]);
    let merge: CommitId = merge.parse().unwrap();
    let (newest, foreign) = repository.stage_commit(&merge, &layout(), &"a".parse().unwrap()).unwrap();
    assert_eq!((newest.unwrap().commit, foreign.len()), (proposal.clone(), 0));
    // An applied revision may be the proposal or the merge, never the commit beside it.
    assert_eq!(repository.lineage(&proposal, &merge).unwrap(), [proposal, merge.clone()]);
    assert_eq!(repository.lineage(&base, &merge).unwrap().len(), 4);
}

#[test]
fn a_lineage_is_empty_when_the_branch_was_rewritten() {
    let sandbox = Sandbox::empty();
    let repository = sandbox.open();
    let one = stage(&repository, "a", "bundle", &[("clusters/a/x", Some("1"))]);
    let two = stage(&repository, "a", "cilium", &[("clusters/a/x", Some("2"))]);
    let three = stage(&repository, "a", "flux", &[("clusters/a/x", Some("3"))]);
    assert_eq!(repository.lineage(&one, &three).unwrap(), [one.clone(), two.clone(), three.clone()]);
    assert_eq!(repository.lineage(&two, &two).unwrap(), std::slice::from_ref(&two));
    assert!(repository.lineage(&three, &one).unwrap().is_empty());
    let elsewhere = sandbox.import("other", None, &[("x", "1")], "x");
    assert!(repository.lineage(&two, &elsewhere).unwrap().is_empty());
    let unknown: CommitId = "1".repeat(40).parse().unwrap();
    assert!(repository.lineage(&unknown, &three).is_err());
}

#[test]
fn the_deploy_path_layout_has_the_same_history() {
    let sandbox = Sandbox::empty();
    let repository = sandbox.open();
    let layout = DeployLayout { branch: branch("deploy"), prefix: Some(path("deploy")) };
    assert_eq!(layout.cluster(&"a".parse().unwrap()).unwrap().as_str(), "deploy/clusters/a");
    let head = stage(&repository, "a", "bundle", &[("deploy/clusters/a/x", Some("1")), ("clusters/a/x", Some("1"))]);
    let head = {
        sandbox.import("deploy", Some(head.as_str()), &[("clusters/a/x", "2")], "Intent of a person");
        sandbox.head("deploy").unwrap()
    };
    let (newest, foreign) = repository.stage_commit(&head, &layout, &"a".parse().unwrap()).unwrap();
    assert_eq!((newest.is_some(), foreign.len()), (true, 0));
}

#[test]
fn a_chain_tells_the_lineages_back_to_the_last_merge_and_grows_with_its_branch() {
    let sandbox = Sandbox::empty();
    let repository = sandbox.open();
    let number = |number: i32| number.to_string();
    let stage = |text: &str| stage(&repository, "a", "cilium", &[("clusters/a/x", Some(text))]);
    let first: Vec<CommitId> = (0..3).map(|at| stage(&number(at))).collect();
    let mut chain = Chain::new(1 << 20);
    assert_eq!((chain.head(), chain.since(&first[0])), (None, None));
    repository.extend(&mut chain, &first[2]).unwrap();
    assert_eq!(chain.since(&first[0]), Some(Lineage::from(first.clone())));

    let side = sandbox.import("side", Some(first[1].as_str()), &[("y", "1")], "Beside");
    let mut merge = draft(Some(&first[2]), &[("y", Some("1"))]);
    merge.merges = Some(side.clone());
    let merge = commit(&repository, &merge);
    assert_eq!(repository.push(&branch("deploy"), &merge, Some(&first[2])).unwrap(), PushOutcome::Pushed);
    let later: Vec<CommitId> = [merge].into_iter().chain((3..6).map(|at| stage(&number(at)))).collect();
    // At once, and by one commit after the other.
    let mut fresh = Chain::new(1 << 20);
    repository.extend(&mut fresh, &later[3]).unwrap();
    for head in &later {
        repository.extend(&mut chain, head).unwrap();
        assert_eq!(chain.head(), Some(head));
    }
    for chain in [&chain, &fresh] {
        for commit in &later {
            assert_eq!(chain.since(commit).unwrap(), repository.lineage(commit, &later[3]).unwrap().into());
        }
        // What is before the merge may be contained in what came from its other side.
        assert!([&first[0], &first[2], &side].into_iter().all(|commit| chain.since(commit).is_none()));
    }

    // Of a branch that was rewritten it holds what is there still.
    let other = sandbox.import("deploy", Some(later[1].as_str()), &[("z", "1")], "Instead");
    repository.extend(&mut chain, &other).unwrap();
    assert_eq!(chain.since(&later[1]), Some(vec![later[1].clone(), other.clone()].into()));
    assert_eq!((chain.since(&later[2]), chain.head()), (None, Some(&other)));
    repository.extend(&mut chain, &later[0]).unwrap();
    assert_eq!(chain.since(&later[0]), Some(vec![later[0].clone()].into()));
    let unknown: CommitId = "1".repeat(40).parse().unwrap();
    assert!(repository.extend(&mut chain, &unknown).is_err());
    assert_eq!(chain.head(), Some(&later[0]));
}

#[test]
fn a_chain_keeps_the_newest_commits_that_there_is_memory_for() {
    let sandbox = Sandbox::empty();
    let repository = sandbox.open();
    let stage = |number: i32| stage(&repository, "a", "cilium", &[("clusters/a/x", Some(&number.to_string()))]);
    let mut chain = Chain::new(2000);
    let commits: Vec<CommitId> = (0..40).map(stage).collect();
    for (place, head) in commits.iter().enumerate() {
        repository.extend(&mut chain, head).unwrap();
        assert!(chain.bytes() <= 2000, "{}", chain.bytes());
        let known: Vec<bool> = commits.iter().take(place + 1).map(|commit| chain.since(commit).is_some()).collect();
        assert!(known.is_sorted() && known[place], "{known:?}");
        for commit in &commits[place.saturating_sub(3)..=place] {
            assert_eq!(chain.since(commit).unwrap(), repository.lineage(commit, head).unwrap().into());
        }
    }
    // At once as well.
    let mut fresh = Chain::new(2000);
    repository.extend(&mut fresh, &commits[39]).unwrap();
    assert!(fresh.bytes() <= 2000 && fresh.since(&commits[36]).is_some() && fresh.since(&commits[0]).is_none());
}

/// What git itself says of a directory's history, newest first.
fn said_by_git(sandbox: &Sandbox, cluster: &str) -> Vec<String> {
    let said = sandbox.git(&["log", "--format=%H", "deploy", "--", &format!("clusters/{cluster}/")]);
    said.lines().map(str::to_owned).collect()
}

#[test]
fn the_histories_of_many_clusters_are_those_that_git_tells() {
    let sandbox = Sandbox::empty();
    let repository = sandbox.open();
    let clusters: Vec<String> = (0..40).map(|number| format!("cluster-{number}")).collect();
    let (mut head, mut folders, mut files) = (None, BTreeSet::new(), BTreeSet::new());
    for round in 0..4 {
        for (number, cluster) in clusters.iter().enumerate() {
            let (file, text) = (format!("clusters/{cluster}"), format!("{round}"));
            let (path, elsewhere) = (format!("{file}/bundle/x"), format!("flux/{cluster}/x"));
            let is_there = folders.contains(cluster);
            // Some commits concern no cluster, some take a directory away or put a file where there is none, and some bring it back.
            let edits: Vec<(&str, Option<&str>)> = match (round + number) % 5 {
                0 => vec![(&elsewhere, Some(&text))],
                1 if is_there => vec![(&path, None)],
                _ if files.contains(cluster) => vec![(&file, None)],
                2 if !is_there => vec![(&file, Some("no directory"))],
                _ => vec![(&path, Some(&text))],
            };
            for (changed, text) in &edits {
                let paths = if *changed == file { &mut files } else { &mut folders };
                match text {
                    Some(_) if *changed != elsewhere => drop(paths.insert(cluster)),
                    None => drop(paths.remove(cluster)),
                    Some(_) => {}
                }
            }
            head = Some(stage(&repository, cluster, &format!("cilium@v{round}.0.0"), &edits));
        }
    }
    assert!(!files.is_empty() && folders.len() > 10 && folders.len() < clusters.len());
    for cluster in &clusters {
        let history = repository.history(head.as_ref().unwrap(), &layout(), &cluster.parse().unwrap(), 10).unwrap();
        let found: Vec<String> = history.iter().map(|entry| entry.commit.to_string()).collect();
        assert_eq!(found, said_by_git(&sandbox, cluster), "{cluster}");
    }
}
