use super::*;
use crate::note::{NoteKind, Weight};
use crate::object::objects_of;

fn crd(versions: &str, more: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: as.g{more}}}\nspec: {{group: \
         g, names: {{kind: A}}, versions: [{versions}]}}\n"
    )
}

const STORED_OLD: &str =
    "{name: v1alpha1, served: false, storage: false}, {name: v1beta1, served: true, storage: true}";
const STORED_NEW: &str = "{name: v1beta1, served: true, storage: false}, {name: v1beta2, served: true, storage: true}";

fn told(old: &str, new: &str) -> Vec<(Weight, NoteKind)> {
    let comparison = compare(&objects_of(old.as_bytes()), &objects_of(new.as_bytes()));
    comparison.notes.into_iter().map(|note| (note.weight, note.kind)).collect()
}

#[test]
fn each_change_is_told_for_what_it_is() {
    let deployment = |selector: &str, more: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d, namespace: n{more}}}\nspec: {{selector: {selector}}}\n"
        )
    };
    let binding = |role: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: b}}\nroleRef: {{name: {role}}}\n"
        )
    };
    let webhook = |name: &str| {
        format!(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {{name: w}}\nwebhooks: [{{name: {name}}}]\n"
        )
    };
    let taking =
        |versions: &str| webhook("a").replace("name: a}]", &format!("name: a, admissionReviewVersions: {versions}}}]"));
    let deprecated = STORED_OLD.replace("v1beta1,", "v1beta1, deprecated: true,");
    let forced = ", annotations: {kustomize.toolkit.fluxcd.io/force: enabled}";
    let converted =
        |versions: &str| crd(versions, "").replace("group: g,", "group: g, conversion: {strategy: Webhook},");
    for (name, old, new, expected) in [
        ("nothing", crd(STORED_OLD, ""), crd(STORED_OLD, ""), vec![]),
        ("first installation", String::new(), crd(STORED_NEW, ""), vec![]),
        (
            "storage",
            crd(STORED_OLD, ""),
            crd(STORED_NEW, ""),
            vec![
                (Weight::OneWay, NoteKind::StorageVersionChanged),
                (Weight::Risk, NoteKind::ConversionMissing),
                (Weight::Risk, NoteKind::VersionRemoved),
            ],
        ),
        (
            "storage with a webhook that converts",
            converted(STORED_OLD),
            converted(STORED_NEW),
            vec![(Weight::OneWay, NoteKind::StorageVersionChanged), (Weight::Risk, NoteKind::VersionRemoved)],
        ),
        ("conversion", converted(STORED_OLD), crd(STORED_OLD, ""), vec![(Weight::Risk, NoteKind::ConversionChanged)]),
        (
            "contract",
            crd(STORED_OLD, ", labels: {cluster.x-k8s.io/v1beta1: v1beta1}"),
            crd(STORED_OLD, ", labels: {cluster.x-k8s.io/v1beta2: v1beta1}"),
            vec![(Weight::Risk, NoteKind::ContractChanged)],
        ),
        (
            "selector",
            deployment("{a: b}", ""),
            deployment("{a: c}", ""),
            vec![(Weight::Block, NoteKind::ImmutableFieldChanged)],
        ),
        (
            "forced selector",
            deployment("{a: b}", ""),
            deployment("{a: c}", forced),
            vec![(Weight::Risk, NoteKind::ImmutableFieldChanged)],
        ),
        ("roleRef", binding("x"), binding("y"), vec![(Weight::Block, NoteKind::ImmutableFieldChanged)]),
        ("webhook", webhook("a"), webhook("b"), vec![(Weight::Risk, NoteKind::WebhookRemoved)]),
        (
            "a form of the request",
            taking("[v1, v1beta1]"),
            taking("[v1]"),
            vec![(Weight::Note, NoteKind::ReviewVersionRemoved)],
        ),
        ("another form of the request", taking("[v1]"), taking("[v1, v2]"), vec![]),
        ("deprecated", crd(STORED_OLD, ""), crd(&deprecated, ""), vec![(Weight::Note, NoteKind::VersionDeprecated)]),
        ("deprecated before", crd(&deprecated, ""), crd(&deprecated, ""), vec![]),
        ("definition gone", crd(STORED_OLD, ""), binding("x"), vec![(Weight::Risk, NoteKind::ObjectRemoved)]),
        ("object gone", binding("x"), crd(STORED_OLD, ""), vec![(Weight::Note, NoteKind::ObjectRemoved)]),
    ] {
        assert_eq!(told(&old, &new), expected, "{name}");
    }
}

#[test]
fn removed_versions_are_named_for_the_gate() {
    let comparison = compare(&objects_of(crd(STORED_OLD, "").as_bytes()), &objects_of(crd(STORED_NEW, "").as_bytes()));
    let [removed] = comparison.removed_versions.as_slice() else { panic!("{:?}", comparison.removed_versions) };
    assert_eq!((removed.definition.as_str(), removed.version.as_str()), ("as.g", "v1alpha1"));
    assert!(!removed.was_storage && !removed.was_served);
}

#[test]
fn large_definitions_are_told() {
    let text = crd(STORED_OLD, "").replace("names:", &format!("note: {}, names:", "x".repeat(300_000)));
    assert_eq!(told("", &text), [(Weight::Note, NoteKind::LargeDefinition)]);
}

#[test]
fn the_contract_is_that_of_the_series() {
    let metadata =
        "releaseSeries:\n- {major: 0, minor: 2, contract: v1beta1}\n- {major: 0, minor: 3, contract: v1beta2}\n";
    assert_eq!(declared_contract(metadata, "v0.3.1+abcdef1").as_deref(), Some("v1beta2"));
    assert_eq!(declared_contract(metadata, "v0.2.9").as_deref(), Some("v1beta1"));
    assert_eq!(declared_contract(metadata, "v0.4.0"), None);
    assert_eq!(declared_contract("[", "v0.4.0"), None);
    for (core, accepted) in [
        (Some("v1beta1"), &["v1beta1"][..]),
        (Some("v1beta2"), &["v1beta1", "v1beta2"]),
        (None, &["v1beta1", "v1beta2"]),
    ] {
        assert_eq!(accepted_contracts(core), accepted, "{core:?}");
    }
}
