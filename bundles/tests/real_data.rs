//! Assertions on published Bundles. Nine facts about real releases have a letter, a to i, in the names of their tests.
//! Where a file that such a fact is about is not at hand, the pair is made from one that is, and the test says so.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test file: it reads the shared data where that is present, and fails by panic"
)]

use std::path::PathBuf;

use bundles::{
    BuildMetadataVerdict, Bundles, Change, ChangeClass, Changes, EksdSignatureVerdict, KubernetesVersion, Locks,
    Manifest, SignatureEra, SignatureVerdict, compare, parse, parse_bundles, recompute_build_metadata,
    verify_eksd_reference, verify_signature,
};
use yaml::{Mapping, Node, Value, emit};

const BUNDLE_17: &str = "bundles-17-signed-v0.25.0-dev.build.17.yaml";
const BUNDLE_17_KUBERNETES: [&str; 7] = ["1.28", "1.29", "1.30", "1.31", "1.32", "1.33", "1.34"];

/// The folder `eks-anywhere` of the shared data.
fn data() -> Option<PathBuf> {
    skip::shared("data/eks-anywhere")
}

fn read(name: &str) -> Option<String> {
    let path = data()?.join("bundles").join(name);
    Some(std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn bundles(text: &str) -> Bundles {
    parse_bundles("bundles.yaml", text.as_bytes()).unwrap()
}

fn changes(old: &str, new: &str) -> Changes {
    compare(&bundles(old), &bundles(new), Locks::default())
}

fn class(changes: &Changes, kubernetes: &str, component: &str) -> ChangeClass {
    let version: KubernetesVersion = kubernetes.parse().unwrap();
    let change = changes.get(&version, component);
    change.unwrap_or_else(|| panic!("no {component} under {kubernetes}")).class
}

/// Replaces, and fails when there is nothing to replace.
fn replace(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replace(from, to)
}

/// Leaves out the versionsBundles of one Kubernetes version.
fn without_kubernetes(text: &str, version: &str) -> String {
    let mut node = bundles(text).node;
    let list =
        node.get_mut("spec").and_then(|spec| spec.get_mut("versionsBundles")).unwrap().as_sequence_mut().unwrap();
    let before = list.len();
    list.retain(|item| item.get("kubeVersion").and_then(Node::as_str) != Some(version));
    assert_eq!(list.len(), before - 1);
    emit(&node)
}

#[test]
fn every_published_file_is_read() {
    let Some(folder) = data() else { return };
    let check = |name: &str, expect: &[&str]| {
        let found = bundles(&read(name).unwrap());
        let versions: Vec<_> = found.versions_bundles.iter().map(|it| it.kubernetes_version.as_str()).collect();
        assert_eq!(versions, expect, "{name}");
        assert!(found.versions_bundles.iter().all(|it| it.components.len() > 10), "{name}");
    };
    check(BUNDLE_17, &BUNDLE_17_KUBERNETES);
    check("legacy-mixed-1.18-1.29.yaml", &["1.18", "1.19", "1.20", "1.21", "1.29"]);
    check("real-embedded-2021-11-02-fff914a81.yaml", &["1.20", "1.21"]);
    check("real-embedded-2021-12-20-a6c2685e5.yaml", &["1.20", "1.21"]);
    check("release-0.25.yaml", &["1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35"]);
    check("release-0.26.yaml", &["1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"]);
    check("signed-minimal-1-31.yaml", &["1.31"]);

    let path = folder.join("eksd/kubernetes-1-21-eks-4.yaml");
    let manifests = parse("eksd.yaml", &std::fs::read(path).unwrap()).unwrap();
    let [Manifest::EksdRelease(release)] = manifests.as_slice() else { panic!("{manifests:?}") };
    assert_eq!(release.version().unwrap().to_string(), "v1.21.2-eks-1-21-4");
    assert!(release.component("etcd").unwrap().assets.iter().any(|asset| asset.digest.is_some()));
}

/// The 180 commits of the list are not at hand: every pair of the seven files takes their place.
#[test]
fn a_every_pair_of_files_is_classified_and_turns_around() {
    let Some(folder) = data() else { return };
    let files: Vec<Bundles> = std::fs::read_dir(folder.join("bundles"))
        .unwrap()
        .map(|entry| bundles(&std::fs::read_to_string(entry.unwrap().path()).unwrap()))
        .collect();
    let mut pairs = 0;
    for old in &files {
        assert!(compare(old, old, Locks::default()).is_empty(), "{}", old.name);
        for new in &files {
            let forth = compare(old, new, Locks::default());
            let back = compare(new, old, Locks::default());
            for change in &forth.changes {
                let back = back.get(&change.kubernetes_version, &change.component).unwrap();
                turns_around(change, back);
                pairs += 1;
            }
        }
    }
    assert!(pairs > 5000, "{pairs}");
}

/// A higher version one way is a lower one the other way, and what has no direction has none either way.
fn turns_around(forth: &Change, back: &Change) {
    use ChangeClass::{
        Added, DigestDrift, Downgrade, Major, Minor, Opaque, Patch, Rebuild, Removed, Retag, SkipMinor, Unchanged,
    };
    let expect: &[ChangeClass] = match forth.class {
        Unchanged => &[Unchanged],
        Retag => &[Retag],
        Opaque => &[Opaque],
        DigestDrift => &[DigestDrift],
        Added => &[Removed],
        Removed => &[Added],
        Patch | Minor | Major | SkipMinor => &[Downgrade],
        Rebuild => &[Rebuild, Downgrade],
        Downgrade => &[Patch, Minor, Major, SkipMinor, Rebuild],
    };
    assert!(expect.contains(&back.class), "{forth:?} {back:?}");
}

#[test]
fn b_2021_11_02_to_12_20_is_all_rebuild() {
    let Some(old) = read("real-embedded-2021-11-02-fff914a81.yaml") else { return };
    let changes = changes(&old, &read("real-embedded-2021-12-20-a6c2685e5.yaml").unwrap());
    for kubernetes in ["1.20", "1.21"] {
        for component in ["certManager", "clusterAPI", "bootstrap", "controlPlane", "docker", "vSphere"] {
            assert_eq!(class(&changes, kubernetes, component), ChangeClass::Rebuild, "{kubernetes} {component}");
        }
        assert_eq!(class(&changes, kubernetes, "flux"), ChangeClass::SkipMinor);
        assert_eq!(class(&changes, kubernetes, "kindnetd"), ChangeClass::Added);
        assert_eq!(class(&changes, kubernetes, "etcdadmBootstrap"), ChangeClass::Patch);
        // The Kubernetes version stays, the release number rises.
        assert_eq!(class(&changes, kubernetes, "eksD"), ChangeClass::Rebuild);
        assert_eq!(class(&changes, kubernetes, "eksa"), ChangeClass::Downgrade);
    }
}

/// The files of March 2025 are not at hand: their Cluster API versions are put into release 0.25.
#[test]
fn c_cluster_api_going_back_is_a_downgrade() {
    let Some(text) = read("release-0.25.yaml") else { return };
    let with = |version: &str| replace(&text, "v1.12.2+abcdef1", version);
    let changes = changes(&with("v1.9.5+f1a2b3c"), &with("v1.9.4+1234567"));
    for component in ["clusterAPI", "bootstrap", "controlPlane", "docker"] {
        assert_eq!(class(&changes, "1.31", component), ChangeClass::Downgrade, "{component}");
    }
    assert_eq!(class(&changes, "1.31", "vSphere"), ChangeClass::Unchanged);
}

/// Release 0.23 is not at hand: its Cilium version is put into bundle 17, which is of the line of 0.24.
#[test]
fn d_cilium_from_0_23_to_0_25_skips_minors() {
    let Some(bundle_17) = read(BUNDLE_17) else { return };
    let release_23 = replace(&bundle_17, "v1.17.8-0", "v1.15.16-eksa.1");
    let release_25 = read("release-0.25.yaml").unwrap();
    for (old, new) in [(&release_23, &bundle_17), (&bundle_17, &release_25)] {
        let changes = changes(old, new);
        for kubernetes in ["1.29", "1.31", "1.34"] {
            assert_eq!(class(&changes, kubernetes, "cilium"), ChangeClass::SkipMinor, "{kubernetes}");
        }
    }
}

#[test]
fn e_dropping_1_28_from_bundle_17_changes_no_vsphere() {
    let Some(text) = read(BUNDLE_17) else { return };
    let changes = changes(&text, &without_kubernetes(&text, "1.28"));
    for kubernetes in &BUNDLE_17_KUBERNETES[1..] {
        for component in ["vSphere", "snow"] {
            assert_eq!(class(&changes, kubernetes, component), ChangeClass::Unchanged, "{kubernetes} {component}");
        }
    }
    let removed: Vec<_> = changes.kubernetes_versions_removed.iter().map(KubernetesVersion::as_str).collect();
    assert_eq!(removed, ["1.28"]);
    assert!(changes.kubernetes_versions_added.is_empty());
    let other = changes.changes.iter().filter(|it| it.kubernetes_version.as_str() != "1.28");
    assert!(other.into_iter().all(|change| change.class == ChangeClass::Unchanged));
}

#[test]
fn f_another_hash_is_a_change() {
    let Some(text) = read("release-0.26.yaml") else { return };
    let changes = changes(&text, &replace(&text, "+abcdef1", "+1234567"));
    for change in &changes.changes {
        let hashed = change.old_version.as_deref().is_some_and(|version| version.contains("+abcdef1"));
        let expect = if hashed { ChangeClass::Rebuild } else { ChangeClass::Unchanged };
        assert_eq!(change.class, expect, "{} {}", change.kubernetes_version, change.component);
    }
    assert_eq!(class(&changes, "1.36", "certManager"), ChangeClass::Rebuild);
}

#[test]
fn g_renamed_tags_are_retags() {
    let Some(text) = read(BUNDLE_17) else { return };
    const TAG: &str = "-eks-a-v0.25.0-dev-build.17";
    let changes = changes(&text, &replace(&text, TAG, "-eks-a-v0.25.0-dev-build.18"));
    for component in ["certManager", "vSphere", "haproxy", "upgrader", "eksD"] {
        assert_eq!(class(&changes, "1.31", component), ChangeClass::Retag, "{component}");
    }
    assert_eq!(class(&changes, "1.31", "cilium"), ChangeClass::Unchanged);
    for change in &changes.changes {
        let renamed = |uri: &Option<String>| uri.as_deref().is_some_and(|uri| uri.contains(TAG));
        let renamed = change.artifacts.iter().any(|artifact| renamed(&artifact.old_uri));
        let expect = if renamed { ChangeClass::Retag } else { ChangeClass::Unchanged };
        assert_eq!(change.class, expect, "{} {}", change.kubernetes_version, change.component);
        for artifact in &change.artifacts {
            assert_eq!(artifact.old_digest, artifact.new_digest);
            assert!(matches!(artifact.class, ChangeClass::Retag | ChangeClass::Unchanged), "{artifact:?}");
        }
    }
}

#[test]
fn h_a_tampered_image_keeps_the_signature_and_is_caught_by_its_digest() {
    let Some(text) = read(BUNDLE_17) else { return };
    let controller = "64df9548a829280e32507c99deb30afbca10a5b1d9d7429d012d56cf1557b8ba";
    let tampered = replace(&text, controller, &controller.replace("64df", "0000"));
    let SignatureVerdict::Valid { not_covered, .. } = verify_signature(&bundles(&tampered)) else {
        panic!("the signature does not cover images");
    };
    assert!(not_covered.contains(&"certManager".to_owned()));
    let changes = changes(&text, &tampered);
    for change in &changes.changes {
        let tampered = change.component == "certManager";
        let expect = if tampered { ChangeClass::DigestDrift } else { ChangeClass::Unchanged };
        assert_eq!(change.class, expect, "{}", change.component);
    }
    assert_eq!(changes.changes.iter().filter(|it| it.class == ChangeClass::DigestDrift).count(), 7);
}

#[test]
fn i_a_cert_manager_only_bundle_changes_cert_manager_alone() {
    let Some(text) = read(BUNDLE_17) else { return };
    let new = replace(&text, "v1.18.2+9b355a2", "v1.18.3+1234567");
    let new = replace(&new, "cert-manager-controller:v1.18.2", "cert-manager-controller:v1.18.3");
    let controller = "64df9548a829280e32507c99deb30afbca10a5b1d9d7429d012d56cf1557b8ba";
    let changes = changes(&text, &replace(&new, controller, &controller.replace("64df", "0000"))).without_unchanged();
    let found: Vec<_> =
        changes.changes.iter().map(|it| (it.kubernetes_version.as_str(), it.component.as_str(), it.class)).collect();
    let expect = BUNDLE_17_KUBERNETES.map(|kubernetes| (kubernetes, "certManager", ChangeClass::Patch));
    assert_eq!(found, expect);
    let images: Vec<_> = changes.changes[0].artifacts.iter().filter(|it| it.class != ChangeClass::Unchanged).collect();
    assert_eq!((images.len(), images[0].name.as_str(), images[0].class), (1, "controller", ChangeClass::Rebuild));
}

#[test]
fn release_0_25_to_0_26() {
    use ChangeClass::{Minor, Opaque, Patch, Rebuild, Retag};
    let Some(old) = read("release-0.25.yaml") else { return };
    let changes = changes(&old, &read("release-0.26.yaml").unwrap());
    let expect = [
        ("bootstrap", Minor),
        ("certManager", Minor),
        ("cilium", Patch),
        ("cloudStack", Opaque),
        ("clusterAPI", Minor),
        ("controlPlane", Minor),
        ("docker", Minor),
        ("eksa", Retag),
        ("etcdadmBootstrap", Patch),
        ("etcdadmController", Patch),
        ("flux", Minor),
        ("kindnetd", Minor),
        ("packageController", Patch),
        ("snow", Minor),
        ("vSphere", Minor),
    ];
    for kubernetes in ["1.29", "1.31", "1.35"] {
        for (component, expect) in expect {
            assert_eq!(class(&changes, kubernetes, component), expect, "{kubernetes} {component}");
        }
    }
    assert_eq!(class(&changes, "1.29", "eksD"), Rebuild);
    assert_eq!(class(&changes, "1.32", "eksD"), Patch);
    let added: Vec<_> = changes.kubernetes_versions_added.iter().map(KubernetesVersion::as_str).collect();
    assert_eq!(added, ["1.36"]);
    assert!(
        bundles(&read("release-0.26.yaml").unwrap()).versions_bundles[0]
            .component("cloudStack")
            .unwrap()
            .is_placeholder()
    );
}

#[test]
fn signed_files_verify_and_changed_bytes_do_not() {
    let check = |name: &str, broken: &[(&str, &str)]| {
        let Some(text) = read(name) else { return };
        let verdict = verify_signature(&bundles(&text));
        assert!(
            matches!(verdict, SignatureVerdict::Valid { era: SignatureEra::EksDAddresses, .. }),
            "{name}: {verdict:?}"
        );
        for (from, to) in broken {
            let verdict = verify_signature(&bundles(&replace(&text, from, to)));
            assert!(matches!(verdict, SignatureVerdict::Invalid { .. }), "{name}: {from} -> {to}: {verdict:?}");
        }
        // Format and what a cluster adds have no part in it.
        let mut node = bundles(&text).node;
        node.get_mut("metadata").unwrap().as_mapping_mut().unwrap().insert("namespace", "eksa-system");
        assert!(verify_signature(&bundles(&emit(&node))).is_valid(), "{name}");
    };
    check(
        BUNDLE_17,
        &[
            ("number: 17", "number: 18"),
            ("endOfStandardSupport: \"2025-12-31\"", "endOfStandardSupport: \"2029-12-31\""),
            ("kubernetes-1-31-eks-34\n", "kubernetes-1-31-eks-35\n"),
            (
                "e86d5f6e3b0b57c79d98f8f81b6bf726a987097bfa15ca2b304ffd4b8fb2a6b4",
                "086d5f6e3b0b57c79d98f8f81b6bf726a987097bfa15ca2b304ffd4b8fb2a6b4",
            ),
        ],
    );
    check(
        "signed-minimal-1-31.yaml",
        &[("2026-12-31", "2027-12-31"), ("kubeVersion: \"1.31\"", "kubeVersion: \"1.32\"")],
    );
    if let Some(text) = read("release-0.26.yaml") {
        assert_eq!(verify_signature(&bundles(&text)), SignatureVerdict::Missing);
    }
}

#[test]
fn the_releases_that_a_signed_bundle_names_are_signed() {
    let Some(text) = read(BUNDLE_17) else { return };
    let check = |text: &str, expect: [&str; 7]| {
        let bundles = bundles(text);
        let verdicts = bundles.versions_bundles.iter().filter_map(|it| it.eks_d.as_ref()).map(|reference| {
            match verify_eksd_reference(&bundles, reference) {
                EksdSignatureVerdict::Valid => "valid",
                EksdSignatureVerdict::Invalid { .. } => "invalid",
                EksdSignatureVerdict::Missing => "missing",
            }
        });
        assert_eq!(verdicts.collect::<Vec<_>>(), expect);
    };
    check(&text, ["valid"; 7]);
    let other = replace(&text, "kubernetes-1-31-eks-34\n", "kubernetes-1-31-eks-35\n");
    check(&other, ["valid", "valid", "valid", "invalid", "valid", "valid", "valid"]);
    let without = replace(&text, "signature-1-28:", "other-1-28:");
    check(&without, ["missing", "valid", "valid", "valid", "valid", "valid", "valid"]);
}

#[test]
fn another_cert_manager_image_leaves_the_signature_valid_and_is_named_as_not_covered() {
    let Some(text) = read(BUNDLE_17) else { return };
    let image = "public.ecr.aws/l0g8r8j6/cert-manager/cert-manager-controller:";
    let verdict = verify_signature(&bundles(&replace(&text, image, "registry.example.org/other:")));
    let statement = verdict.statement();
    assert!(verdict.is_valid());
    assert!(statement.contains("does not cover") && statement.contains("certManager"), "{statement}");
    assert!(statement.contains("eksD.manifestUrl"), "{statement}");
}

#[test]
fn build_metadata_is_recomputed_from_real_digests() {
    let verdict = |name: &str, component: &str, tamper: Option<(&str, &str)>| {
        let text = read(name)?;
        let text = tamper.map_or(text.clone(), |(from, to)| replace(&text, from, to));
        let found = bundles(&text);
        Some(recompute_build_metadata(found.versions_bundles.last()?.component(component)?))
    };
    let verified = Some(BuildMetadataVerdict::Verified);
    if data().is_none() {
        return;
    }
    assert_eq!(verdict(BUNDLE_17, "flux", None), verified);
    assert_eq!(verdict(BUNDLE_17, "packageController", None), verified);
    assert_eq!(verdict("legacy-mixed-1.18-1.29.yaml", "flux", None), verified);
    // In 2021 the projects were not sorted.
    assert_eq!(verdict("real-embedded-2021-12-20-a6c2685e5.yaml", "flux", None), verified);
    let edited = verdict(BUNDLE_17, "flux", Some(("+c576620", "+c576621")));
    let expect = BuildMetadataVerdict::Mismatch { found: "c576621".to_owned(), computed: "c576620".to_owned() };
    assert_eq!(edited, Some(expect));
    let not_computable = |name: &str, component: &str| {
        matches!(verdict(name, component, None), Some(BuildMetadataVerdict::NotComputable { .. }))
    };
    assert!(not_computable(BUNDLE_17, "certManager"));
    assert!(not_computable("release-0.26.yaml", "flux"));
    assert!(not_computable("real-embedded-2021-11-02-fff914a81.yaml", "flux"));
}

#[test]
fn a_published_file_that_was_cut_short_is_refused() {
    let Some(text) = read("release-0.26.yaml") else { return };
    let (mut refused, mut cuts) = (0, 0);
    for length in (text.len() / 2..text.len() - 100).step_by(4999) {
        let cut = &text[..length];
        if cut.ends_with('\n') {
            continue;
        }
        cuts += 1;
        refused += usize::from(parse_bundles("bundles.yaml", cut.as_bytes()).is_err());
    }
    assert_eq!(refused, cuts);
    assert!(cuts > 20);
    // Without its last line end a whole file stays whole.
    assert!(parse_bundles("bundles.yaml", text.trim_end().as_bytes()).is_ok());
}

/// Each address and each digest of a release, changed alone under the same versions, is told as a change of its own component and of no other.
#[test]
fn every_address_and_digest_that_changes_alone_is_noticed() {
    let Some(text) = read(BUNDLE_17) else { return };
    let mut tried = 0;
    for kept in BUNDLE_17_KUBERNETES {
        let others = BUNDLE_17_KUBERNETES.iter().filter(|other| **other != kept);
        let text = others.fold(text.clone(), |text, other| without_kubernetes(&text, other));
        let old = bundles(&text);
        for (start, line) in text.split_inclusive('\n').scan(0, |start, line| {
            let at = *start;
            *start += line.len();
            Some((at, line.trim_end()))
        }) {
            let name = line.trim_start().trim_start_matches("- ");
            if !name.starts_with("imageDigest: sha256:") && !name.starts_with("uri: ") {
                continue;
            }
            // Its last sign: of a digest, and of a tag or a file's name.
            let end = start + line.len();
            let last = if line.ends_with('0') { "1" } else { "0" };
            let changed = format!("{}{last}{}", &text[..end - 1], &text[end..]);
            let changes = compare(&old, &bundles(&changed), Locks::default()).without_unchanged();
            assert_eq!(changes.changes.len(), 1, "{kept}: {line}");
            let change = &changes.changes[0];
            assert_eq!(change.old_version, change.new_version, "{kept}: {line}");
            let artifacts = change.artifacts.iter().filter(|artifact| artifact.class != ChangeClass::Unchanged);
            assert_eq!(artifacts.count(), 1, "{kept}: {line}");
            tried += 1;
        }
    }
    println!("{tried} addresses and digests, each changed alone");
    assert!(tried > 749, "{tried}");
}

#[test]
fn another_order_or_format_is_no_change() {
    let Some(folder) = data() else { return };
    for entry in std::fs::read_dir(folder.join("bundles")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let found = bundles(&text);
        let emitted = emit(&found.node);
        let reversed = emit_reversed(&found.node);
        for other in [&emitted, &reversed, &text.replace('\n', "\r\n"), &format!("\u{feff}# a remark\n{text}")] {
            let changes = compare(&found, &bundles(other), Locks::default());
            assert!(changes.is_empty(), "{}", path.display());
        }
    }
}

/// JSON, which is YAML in flow style, with the keys and the versionsBundles in reverse order.
fn emit_reversed(node: &Node) -> String {
    match &node.value {
        Value::Mapping(mapping) => {
            let entry = |(key, value): (&str, &Node)| {
                format!("{}: {}", serde_json::to_string(key).unwrap(), emit_reversed(value))
            };
            let entries: Vec<_> = pairs(mapping).into_iter().rev().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Sequence(items) => {
            format!("[{}]", items.iter().rev().map(emit_reversed).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => serde_json::to_string(text.as_str()).unwrap(),
        _ => node.scalar_text().unwrap().into_owned(),
    }
}

fn pairs(mapping: &Mapping) -> Vec<(&str, &Node)> {
    mapping.iter().map(|entry| (entry.key.as_str(), &entry.value)).collect()
}
