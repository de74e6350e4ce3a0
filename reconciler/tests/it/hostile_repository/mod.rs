//! Repositories that cost more than they say: each ends in a named problem of the cluster whose it is, soon and in little memory, and
//! the others go on.

mod pack;
mod references;
mod values;

use std::fmt::Write as _;

use git2::{FileMode, ObjectType, Oid, Signature};

use crate::measured;
use crate::support::{Fleet, Run};

/// What one run may take. Debug builds are several times slower than what people run.
const MEMORY: u64 = 512;
const PROCESSOR: f64 = 5.0;

#[track_caller]
fn run(fleet: &Fleet, arguments: &[&str]) -> Run {
    run_at(fleet, &fleet.place(), arguments)
}

#[track_caller]
fn run_at(fleet: &Fleet, place: &str, arguments: &[&str]) -> Run {
    let (run, taken) = measured::run(fleet, place, arguments);
    println!("{arguments:?}: {taken:?} exit {}", run.code);
    assert!(taken.memory <= MEMORY && taken.processor <= PROCESSOR, "{arguments:?}: {taken:?}\n{}", run.text());
    run
}

/// A tree of these entries, in the order of git.
fn tree(fleet: &Fleet, mut entries: Vec<(&str, Vec<u8>, Oid)>) -> Oid {
    let key = |(mode, name, _): &(&str, Vec<u8>, Oid)| {
        let mut key = name.clone();
        key.extend((*mode == "40000").then_some(b'/'));
        key
    };
    entries.sort_by_key(key);
    let mut bytes = Vec::new();
    for (mode, name, id) in entries {
        bytes.extend_from_slice(mode.as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(&name);
        bytes.push(0);
        bytes.extend_from_slice(id.as_bytes());
    }
    fleet.repository.odb().unwrap().write(ObjectType::Tree, &bytes).unwrap()
}

/// As many folders in each other as `depth`, each with ten entries: 10^depth paths.
fn nested(fleet: &Fleet, depth: usize) -> Oid {
    let leaf = fleet.repository.blob(b"a: b\n").unwrap();
    let mut below = ("100644", leaf);
    for _ in 0..depth {
        let entries = (0..10).map(|number| (below.0, format!("{number}.yaml").into_bytes(), below.1)).collect();
        below = ("40000", tree(fleet, entries));
    }
    below.1
}

/// A blob of 32 MiB that compresses well.
fn large(fleet: &Fleet) -> Oid {
    fleet.repository.blob("a: b\n".repeat((32 << 20) / 5).as_bytes()).unwrap()
}

fn folder(fleet: &Fleet, branch: &str, path: &str, id: Oid) {
    fleet.entry(branch, path.as_bytes(), id, FileMode::Tree);
}

/// What a cluster's folder is made to hold, and what is said of it.
struct Case {
    name: &'static str,
    put: fn(&Fleet, &str, &str),
    said: &'static str,
}

/// Everything that is tried, in any folder of a branch.
const CASES: &[Case] = &[
    Case {
        name: "ten folders of ten entries in each other",
        put: |fleet, branch, at| folder(fleet, branch, &format!("{at}/bomb"), nested(fleet, 10)),
        said: "more than 20000 files and folders",
    },
    Case {
        name: "a hundred links to one blob of 32 MiB",
        put: |fleet, branch, at| {
            let blob = large(fleet);
            let links = (0..100).map(|number| ("120000", format!("l{number}").into_bytes(), blob)).collect();
            folder(fleet, branch, &format!("{at}/links"), tree(fleet, links));
        },
        said: "more than the limit of 4096",
    },
    Case {
        name: "a hundred files that are one blob of 32 MiB",
        put: |fleet, branch, at| {
            let blob = large(fleet);
            let files = (0..100).map(|number| ("100644", format!("f{number}.yaml").into_bytes(), blob)).collect();
            folder(fleet, branch, &format!("{at}/files"), tree(fleet, files));
        },
        said: "more than 33554432 bytes of files",
    },
    Case {
        name: "a folder whose name has 1 MiB",
        put: |fleet, branch, at| {
            let leaf = fleet.repository.blob(b"a: b\n").unwrap();
            let files = (0..500).map(|number| ("100644", format!("{number}.yaml").into_bytes(), leaf)).collect();
            let inner = tree(fleet, files);
            folder(fleet, branch, &format!("{at}/long"), tree(fleet, vec![("40000", vec![b'n'; 1 << 20], inner)]));
        },
        said: "cannot be used",
    },
    Case {
        name: "a delta whose base has 700 MiB",
        put: |fleet, branch, at| {
            let id = pack::delta_of(fleet, 700 << 20, b"a: b\n");
            fleet.entry(branch, format!("{at}/delta.yaml").as_bytes(), id, FileMode::Blob);
        },
        said: "more than 67108864 bytes in the base of a delta",
    },
    Case {
        name: "a delta on 6,000 others",
        put: |fleet, branch, at| {
            let id = pack::chain(fleet, 6_000);
            fleet.entry(branch, format!("{at}/chain.yaml").as_bytes(), id, FileMode::Blob);
        },
        said: "more than 4095 deltas",
    },
    Case {
        name: "a loose object that inflates to 700 MiB and declares five bytes",
        put: |fleet, branch, at| {
            let id = pack::loose(fleet, 5, 700 << 20);
            fleet.entry(branch, format!("{at}/bomb.yaml").as_bytes(), id, FileMode::Blob);
        },
        said: "declares 5 bytes",
    },
    Case {
        name: "a loose object that declares 700 MiB",
        put: |fleet, branch, at| {
            let id = pack::loose(fleet, 700 << 20, 5);
            fleet.entry(branch, format!("{at}/claim.yaml").as_bytes(), id, FileMode::Blob);
        },
        said: "734003200 bytes",
    },
    Case {
        name: "a folder of 200,000 entries",
        put: |fleet, branch, at| {
            let leaf = fleet.repository.blob(b"a: b\n").unwrap();
            let files = (0..200_000).map(|number| ("100644", format!("{number}").into_bytes(), leaf)).collect();
            folder(fleet, branch, &format!("{at}/wide"), tree(fleet, files));
        },
        said: "bytes of names and ids in one folder",
    },
    Case {
        name: "2,000 folders in each other",
        put: |fleet, branch, at| {
            let mut below =
                tree(fleet, vec![("100644", b"a.yaml".to_vec(), fleet.repository.blob(b"a: b\n").unwrap())]);
            for _ in 0..2_000 {
                below = tree(fleet, vec![("40000", b"d".to_vec(), below)]);
            }
            folder(fleet, branch, &format!("{at}/deep"), below);
        },
        said: "more than 256 folders nested",
    },
    Case {
        name: "files of many YAML nodes",
        put: |fleet, branch, at| {
            let files = (0..40).map(|number| {
                let mut text = format!(
                    "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Machine\nmetadata: {{name: m{number}}}\nspec:\n"
                );
                (0..200_000).for_each(|_| text.push_str("- a\n"));
                let id = fleet.repository.blob(text.as_bytes()).unwrap();
                ("100644", format!("{number}.yaml").into_bytes(), id)
            });
            folder(fleet, branch, &format!("{at}/nodes"), tree(fleet, files.collect()));
        },
        said: "more than 250000 YAML nodes",
    },
];

/// The clusters of a report by name, without those named.
fn others(run: &Run, without: &str) -> Vec<serde_json::Value> {
    let report = run.json();
    let clusters = report["clusters"].as_array().unwrap().iter().filter(|it| it["cluster"] != without);
    clusters.map(|it| serde_json::json!([it["cluster"], it["rolloutId"], it["blocked"], it["state"]])).collect()
}

#[test]
fn what_one_cluster_s_folder_costs_is_that_cluster_s_problem() {
    for case in CASES {
        let fleet = Fleet::pending();
        let (plan, status) = (fleet.run(&["plan", "-o", "json"]), fleet.run(&["status", "-o", "json"]));
        (case.put)(&fleet, "main", "clusters/team-b");
        let (head, name) = (fleet.head("deploy"), case.name);
        println!("{name}");
        let check = run(&fleet, &["check"]);
        assert_eq!(check.code, 2, "{name}: {}", check.text());
        assert!(check.stdout.contains(case.said) && check.stdout.contains("team-b"), "{name}: {}", check.text());
        let mine = run(&fleet, &["plan", "-o", "json"]);
        assert_eq!(others(&mine, "team-b"), others(&plan, "team-b"), "{name}");
        let mine = run(&fleet, &["status", "-o", "json"]);
        assert_eq!(others(&mine, "team-b"), others(&status, "team-b"), "{name}");
        let why = run(&fleet, &["why", "team-b"]);
        assert!(why.code != 0 && why.text().contains(case.said), "{name}: {}", why.text());
        run(&fleet, &["approve", "team-b"]);
        let pass = run(&fleet, &["run", "--once", "-o", "json"]);
        assert!(pass.json()["clusters"].as_array().unwrap().len() >= 3, "{name}: {}", pass.text());
        assert_eq!(fleet.head("deploy"), head, "{name}");
    }
}

#[test]
fn what_nobody_s_folder_costs_keeps_no_cluster_from_being_planned() {
    for (at, blocks) in
        [("docs", false), ("apps/x", false), ("bundles/x", true), ("flux/x", false), ("overlays/other", false)]
    {
        let fleet = Fleet::pending();
        let plan = fleet.run(&["plan", "-o", "json"]);
        folder(&fleet, "main", at, nested(&fleet, 10));
        let check = run(&fleet, &["check"]);
        assert!(check.code == 2 && check.stdout.contains("files and folders"), "{at}: {}", check.text());
        let mine = run(&fleet, &["plan", "-o", "json"]);
        // Which bundle is the newest cannot be told while some of them cannot be read.
        assert_eq!(others(&mine, "") == others(&plan, ""), !blocks, "{at}: {}", mine.text());
    }
}

/// In a clone what is checked out is compared with its branch: not where that has no end.
#[test]
fn a_clone_is_not_compared_with_what_has_no_end() {
    let fleet = Fleet::pending();
    let clone = fleet.folder().join("clone");
    let made =
        std::process::Command::new("git").args(["clone", "-q", "-b", "main"]).arg(fleet.place()).arg(&clone).status();
    assert!(made.unwrap().success());
    folder(&fleet, "main", "clusters/team-b/bomb", nested(&fleet, 10));
    let git = |arguments: &[&str]| {
        let done = std::process::Command::new("git").arg("-C").arg(&clone).args(arguments).status().unwrap();
        assert!(done.success(), "{arguments:?}");
    };
    // What a checkout that was stopped leaves: the branch with it, and the files of before.
    git(&["fetch", "-q", "origin"]);
    git(&["update-ref", "refs/heads/main", "origin/main"]);
    let check = run_at(&fleet, clone.to_str().unwrap(), &["check"]);
    assert!(check.code == 2 && check.stdout.contains("files and folders"), "{}", check.text());
}

/// Through the git program, whose memory counts: what would not be read is not even fetched.
#[test]
fn a_remote_repository_is_fetched_within_the_same_bounds() {
    let fleet = Fleet::pending();
    fleet.repository.config().unwrap().set_bool("uploadpack.allowFilter", true).unwrap();
    let plan = fleet.run(&["plan", "-o", "json"]);
    folder(&fleet, "main", "clusters/team-b/bomb", nested(&fleet, 10));
    let large = fleet.repository.blob(&vec![0; 200 << 20]).unwrap();
    fleet.entry("main", b"clusters/team-a/large.bin", large, FileMode::Blob);
    let place = format!("file://{}", fleet.place());
    let check = run_at(&fleet, &place, &["check"]);
    assert!(check.code == 2 && check.stdout.contains("files and folders"), "{}", check.text());
    let mine = run_at(&fleet, &place, &["plan", "-o", "json"]);
    assert_eq!(others(&mine, "team-b"), others(&plan, "team-b"));
    run_at(&fleet, &place, &["run", "--once"]);
}

/// The same folder in a thousand clusters is a thousand folders.
#[test]
fn a_thousand_clusters_of_many_files_do_not_add_up_to_all_of_the_memory() {
    let fleet = Fleet::pending();
    let plan = fleet.run(&["plan", "-o", "json"]);
    let leaf = fleet.repository.blob(b"a: b\n").unwrap();
    let files = (0..19_000).map(|number| ("100644", format!("{number}.txt").into_bytes(), leaf)).collect();
    let wide = tree(&fleet, files);
    let head = fleet.repository.find_commit(fleet.head("main").unwrap()).unwrap();
    let clusters = head.tree().unwrap().get_name("clusters").unwrap().id();
    let clusters = fleet.repository.find_tree(clusters).unwrap();
    let mut entries: Vec<_> = clusters.iter().map(|it| ("40000", it.name_bytes().to_vec(), it.id())).collect();
    entries.extend((0..1_000).map(|number| ("40000", format!("x{number}").into_bytes(), wide)));
    folder(&fleet, "main", "clusters", tree(&fleet, entries));
    let check = run(&fleet, &["check"]);
    assert!(check.code == 2 && check.stdout.contains("files and folders"), "{}", check.text());
    assert_eq!(others(&run(&fleet, &["plan", "-o", "json"]), "")[..3], others(&plan, "")[..3]);
}

#[test]
fn a_commit_with_a_huge_message_or_a_thousand_parents_stops_nobody() {
    let person = Signature::now("A Person", "person@example.com").unwrap();
    let put: [fn(&Fleet, &Signature<'_>, &git2::Commit<'_>); 2] = [
        |fleet, person, head| {
            let message = "m".repeat(64 << 20);
            fleet
                .repository
                .commit(Some("refs/heads/main"), person, person, &message, &head.tree().unwrap(), &[head])
                .unwrap();
        },
        |fleet, _, head| {
            let mut text = format!("tree {}\n", head.tree_id());
            (0..15_000).for_each(|_| writeln!(text, "parent {}", head.id()).unwrap());
            text.push_str("author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n");
            let id = fleet.repository.odb().unwrap().write(ObjectType::Commit, text.as_bytes()).unwrap();
            fleet.repository.reference("refs/heads/main", id, true, "x").unwrap();
        },
    ];
    for put in put {
        let fleet = Fleet::pending();
        let plan = fleet.run(&["plan", "-o", "json"]);
        put(&fleet, &person, &fleet.repository.find_commit(fleet.head("main").unwrap()).unwrap());
        for verb in [&["check"][..], &["status"], &["why", "mgmt"], &["run", "--once"]] {
            let run = run(&fleet, verb);
            assert!(run.code != 2, "{verb:?}: {}", run.text());
        }
        assert_eq!(others(&run(&fleet, &["plan", "-o", "json"]), ""), others(&plan, ""));
    }
}

#[test]
fn a_ledger_that_is_too_large_is_that_cluster_s_problem() {
    let fleet = Fleet::settled();
    let status = fleet.run(&["status", "-o", "json"]);
    fleet.write("deploy", "clusters/team-b/rollout.yaml", "- a\n".repeat(7 << 20).as_bytes());
    let mine = run(&fleet, &["status", "-o", "json"]);
    assert_eq!(others(&mine, "team-b"), others(&status, "team-b"));
    let why = run(&fleet, &["why", "team-b"]);
    assert!(why.text().contains("rollout.yaml") && why.text().contains("are read"), "{}", why.text());
}

/// The same on what is proposed: whoever may push there must not stop those who are asked nothing there.
#[test]
fn what_a_proposed_branch_costs_is_the_problem_of_who_is_asked_there() {
    let fleet = Fleet::settled();
    let policy = fleet.text("main", "stepgate.yaml") + "approval: stage\nacceptEdits: true\n";
    fleet.write("main", "stepgate.yaml", policy.as_bytes());
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-cluster-critical", "system-node-critical");
    fleet.demo();
    let status = fleet.run(&["status", "-o", "json"]);
    let branches = fleet.repository.branches(Some(git2::BranchType::Local)).unwrap();
    let names: Vec<String> = branches.map(|it| it.unwrap().0.name().unwrap().unwrap().to_owned()).collect();
    let branch = names.iter().find(|name| name.starts_with("stepgate/")).unwrap();
    let (proposed, head) = (fleet.head(branch).unwrap(), fleet.head("deploy"));
    for case in CASES {
        let name = case.name;
        println!("{name}");
        fleet.repository.reference(&format!("refs/heads/{branch}"), proposed, true, "as it was proposed").unwrap();
        (case.put)(&fleet, branch, "clusters/mgmt");
        let mine = run(&fleet, &["status", "-o", "json"]);
        assert_eq!(others(&mine, "mgmt"), others(&status, "mgmt"), "{name}: {}", mine.stderr);
        run(&fleet, &["check"]);
        run(&fleet, &["why", "mgmt"]);
        run(&fleet, &["run", "--once"]);
        let approve = run(&fleet, &["approve", "mgmt", "--yes", "--as", "A Person <person@example.com>"]);
        assert!(approve.code != 0, "{name}: {}", approve.text());
        let told =
            [case.said, "bytes of files", "neither added nor removed", "accepts no edits", "not below the deploy path"];
        assert!(told.iter().any(|told| approve.stderr.contains(told)), "{name}: {}", approve.stderr);
        assert_eq!(fleet.head("deploy"), head, "{name}");
    }
}

/// Hundreds of thousands of branches that are nobody's.
#[test]
fn many_branches_are_read_within_bounds() {
    let fleet = Fleet::settled();
    let head = fleet.head("deploy").unwrap();
    let mut text = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    for name in ["deploy", "main"] {
        writeln!(text, "{} refs/heads/{name}", fleet.head(name).unwrap()).unwrap();
    }
    (0..200_000).for_each(|number| writeln!(text, "{head} refs/heads/x/{number:06}").unwrap());
    std::fs::write(fleet.folder().join("fleet.git/packed-refs"), text).unwrap();
    for verb in [&["check"][..], &["status"], &["why", "mgmt"], &["run", "--once"]] {
        run(&fleet, verb);
    }
}
