//! The verbs on a fleet repository: shapes, forms, exit codes and typing mistakes.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::Value;

use crate::support::{Fleet, stepgate};

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn plan_prints_the_contract_for_scripts() {
    let fleet = Fleet::pending();
    let run = fleet.run(&["plan", "-o", "json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let plans = run.json();
    assert_eq!(keys(&plans), BTreeSet::from(["clusters"]));
    let clusters = plans["clusters"].as_array().unwrap();
    let names: Vec<&str> = clusters.iter().map(|cluster| cluster["cluster"].as_str().unwrap()).collect();
    assert_eq!(names, ["mgmt", "team-a", "team-b"]);
    for cluster in clusters {
        assert!(keys(cluster).is_superset(&BTreeSet::from(["cluster", "rolloutId", "blocked", "stages"])));
        let rollout = cluster["rolloutId"].as_str().unwrap();
        assert!(rollout.len() == 12 && rollout.chars().all(|digit| digit.is_ascii_hexdigit()), "{rollout}");
        assert_eq!(cluster["blocked"], Value::Array(Vec::new()));
        for stage in cluster["stages"].as_array().unwrap() {
            let wanted = BTreeSet::from(["name", "state", "changes", "reasons", "oneWay"]);
            assert!(keys(stage).is_superset(&wanted), "{stage}");
            assert!(["skipped", "pending"].contains(&stage["state"].as_str().unwrap()), "{stage}");
            for change in stage["changes"].as_array().unwrap() {
                assert_eq!(keys(change), BTreeSet::from(["class", "component", "newVersion", "oldVersion"]));
            }
            for list in ["reasons", "oneWay"] {
                assert!(stage[list].as_array().unwrap().iter().all(Value::is_string), "{stage}");
            }
            // What is skipped says why.
            let skipped = stage["state"] == "skipped";
            assert!(!skipped || !stage["reasons"].as_array().unwrap().is_empty(), "{stage}");
        }
    }
    let stage = |name: &str| {
        clusters[0]["stages"].as_array().unwrap().iter().find(|stage| stage["name"] == name).unwrap().clone()
    };
    assert_eq!(stage("cert-manager")["changes"][0]["component"], "certManager");
    assert_eq!(stage("cert-manager")["changes"][0]["class"], "minor");
    assert!(stage("control-plane")["oneWay"][0].as_str().unwrap().contains("1.33 to 1.34"));
    // The same inputs give the same plan, and one cluster's plan is the same alone.
    let one = fleet.run(&["plan", "--cluster", "team-a", "-o", "json"]).json();
    assert_eq!(one["clusters"], Value::Array(vec![clusters[1].clone()]));
}

#[test]
fn exit_codes_tell_what_there_is_to_do() {
    let (settled, pending) = (Fleet::settled(), Fleet::pending());
    let check = |arguments: &[&str], after: i32, before: i32| {
        assert_eq!(settled.run(arguments).code, after, "{arguments:?} with nothing to do");
        assert_eq!(pending.run(arguments).code, before, "{arguments:?} with a bump to come");
    };
    check(&["plan"], 0, 0);
    check(&["plan", "--exit-code"], 0, 1);
    check(&["diff"], 0, 1);
    check(&["status"], 0, 0);
    check(&["status", "--exit-code"], 0, 4);
    check(&["why", "mgmt"], 0, 4);
    check(&["why", "nobody"], 2, 2);
    check(&["check"], 0, 0);
    check(&["history"], 0, 0);
    check(&["plan", "--cluster", "nobody"], 2, 2);
    check(&["plan", "--no-such-flag"], 2, 2);
    let run = settled.run(&["plan", "--cluster", "team-c"]);
    assert!(run.stderr.contains("team-c") && run.stderr.contains("team-a, team-b"), "{}", run.stderr);
    assert_eq!(run.stdout, "");
}

#[test]
fn every_read_verb_has_every_form_on_standard_output_alone() {
    let fleet = Fleet::pending();
    let head = fleet.head("deploy");
    let verbs: &[&[&str]] = &[
        &["check"],
        &["plan"],
        &["diff"],
        &["status"],
        &["why", "team-a"],
        &["history"],
        &["history", "mgmt"],
        &["render", "--cluster", "mgmt"],
    ];
    for verb in verbs {
        let print = |form: &str| {
            let run = fleet.run(&[verb, &["-o", form][..]].concat());
            assert!(!run.stdout.is_empty() && run.stderr.is_empty(), "{verb:?} -o {form}: {}", run.stderr);
            run
        };
        let json = print("json");
        // `until` and the like may move between two runs of `why`; shapes may not.
        let yaml: Value = serde_yaml::from_str(&print("yaml").stdout).unwrap();
        assert_eq!(keys(&yaml), keys(&json.json()), "{verb:?}");
        if verb[0] != "why" {
            assert_eq!(yaml, json.json(), "{verb:?}");
            assert!(print("markdown").stdout.contains("| "), "{verb:?}");
        }
        assert_eq!((print("table").code, print("markdown").code), (json.code, json.code), "{verb:?}");
    }
    assert_eq!(fleet.head("deploy"), head, "a read verb wrote");
}

#[test]
fn why_says_what_it_waits_for_and_what_helps() {
    let fleet = Fleet::pending();
    let run = fleet.run(&["why", "mgmt", "-o", "json"]);
    let why = run.json();
    assert_eq!((run.code, &why["state"], &why["stage"]), (4, &"waiting".into(), &"preflight".into()));
    // There is no cluster to reach from here, and that is what it says.
    let reason = why["reasons"][0].as_str().unwrap();
    assert!(reason.contains("cannot be reached") && reason.contains("/nonexistent/kubeconfig"), "{reason}");
}

#[test]
fn the_cluster_of_a_kubeconfig_is_asked() {
    let fleet = Fleet::pending();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let kubeconfig = fleet.folder().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n",
        server.local_addr().unwrap()
    );
    std::fs::write(&kubeconfig, text).unwrap();
    let (tell, asked) = std::sync::mpsc::channel();
    // As often as it is asked: which cluster it is, and how it is.
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap();
            // A client may open a connection, and then use another one that has become free.
            if length == 0 {
                continue;
            }
            let down = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndown";
            let _ = stream.write_all(down);
            let _ = tell.send(String::from_utf8_lossy(&request[..length]).into_owned());
        }
    });
    let run = fleet.run(&["why", "mgmt", "--kubeconfig", kubeconfig.to_str().unwrap(), "-o", "json"]);
    let reason = run.json()["reasons"][0].as_str().unwrap().to_owned();
    assert!(reason.contains("cannot be reached") && reason.contains("503"), "{reason}");
    // Which of those that are asked at once comes first is nobody's choice.
    let requests: Vec<String> = asked.try_iter().collect();
    assert!(requests.iter().any(|request| request.starts_with("GET /api")), "{requests:?}");
}

