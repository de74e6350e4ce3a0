use ChangeClass::{
    Added, DigestDrift, Downgrade, Major, Minor, Opaque, Patch, Rebuild, Removed, Retag, SkipMinor, Unchanged,
};

use super::*;
use crate::manifest::parse_bundles;

const DIGEST_A: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const DIGEST_B: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn bundles(sections: &str) -> Bundles {
    let text = format!(
        "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nspec:\n  number: 1\n  versionsBundles:\n  - {{kubeVersion: '1.30', {sections}}}\n"
    );
    parse_bundles("bundles.yaml", text.as_bytes()).unwrap()
}

fn changes(old: &str, new: &str) -> Vec<Change> {
    compare(&bundles(old), &bundles(new), Locks::default()).changes
}

/// The class of the only component, and of its artifacts in order.
#[track_caller]
fn check(old: &str, new: &str, class: ChangeClass, artifacts: &[ChangeClass]) {
    let changes = changes(&format!("flux: {{{old}}}"), &format!("flux: {{{new}}}"));
    let found: Vec<_> = changes[0].artifacts.iter().map(|artifact| artifact.class).collect();
    assert_eq!((changes[0].class, found.as_slice()), (class, artifacts), "{old} -> {new}");
}

fn image(name: &str, uri: &str, digest: &str) -> String {
    let digest = if digest.is_empty() { String::new() } else { format!(", imageDigest: '{digest}'") };
    format!("{name}: {{name: {name}, uri: '{uri}'{digest}}}")
}

#[test]
fn same_version_text() {
    let (a, b) = (image("c", "r/c:1", DIGEST_A), image("c", "r/c:1", DIGEST_B));
    let retagged = image("c", "r/c:2", DIGEST_A);
    check(&format!("version: v1+x, {a}"), &format!("version: v1+x, {a}"), Unchanged, &[Unchanged]);
    check(&format!("version: v1+x, {a}"), &format!("version: v1+x, {b}"), DigestDrift, &[DigestDrift]);
    check(&format!("version: v1+x, {a}"), &format!("version: v1+x, {retagged}"), Retag, &[Retag]);
    check(&format!("version: v1, {a}"), &format!("version: v1, {retagged}"), Retag, &[Retag]);
    check(
        &format!("version: v1+x, {a}"),
        &format!("version: v1+x, {a}, {}", image("d", "r/d:1", "")),
        Rebuild,
        &[Unchanged, Added],
    );
    check(&format!("version: v1+x, {a}"), "version: v1+x", Rebuild, &[Removed]);
    // Without build metadata nothing vouches for an image without digest.
    let (bare, bare_retagged) = (image("c", "r/c:1", ""), image("c", "r/c:2", ""));
    check(&format!("version: v1.17.8-0, {bare}"), &format!("version: v1.17.8-0, {bare_retagged}"), Rebuild, &[Retag]);
    check(&format!("version: v1.17.8-0, {bare}"), &format!("version: v1.17.8-0, {retagged}"), Rebuild, &[Retag]);
    check(&format!("version: v1+x, {bare}"), &format!("version: v1+x, {bare_retagged}"), Retag, &[Retag]);
    // A manifest never has a digest of its own.
    check("version: v1, m: {uri: 'https://a/1'}", "version: v1, m: {uri: 'https://a/2'}", Retag, &[Retag]);
    check("version: deprecated", "version: deprecated", Unchanged, &[]);
    check("version: ''", "version: ''", Unchanged, &[]);
    // An alarm wins over everything else.
    check(
        &format!("version: v1, {a}"),
        &format!("version: v1, {b}, {}", image("d", "r/d:1", "")),
        DigestDrift,
        &[DigestDrift, Added],
    );
}

