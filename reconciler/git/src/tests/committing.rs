//! Commits in the object store.

use super::*;
use crate::GitError;

#[test]
fn edits_add_replace_and_remove_files_and_folders() {
    let sandbox = Sandbox::with_files(&[
        ("clusters/a/bundle/old.yaml", "old"),
        ("clusters/a/bundle/kept/x.yaml", "x"),
        ("clusters/b/cluster.yaml", "b"),
        ("README", "readme"),
    ]);
    let repository = sandbox.open();
    advance(
        &repository,
        "main",
        &[
            ("clusters/a/bundle", None),
            ("clusters/a/bundle/new.yaml", Some("new")),
            ("clusters/a/rollout.yaml", Some("ledger")),
            ("clusters/b/cluster.yaml", None),
            ("never/was", None),
        ],
    );
    let expected: BTreeMap<String, String> =
        [("README", "readme"), ("clusters/a/bundle/new.yaml", "new"), ("clusters/a/rollout.yaml", "ledger")]
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .into();
    assert_eq!(files(&sandbox, "main"), expected);
    sandbox.check();
}

#[test]
fn a_prefix_holds_the_deploy_path_layout() {
    let sandbox = Sandbox::with_files(&[("stepgate.yaml", "policy")]);
    let repository = sandbox.open();
    let mut draft = draft(sandbox.head("main").as_ref(), &[("clusters/a/x.yaml", Some("x"))]);
    draft.prefix = Some(path("deploy/fleet"));
    let id = commit(&repository, &draft);
    repository.push(&branch("main"), &id, draft.parent.as_ref()).unwrap();
    assert_eq!(
        files(&sandbox, "main").into_keys().collect::<Vec<_>>(),
        ["deploy/fleet/clusters/a/x.yaml", "stepgate.yaml"]
    );
    sandbox.check();
}

#[test]
fn equal_drafts_give_equal_ids_and_git_agrees_with_them() {
    let (one, two) = (Sandbox::empty(), Sandbox::empty());
    let mut draft = draft(None, &[("a/b", Some("1")), ("a.b", Some("2")), ("a0", Some("3"))]);
    draft.message.body = "Why.".to_owned();
    draft.message.trailers = vec![trailers("mgmt", "cilium")];
    let id = commit(&one.open(), &draft);
    assert_eq!(id, commit(&two.open(), &draft));
    assert_eq!(id, commit(&one.open(), &draft), "making it again changes nothing");
    let raw = one.git(&["cat-file", "commit", id.as_str()]);
    let (success, hashed) = one.try_git(&one.path(), &["hash-object", "-t", "commit", "--stdin"], &format!("{raw}\n"));
    assert!(success && hashed == id.as_str(), "{hashed}\n{raw}");
    let shown = one.git(&["log", "-1", "--format=%an %ae %ct|%(trailers:key=Stepgate-Stage,valueonly)", id.as_str()]);
    assert_eq!(shown.trim(), format!("Stepgate stepgate@example.com {}|cilium", draft.time.as_second()));
    let packs = std::fs::read_dir(one.path().join("objects/pack")).unwrap().count();
    assert_eq!(packs, 2, "one pack with its index");
}

#[test]
fn an_equal_tree_makes_no_commit_unless_asked() {
    let sandbox = Sandbox::with_files(&[("a", "1"), ("b", "1")]);
    let repository = sandbox.open();
    let objects = || sandbox.git(&["count-objects", "-v"]);
    let before = objects();
    let mut draft = draft(sandbox.head("main").as_ref(), &[("a", Some("1")), ("gone", None), ("b/c", None)]);
    assert_eq!(repository.commit(&draft, &Signing::None).unwrap(), CommitOutcome::Unchanged);
    assert_eq!(objects(), before, "nothing was written");
    draft.allow_empty = true;
    let id = commit(&repository, &draft);
    assert_ne!(Some(id), draft.parent);
}

