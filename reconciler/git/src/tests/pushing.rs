//! Compare-and-swap of a branch, with hooks, other writers and people.

use std::time::Duration;

use super::*;
use crate::Pace;

fn both(sandbox: &Sandbox) -> [(&'static str, Repository); 2] {
    [("local", sandbox.open()), ("remote", sandbox.open_remote("copy"))]
}

#[test]
fn a_push_moves_the_branch_only_from_the_expected_commit() {
    for kind in [0, 1] {
        let sandbox = Sandbox::with_files(&[("a", "1")]);
        let (name, repository) = both(&sandbox).into_iter().nth(kind).unwrap();
        let main = branch("main");
        repository.refresh(&[main.clone(), branch("deploy")]).unwrap();
        let base = repository.head(&main).unwrap();
        let ours = commit(&repository, &draft(base.as_ref(), &[("a", Some("ours"))]));
        let theirs = sandbox.import("main", Some(base.as_ref().unwrap().as_str()), &[("a", "theirs")], "theirs");
        let lost = repository.push(&main, &ours, base.as_ref()).unwrap();
        assert_eq!(lost, PushOutcome::Lost { actual: Some(theirs.clone()) }, "{name}");
        assert_eq!(sandbox.head("main"), Some(theirs.clone()));
        assert_eq!(repository.push(&main, &ours, None).unwrap(), lost, "{name}");

        // A branch that is created, and one that a person deleted meanwhile.
        let deploy = branch("deploy");
        let first = commit(&repository, &draft(None, &[("b", Some("1"))]));
        assert_eq!(repository.push(&deploy, &first, None).unwrap(), PushOutcome::Pushed, "{name}");
        assert_eq!(sandbox.head("deploy"), Some(first.clone()));
        assert_eq!(repository.head(&deploy).unwrap(), Some(first.clone()), "{name}");
        sandbox.git(&["branch", "-D", "deploy"]);
        let second = commit(&repository, &draft(Some(&first), &[("b", Some("2"))]));
        let outcome = repository.push(&deploy, &second, Some(&first)).unwrap();
        assert_eq!(outcome, PushOutcome::Lost { actual: None }, "{name}");
        assert_eq!(sandbox.head("deploy"), None);
        sandbox.check();
    }
}

#[test]
fn pushing_what_is_there_already_is_a_success() {
    for kind in [0, 1] {
        let sandbox = Sandbox::with_files(&[("a", "1")]);
        let (name, repository) = both(&sandbox).into_iter().nth(kind).unwrap();
        repository.refresh(&[branch("main")]).unwrap();
        let base = repository.head(&branch("main")).unwrap();
        let new = commit(&repository, &draft(base.as_ref(), &[("a", Some("2"))]));
        for _ in 0..2 {
            // The second time stands for a push whose answer was lost: it is asked again with the old expectation.
            assert_eq!(repository.push(&branch("main"), &new, base.as_ref()).unwrap(), PushOutcome::Pushed, "{name}");
        }
    }
}

#[test]
fn commits_of_others_are_never_dropped() {
    for kind in [0, 1] {
        let sandbox = Sandbox::with_files(&[("a", "1")]);
        let (_, repository) = both(&sandbox).into_iter().nth(kind).unwrap();
        repository.refresh(&[branch("main")]).unwrap();
        let base = repository.head(&branch("main")).unwrap().unwrap();
        let unrelated = commit(&repository, &draft(None, &[("x", Some("1"))]));
        let error = repository.push(&branch("main"), &unrelated, Some(&base)).unwrap_err();
        assert_eq!(error.code(), "not-a-follower");
        assert_eq!(sandbox.head("main"), Some(base));
    }
}

#[test]
fn a_hook_that_refuses_is_quoted_and_nothing_moves() {
    for (hook, script) in [
        ("pre-receive", "echo 'no changes on Fridays' >&2; exit 1"),
        ("update", "echo 'no changes on Fridays' >&2; exit 1"),
    ] {
        for kind in [0, 1] {
            let sandbox = Sandbox::with_files(&[("a", "1")]);
            sandbox.hook(hook, script);
            let (name, repository) = both(&sandbox).into_iter().nth(kind).unwrap();
            repository.refresh(&[branch("main")]).unwrap();
            let base = repository.head(&branch("main")).unwrap();
            let new = commit(&repository, &draft(base.as_ref(), &[("a", Some("2"))]));
            let outcome = repository.push(&branch("main"), &new, base.as_ref()).unwrap();
            let PushOutcome::RejectedByHook { message } = outcome else { panic!("{name} {hook}: {outcome:?}") };
            assert!(message.contains("no changes on Fridays"), "{message}");
            assert_eq!(
                (sandbox.head("main"), repository.head(&branch("main")).unwrap()),
                (base.clone(), base),
                "{name}"
            );
            sandbox.check();
        }
    }
}

#[test]
fn hooks_of_a_local_repository_run_and_are_told_the_move() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let log = sandbox.folder.path().join("log");
    sandbox.hook("post-receive", &format!("cat >> '{}'", log.display()));
    let base = sandbox.head("main").unwrap();
    let new = advance(&sandbox.open(), "main", &[("a", Some("2"))]);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), format!("{base} {new} refs/heads/main\n"));
    // A sample, or a file without the executable bit, is no hook.
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(sandbox.path().join("hooks/post-receive"), std::fs::Permissions::from_mode(0o644))
        .unwrap();
    advance(&sandbox.open(), "main", &[("a", Some("3"))]);
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 1);
}

