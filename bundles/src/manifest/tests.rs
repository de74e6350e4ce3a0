use super::*;

const ALL_KINDS: &[u8] = include_bytes!("../../../fixtures/bundles/all-kinds.yaml");

#[test]
fn every_kind_is_read_from_one_file() {
    let manifests = parse("all-kinds.yaml", ALL_KINDS).unwrap();
    let [Manifest::EksaRelease(release), Manifest::Bundles(bundles), Manifest::EksdRelease(eks_d)] =
        manifests.as_slice()
    else {
        panic!("{manifests:?}");
    };
    assert_eq!(release.name, EksaRelease::name_of("v0.25.0-dev+build.17"));
    assert_eq!(release.bundles_name.as_deref(), Some("bundles-17"));
    assert_eq!((bundles.name.as_str(), bundles.number), ("bundles-17", 17));
    assert_eq!(eks_d.version().unwrap().to_string(), "v1.30.14-eks-1-30-45");
    let archive = eks_d.component("etcd").unwrap().asset("etcd-linux-amd64.tar.gz").unwrap();
    assert_eq!((archive.kind.as_str(), archive.digest.is_some()), ("Archive", true));
}

#[test]
fn format_has_no_part_in_what_is_read() {
    let plain = ALL_KINDS;
    let text = String::from_utf8(plain.to_vec()).unwrap();
    let variants = [
        text.replace('\n', "\r\n"),
        format!("\u{feff}{text}"),
        format!("# a remark\n---\n# nothing\n---\n{text}\n...\n"),
        text.replace("\"1.30\"", "1.30"),
        text.replace("kubeVersion: \"1.30\"", "kubeVersion: &kube '1.30'\n      other: *kube"),
    ];
    let expect = parse_bundles("a", plain).unwrap();
    for variant in variants {
        let found = parse_bundles("b", variant.as_bytes()).unwrap();
        assert_eq!(found.versions_bundles[0].kubernetes_version.as_str(), "1.30");
        assert_eq!(found.versions_bundles[0].components, expect.versions_bundles[0].components);
    }
}

#[test]
fn bad_input_is_refused_with_place_and_hint() {
    let head = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\n";
    let check = |source: &[u8], place: (usize, usize), part: &str| {
        let error = parse_bundles("bundles/x.yaml", source).unwrap_err();
        let text = error.to_string();
        assert_eq!((error.line, error.column), place, "{text}");
        assert!(text.contains(part), "{text}");
        assert!(text.starts_with(&format!("bundles/x.yaml:{}:{}: ", place.0, place.1)), "{text}");
        assert!(!error.hint.is_empty());
    };
    check(b"", (1, 1), "empty");
    check(b"kind: ConfigMap\n", (1, 1), "no Bundles object");
    check(b"\x00\x01\xff", (1, 3), "not UTF-8");
    check(format!("{head}spec: {{}}\n").as_bytes(), (1, 1), "no `spec.versionsBundles`");
    check(format!("{head}spec:\n  versionsBundles: []\n").as_bytes(), (4, 20), "is empty");
    check(format!("{head}spec:\n  versionsBundles: x\n").as_bytes(), (4, 20), "not a list");
    check(format!("{head}spec:\n  versionsBundles:\n  - flux: {{}}\n").as_bytes(), (5, 5), "no `kubeVersion`");
    check(
        format!("{head}spec:\n  versionsBundles: [{{kubeVersion: next}}]\n").as_bytes(),
        (4, 35),
        "is not a valid Kubernetes version",
    );
    check(
        format!("{head}spec:\n  versionsBundles:\n  - kubeVersion: '1.30'\n  - kubeVersion: '1.30'\n").as_bytes(),
        (6, 5),
        "second versionsBundle, after the one in line 5",
    );
    check(format!("{head}spec:\n  number: one\n").as_bytes(), (4, 11), "`number` is not a whole number");
    check(format!("{head}kind: Other\n").as_bytes(), (3, 1), "already on line 2");
    check(format!("{head}spec: {{versionsBundles: [{{kubeVersion: '1.30'}}]}}\n---\n{head}spec: {{versionsBundles: [{{kubeVersion: '1.30'}}]}}\n").as_bytes(), (5, 1), "second Bundles object");
    check(format!("{head}spec:\n  versionsBundles:\n  - kubeVersion: \"1.3").as_bytes(), (5, 18), "");
    let cut = "spec:\n  versionsBundles:\n  - kubeVersion: '1.30'\n    flux: {version: v1}\n  - kubeVersion: '1.31'";
    check(format!("{head}{cut}").as_bytes(), (7, 24), "`flux` of its last versionsBundle is missing");
}

#[test]
fn placeholders_cannot_be_installed() {
    let bundles = parse_bundles("all-kinds.yaml", ALL_KINDS).unwrap();
    let component = |name: &str| bundles.versions_bundles[0].component(name).unwrap();
    assert!(component("cloudStack").is_placeholder());
    assert!(!component("certManager").is_placeholder());
    let addresses: Vec<_> = bundles.manifests().iter().map(|it| (it.component, it.artifact)).collect();
    assert_eq!(addresses, [("certManager", "manifest"), ("eksD", "components"), ("eksD", "manifestUrl")]);
}