#[test]
fn other_version_text() {
    let class_of_sections = check;
    let check =
        |old: &str, new: &str, class| check(&format!("version: '{old}'"), &format!("version: '{new}'"), class, &[]);
    check("v1.18.2+9b355a2", "v1.18.2+1111111", Rebuild);
    check("v1.1.1+fffffff", "v1.1.1+5075479", Rebuild);
    check("v1.1.1+5075479", "v1.1.1+fffffff", Rebuild);
    check("v1.18.2", "v1.18.3", Patch);
    check("v1.18.2", "v1.19.0", Minor);
    check("v1.15.16-eksa.1", "v1.17.8-0", SkipMinor);
    check("v1.18.2", "v2.0.0", Major);
    check("v0.9.0", "v1.20.0", Major);
    check("v1.9.5+a", "v1.9.4+b", Downgrade);
    check("v1.14.0", "v1.13.1", Downgrade);
    check("v1.0.5+4f4a848", "v1.0.5-rc4+a1b2d1e", Downgrade);
    check("v1.0.5-rc4", "v1.0.5", Patch);
    check("v1.19.4-0", "v1.19.4-1", Rebuild);
    check("v1.19.4-1", "v1.19.4-0", Downgrade);
    check("v1.17.8", "v1.17.8-0", Rebuild);
    check("v0.25.0-dev+build.17+c76980a", "v0.25.0-dev+build.18+1234567", Rebuild);
    check("9e9c2a3+abcdef1", "9e9c2a3+1234567", Opaque);
    check("v0.6.1+6c28ac8", "deprecated", Opaque);
    check("", "v1.0.0", Opaque);
    check("v1.30.14-eks-1-30-9", "v1.30.14-eks-1-30-58", Rebuild);
    class_of_sections("version: v1.0.0", "name: x", Opaque, &[]);
    class_of_sections("name: x", "version: v1.0.0", Opaque, &[]);
}

#[test]
fn artifacts_under_another_version_are_rebuilt_not_drifted() {
    let (a, b) = (image("c", "r/c:1", DIGEST_A), image("c", "r/c:2", DIGEST_B));
    check(&format!("version: v1.0.0, {a}"), &format!("version: v1.1.0, {b}"), Minor, &[Rebuild]);
}

#[test]
fn no_version_on_both_sides() {
    let (a, b) = (image("c", "r/c:1", DIGEST_A), image("c", "r/c:1", DIGEST_B));
    check(&a, &a, Unchanged, &[Unchanged]);
    check(&a, &b, Rebuild, &[Rebuild]);
    check(&a, &image("c", "r/c:2", DIGEST_A), Retag, &[Retag]);
    check(&a, &image("c", "r/c:2", ""), Rebuild, &[Retag]);
    check(&a, &image("c", "r/c:1", ""), Unchanged, &[Unchanged]);
    check(&a, "name: x", Rebuild, &[Removed]);
    check("m: {uri: 'https://a/1'}", "m: {uri: 'https://a/2'}", Retag, &[Retag]);
    let archive = |uri: &str, digest: &str| format!("a: {{uri: '{uri}', sha256: '{digest}'}}");
    check(&archive("https://a/1", &DIGEST_A[7..]), &archive("https://a/2", DIGEST_A), Retag, &[Retag]);
}

#[test]
fn eks_d_goes_by_kubernetes_version_and_release_number() {
    #[track_caller]
    fn check(old: &str, new: &str, class: ChangeClass) {
        let changes = changes(&format!("eksD: {{{old}}}"), &format!("eksD: {{{new}}}"));
        assert_eq!(changes[0].class, class, "{old} -> {new}");
        assert_eq!((&changes[0].old_version, &changes[0].new_version), (&None, &None));
    }
    let release = |kube: &str, number: u64, image: &str| {
        format!("kubeVersion: {kube}, name: kubernetes-1-30-eks-{number}, kindNode: {{name: n, uri: '{image}'}}")
    };
    check(&release("v1.30.14", 45, "a:1"), &release("v1.30.14", 51, "a:1"), Rebuild);
    check(&release("v1.30.14", 9, "a:1"), &release("v1.30.14", 10, "a:1"), Rebuild);
    check(&release("v1.30.9", 45, "a:1"), &release("v1.30.14", 44, "a:1"), Patch);
    check(&release("v1.30.14", 45, "a:1"), &release("v1.30.14", 44, "a:1"), Downgrade);
    check(&release("v1.30.14", 45, "a:1"), &release("v1.30.9", 46, "a:1"), Downgrade);
    check(&release("v1.30.14", 45, "a:1"), &release("v1.30.14", 45, "a:1"), Unchanged);
    check(&release("v1.30.14", 45, "a:1"), &release("v1.30.14", 45, "a:2"), Rebuild);
    check("name: eks-d-1-18, kubeVersion: v1.18.1", "name: eks-d-1-18, kubeVersion: v1.18.1", Unchanged);
}