#[test]
fn hooks_elsewhere_are_found() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    sandbox.hook("pre-receive", "exit 1");
    std::fs::rename(sandbox.path().join("hooks"), sandbox.path().join("rules")).unwrap();
    sandbox.git(&["config", "core.hooksPath", sandbox.path().join("rules").to_str().unwrap()]);
    let repository = sandbox.open();
    let base = repository.head(&branch("main")).unwrap();
    let new = commit(&repository, &draft(base.as_ref(), &[("a", Some("2"))]));
    let outcome = repository.push(&branch("main"), &new, base.as_ref()).unwrap();
    assert!(matches!(outcome, PushOutcome::RejectedByHook { .. }), "{outcome:?}");
}

#[test]
fn a_branch_in_a_work_tree_is_not_moved_under_its_feet() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    sandbox.git_in(sandbox.folder.path(), &["clone", "-q", "fleet.git", "clone"]);
    let clone = sandbox.folder.path().join("clone");
    let repository = Repository::open(&RepositoryLocation::Local(clone.clone())).unwrap();
    let base = repository.head(&branch("main")).unwrap();
    let new = commit(&repository, &draft(base.as_ref(), &[("a", Some("2"))]));
    let error = repository.push(&branch("main"), &new, base.as_ref()).unwrap_err();
    assert_eq!(error.code(), "checked-out");
    // Any other branch of a clone is fine, until a linked work tree has it.
    assert_eq!(repository.push(&branch("deploy"), &new, None).unwrap(), PushOutcome::Pushed);
    sandbox.git_in(&clone, &["worktree", "add", "-q", "../linked", "deploy"]);
    let next = commit(&repository, &draft(Some(&new), &[("a", Some("3"))]));
    assert_eq!(repository.push(&branch("deploy"), &next, Some(&new)).unwrap_err().code(), "checked-out");
}

#[test]
fn files_that_somebody_removes_meanwhile_are_told_with_what_does_that() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let repository = sandbox.open();
    let new = commit(&repository, &draft(None, &[("a", Some("2"))]));
    std::fs::remove_dir_all(sandbox.path()).unwrap();
    let error = repository.push(&branch("deploy"), &new, None).unwrap_err();
    assert!(error.to_string().contains("fleet.git") && error.hint().unwrap().contains("--prune=now"), "{error}");
}

#[test]
fn a_lock_left_behind_is_named() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let repository = sandbox.open();
    let base = repository.head(&branch("main")).unwrap();
    let new = commit(&repository, &draft(base.as_ref(), &[("a", Some("2"))]));
    let lock = sandbox.path().join("refs/heads/main.lock");
    std::fs::write(&lock, "").unwrap();
    let error = repository.push(&branch("main"), &new, base.as_ref()).unwrap_err();
    assert_eq!(error.code(), "locked");
    assert!(error.to_string().contains("refs/heads/main") && error.hint().unwrap().contains(".lock"), "{error}");
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(repository.push(&branch("main"), &new, base.as_ref()).unwrap(), PushOutcome::Pushed);
}

