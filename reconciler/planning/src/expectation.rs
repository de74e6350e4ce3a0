//! What the gates expect of a cluster, read off the objects that were rendered for it.

use overlays::{ClusterSpec, ObjectSummary};
use rollout::{Expectation, ObjectReference};

/// What a component's gate expects: its objects as rendered, and the Flux objects that apply them.
pub fn of_objects(objects: &[ObjectSummary], flux: Option<Expectation>) -> Vec<Expectation> {
    flux.into_iter().chain(objects.iter().flat_map(of_object)).collect()
}

/// The DaemonSet that has pulled Cilium's images, which Cilium's chart names so, is not there any more.
pub fn pre_pull_gone() -> Expectation {
    Expectation::Absent {
        object: ObjectReference {
            api_version: "apps/v1".to_owned(),
            kind: "DaemonSet".to_owned(),
            namespace: Some("kube-system".to_owned()),
            name: "cilium-pre-flight-check".to_owned(),
        },
    }
}

fn of_object(object: &ObjectSummary) -> Vec<Expectation> {
    let namespace = || object.namespace.clone().unwrap_or_else(|| "default".to_owned());
    match object.kind.as_str() {
        "Deployment" => vec![Expectation::Deployment {
            namespace: namespace(),
            name: object.name.clone(),
            images: object.images.clone(),
        }],
        "DaemonSet" => vec![Expectation::DaemonSet {
            namespace: namespace(),
            name: object.name.clone(),
            images: object.images.clone(),
        }],
        "CustomResourceDefinition" => {
            object.crd.iter().map(|definition| definition_expectation(object, definition)).collect()
        }
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            vec![reference(object), Expectation::Webhook { name: object.name.clone() }]
        }
        "HelmRelease" if object.api_version.starts_with("helm.toolkit.fluxcd.io/") => {
            vec![Expectation::HelmRelease { namespace: namespace(), name: object.name.clone() }]
        }
        _ => vec![reference(object)],
    }
}

fn definition_expectation(object: &ObjectSummary, definition: &overlays::CrdSummary) -> Expectation {
    Expectation::CustomResourceDefinition {
        name: object.name.clone(),
        served: definition
            .versions
            .iter()
            .filter(|version| version.served)
            .map(|version| version.name.clone())
            .collect(),
        storage: definition.storage_version().unwrap_or_default().to_owned(),
    }
}

fn reference(object: &ObjectSummary) -> Expectation {
    Expectation::Object {
        object: ObjectReference {
            api_version: object.api_version.clone(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        },
    }
}

/// The namespace of EKS Anywhere's own Cluster API objects.
const EKSA_SYSTEM: &str = "eksa-system";

/// Where the cluster's Cluster API objects live: EKS Anywhere keeps them in a namespace of its own.
pub fn cluster_api_namespace(cluster: &ClusterSpec) -> String {
    match cluster.kind {
        overlays::ClusterKind::EksAnywhere => EKSA_SYSTEM.to_owned(),
        _ => cluster.namespace.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(yaml: &str, expected: &[Expectation]) {
        let objects: Vec<ObjectSummary> =
            overlays::objects_of(yaml.as_bytes()).iter().filter_map(ObjectSummary::of).collect();
        assert_eq!(of_objects(&objects, None), expected);
    }

    fn object(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Expectation {
        Expectation::Object {
            object: ObjectReference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: name.to_owned(),
            },
        }
    }

    #[test]
    fn a_workload_is_expected_with_its_images_and_in_the_default_namespace_where_it_names_none() {
        let pod = "spec: {template: {spec: {containers: [{name: a, image: 'example.com/a:v1'}]}}}\n";
        check(
            &format!("apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\n{pod}"),
            &[Expectation::Deployment {
                namespace: "default".to_owned(),
                name: "a".to_owned(),
                images: vec!["example.com/a:v1".to_owned()],
            }],
        );
        check(
            &format!("apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: a, namespace: b}}\n{pod}"),
            &[Expectation::DaemonSet {
                namespace: "b".to_owned(),
                name: "a".to_owned(),
                images: vec!["example.com/a:v1".to_owned()],
            }],
        );
    }

    #[test]
    fn a_definition_is_expected_with_its_served_versions_and_the_stored_one() {
        check(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\nspec:\n  group: example.com\n  names: {kind: A}\n  versions:\n  - {name: v1alpha1, served: false, storage: false}\n  - {name: v1beta1, served: true, storage: false}\n  - {name: v1, served: true, storage: true}\n",
            &[Expectation::CustomResourceDefinition {
                name: "as.example.com".to_owned(),
                served: vec!["v1beta1".to_owned(), "v1".to_owned()],
                storage: "v1".to_owned(),
            }],
        );
    }

    #[test]
    fn a_webhook_is_expected_to_be_there_and_to_answer() {
        let api = "admissionregistration.k8s.io/v1";
        check(
            &format!("apiVersion: {api}\nkind: ValidatingWebhookConfiguration\nmetadata: {{name: a}}\nwebhooks: []\n"),
            &[object(api, "ValidatingWebhookConfiguration", None, "a"), Expectation::Webhook { name: "a".to_owned() }],
        );
    }

    #[test]
    fn a_release_of_flux_is_expected_to_be_ready() {
        check(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a, namespace: b}\n",
            &[Expectation::HelmRelease { namespace: "b".to_owned(), name: "a".to_owned() }],
        );
        let other = "example.com/v1";
        check(
            &format!("apiVersion: {other}\nkind: HelmRelease\nmetadata: {{name: a, namespace: b}}\n"),
            &[object(other, "HelmRelease", Some("b"), "a")],
        );
    }

    #[test]
    fn any_other_object_is_expected_to_be_there_and_flux_comes_first() {
        check(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n",
            &[object("v1", "ConfigMap", Some("b"), "a")],
        );
        let flux = Expectation::Flux { namespace: "flux-system".to_owned(), kustomizations: vec!["a".to_owned()] };
        assert_eq!(of_objects(&[], Some(flux.clone())), [flux]);
    }
}