#[test]
fn history_tells_the_evidence_of_each_stage_and_marks_foreign_commits() {
    let fleet = Fleet::settled();
    let path = "clusters/team-b/cilium/cilium.yaml";
    let text = fleet.text("deploy", path);
    fleet.write("deploy", path, format!("{text}# by hand\n").as_bytes());
    let history = fleet.run(&["history", "team-b", "-o", "json"]).json();
    let commits = history["commits"].as_array().unwrap();
    let stages: Vec<Option<&str>> = commits.iter().map(|commit| commit["stage"].as_str()).collect();
    let (foreign, ours) = stages.split_first().unwrap();
    assert_eq!(*foreign, None, "the newest commit is a person's");
    assert_eq!(&ours[..4], [Some("verify"), Some("workers/general"), Some("control-plane"), Some("cilium")]);
    for commit in &commits[1..5] {
        assert!(!commit["evidence"].as_array().unwrap().is_empty(), "{commit}");
    }
    assert!(fleet.run(&["history", "team-b"]).stdout.contains("(foreign)"));
}

#[test]
fn diff_shows_what_a_stage_changes() {
    let fleet = Fleet::pending();
    let run = fleet.run(&["diff", "--cluster", "team-a", "--stage", "control-plane"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("-  kubernetesVersion: \"1.33\"\n+  kubernetesVersion: \"1.34\""), "{}", run.stdout);
    let names = fleet.run(&["diff", "--cluster", "team-a", "--name-only", "-o", "json"]).json();
    let files = names["files"].as_array().unwrap();
    assert!(files.iter().all(|file| file["cluster"] == "team-a" && file["diff"].is_null()), "{names}");
    assert_eq!(files.len(), 4);
}

#[test]
fn render_writes_the_same_bytes_each_time_and_what_the_rollout_committed() {
    let fleet = Fleet::settled();
    let (one, two) = (fleet.folder().join("one"), fleet.folder().join("two"));
    for folder in [&one, &two] {
        let run = fleet.run(&["render", "--cluster", "mgmt", "--to", folder.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    let path = "cert-manager/cert-manager.yaml";
    let find = |folder: &std::path::Path| {
        let places = [folder.join(path), folder.join("clusters/mgmt").join(path), folder.join("mgmt").join(path)];
        let place = places.iter().find(|place| place.exists()).expect("the component's file is written");
        std::fs::read_to_string(place).unwrap()
    };
    assert_eq!(find(&one), find(&two));
    assert_eq!(find(&one), fleet.text("deploy", &format!("clusters/mgmt/{path}")));
    assert!(find(&one).contains("priorityClassName: system-cluster-critical"), "the team's overlay is in it");
    let printed = fleet.run(&["render", "--cluster", "mgmt", "--component", "cert-manager"]);
    assert!(printed.code == 0 && printed.stdout.contains("kind: Deployment"), "{}", printed.text());
    let report = fleet.run(&["render", "--cluster", "mgmt", "--component", "cert-manager", "-o", "json"]).json();
    let file = report["files"].as_array().unwrap().iter().find(|file| file["path"] == format!("clusters/mgmt/{path}"));
    let file = file.unwrap_or_else(|| panic!("{path} is not in {report}"));
    let text = find(&one);
    assert_eq!((file["content"].as_str(), file["bytes"].as_u64()), (Some(text.as_str()), Some(text.len() as u64)));
    assert_eq!(file["sha256"], bundles::Digest::of(text.as_bytes()).hex());
    assert_eq!(report["failures"], Value::Array(Vec::new()));
}

#[test]
fn init_writes_a_policy_that_check_accepts_and_never_writes_over_one() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    assert_eq!(stepgate(&["init", place]).code, 0);
    let written = std::fs::read_to_string(folder.path().join("stepgate.yaml")).unwrap();
    assert!(written.contains("soak") && written.lines().any(|line| line.trim_start().starts_with('#')));
    std::fs::write(folder.path().join("stepgate.yaml"), "mine\n").unwrap();
    let again = stepgate(&["init", place]);
    assert_eq!(again.code, 2, "{}", again.text());
    assert!(again.stderr.contains("stepgate.yaml"), "{}", again.stderr);
    assert_eq!(std::fs::read_to_string(folder.path().join("stepgate.yaml")).unwrap(), "mine\n");
    let printed = stepgate(&["init", "--stdout"]);
    assert_eq!((printed.code, printed.stdout.as_str()), (0, written.as_str()));
    let fleet = Fleet::settled();
    fleet.write("main", "stepgate.yaml", written.as_bytes());
    let check = fleet.run(&["check"]);
    assert_eq!(check.code, 0, "{}", check.text());
}

#[test]
fn completion_and_manual_are_printed() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let run = stepgate(&["completion", shell]);
        assert!(run.code == 0 && run.stdout.contains("stepgate") && run.stderr.is_empty(), "{shell}");
    }
    let manual = stepgate(&["man"]);
    assert!(manual.code == 0 && manual.stdout.contains(".TH") && manual.stdout.contains("plan"));
    let help = stepgate(&["--help"]);
    assert!(help.code == 0 && help.stdout.contains("Exit codes"));
}

#[test]
fn a_typo_in_the_policy_is_found_with_the_nearest_name_and_blocks_every_plan() {
    let fleet = Fleet::pending();
    let line = fleet.text("main", "stepgate.yaml").lines().position(|line| line.starts_with("soak")).unwrap() + 1;
    fleet.replace("stepgate.yaml", "\nsoak:", "\nsaok:");
    let check = fleet.run(&["check"]);
    assert_eq!(check.code, 2);
    assert!(check.stdout.contains(&format!("stepgate.yaml:{line}:1")), "{}", check.stdout);
    assert!(check.stdout.contains("did you mean \"soak\"?"), "{}", check.stdout);
    let plan = fleet.run(&["plan", "-o", "json"]);
    assert_eq!(plan.code, 3);
    for cluster in plan.json()["clusters"].as_array().unwrap() {
        assert_eq!(cluster["blocked"][0]["code"], "bad-policy");
    }
}

#[test]
fn a_typo_in_a_cluster_is_found_with_the_nearest_name_and_blocks_that_cluster() {
    let fleet = Fleet::pending();
    fleet.replace("clusters/team-b/cluster.yaml", "workerNodeGroupConfigurations", "workerNodeGroupConfiguration");
    let check = fleet.run(&["check"]);
    assert_eq!(check.code, 2, "{}", check.stdout);
    assert!(check.stdout.contains("did you mean \"workerNodeGroupConfigurations\"?"), "{}", check.stdout);
    let plan = fleet.run(&["plan", "-o", "json"]);
    assert_eq!(plan.code, 3);
    let blocked: Vec<bool> =
        plan.json()["clusters"].as_array().unwrap().iter().map(|it| it["blocked"][0].is_object()).collect();
    assert_eq!(blocked, [false, false, true]);
    // A misspelt value is told too.
    let fleet = Fleet::pending();
    fleet.replace("clusters/team-b/cluster.yaml", "kubernetesVersion: \"1.34\"", "kubernetesVersion: \"one\"");
    let check = fleet.run(&["check"]);
    assert_eq!(check.code, 2);
    assert!(check.stdout.contains("clusters/team-b/cluster.yaml:8:22"), "{}", check.stdout);
}

#[test]
fn rollback_names_the_doors_and_writes_nothing() {
    let fleet = Fleet::settled();
    let head = || fleet.repository.refname_to_id("refs/heads/deploy").unwrap();
    let before = head();
    for arguments in [&["rollback", "mgmt"][..], &["rollback", "mgmt", "--yes", "--as", "Ann <ann@example.com>"]] {
        let run = fleet.run(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (3, ""), "{}", run.stderr);
        for said in
            ["cluster mgmt does not go back to the end of rollout", "1.34 down to 1.33", "kubernetes-never-down"]
        {
            assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
        }
        assert!(run.stderr.contains("a minor is a one-way door"), "{}", run.stderr);
    }
    for (arguments, said) in [
        (
            &["rollback", "mgmt", "--end", "--yes", "--as", "Ann <ann@example.com>"][..],
            "nothing of cluster mgmt is held back",
        ),
        (
            &["rollback", "mgmt", "--to", "nowhere"],
            "\"nowhere\" is not a rollout of cluster mgmt that ended, nor a stage",
        ),
        (&["rollback", "mgmt", "--to", "workers/md-0"], "cluster mgmt is at workers/md-0 already"),
        (&["rollback", "nobody"], "nobody"),
        (&["rollback", "mgmt", "--to", "capi", "--end"], "cannot be used with"),
    ] {
        let run = fleet.run(arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.text());
        assert!(run.stderr.contains(said), "{arguments:?}: {}", run.stderr);
    }
    let unknown = fleet.run(&["rollback", "mgmt", "--to", "nowhere"]).stderr;
    assert!(unknown.contains("hint: there are:") && unknown.contains("control-plane"), "{unknown}");
    assert_eq!(head(), before);
    let status = fleet.run(&["status"]);
    assert!(status.stdout.contains("rollback (mgmt): not possible any more: "), "{}", status.text());
}
