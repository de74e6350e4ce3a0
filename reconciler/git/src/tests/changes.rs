//! Which commits changed which clusters, told for all clusters at once.

use super::*;
use crate::{Chain, Changes, DeployLayout, HistoryEntry, Older, Reach};

fn layout() -> DeployLayout {
    DeployLayout { branch: branch("deploy"), prefix: None }
}

/// A commit of ours that changes these clusters and names those.
fn stage(repository: &Repository, changed: &[&str], named: &[&str], text: &str) -> CommitId {
    let parent = repository.head(&branch("deploy")).unwrap();
    let paths: Vec<String> = changed.iter().map(|cluster| format!("clusters/{cluster}/x")).collect();
    let edits: Vec<(&str, Option<&str>)> = paths.iter().map(|path| (path.as_str(), Some(text))).collect();
    let mut draft = draft(parent.as_ref(), &edits);
    draft.message.subject = match named {
        [one] => format!("{one}: bundle"),
        several => format!("{} clusters: bundle", several.len()),
    };
    draft.message.trailers = named.iter().map(|cluster| trailers(cluster, "bundle")).collect();
    let id = commit(repository, &draft);
    assert_eq!(repository.push(&branch("deploy"), &id, parent.as_ref()).unwrap(), PushOutcome::Pushed);
    id
}

/// The whole history of a cluster, by what is known at once and from where that ends by itself.
fn told(repository: &Repository, changes: &mut Changes, head: &CommitId, cluster: &str) -> Vec<HistoryEntry> {
    let (cluster, mut entries) = (cluster.parse().unwrap(), Vec::new());
    loop {
        match repository.older(changes, head, &layout(), &cluster, entries.len(), Reach::Everything).unwrap() {
            Older::Entry(entry) => entries.push(*entry),
            Older::From(commit) => {
                entries.extend(repository.history(&commit, &layout(), &cluster, 1000).unwrap());
                return entries;
            }
            Older::Nothing => return entries,
        }
    }
}

#[track_caller]
fn compare(repository: &Repository, changes: &mut Changes, head: &CommitId) {
    for cluster in ["a", "b", "c", "absent"] {
        let alone = repository.history(head, &layout(), &cluster.parse().unwrap(), 1000).unwrap();
        assert_eq!(told(repository, changes, head, cluster), alone, "{cluster}");
    }
}

#[test]
fn histories_told_at_once_are_those_of_each_cluster_by_itself() {
    let sandbox = Sandbox::empty();
    let repository = sandbox.open();
    let (mut grown, mut tiny) = (Changes::new(1 << 20), Changes::new(700));
    let mut heads = vec![stage(&repository, &["a", "b", "c"], &["a", "b", "c"], "1")];
    heads.push(stage(&repository, &["b"], &["b"], "2"));
    // Somebody else's commit, and ones with trailers that were not written for what they change.
    heads.push(sandbox.import("deploy", Some("deploy^0"), &[("clusters/a/x", "3"), ("clusters/c/x", "3")], "Fix"));
    let squashed = format!("Merge\n\na: bundle\n\n{}\n{}", trailers("a", "bundle"), trailers("b", "bundle"));
    heads.push(sandbox.import("deploy", Some("deploy^0"), &[("clusters/a/x", "4"), ("clusters/b/x", "4")], &squashed));
    let edited = format!("b: bundle\n\n* a: bundle\n\n{}\n* b\n\n{}", trailers("a", "bundle"), trailers("b", "bundle"));
    heads.push(sandbox.import("deploy", Some("deploy^0"), &[("clusters/a/x", "5"), ("clusters/b/x", "5")], &edited));
    heads.push(sandbox.import("deploy", Some("deploy^0"), &[("clusters/a", "no folder"), ("README", "1")], "Replace"));
    let merged = heads[5].clone();
    let side = sandbox.import("side", Some(heads[1].as_str()), &[("clusters/c/x", "6")], "Beside");
    let mut merge = draft(Some(&merged), &[("clusters/c/x", Some("6"))]);
    merge.merges = Some(side);
    heads.push(commit(&repository, &merge));
    assert_eq!(repository.push(&branch("deploy"), &heads[6], Some(&merged)).unwrap(), PushOutcome::Pushed);
    heads.push(stage(&repository, &["a"], &["a"], "7"));
    heads.push(stage(&repository, &["b", "c"], &["b", "c"], "8"));
    for head in &heads {
        compare(&repository, &mut grown, head);
        compare(&repository, &mut tiny, head);
        compare(&repository, &mut Changes::new(1 << 20), head);
        assert!(tiny.bytes() <= 700, "{}", tiny.bytes());
    }
    // A branch that was written anew, and one that was before.
    let other = sandbox.import("deploy", Some(heads[1].as_str()), &[("clusters/b/x", "9")], "Instead");
    for head in [&other, &heads[3], &heads[8]] {
        compare(&repository, &mut grown, head);
    }
}