#[test]
fn components_and_kubernetes_versions_on_one_side_only() {
    let changes = changes("flux: {version: v1.0.0}", "brandNew: {version: v2.0.0}");
    let classes: Vec<_> = changes.iter().map(|it| (it.component.as_str(), it.class)).collect();
    assert_eq!(classes, [("brandNew", Added), ("flux", Removed)]);

    let two = |first: &str, second: &str| {
        let text = format!(
            "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nspec:\n  versionsBundles:\n  - {{kubeVersion: '{first}', vSphere: {{version: v1.0.0+{}}}}}\n  - {{kubeVersion: '{second}', vSphere: {{version: v1.0.0+{}}}}}\n",
            first.replace('.', ""),
            second.replace('.', ""),
        );
        parse_bundles("bundles.yaml", text.as_bytes()).unwrap()
    };
    let changes = compare(&two("1.28", "1.29"), &two("1.29", "1.30"), Locks::default());
    let classes: Vec<_> = changes.changes.iter().map(|it| (it.kubernetes_version.as_str(), it.class)).collect();
    assert_eq!(classes, [("1.28", Removed), ("1.29", Unchanged), ("1.30", Added)]);
    assert_eq!(changes.kubernetes_versions_added, ["1.30".parse().unwrap()]);
    assert_eq!(changes.kubernetes_versions_removed, ["1.28".parse().unwrap()]);
    assert!(!changes.is_empty());
}

#[test]
fn locks_give_manifests_a_digest() {
    let lock = |uri: &str, content: &[u8]| {
        let mut lock = Lock::default();
        lock.insert(uri, Digest::of(content));
        lock
    };
    let class = |old_uri: &str, new_uri: &str, version: &str, old: &Lock, new: &Lock| {
        let side = |uri: &str, version: &str| bundles(&format!("flux: {{{version} m: {{uri: '{uri}'}}}}"));
        let locks = Locks { old: Some(old), new: Some(new) };
        let changes = compare(&side(old_uri, version), &side(new_uri, version), locks);
        (changes.changes[0].class, changes.changes[0].artifacts[0].class)
    };
    let (a, b) = ("https://a/1", "https://a/2");
    assert_eq!(class(a, a, "version: v1+x,", &lock(a, b"1"), &lock(a, b"1")), (Unchanged, Unchanged));
    assert_eq!(class(a, a, "version: v1+x,", &lock(a, b"1"), &lock(a, b"2")), (DigestDrift, DigestDrift));
    assert_eq!(class(a, b, "version: v1+x,", &lock(a, b"1"), &lock(b, b"2")), (DigestDrift, DigestDrift));
    assert_eq!(class(a, b, "version: v1+x,", &lock(a, b"1"), &lock(b, b"1")), (Retag, Retag));
    assert_eq!(class(a, b, "", &lock(a, b"1"), &lock(b, b"2")), (Rebuild, Rebuild));
    assert_eq!(class(a, b, "version: v1+x,", &lock(a, b"1"), &Lock::default()), (Retag, Retag));
}

#[test]
fn json_is_the_contract() {
    let old = format!("certManager: {{version: v1.0.0+a, {}}}", image("webhook", "r/w:1", DIGEST_A));
    let new = format!("certManager: {{version: v1.0.0+b, {}, m: {{uri: 'https://m'}}}}", image("webhook", "r/w:2", ""));
    let changes = compare(&bundles(&old), &bundles(&new), Locks::default());
    let expect = serde_json::json!({"changes": [{
        "kubernetesVersion": "1.30",
        "component": "certManager",
        "class": "rebuild",
        "oldVersion": "v1.0.0+a",
        "newVersion": "v1.0.0+b",
        "artifacts": [
            {"name": "m", "class": "added", "oldUri": null, "newUri": "https://m", "oldDigest": null, "newDigest": null},
            {"name": "webhook", "class": "retag", "oldUri": "r/w:1", "newUri": "r/w:2", "oldDigest": DIGEST_A, "newDigest": null},
        ],
    }]});
    assert_eq!(serde_json::to_value(&changes).unwrap(), expect);
}

#[test]
fn artifacts_are_found_wherever_a_uri_is() {
    let found = bundles(
        "tinkerbell: {version: v1, stack: {actions: {cexec: {uri: 'r/a:1', name: a}}, list: [{uri: 'https://b'}, 7]}, \
         broken: {uri: null}, empty: {}}, unknown: {uri: 'r/c:1', deep: {uri: 'r/d:1', os: linux}}, scalar: 7",
    );
    let artifacts = |component: &str| -> Vec<_> {
        let component = found.versions_bundles[0].component(component).unwrap();
        component.artifacts.iter().map(|it| (it.name.as_str(), it.kind)).collect()
    };
    let (image, manifest) = (ArtifactKind::Image, ArtifactKind::Manifest);
    assert_eq!(artifacts("tinkerbell"), [("stack.actions.cexec", image), ("stack.list.0", manifest)]);
    assert_eq!(artifacts("unknown"), [("", image), ("deep", image)]);
    assert!(found.versions_bundles[0].component("scalar").is_none());
    let version = "1.30".parse().unwrap();
    assert!(found.component_node(&version, "tinkerbell").unwrap().at(&["stack", "list"]).is_some());
}
