//! Bad files on the source branch: each is told with its place and what to do, nothing is written, the others go on.

use git2::FileMode;
use serde_json::Value;

use crate::support::{Fleet, stepgate};

const TEAM_B: &str = "clusters/team-b/cluster.yaml";

/// Which clusters a bad file stops.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stopped {
    Nobody,
    TeamB,
    Mgmt,
    Everybody,
}

/// What is expected of one bad file.
struct Expect<'a> {
    /// Exit code of `check`.
    check: i32,
    /// Exit code of `plan`.
    plan: i32,
    /// The place, as far as it is known.
    place: &'a str,
    /// A part of the message.
    message: &'a str,
    stopped: Stopped,
}

fn check(name: &str, spoil: impl FnOnce(&Fleet), expect: &Expect<'_>) {
    let fleet = Fleet::pending();
    let good = fleet.run(&["plan", "-o", "json"]).json();
    spoil(&fleet);
    let head = fleet.head("deploy");

    let run = fleet.run(&["check"]);
    assert_eq!(run.code, expect.check, "{name}: check\n{}", run.text());
    let plan = fleet.run(&["plan", "-o", "json"]);
    assert_eq!(plan.code, expect.plan, "{name}: plan\n{}", plan.text());
    let told = if expect.check == 0 { &plan.stdout } else { &run.stdout };
    assert!(told.contains(expect.place) && told.contains(expect.message), "{name}: {told}");
    if expect.check != 0 {
        let problems = fleet.run(&["check", "-o", "json"]).json();
        let errors: Vec<&Value> =
            problems["problems"].as_array().unwrap().iter().filter(|problem| problem["severity"] == "error").collect();
        assert!(!errors.is_empty() && errors.iter().all(|problem| problem["hint"].is_string()), "{name}: {errors:?}");
    }

    let plans = plan.json();
    for before in good["clusters"].as_array().unwrap() {
        let cluster = before["cluster"].as_str().unwrap();
        let stopped = match expect.stopped {
            Stopped::Nobody => false,
            Stopped::TeamB => cluster == "team-b",
            Stopped::Mgmt => cluster == "mgmt",
            Stopped::Everybody => true,
        };
        let after = plans["clusters"].as_array().unwrap().iter().find(|it| it["cluster"] == cluster);
        let after = after.unwrap_or_else(|| panic!("{name}: {cluster} is missing from the plans"));
        let blocked = after["blocked"].as_array().unwrap();
        assert_eq!(!blocked.is_empty(), stopped, "{name}: {cluster}: {blocked:?}");
        assert!(blocked.iter().all(|block| block["help"].is_string()), "{name}: {blocked:?}");
        if !stopped {
            assert_eq!(after["rolloutId"], before["rolloutId"], "{name}: the plan of {cluster} is another one");
        }
    }
    // The controller says so as well, writes nothing, and does not lose the others.
    let pass = fleet.run(&["run", "--once", "-o", "json"]);
    assert_eq!(pass.json()["clusters"].as_array().unwrap().len(), 3, "{name}: {}", pass.stdout);
    assert_eq!(fleet.head("deploy"), head, "{name}: something was written");
}

/// A file of team-b that cannot be read.
fn unreadable(name: &str, bytes: &[u8], place: &str, message: &str) {
    let expect = Expect { check: 2, plan: 2, place, message, stopped: Stopped::TeamB };
    check(name, |fleet| fleet.write("main", TEAM_B, bytes), &expect);
}

#[test]
fn unreadable_files_stop_their_cluster() {
    let whole = Fleet::settled().text("main", TEAM_B);
    let cut = whole.find("cidrBlocks: [").unwrap() + "cidrBlocks: [\"192".len();
    unreadable("truncated", &whole.as_bytes()[..cut], "clusters/team-b/cluster.yaml:", "");
    unreadable("empty", b"", "clusters/team-b/cluster.yaml:1:1", "is empty");
    unreadable("binary", b"\x00\x01\xff\xfe", "clusters/team-b/cluster.yaml:1:", "not UTF-8");
    let deep = format!("a: {}", "[".repeat(20_000));
    unreadable("deeply nested", deep.as_bytes(), "clusters/team-b/cluster.yaml:1:", "deep");
    let twice = whole.replacen("kind: Cluster\n", "kind: Cluster\nkind: Cluster\n", 1);
    unreadable("duplicate key", twice.as_bytes(), "clusters/team-b/cluster.yaml:4:1", "already on line 3");
}

#[test]
fn an_alias_bomb_is_refused_before_it_expands() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let before = vec![format!("*a{}", level - 1); 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    unreadable("alias bomb", bomb.as_bytes(), "clusters/team-b/cluster.yaml:", "");
}

