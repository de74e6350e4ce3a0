//! Versions that may not be beside each other, and rules of checks.

use super::*;

fn check_skew(name: &str, facts: SkewFacts, expected: &[&str]) {
    let mut input = input(vec![stage("capi", "1", "2")]);
    input.skew = facts;
    assert_eq!(codes(&plan(input)), expected, "{name}");
}

#[test]
fn skew_rules() {
    let control_plane =
        |from: &str, to: &str| SkewFacts { control_plane: Some(step(from, to)), ..SkewFacts::default() };
    check_skew("one minor up", control_plane("1.30", "1.31"), &[]);
    check_skew("two minors up", control_plane("1.30", "1.32"), &["kubernetes-minor-step"]);
    check_skew("one minor down", control_plane("1.31", "1.30"), &["kubernetes-never-down"]);
    check_skew("a patch down", control_plane("v1.31.2", "v1.31.1"), &["kubernetes-never-down"]);
    check_skew("a build of RKE2 up", control_plane("v1.34.1+rke2r9", "v1.34.1+rke2r10"), &[]);
    check_skew("a build of RKE2 down", control_plane("v1.34.1+rke2r2", "v1.34.1+rke2r1"), &["kubernetes-never-down"]);
    let rebuild = control_plane("v1.28.8---vmware.10-fips.1-tkg.1", "v1.28.8---vmware.9-fips.1-tkg.2");
    check_skew("a rebuild of VMware down", rebuild, &["kubernetes-never-down"]);
    check_skew("a release of EKS-D up", control_plane("v1.31.2-eks-1-31-9", "v1.31.2-eks-1-31-10"), &[]);
    check_skew("not known", control_plane("latest", "1.30"), &[]);

    let workers = |control_plane: (&str, &str), worker: (&str, &str)| SkewFacts {
        control_plane: Some(step(control_plane.0, control_plane.1)),
        workers: vec![group("md-0", worker.0, worker.1)],
        ..SkewFacts::default()
    };
    check_skew("workers along", workers(("1.30", "1.31"), ("1.30", "1.31")), &[]);
    check_skew("workers later", workers(("1.30", "1.31"), ("1.29", "1.29")), &[]);
    check_skew("workers too old", workers(("1.30", "1.31"), ("1.28", "1.29")), &["control-plane-worker-skew"]);
    check_skew("workers newer", workers(("1.30", "1.30"), ("1.30", "1.31")), &["worker-not-newer"]);
    check_skew("workers two minors", workers(("1.31", "1.31"), ("1.29", "1.31")), &["worker-minor-step"]);
    check_skew("workers down", workers(("1.31", "1.31"), ("1.31", "1.30")), &["kubernetes-never-down"]);

    let eksa = |from: &str, to: &str| SkewFacts { eksa: Some(step(from, to)), ..SkewFacts::default() };
    check_skew("eksa up", eksa("v0.25.2", "v0.26.0"), &[]);
    check_skew("eksa two up", eksa("v0.24.0", "v0.26.0"), &["eksa-minor-step"]);
    check_skew("eksa down", eksa("v0.26.0", "v0.25.2"), &["eksa-minor-step"]);
    check_skew("two pluses", eksa("v0.25.0-dev+build.17+c76980a", "v0.26.0"), &[]);
    let workload = SkewFacts { management_eksa: Some("v0.25.2".into()), ..eksa("v0.25.2", "v0.26.0") };
    check_skew("workload above management", workload, &["workload-not-newer-than-management"]);
    let management =
        SkewFacts { workload_eksa: vec![("prod".parse().unwrap(), "v0.24.1".into())], ..eksa("v0.25.2", "v0.26.0") };
    check_skew("management two above workload", management, &["management-ahead-of-workloads"]);
    let components =
        SkewFacts { management_components: Some(step("v0.25.0", "v0.27.0")), ..eksa("v0.25.2", "v0.26.0") };
    check_skew("components two ahead", components, &["management-components-ahead"]);

    let capi = |from: &str, to: &str| SkewFacts { cluster_api: Some(step(from, to)), ..SkewFacts::default() };
    check_skew("three minors of Cluster API", capi("v1.10.2", "v1.13.2+a34c207"), &[]);
    check_skew("four minors of Cluster API", capi("v1.9.4", "v1.13.2"), &["cluster-api-minor-step"]);
    check_skew("Cluster API down", capi("v1.9.5", "v1.9.4"), &["cluster-api-minor-step"]);
    check_skew("a rebuild has no direction", capi("v1.13.2+ffffff0", "v1.13.2+0000001"), &[]);
}

#[test]
fn contracts_are_those_of_the_labels() {
    let provider = |labels: &[&str], metadata: Option<&str>| SkewFacts {
        core_contracts: vec!["v1beta1".into(), "v1beta2".into()],
        providers: vec![ProviderContracts {
            name: "snow".into(),
            labels: labels.iter().map(ToString::to_string).collect(),
            metadata: metadata.map(str::to_owned),
        }],
        ..SkewFacts::default()
    };
    check_skew("accepted", provider(&["v1beta1"], Some("v1beta1")), &[]);
    check_skew("label decides", provider(&["v1beta1"], Some("v1alpha4")), &[]);
    check_skew("label decides against", provider(&["v1alpha4"], Some("v1beta2")), &["contract-not-accepted"]);
    check_skew("no label", provider(&[], Some("v1beta2")), &[]);
    check_skew("nothing", provider(&[], None), &["contract-not-accepted"]);
    let mut input = input(vec![stage("capi", "1", "2")]);
    input.skew = provider(&["v1beta1"], Some("v1beta2"));
    let warnings = plan(input).warnings;
    assert!(warnings[0].contains("Cluster API resolves by the label"), "{warnings:?}");
}

#[test]
fn support_that_has_ended_needs_a_licence() {
    let facts = |today: &str, licensed: bool| SkewFacts {
        extended_support: Some(ExtendedSupport {
            ends: "2026-07-31".parse().unwrap(),
            today: today.parse().unwrap(),
            licensed,
        }),
        ..SkewFacts::default()
    };
    check_skew("before", facts("2026-07-31", false), &[]);
    check_skew("after", facts("2026-08-01", false), &["extended-support"]);
    check_skew("licensed", facts("2026-08-01", true), &[]);
    for (today, warned) in [("2026-06-15", true), ("2026-01-01", false), ("2026-08-01", false)] {
        let mut input = input(vec![stage("capi", "1", "2")]);
        input.skew = facts(today, true);
        assert_eq!(!plan(input).warnings.is_empty(), warned, "{today}");
    }
}

#[test]
fn every_rule_has_a_name_of_its_own_and_says_what_and_why() {
    let mut codes: Vec<&str> = RULES.iter().map(|rule| rule.code).collect();
    assert!(RULES.iter().all(|rule| !rule.statement.is_empty() && !rule.source.is_empty()));
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), RULES.len());
}
