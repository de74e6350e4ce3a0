//! The demo's fleet on real servers, where no Pod answers for a webhook.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use stepgate::demo::{DemoKind, DemoSettings, FleetFiles};

/// The demo's fleet, whose manifests are written below `mirror` of this folder. Their webhooks are taken out, and objects of the kinds that they
/// define have a status of their own.
///
/// # Errors
/// When the manifests cannot be written.
pub fn demo_files(folder: &Path) -> anyhow::Result<FleetFiles> {
    let settings = DemoSettings {
        folder: folder.to_owned(),
        kind: DemoKind::EksAnywhere,
        bundles: None,
        mirrors: Vec::new(),
        broken: None,
    };
    let files = FleetFiles::of(&settings)?;
    prepare(&folder.join("mirror"))?;
    Ok(files)
}

/// The files of the fleet to begin with, as texts.
///
/// # Errors
/// When the manifests cannot be written.
pub fn demo_fleet(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    demo_files(folder)?.before.into_iter().map(|(path, bytes)| Ok((path, String::from_utf8(bytes)?))).collect()
}

fn prepare(folder: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            prepare(&path)?;
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let documents: Vec<&str> =
            text.split("---\n").filter(|document| !document.contains("kind: ValidatingWebhookConfiguration")).collect();
        let text = documents.join("---\n").replace("    schema:\n", "    subresources: {status: {}}\n    schema:\n");
        std::fs::write(&path, text)?;
    }
    Ok(())
}

/// Kinds that the demo's manifests do not define.
#[must_use]
pub fn demo_definitions() -> Vec<Value> {
    [
        ("distro.eks.amazonaws.com", "v1alpha1", "Release", "releases"),
        ("anywhere.eks.amazonaws.com", "v1alpha1", "DockerDatacenterConfig", "dockerdatacenterconfigs"),
        ("cluster.x-k8s.io", "v1beta2", "MachineSet", "machinesets"),
    ]
    .map(|kind| definition(kind, "Namespaced"))
    .to_vec()
}

/// The definition of a kind, by group, version, kind and plural, whose objects may hold anything.
#[must_use]
pub fn definition((group, version, kind, plural): (&str, &str, &str, &str), scope: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": scope, "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": true, "storage": true, "subresources": {"status": {}}, "schema": schema}]}})
}
