//! `stepgate bundle` as scripts and people use it.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test file: it fails by panic"
)]

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::{Value, json};

struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

fn stepgate(arguments: &[&str]) -> Run {
    let mut command = Command::cargo_bin("stepgate").unwrap();
    let output = command.arg("bundle").args(arguments).env_remove("STEPGATE_MIRROR").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn fixture(name: &str) -> String {
    format!("{}/../fixtures/bundles/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A folder of the shared data.
fn data(name: &str) -> Option<PathBuf> {
    skip::shared(&format!("data/{name}"))
}

#[test]
fn diff_prints_the_contract_for_scripts() {
    let run =
        stepgate(&["diff", &fixture("old.yaml"), &fixture("new.yaml"), "--kubernetes-version", "1.30", "-o", "json"]);
    let (one, two, four) = ("1".repeat(64), "2".repeat(64), "4".repeat(64));
    let digest = |digits: &str| format!("sha256:{digits}");
    let artifact = |name: &str, class: &str, uris: [&str; 2], digests: [Option<String>; 2]| json!({"name": name, "class": class, "oldUri": uris[0], "newUri": uris[1], "oldDigest": digests[0], "newDigest": digests[1]});
    let tag = |repository: &str, tag: &str| format!("registry.example.org/{repository}:{tag}");
    let expect = json!({"changes": [
        {
            "kubernetesVersion": "1.30", "component": "certManager", "class": "digest-drift",
            "oldVersion": "v1.18.2+1111111", "newVersion": "v1.18.2+1111111",
            "artifacts": [
                artifact("controller", "digest-drift", [&tag("cert-manager", "v1.18.2-eks-a-1"), &tag("cert-manager", "v1.18.2-eks-a-2")], [Some(digest(&one)), Some(digest(&four))]),
                artifact("manifest", "retag", ["https://example.org/1/cert-manager.yaml", "https://example.org/2/cert-manager.yaml"], [None, None]),
            ],
        },
        {
            "kubernetesVersion": "1.30", "component": "cilium", "class": "skip-minor",
            "oldVersion": "v1.15.16-eksa.1", "newVersion": "v1.17.8-0",
            "artifacts": [artifact("cilium", "retag", [&tag("cilium", "v1.15.16-eksa.1"), &tag("cilium", "v1.17.8-0")], [None, None])],
        },
        {
            "kubernetesVersion": "1.30", "component": "haproxy", "class": "retag", "oldVersion": null, "newVersion": null,
            "artifacts": [artifact("image", "retag", [&tag("haproxy", "1"), &tag("haproxy", "2")], [Some(digest(&two)), Some(digest(&two))])],
        },
    ]});
    assert_eq!(serde_json::from_str::<Value>(&run.stdout).unwrap(), expect);
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
}

#[test]
fn diff_exits_0_without_changes_and_lists_everything_with_all() {
    let (old, new) = (fixture("old.yaml"), fixture("new.yaml"));
    let same = stepgate(&["diff", &old, &old, "-o", "json"]);
    assert_eq!((same.code, serde_json::from_str::<Value>(&same.stdout).unwrap()), (0, json!({"changes": []})));
    let all = stepgate(&["diff", &old, &old, "--all", "-o", "json"]);
    let changes = serde_json::from_str::<Value>(&all.stdout).unwrap();
    let changes = changes["changes"].as_array().unwrap();
    assert_eq!((all.code, changes.len()), (0, 4));
    assert!(changes.iter().all(|change| change["class"] == "unchanged"));
    // A Kubernetes version on one side only is added or removed, and told in one line.
    let table = stepgate(&["diff", &old, &new]);
    assert!(
        table.stdout.contains("Kubernetes 1.32 is only in") && table.stdout.contains("Kubernetes 1.31 is only in"),
        "{}",
        table.stdout
    );
    assert!(table.stdout.contains("alarm: certManager of Kubernetes 1.30"), "{}", table.stdout);
    let only = stepgate(&["diff", &old, &new, "--kubernetes-version", "1.32", "-o", "json"]);
    let changes = serde_json::from_str::<Value>(&only.stdout).unwrap();
    assert_eq!((only.code, &changes["changes"][0]["class"]), (1, &json!("added")));
}

#[test]
fn every_form_is_printed() {
    for form in ["table", "json", "yaml", "markdown"] {
        for arguments in [
            vec!["diff", &fixture("old.yaml"), &fixture("new.yaml"), "-o", form],
            vec!["show", &fixture("all-kinds.yaml"), "-o", form],
            vec!["verify", &fixture("old.yaml"), "-o", form],
        ] {
            let run = stepgate(&arguments);
            assert!(!run.stdout.is_empty() && run.stderr.is_empty(), "{arguments:?}: {}", run.stderr);
        }
    }
}

#[test]
fn bad_input_exits_2_with_place_and_hint() {
    let folder = tempfile::tempdir().unwrap();
    let head = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\n";
    let bomb: String = (1..12)
        .map(|level| format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(",")))
        .collect();
    let whole = std::fs::read(fixture("old.yaml")).unwrap();
    let check = |name: &str, content: &[u8], place: &str, part: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        for verb in [
            vec!["diff", path.to_str().unwrap(), &fixture("old.yaml"), "-o", "json"],
            vec!["verify", path.to_str().unwrap()],
            vec!["show", path.to_str().unwrap()],
        ] {
            let run = stepgate(&verb);
            assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{name} {verb:?}");
            assert!(
                run.stderr.contains(&format!("{}:{place}", path.display())) && run.stderr.contains(part),
                "{name}: {}",
                run.stderr
            );
            assert!(run.stderr.contains("hint: "), "{name}: {}", run.stderr);
            assert!(run.stderr.len() < 2000, "{name}: {}", run.stderr.len());
        }
    };
    check("empty.yaml", b"", "1:1", "");
    check("binary.yaml", b"\x7fELF\x02\x01\x01\x00\xff\xfe", "1:9", "not UTF-8");
    check("truncated.yaml", &whole[..whole.len() - 40], "35:49", "cut short");
    check("deep.yaml", format!("{head}a: {}", "[".repeat(100_000)).as_bytes(), "3:69", "");
    check("bomb.yaml", format!("{head}a0: &a0 x\n{bomb}").as_bytes(), "9:", "counting what aliases stand for");
    check("duplicate.yaml", format!("{head}kind: Other\n").as_bytes(), "3:1", "already on line 2");
    check("none.yaml", format!("{head}spec: {{}}\n").as_bytes(), "1:1", "no `spec.versionsBundles`");
}

#[test]
fn a_file_of_100_mb_is_refused_without_reading_it_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.yaml");
    std::fs::File::create(&path).unwrap().set_len(100 << 20).unwrap();
    let run = stepgate(&["verify", path.to_str().unwrap()]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("large.yaml:1:1: the file has more than"), "{}", run.stderr);
}