#[test]
fn what_a_cluster_names_and_is_not_there_blocks_that_cluster() {
    let expect = Expect {
        check: 2,
        plan: 3,
        place: "clusters/team-b/cluster.yaml:8:22",
        message: "Kubernetes 1.99, which bundle bundles-81 has not",
        stopped: Stopped::TeamB,
    };
    check("Kubernetes version", |fleet| fleet.replace(TEAM_B, "\"1.34\"", "\"1.99\""), &expect);
    let reference = "spec:\n  bundlesRef:\n    apiVersion: anywhere.eks.amazonaws.com/v1alpha1\n    kind: Bundles\n    name: bundles-99\n    namespace: eksa-system\n";
    let expect = Expect {
        place: "clusters/team-b/cluster.yaml:11:11",
        message: "follows bundles-99, which is not there",
        ..expect
    };
    check("bundle", |fleet| fleet.replace(TEAM_B, "spec:\n", reference), &expect);
}

#[test]
fn a_bad_bundle_stops_those_that_follow_the_newest_and_nobody_falls_back_to_an_older_one() {
    let bundle = "bundles/bundles-81.yaml";
    let expect = Expect {
        check: 2,
        plan: 3,
        place: "bundles/bundles-81.yaml:2:1",
        message: "has no `spec.versionsBundles`",
        stopped: Stopped::Everybody,
    };
    check("no versionsBundles", |fleet| fleet.replace(bundle, "versionsBundles", "versionBundles"), &expect);
    let expect = Expect { place: "bundles/bundles-81.yaml:", message: "", ..expect };
    check(
        "truncated bundle",
        |fleet| {
            let text = fleet.text("main", bundle);
            fleet.write("main", bundle, &text.as_bytes()[..text.find("uri: ").unwrap() + "ur".len()]);
        },
        &expect,
    );
    let expect = Expect { message: "is empty", ..expect };
    check("empty bundle", |fleet| fleet.write("main", bundle, b""), &expect);
    let expect = Expect { message: "bundle number 81 is also that of", ..expect };
    check(
        "two bundles with one number",
        |fleet| {
            let text = fleet.text("main", bundle);
            fleet.write("main", "bundles/again.yaml", text.as_bytes());
        },
        &expect,
    );
}

#[test]
fn a_manifest_whose_digest_is_not_the_locked_one_blocks_its_cluster() {
    let expect = Expect {
        check: 0,
        plan: 3,
        place: "cert-manager",
        message: "but bundles.lock says sha256:0000",
        stopped: Stopped::Mgmt,
    };
    check(
        "digest",
        |fleet| {
            let bundle = fleet.text("main", "bundles/bundles-81.yaml");
            let uri = bundle.split_whitespace().find(|word| word.ends_with("/cert-manager.yaml")).unwrap();
            fleet.write("main", "bundles.lock", format!("{}  {uri}\n", "0".repeat(64)).as_bytes());
        },
        &expect,
    );
}

#[test]
fn links_submodules_and_strange_paths_are_told() {
    let link = |target: &'static str| {
        move |fleet: &Fleet| {
            let id = fleet.repository.blob(target.as_bytes()).unwrap();
            fleet.entry("main", b"clusters/team-b/extra.yaml", id, FileMode::Link);
        }
    };
    let expect = Expect {
        check: 2,
        plan: 3,
        place: "clusters/team-b/extra.yaml",
        message: "symbolic link out of the repository",
        stopped: Stopped::TeamB,
    };
    check("symlink to an absolute path", link("/etc/passwd"), &expect);
    check("symlink above the root", link("../../../outside.yaml"), &expect);
    let expect = Expect { place: "clusters/team-b/vendored", message: "submodule", ..expect };
    check(
        "submodule",
        |fleet| {
            let id = fleet.head("main").unwrap();
            fleet.entry("main", b"clusters/team-b/vendored", id, FileMode::Commit);
        },
        &expect,
    );
    let name = |path: &'static [u8]| {
        move |fleet: &Fleet| {
            let id = fleet.repository.blob(b"x: 1\n").unwrap();
            fleet.entry("main", path, id, FileMode::Blob);
        }
    };
    let expect = Expect { place: "clusters/team-b/caf\\xE9.yaml", message: "is not UTF-8", ..expect };
    check("path of a cluster that is not UTF-8", name(b"clusters/team-b/caf\xe9.yaml"), &expect);
    let expect = Expect { plan: 0, place: "docs/caf\\xE9.yaml", stopped: Stopped::Nobody, ..expect };
    check("path of nobody that is not UTF-8", name(b"docs/caf\xe9.yaml"), &expect);
    // It stops nobody, and every verb mentions it.
    let fleet = Fleet::pending();
    name(b"docs/caf\xe9.yaml")(&fleet);
    let plan = fleet.run(&["plan"]);
    assert!(plan.code == 0 && plan.stdout.contains("docs/caf\\xE9.yaml"), "{}", plan.text());
    let problems = fleet.run(&["check", "-o", "json"]).json();
    assert_eq!(problems["problems"][0]["path"], "docs/caf\\xE9.yaml");
    let verbs: &[&[&str]] = &[&["status"], &["diff"], &["history"], &["why", "mgmt"], &["render", "--cluster", "mgmt"]];
    for verb in verbs {
        let run = fleet.run(verb);
        assert!(run.stderr.contains("docs/caf\\xE9.yaml"), "{verb:?}: {}", run.stderr);
        assert!(!run.stdout.contains("docs/caf"), "{verb:?}: {}", run.stdout);
    }
}