#[test]
fn a_process_killed_between_lock_and_move_blocks_nobody() {
    for step in 0..3 {
        let sandbox = Sandbox::with_files(&[("a", "1")]);
        let repository = sandbox.open();
        let base = repository.head(&branch("main")).unwrap();
        let new = commit(&repository, &draft(base.as_ref(), &[("a", Some("2"))]));
        // What a killed process leaves behind after each of its steps.
        let (value, lock) = (sandbox.path().join("stepgate.value"), sandbox.path().join("refs/heads/main.lock"));
        std::fs::write(&value, format!("{new}\n")).unwrap();
        if step > 0 {
            std::fs::write(sandbox.path().join("stepgate.note"), "refs/heads/main.lock").unwrap();
        }
        if step > 1 {
            std::fs::hard_link(&value, &lock).unwrap();
        }
        assert_eq!(repository.push(&branch("main"), &new, base.as_ref()).unwrap(), PushOutcome::Pushed, "{step}");
        assert_eq!(sandbox.head("main"), Some(new));
        assert!(!lock.exists() && !value.exists());
        sandbox.check();
    }
    // The same traces beside a lock of another program: that one stays.
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let repository = sandbox.open();
    let base = repository.head(&branch("main")).unwrap();
    let new = commit(&repository, &draft(base.as_ref(), &[("a", Some("2"))]));
    std::fs::write(sandbox.path().join("stepgate.value"), "x").unwrap();
    std::fs::write(sandbox.path().join("stepgate.note"), "refs/heads/main.lock").unwrap();
    std::fs::write(sandbox.path().join("refs/heads/main.lock"), "").unwrap();
    assert_eq!(repository.push(&branch("main"), &new, base.as_ref()).unwrap_err().code(), "locked");
    assert!(sandbox.path().join("refs/heads/main.lock").exists());
}

/// Does something while somebody packs the references of the repository all the time.
fn while_packing<T: Send>(sandbox: &Sandbox, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let working = scope.spawn(work);
        while !working.is_finished() {
            // Both want the same locks: who packs may be the one that is refused.
            let _ = sandbox.try_git(&sandbox.path(), &["pack-refs", "--all"], "");
        }
        working.join().unwrap()
    })
}

#[test]
fn who_packs_references_all_the_while_refuses_no_push() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let repository = sandbox.open();
    // Nested, so that packing removes folders too.
    let deploy = branch("teams/shop/deploy");
    let head = while_packing(&sandbox, || {
        (0..300).fold(None, |head, count| {
            let new = commit(&repository, &draft(head.as_ref(), &[("a", Some(&count.to_string()))]));
            assert_eq!(repository.push(&deploy, &new, head.as_ref()).unwrap(), PushOutcome::Pushed, "{count}");
            Some(new)
        })
    });
    assert_eq!(sandbox.head("teams/shop/deploy"), head);
    sandbox.check();
}

#[test]
fn who_packs_references_all_the_while_keeps_no_proposed_branch() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let repository = sandbox.open();
    let (main, proposed) = (repository.head(&branch("main")).unwrap().unwrap(), branch("stepgate/prod/capi"));
    while_packing(&sandbox, || {
        for count in 0..300 {
            assert_eq!(repository.propose(&proposed, &main, None).unwrap(), PushOutcome::Pushed, "{count}");
            repository.withdraw(&proposed, &main).unwrap();
            assert_eq!(repository.head(&proposed).unwrap(), None, "{count}");
        }
    });
    sandbox.check();
}