#[test]
fn verify_says_what_the_signature_does_not_cover() {
    let Some(file) = data("eks-anywhere/bundles/bundles-17-signed-v0.25.0-dev.build.17.yaml") else { return };
    let verify = |path: &Path| {
        let run = stepgate(&["verify", path.to_str().unwrap(), "-o", "json"]);
        (run.code, serde_json::from_str::<Value>(&run.stdout).unwrap()["signature"].clone())
    };
    let (code, signature) = verify(&file);
    assert_eq!((code, &signature["verdict"]), (0, &json!("valid")));
    assert!(signature["notCovered"].as_array().unwrap().contains(&json!("certManager")));
    let folder = tempfile::tempdir().unwrap();
    let changed = folder.path().join("bundles.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let write = |from: &str, to: &str| {
        assert!(text.contains(from));
        std::fs::write(&changed, text.replace(from, to)).unwrap();
    };
    write("number: 17", "number: 18");
    let (code, signature) = verify(&changed);
    assert_eq!((code, &signature["verdict"]), (3, &json!("invalid")));
    write("cert-manager-controller:v1.18.2", "cert-manager-controller:v6.6.6");
    let (code, signature) = verify(&changed);
    assert_eq!((code, &signature["verdict"]), (0, &json!("valid")));
    // A Flux image that its version does not belong to is found, although the signature still fits.
    write("+c576620", "+c576621");
    let (code, signature) = verify(&changed);
    assert_eq!((code, &signature["verdict"]), (3, &json!("valid")));
}

