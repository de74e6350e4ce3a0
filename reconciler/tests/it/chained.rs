//! Upgrades over several minors, as plans show them: the whole way first, then the rollout that comes next.

use git2::Repository;

use crate::fleets::{below, commit, fleets};
use crate::support::{Run, stepgate};

/// The plan of a small fleet after its change, as JSON.
fn plan(fleet: &str, cluster: &str) -> serde_json::Value {
    after(fleet, &["plan", "--cluster", cluster, "-o", "json"]).json()["clusters"][0].clone()
}

/// A verb about a small fleet after its change.
fn after(fleet: &str, arguments: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init_bare(folder.path()).unwrap();
    repository.set_head("refs/heads/main").unwrap();
    let place = folder.path().to_str().unwrap();
    commit(&repository, &below(&fleets().join(fleet).join("before")), &[], "What runs");
    let adopted = stepgate(&["adopt", "--yes", "--as-declared", "--repo", place]);
    assert_eq!(adopted.code, 0, "{}{}", adopted.stdout, adopted.stderr);
    commit(&repository, &below(&fleets().join(fleet).join("after")), &[], "What is wanted");
    stepgate(&[arguments, &["--repo", place]].concat())
}

#[test]
fn the_way_of_a_chain_is_told_with_each_rollout_and_what_it_rolls() {
    let plan = plan("chained-upgrade", "pay");
    let chain = &plan["chain"];
    assert_eq!((chain["rollout"].as_u64(), chain["rollouts"].as_u64()), (Some(1), Some(2)), "{plan}");
    assert_eq!(chain["told"], "rollout 1 of 2 on the way to Kubernetes 1.33 with bundles-26 (v0.26.0)");
    let targets = chain["targets"].as_array().unwrap();
    assert_eq!(targets[0]["kubernetes"], "1.32");
    assert_eq!((&targets[0]["bundle"], &targets[0]["eksa"]), (&"bundles-25".into(), &"v0.25.0".into()));
    assert_eq!(targets[0]["rolls"], serde_json::json!(["control-plane", "workers/md-0", "workers/gpu"]));
    assert_eq!(targets[1]["workers"], serde_json::json!({"gpu": "1.32"}));
    assert_eq!(plan["blocked"], serde_json::json!([]));
    // The stages are those of the first rollout.
    let stages = plan["stages"].as_array().unwrap();
    let control_plane = stages.iter().find(|stage| stage["name"] == "control-plane").unwrap();
    let changes = control_plane["changes"].as_array().unwrap();
    let kubernetes = changes.iter().find(|change| change["component"] == "kubernetes").unwrap();
    assert_eq!(kubernetes["newVersion"], "1.32", "{control_plane}");
}

#[test]
fn a_jump_is_refused_where_the_setting_is_off_or_a_bundle_is_missing() {
    let refused = |fleet: &str, cluster: &str| {
        let plan = plan(fleet, cluster);
        assert!(plan.get("chain").is_none(), "{plan}");
        plan["blocked"].as_array().unwrap().clone()
    };
    let off = refused("chained-upgrade", "old");
    let codes: Vec<_> = off.iter().map(|block| block["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["eksa-minor-step", "kubernetes-minor-step", "worker-minor-step"]);
    assert!(
        off.iter().all(|block| block["help"].as_str().unwrap().contains("set chainedUpgrades for the cluster")),
        "{off:?}"
    );
    let broken = refused("chained-upgrade-without-link", "pay");
    let broken = broken.iter().find(|block| block["code"] == "broken-chain").unwrap();
    assert!(broken["message"].as_str().unwrap().contains("no bundle of EKS Anywhere v0.25"), "{broken}");
}

#[test]
fn a_rollout_that_others_follow_is_not_rehearsed() {
    let run = after("chained-upgrade", &["rehearse", "pay"]);
    assert_eq!(run.code, 2, "{}", run.text());
    assert!(run.stderr.contains("it is rollout 1 of 2 of a chain"), "{}", run.stderr);
    assert!(run.stderr.contains("`stepgate plan` says what it would do"), "{}", run.stderr);
}
