//! Components that a bundle brings to a cluster which manages itself, and their next versions.
//!
//! Their Pods are run by fake kubelets. The kinds and webhooks of their manifests are left out: those of the Cluster API and the Flux that run here
//! are there already.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use tests::continuous::cell::Components;
use tests::continuous::matrix::CHAIN;
use tests::servers::demo_fleet;
use tests::servers::manifests::objects;

use crate::scene::{POLICY, Scene};

/// Bundles of before and after, as files of the fleet repository.
const BUNDLES: [(&str, &str); 2] = [
    ("bundles/bundles-80.yaml", include_str!("../../../../fixtures/demo/bundles/bundles-80.yaml")),
    ("bundles/bundles-81.yaml", include_str!("../../../../fixtures/demo/bundles/bundles-81.yaml")),
];

/// The file of the next bundle.
pub fn next() -> anyhow::Result<(&'static str, String)> {
    let [_, (path, text)] = BUNDLES;
    Ok((path, for_all_minors(text)?))
}

/// The policy, and the bundle that the cluster follows in the beginning; where there is one, the program finds its manifests.
pub fn first(scene: &mut Scene, components: Components) -> anyhow::Result<Vec<(&'static str, String)>> {
    if components == Components::Alone {
        return Ok(vec![("stepgate.yaml", POLICY.to_owned())]);
    }
    let folder = scene.file("components");
    demo_fleet(&folder)?;
    let mirror = folder.join("mirror");
    leave_out_kinds(&mirror)?;
    scene.environment.insert("STEPGATE_MIRROR", mirror.into());
    let [(path, text), _] = BUNDLES;
    Ok(vec![("stepgate.yaml", format!("{POLICY}bundle: newest\n")), (path, for_all_minors(text)?)])
}

/// The bundle with the same components for every minor of the chain.
fn for_all_minors(text: &str) -> anyhow::Result<String> {
    let mut bundles = objects(text)?.pop().context("no bundle")?;
    let sections = bundles.pointer_mut("/spec/versionsBundles").and_then(Value::as_array_mut).context("no sections")?;
    let known = sections.first().cloned().context("no section")?;
    *sections = CHAIN
        .iter()
        .map(|version| {
            let mut section = known.clone();
            section["kubeVersion"] = json!(version.trim_start_matches('v').trim_end_matches(".0"));
            section["eksD"]["kubeVersion"] = json!(version);
            section
        })
        .collect();
    Ok(bundles.to_string())
}

fn leave_out_kinds(folder: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            leave_out_kinds(&path)?;
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let kept = text.split("---\n").filter(|document| {
            !["kind: CustomResourceDefinition", "kind: MutatingWebhookConfiguration"]
                .iter()
                .any(|kind| document.contains(kind))
        });
        std::fs::write(&path, kept.collect::<Vec<_>>().join("---\n"))?;
    }
    Ok(())
}