#[test]
fn packs_stay_few_over_hundreds_of_pushes_and_nothing_is_lost() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let repository = sandbox.open();
    let packs = || {
        let files = std::fs::read_dir(sandbox.path().join("objects/pack")).unwrap();
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "pack")).count()
    };
    let deploy = branch("deploy");
    let mut head = None;
    for count in 0..300 {
        let new = commit(&repository, &draft(head.as_ref(), &[("a", Some(&count.to_string()))]));
        assert_eq!(repository.push(&deploy, &new, head.as_ref()).unwrap(), PushOutcome::Pushed);
        head = Some(new);
        assert!(packs() <= 51, "{count}: {}", packs());
    }
    assert_eq!(sandbox.git(&["rev-list", "--count", "deploy"]).trim(), "300");
    assert_eq!(files(&sandbox, "deploy")["a"], "299");
    sandbox.check();
}

#[test]
fn packed_references_are_swapped_too() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    sandbox.git(&["pack-refs", "--all"]);
    assert!(!sandbox.path().join("refs/heads/main").exists());
    let new = advance(&sandbox.open(), "main", &[("a", Some("2"))]);
    assert_eq!(sandbox.head("main"), Some(new));
}

#[test]
fn writers_at_once_lose_nothing_and_double_nothing() {
    const WRITERS: usize = 4;
    const COMMITS: usize = 8;
    let sandbox = Sandbox::with_files(&[("start", "1")]);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let sandbox = &sandbox;
            scope.spawn(move || {
                // Half of them write in place, half through the git program; each has a handle of its own.
                let repository =
                    if writer % 2 == 0 { sandbox.open() } else { sandbox.open_remote(&format!("copy-{writer}")) };
                let main = branch("main");
                for number in 0..COMMITS {
                    loop {
                        repository.refresh(std::slice::from_ref(&main)).unwrap();
                        let base = repository.head(&main).unwrap();
                        let file = format!("{writer}/{number}");
                        let new = commit(&repository, &draft(base.as_ref(), &[(&file, Some("x"))]));
                        match repository.push(&main, &new, base.as_ref()) {
                            Ok(PushOutcome::Pushed) => break,
                            Ok(PushOutcome::Lost { actual }) => assert!(actual.is_some() && actual != base),
                            Err(error) => assert!(error.is_transient(), "{error:?}"),
                            Ok(outcome) => panic!("{outcome:?}"),
                        }
                    }
                }
            });
        }
    });
    let count = sandbox.git(&["rev-list", "--count", "main"]);
    assert_eq!(count, (WRITERS * COMMITS + 1).to_string(), "one commit per write");
    assert_eq!(sandbox.git(&["rev-list", "--merges", "main"]), "");
    assert_eq!(files(&sandbox, "main").len(), WRITERS * COMMITS + 1);
    sandbox.check();
}

#[test]
fn a_proposed_branch_may_be_written_anew_and_is_withdrawn_only_as_it_was_seen() {
    for kind in [0, 1] {
        let sandbox = Sandbox::with_files(&[("a", "1")]);
        let (name, repository) = both(&sandbox).into_iter().nth(kind).unwrap();
        repository.refresh(&[branch("main")]).unwrap();
        let base = repository.head(&branch("main")).unwrap();
        let proposed = branch("stepgate/0123456789ab/workers/md-0");
        let first = commit(&repository, &draft(base.as_ref(), &[("a", Some("2"))]));
        let second = commit(&repository, &draft(base.as_ref(), &[("a", Some("3"))]));
        assert_eq!(repository.propose(&proposed, &first, None).unwrap(), PushOutcome::Pushed, "{name}");
        let lost = repository.propose(&proposed, &second, None).unwrap();
        assert_eq!(lost, PushOutcome::Lost { actual: Some(first.clone()) }, "{name}");
        assert_eq!(repository.propose(&proposed, &second, Some(&first)).unwrap(), PushOutcome::Pushed, "{name}");
        assert_eq!(sandbox.head(proposed.as_str()), Some(second.clone()), "{name}");

        repository.withdraw(&proposed, &first).unwrap();
        assert_eq!(sandbox.head(proposed.as_str()), Some(second.clone()), "{name}: it holds another proposal");
        repository.withdraw(&proposed, &second).unwrap();
        assert_eq!((sandbox.head(proposed.as_str()), repository.head(&proposed).unwrap()), (None, None), "{name}");
        repository.withdraw(&proposed, &second).unwrap();
        sandbox.check();
    }
}