#[test]
fn fetch_fills_a_mirror_and_the_lock_and_refuses_other_content() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir_all(at("from/example.org/1")).unwrap();
    std::fs::write(at("from/example.org/1/cert-manager.yaml"), "kind: X\n").unwrap();
    std::fs::create_dir_all(at("fleet/bundles")).unwrap();
    std::fs::copy(fixture("old.yaml"), at("fleet/bundles/old.yaml")).unwrap();
    let fetch = |extra: &[&str]| {
        let (bundle, to, from, policy) = (at("fleet/bundles/old.yaml"), at("mirror"), at("from"), at("none.yaml"));
        let mut arguments = vec!["fetch", &bundle, "--to", &to, "--mirror", &from, "--policy", &policy, "-o", "json"];
        arguments.extend(extra);
        let run = stepgate(&arguments);
        let report =
            serde_json::from_str::<Value>(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
        (run.code, report["manifests"][0]["state"].as_str().unwrap().to_owned())
    };
    let lock = || std::fs::read_to_string(at("fleet/bundles.lock")).unwrap();
    assert_eq!(fetch(&[]), (0, "fetched".to_owned()));
    assert_eq!(std::fs::read_to_string(at("mirror/example.org/1/cert-manager.yaml")).unwrap(), "kind: X\n");
    assert!(lock().contains("  https://example.org/1/cert-manager.yaml\n"), "{}", lock());
    assert_eq!(fetch(&[]), (0, "present".to_owned()));
    let before = lock();
    // Somebody changed what lies at the address.
    std::fs::write(at("from/example.org/1/cert-manager.yaml"), "kind: Y\n").unwrap();
    std::fs::remove_file(at("mirror/example.org/1/cert-manager.yaml")).unwrap();
    assert_eq!(fetch(&[]), (2, "refused".to_owned()));
    assert_eq!(lock(), before);
    assert!(!Path::new(&at("mirror/example.org/1/cert-manager.yaml")).exists());
    assert_eq!(fetch(&["--update"]), (0, "fetched".to_owned()));
    assert_ne!(lock(), before);
    std::fs::remove_dir_all(at("from")).unwrap();
    std::fs::create_dir_all(at("from")).unwrap();
    std::fs::remove_dir_all(at("mirror")).unwrap();
    assert_eq!(fetch(&[]), (2, "missing".to_owned()));
}

#[test]
fn a_lock_beside_the_bundles_shows_drift_of_manifests() {
    let folder = tempfile::tempdir().unwrap();
    let side = |name: &str, digit: &str| {
        let bundles = folder.path().join(name).join("bundles");
        std::fs::create_dir_all(&bundles).unwrap();
        std::fs::copy(fixture("old.yaml"), bundles.join("b.yaml")).unwrap();
        let line = format!("sha256:{}  https://example.org/1/cert-manager.yaml\n", digit.repeat(64));
        std::fs::write(folder.path().join(name).join("bundles.lock"), line).unwrap();
        bundles.join("b.yaml").to_str().unwrap().to_owned()
    };
    let (one, other, third) = (side("one", "a"), side("other", "b"), side("third", "a"));
    let run = stepgate(&["diff", &one, &other, "-o", "json"]);
    let report = serde_json::from_str::<Value>(&run.stdout).unwrap();
    assert_eq!((run.code, &report["changes"][0]["class"]), (1, &json!("digest-drift")));
    assert_eq!(stepgate(&["diff", &one, &third, "-o", "json"]).code, 0);
}