#[test]
fn no_commit_is_read_that_is_older_than_what_is_asked_for() {
    let sandbox = Sandbox::empty();
    let repository = sandbox.open();
    for number in 0..10 {
        stage(&repository, &["b"], &["b"], &number.to_string());
    }
    let first = stage(&repository, &["a"], &["a"], "1");
    stage(&repository, &["c"], &["c"], "1");
    let head = stage(&repository, &["a"], &["a"], "2");
    // What is older than the first of these is not there.
    let shallow = sandbox.path().parent().unwrap().join("shallow.git");
    let source = format!("file://{}", sandbox.path().display());
    let place = shallow.display().to_string();
    sandbox.git_in(shallow.parent().unwrap(), &["clone", "-q", "--bare", "--depth=3", "-b", "deploy", &source, &place]);
    let cut = Repository::open(&RepositoryLocation::Local(shallow)).unwrap();
    let mut changes = Changes::new(1 << 20);
    let mut older = |cluster: &str, known| {
        cut.older(&mut changes, &head, &layout(), &cluster.parse().unwrap(), known, Reach::Everything)
    };
    let commits = [0, 1].map(|known| match older("a", known).unwrap() {
        Older::Entry(entry) => entry.commit,
        other => panic!("{other:?}"),
    });
    assert_eq!(commits, [head.clone(), first.clone()]);
    let mut chain = Chain::new(1 << 20);
    cut.extend(&mut chain, &head).unwrap();
    assert_eq!(chain.since(&first).unwrap(), repository.lineage(&first, &head).unwrap().into());
    let error = older("b", 0).unwrap_err();
    assert!(error.hint().is_some_and(|hint| hint.contains("--unshallow")), "{error} {:?}", error.hint());
}

#[test]
fn who_was_added_lately_has_none_of_the_old_commits() {
    let sandbox = Sandbox::empty();
    let repository = sandbox.open();
    stage(&repository, &["a"], &["a"], "1");
    let main = sandbox.import("side", Some("deploy"), &[("clusters/b/x", "1")], "Beside");
    let parent = repository.head(&branch("deploy")).unwrap();
    let mut merge = draft(parent.as_ref(), &[("clusters/b/x", Some("1"))]);
    merge.merges = Some(main);
    let merge = commit(&repository, &merge);
    assert_eq!(repository.push(&branch("deploy"), &merge, parent.as_ref()).unwrap(), PushOutcome::Pushed);
    stage(&repository, &["c"], &["c"], "1");
    let head = stage(&repository, &["a", "b", "c"], &["a", "b", "c"], "2");
    let mut changes = Changes::new(1 << 20);
    let mut older = |cluster: &str, known, reach| {
        repository.older(&mut changes, &head, &layout(), &cluster.parse().unwrap(), known, reach).unwrap()
    };
    // Histories part at the merge: behind it each is walked by itself.
    for (cluster, known, ends) in [("a", 1, false), ("b", 1, false), ("c", 2, true), ("absent", 0, false)] {
        assert_eq!(older(cluster, known, Reach::Lifetime) == Older::Nothing, ends, "{cluster}");
        assert_eq!(older(cluster, known, Reach::Everything), Older::From(merge.clone()), "{cluster}");
    }
}
