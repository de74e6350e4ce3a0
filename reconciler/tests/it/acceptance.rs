//! The real thing: published manifests of two consecutive releases, Cilium's chart included.

use std::path::PathBuf;

use serde_json::Value;

use crate::support::stepgate;

/// The shared data, where there is the helm program too.
fn present() -> Option<PathBuf> {
    let data = skip::shared("data")?;
    skip::named_by("STEPGATE_HELM").map(|_| data)
}

/// The stage of a plan.
fn stage<'a>(plan: &'a Value, name: &str) -> &'a Value {
    let stages = plan["stages"].as_array().unwrap();
    stages.iter().find(|stage| stage["name"] == name).unwrap_or_else(|| panic!("no stage {name}"))
}

#[test]
fn the_published_releases_0_25_to_0_26_go_through_with_their_traps_in_view() {
    let Some(data) = present() else { return };
    let file = |name: &str| data.join(name).to_str().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let run = stepgate(&[
        "demo",
        "--dir",
        folder.path().to_str().unwrap(),
        "--from",
        &file("eks-anywhere/bundles/release-0.25.yaml"),
        "--to",
        &file("eks-anywhere/bundles/release-0.26.yaml"),
        "--mirror",
        &file("mirror"),
        "--mirror",
        &file("mirror/substitutes"),
        "-o",
        "json",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report = run.json();
    assert_eq!(report["complete"], true);

    let plans = report["plans"].as_array().unwrap();
    for plan in plans {
        assert_eq!(plan["blocked"], Value::Array(Vec::new()), "{}", plan["cluster"]);
    }
    // Cilium's chart is rendered and committed on every cluster.
    for cluster in report["clusters"].as_array().unwrap() {
        let committed = cluster["stages"].as_array().unwrap();
        assert!(committed.iter().any(|stage| stage["stage"] == "cilium"), "{}", cluster["cluster"]);
        assert_eq!(cluster["state"], "done");
    }

    let told = |plan: &Value, name: &str, parts: &[&str]| {
        let stage = stage(plan, name);
        let texts = ["oneWay", "risks", "reasons"].into_iter().flat_map(|list| stage[list].as_array().unwrap());
        texts.filter_map(Value::as_str).any(|text| parts.iter().all(|part| text.contains(part)))
    };
    let anywhere = |name: &str, parts: &[&str]| {
        let plans = plans.iter().filter(|plan| plan["stages"].as_array().unwrap().iter().any(|it| it["name"] == name));
        plans.into_iter().any(|plan| told(plan, name, parts))
    };
    // vSphere's provider stores another version afterwards: there is no way back.
    let one_way = plans.iter().flat_map(|plan| plan["stages"].as_array().unwrap());
    let one_way: Vec<&str> =
        one_way.flat_map(|stage| stage["oneWay"].as_array().unwrap()).filter_map(Value::as_str).collect();
    assert!(one_way.iter().any(|text| text.contains("infrastructure.cluster.x-k8s.io")), "{one_way:?}");
    assert!(anywhere("capi", &["EXP_PRIORITY_QUEUE", "false to true"]), "flipped default of Cluster API");
    assert!(anywhere("capi", &["EXP_RECONCILER_RATE_LIMITING", "false to true"]), "flipped default of Cluster API");
    assert!(anywhere("flux", &["v1beta2", "source.toolkit.fluxcd.io"]), "versions that Flux drops");
    assert!(anywhere("flux", &["v2beta2", "helm.toolkit.fluxcd.io"]), "versions that Flux drops");
    let newer = ["Flux v2.8.8", "source-controller 1.9.0 (manifest: 1.8.5)"];
    assert!(anywhere("flux", &newer), "images of another release than the manifest");
}