#[test]
fn a_proposed_branch_that_the_server_keeps_is_not_said_to_be_withdrawn() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let [_, (_, repository)] = both(&sandbox);
    repository.refresh(&[branch("main")]).unwrap();
    let base = repository.head(&branch("main")).unwrap();
    let (proposed, new) =
        (branch("stepgate/0123456789ab"), commit(&repository, &draft(base.as_ref(), &[("a", Some("2"))])));
    assert_eq!(repository.propose(&proposed, &new, None).unwrap(), PushOutcome::Pushed);
    sandbox.git(&["config", "receive.denyDeletes", "true"]);
    let error = repository.withdraw(&proposed, &new).unwrap_err();
    assert!(error.to_string().contains("denying ref deletion"), "{error}");
    assert_eq!((sandbox.head(proposed.as_str()), repository.head(&proposed).unwrap()), (Some(new.clone()), Some(new)));
}

#[test]
fn a_push_may_bring_several_commits() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    for (name, repository) in both(&sandbox) {
        repository.refresh(&[branch("main")]).unwrap();
        let base = repository.head(&branch("main")).unwrap();
        let first = commit(&repository, &draft(base.as_ref(), &[(name, Some("2"))]));
        let second = commit(&repository, &draft(Some(&first), &[(name, Some("3"))]));
        let pushed = repository.push(&branch("main"), &second, base.as_ref()).unwrap();
        assert_eq!((pushed, sandbox.head("main")), (PushOutcome::Pushed, Some(second)), "{name}");
        sandbox.check();
    }
}

#[test]
fn a_push_whose_answer_does_not_come_is_looked_for_on_the_branch() {
    for (hook, is_there) in [("post-receive", true), ("pre-receive", false)] {
        let sandbox = Sandbox::with_files(&[("a", "1")]);
        sandbox.hook(hook, "sleep 60");
        let location = format!("file://{}", sandbox.path().display()).parse().unwrap();
        let pace = Pace { patience: Duration::from_secs(1), ..Pace::default() };
        let settings = GitSettings { pace, ..sandbox.settings("copy") };
        let repository = Repository::open_with(&location, &settings).unwrap();
        repository.refresh(&[branch("main")]).unwrap();
        let base = repository.head(&branch("main")).unwrap();
        let new = commit(&repository, &draft(base.as_ref(), &[("a", Some("2"))]));
        let pushed = repository.push(&branch("main"), &new, base.as_ref());
        assert_eq!(pushed.is_ok_and(|pushed| pushed == PushOutcome::Pushed), is_there, "{hook}");
        assert_eq!(sandbox.head("main"), if is_there { Some(new) } else { base }, "{hook}");
    }
}

#[test]
fn a_reference_that_cannot_be_read_is_not_taken_for_one_that_is_gone() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let (repository, proposed) = (sandbox.open(), branch("stepgate/0123456789ab"));
    let base = repository.head(&branch("main")).unwrap().unwrap();
    assert_eq!(repository.propose(&proposed, &base, None).unwrap(), PushOutcome::Pushed);
    let file = sandbox.path().join("refs/heads").join(proposed.as_str());
    std::fs::write(&file, "no commit").unwrap();
    let error = repository.withdraw(&proposed, &base).unwrap_err();
    assert!(error.to_string().contains("remove `stepgate/0123456789ab`"), "{error}");
    assert!(file.exists());
}

#[test]
fn a_merge_has_both_parents_and_the_tree_that_was_asked_for() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let repository = sandbox.open();
    let base = repository.head(&branch("main")).unwrap();
    let side = commit(&repository, &draft(base.as_ref(), &[("a", Some("2"))]));
    let mut merge = draft(base.as_ref(), &[("a", Some("2"))]);
    merge.merges = Some(side.clone());
    let merged = commit(&repository, &merge);
    assert_eq!(repository.push(&branch("main"), &merged, base.as_ref()).unwrap(), PushOutcome::Pushed);
    let parents = format!("{} {side}", base.unwrap());
    assert_eq!(sandbox.git(&["log", "-1", "--format=%P", "main"]).trim(), parents);
    assert_eq!(sandbox.git(&["show", "main:a"]), "2");
    sandbox.check();
}