#[test]
fn thousands_of_files_become_one_clean_pack() {
    let sandbox = Sandbox::empty();
    let edits: Vec<(String, String)> = (0..3_000)
        .map(|n| (format!("clusters/c{}/f{n}.yaml", n % 500), format!("number: {n}\n").repeat(n % 300)))
        .collect();
    let edits: Vec<_> = edits.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
    advance(&sandbox.open(), "deploy", &edits);
    sandbox.check();
    let pack = sandbox.git(&["count-objects", "-v"]);
    assert!(pack.contains("count: 0\n") && pack.contains("packs: 1\n"), "{pack}");
    let listed = files_of(&sandbox);
    assert_eq!(listed.len(), 3_000);
    assert_eq!(sandbox.git(&["show", "deploy:clusters/c7/f2007.yaml"]), "number: 2007\n".repeat(2007 % 300).trim_end());
    // A pack of git's own making from these objects holds the same ones.
    sandbox.git(&["repack", "-adq"]);
    sandbox.check();
}

fn files_of(sandbox: &Sandbox) -> Vec<String> {
    sandbox.git(&["ls-tree", "-r", "--name-only", "deploy"]).lines().map(str::to_owned).collect()
}

#[test]
fn an_incompressible_and_an_empty_file_survive() {
    let sandbox = Sandbox::empty();
    let noise = noise(300_000);
    advance(&sandbox.open(), "deploy", &[("noise", Some(&noise)), ("empty", Some(""))]);
    assert_eq!(sandbox.git(&["show", "deploy:noise"]), noise);
    assert_eq!(sandbox.git(&["cat-file", "-s", "deploy:empty"]), "0");
    sandbox.check();
}

#[test]
fn everything_removed_is_an_empty_tree() {
    let sandbox = Sandbox::with_files(&[("a/b/c", "1")]);
    advance(&sandbox.open(), "main", &[("a/b/c", None)]);
    assert_eq!(sandbox.git(&["ls-tree", "-r", "main"]), "");
    sandbox.check();
}

#[test]
fn names_that_git_interprets_are_refused_before_anything_is_written() {
    let sandbox = Sandbox::empty();
    for at in ["a/.gitmodules", "git~1/x", "a/.git./x"] {
        let error = sandbox.open().commit(&draft(None, &[(at, Some("x"))]), &Signing::None).unwrap_err();
        assert_eq!(error.code(), "refused-path", "{at}");
        assert!(error.to_string().contains(at), "{error}");
    }
    assert!(sandbox.git(&["count-objects"]).starts_with("0 objects"));
}

#[test]
fn an_unknown_parent_is_named() {
    let sandbox = Sandbox::empty();
    let parent: CommitId = "1".repeat(40).parse().unwrap();
    let error = sandbox.open().commit(&draft(Some(&parent), &[("a", Some("x"))]), &Signing::None).unwrap_err();
    assert_eq!(error.code(), "missing-object");
}

#[test]
fn a_full_disk_is_named_and_leaves_the_repository_as_it_was() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let disk = sandbox.folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&disk).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skip::missing("a small file system can only be mounted by root");
    }
    struct Mounted(PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
    let mounted = Mounted(disk.clone());
    sandbox.git_in(&disk, &["clone", "-q", "--bare", "--template=", sandbox.path().to_str().unwrap(), "fleet.git"]);
    let full = disk.join("fleet.git");
    let repository = Repository::open(&RepositoryLocation::Local(full.clone())).unwrap();
    let head = repository.head(&branch("main")).unwrap();
    // A removed file keeps its space while another thread's child, not yet the program it is to be, has it open too. What is
    // cut short gives it back at once.
    let mut reserve = std::fs::File::create(disk.join("reserve")).unwrap();
    std::io::Write::write_all(&mut reserve, &[0; 64 << 10]).unwrap();
    let noise = noise(400_000);
    let error = repository.commit(&draft(head.as_ref(), &[("big", Some(&noise))]), &Signing::None).unwrap_err();
    assert!(
        matches!(&error, GitError::Storage { source, .. } if source.kind() == std::io::ErrorKind::StorageFull),
        "{error:?}"
    );
    assert!(error.is_transient() && error.hint().unwrap().contains("disk is full"));
    let left: Vec<_> = std::fs::read_dir(full.join("objects/pack")).unwrap().flatten().collect();
    assert!(left.iter().all(|file| !file.file_name().to_string_lossy().starts_with("tmp_")), "{left:?}");

    reserve.set_len(0).unwrap();
    // The commit fits, and then the disk fills up before the branch moves.
    let small = commit(&repository, &draft(head.as_ref(), &[("b", Some("2"))]));
    let mut filler = std::fs::File::create(disk.join("filler")).unwrap();
    while std::io::Write::write_all(&mut filler, &[0; 4096]).is_ok() {}
    let error = repository.push(&branch("main"), &small, head.as_ref()).unwrap_err();
    assert_eq!(error.code(), "storage", "{error:?}");
    assert_eq!(repository.head(&branch("main")).unwrap(), head);
    filler.set_len(0).unwrap();
    assert_eq!(repository.push(&branch("main"), &small, head.as_ref()).unwrap(), PushOutcome::Pushed);
    sandbox.git_in(&full, &["fsck", "--strict", "--full"]);
    drop(mounted);
}