#[test]
fn a_file_of_100_megabytes_is_refused_without_being_read() {
    let mut large = Fleet::settled().text("main", TEAM_B).into_bytes();
    large.resize(100 << 20, b'#');
    unreadable("100 MB", &large, TEAM_B, "has 104857600 bytes");
}

#[test]
fn no_message_names_its_file_twice() {
    for (path, bytes) in [
        (TEAM_B, &b"a: [\n"[..]),
        (TEAM_B, b""),
        (TEAM_B, b"\xff"),
        (TEAM_B, b"a: 1\na: 2\n"),
        ("stepgate.yaml", b"saok: 1\n"),
        ("bundles/bundles-81.yaml", b"kind: Bundles\n"),
        ("bundles/bundles-81.yaml", b""),
        ("bundles.lock", b"what\n"),
    ] {
        let fleet = Fleet::pending();
        fleet.write("main", path, bytes);
        let problems = fleet.run(&["check", "-o", "json"]).json();
        for problem in problems["problems"].as_array().unwrap() {
            let (place, message) = (problem["path"].as_str().unwrap_or_default(), problem["message"].as_str().unwrap());
            assert!(place.is_empty() || !message.contains(place), "{problem}");
        }
    }
}

#[test]
fn a_manifest_that_no_mirror_has_is_told_with_where_to_get_it() {
    let fleet = Fleet::settled();
    for verb in [&["plan"][..], &["render", "--cluster", "mgmt"]] {
        let run = stepgate(&[verb, &["--repo", &fleet.place()]].concat());
        let told = format!("{}{}", run.stdout, run.stderr);
        assert!(told.contains("no mirror is given") && told.contains("stepgate bundle fetch"), "{verb:?}: {told}");
    }
}

#[test]
fn a_deploy_branch_that_there_cannot_be_is_told_with_everything_else_that_is_wrong() {
    for (branch, place, message) in [
        ("a b", "stepgate.yaml:5:11", "deploy.branch: \"a b\" is not a valid name of a branch"),
        ("release..1", "stepgate.yaml:5:11", "deploy.branch: \"release..1\" is not a valid name of a branch"),
        ("main", "stepgate.yaml", "the branch that people write, and there is no deploy.path"),
    ] {
        let fleet = Fleet::pending();
        fleet.replace("stepgate.yaml", "  branch: deploy\nsoak: 30s", &format!("  branch: {branch}\nsoka: 30s"));
        let run = fleet.run(&["check"]);
        assert_eq!(run.code, 2, "{}", run.text());
        for expected in [place, message, "stepgate.yaml:6:1", "unknown field \"soka\""] {
            assert!(run.stdout.contains(expected), "{branch}: {expected}: {}", run.text());
        }
        // Nothing else is taken for the deploy branch instead.
        let head = fleet.head("deploy");
        for verb in [&["plan"][..], &["status"], &["run", "--once"], &["adopt", "--yes"]] {
            let run = fleet.run(verb);
            assert_eq!(run.code, 2, "{verb:?}: {}", run.text());
            assert!(run.stderr.contains(message) && run.stderr.contains("stepgate check"), "{verb:?}: {}", run.text());
        }
        assert_eq!(fleet.head("deploy"), head);
    }
}

#[test]
fn an_object_of_a_cluster_without_a_namespace_is_told_before_flux_refuses_it() {
    let fleet = Fleet::pending();
    let bare = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\n";
    let text = fleet.text("main", TEAM_B);
    fleet.write("main", TEAM_B, format!("{bare}---\n{text}").as_bytes());
    let run = fleet.run(&["check", "-o", "json"]);
    let problems = run.json();
    let told = |problem: &&Value| problem["code"] == "missing-namespace";
    let problems: Vec<&Value> = problems["problems"].as_array().unwrap().iter().filter(told).collect();
    assert_eq!(problems.len(), 1, "{}", run.text());
    assert_eq!((&problems[0]["line"], &problems[0]["cluster"]), (&3.into(), &"team-b".into()), "{}", problems[0]);
    assert!(problems[0]["message"].as_str().unwrap().contains("ConfigMap \"notes\" names no namespace"));
}