#[test]
fn the_published_mirror_serves_what_release_0_26_needs() {
    let (Some(bundles), Some(mirror)) = (data("eks-anywhere/bundles/release-0.26.yaml"), data("mirror")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("mirror");
    let substitutes = mirror.join("substitutes");
    let run = stepgate(&[
        "fetch",
        bundles.to_str().unwrap(),
        "--to",
        to.to_str().unwrap(),
        "--mirror",
        mirror.to_str().unwrap(),
        "--mirror",
        substitutes.to_str().unwrap(),
        "--lock",
        folder.path().join("bundles.lock").to_str().unwrap(),
        "-o",
        "json",
    ]);
    let report = serde_json::from_str::<Value>(&run.stdout).unwrap();
    let manifests = report["manifests"].as_array().unwrap();
    let missing: Vec<_> =
        manifests.iter().filter(|it| it["state"] != "fetched").map(|it| it["usedBy"].as_str().unwrap()).collect();
    // The custom resource definitions of EKS-D are not in that mirror.
    assert_eq!(missing, ["eksD.components"]);
    assert_eq!(run.code, 2);
    assert!(to.join("public.ecr.aws/eks/cilium/cilium/1.19.4-1.tgz").is_file());
    assert!(to.join("github.com/fluxcd/flux2/releases/download/v2.8.8/install.yaml").is_file());
}

#[test]
fn fetch_takes_what_the_providers_of_the_fleet_need_and_sums_up_by_host() {
    let Some(bundles) = data("eks-anywhere/bundles/release-0.26.yaml") else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir_all(at("clusters/a")).unwrap();
    let cluster = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec:\n  kubernetesVersion: \"1.33\"\n  \
                   managementCluster: {name: a}\n  controlPlaneConfiguration: {count: 1}\n  datacenterRef: {kind: NutanixDatacenterConfig, name: a}\n";
    std::fs::write(at("clusters/a/cluster.yaml"), cluster).unwrap();
    std::fs::write(at("stepgate.yaml"), "apiVersion: stepgate.dev/v1alpha1\nkind: Policy\n").unwrap();
    let fetch = |extra: &[&str]| {
        let (policy, to, lock) = (at("stepgate.yaml"), at("mirror"), at("bundles.lock"));
        let file = bundles.to_str().unwrap();
        let run = stepgate(&[&["fetch", file, "--to", &to, "--policy", &policy, "--lock", &lock][..], extra].concat());
        assert_eq!(run.code, 2, "{}", run.stderr);
        run.stdout
    };
    let told = fetch(&[]);
    assert!(told.contains("nutanix.components") && !told.contains("vSphere.components"), "{told}");
    let left_out = "no cluster of the fleet needs docker, snow, tinkerbell, vSphere: left out; --all fetches these too";
    assert!(told.contains(left_out), "{told}");
    let summary = "`--allow distro.eks.amazonaws.com --allow github.com/fluxcd --allow public.ecr.aws/eks --allow release-bucket`";
    assert!(told.contains("4 hosts not allowed, for ") && told.contains(summary), "{told}");
    let addresses: Vec<&str> = told.split_whitespace().filter(|word| word.contains("://")).collect();
    let distinct: std::collections::BTreeSet<&str> = addresses.iter().copied().collect();
    assert!(addresses.len() > 20 && addresses.len() == distinct.len(), "{told}");
    let all = fetch(&["--all"]);
    assert!(all.contains("vSphere.components") && !all.contains("left out"), "{all}");
    // Without a cluster there is nothing to go by.
    std::fs::remove_dir_all(at("clusters")).unwrap();
    assert_eq!(fetch(&[]), all);
}