#[test]
fn ssh_signatures_are_verified_by_git() {
    let sandbox = Sandbox::empty();
    let key = sandbox.folder.path().join("key");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "x", "-f"]).arg(&key).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip::missing("there is no ssh-keygen that makes keys (Debian: openssh-client)");
    }
    let repository = sandbox.open();
    let signing = Signing::Ssh { key: key.clone(), program: "ssh-keygen".into() };
    let CommitOutcome::Created(id) = repository.commit(&draft(None, &[("a", Some("1"))]), &signing).unwrap() else {
        panic!("nothing committed");
    };
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    let allowed = sandbox.folder.path().join("allowed");
    std::fs::write(&allowed, format!("stepgate@example.com {public}")).unwrap();
    let allowed = format!("gpg.ssh.allowedSignersFile={}", allowed.display());
    let verify = |id: &CommitId| {
        sandbox.try_git(&sandbox.path(), &["-c", "gpg.format=ssh", "-c", &allowed, "verify-commit", id.as_str()], "")
    };
    let (good, said) = verify(&id);
    assert!(good && said.contains("Good \"git\" signature for stepgate@example.com"), "{said}");
    let unsigned = commit(&repository, &draft(None, &[("a", Some("1"))]));
    assert!(!verify(&unsigned).0);
    sandbox.git(&["update-ref", "refs/heads/main", id.as_str()]);
    sandbox.check();

    let wrong = Signing::Ssh { key: sandbox.folder.path().join("absent"), program: "ssh-keygen".into() };
    let error = repository.commit(&draft(None, &[("a", Some("1"))]), &wrong).unwrap_err();
    assert_eq!(error.code(), "signing", "{error}");
    let missing = Signing::Ssh { key, program: "/nonexistent/ssh-keygen".into() };
    let error = repository.commit(&draft(None, &[("a", Some("1"))]), &missing).unwrap_err();
    assert_eq!(error.code(), "program-missing", "{error}");
}

#[test]
fn open_pgp_signatures_are_verified_by_git() {
    let sandbox = Sandbox::empty();
    let home = sandbox.folder.path().join("keys");
    std::fs::create_dir(&home).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let made = Command::new("gpg")
        .args([
            "--batch",
            "--quiet",
            "--passphrase",
            "",
            "--quick-generate-key",
            "stepgate@example.com",
            "ed25519",
            "sign",
        ])
        .env("GNUPGHOME", &home)
        .output();
    if !made.as_ref().is_ok_and(|output| output.status.success()) {
        return skip::missing(format!("there is no gpg that makes keys (Debian: gnupg): {made:?}"));
    }
    // A program of its own, since the key is not in the home of whoever runs the tests.
    sandbox.hook("gpg", &format!("GNUPGHOME='{}' exec gpg \"$@\"", home.display()));
    let program = sandbox.path().join("hooks/gpg");
    let signing = Signing::OpenPgp { key: "stepgate@example.com".to_owned(), program: program.clone() };
    let outcome = sandbox.open().commit(&draft(None, &[("a", Some("1"))]), &signing).unwrap();
    let CommitOutcome::Created(id) = outcome else { panic!("nothing committed") };
    let program = format!("gpg.program={}", program.display());
    let (good, said) = sandbox.try_git(&sandbox.path(), &["-c", &program, "verify-commit", id.as_str()], "");
    assert!(good && said.contains("Good signature"), "{said}");
    let _ = Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", &home).status();

    let unknown = Signing::OpenPgp { key: "nobody@example.com".to_owned(), program: sandbox.path().join("hooks/gpg") };
    let error = sandbox.open().commit(&draft(None, &[("a", Some("1"))]), &unknown).unwrap_err();
    assert_eq!(error.code(), "signing", "{error}");
}
