//! Flux upgrades itself: its controllers are replaced while they apply the manifests that say so.
//!
//! What is not real: of each controller one version is built here, so that the processes that begin are the same programs as those that ended.
//! They are restarted when the Deployments that name the next version's images are applied, which only the fake kubelet runs.

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tests::servers::FLUX_NAMESPACE;
use tests::servers::manifests::{kind, kind_in, objects};

use super::components::images;
use super::scene::Scene;

/// What Flux fetches and applies by: each is called `flux-system`.
const SYNC: [(&str, &str); 3] = [
    ("source.toolkit.fluxcd.io/v1", "GitRepository"),
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
    ("v1", "Secret"),
];

/// The sync objects and the credentials, at one moment.
pub struct SyncObjects {
    since: Timestamp,
    /// Kind, uid, and what counts every change: the generation that of the specification, a Secret's `resourceVersion` that of anything.
    found: Vec<(&'static str, Option<String>, Option<String>)>,
}

impl SyncObjects {
    pub async fn read(scene: &Scene) -> anyhow::Result<Self> {
        let since = Timestamp::now();
        let mut found = Vec::new();
        for kind in SYNC {
            let metadata = kind_in(&scene.client, kind, FLUX_NAMESPACE).await?.get("flux-system").await?.metadata;
            let change = match kind.1 {
                "Secret" => metadata.resource_version,
                _ => metadata.generation.map(|generation| generation.to_string()),
            };
            found.push((kind.1, metadata.uid, change));
        }
        Ok(Self { since, found })
    }

    /// They have been there ever since, and as they were. Whoever takes one away and brings it back makes another, with another uid; and no
    /// request asked for it.
    pub async fn assert_untouched(&self, scene: &Scene) -> anyhow::Result<()> {
        assert_eq!(Self::read(scene).await?.found, self.found);
        let touches = |line: &&Value| self.is_after(line) && is_forbidden(line);
        let forbidden: Vec<String> = scene.server.audit()?.iter().filter(touches).map(Value::to_string).collect();
        assert_eq!(forbidden, Vec::<String>::new());
        Ok(())
    }

    fn is_after(&self, line: &Value) -> bool {
        let at = line["requestReceivedTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        at.is_none_or(|at| at >= self.since)
    }
}

/// Whether a line of the audit log takes away something that Flux needs in order to go on (its sync objects, their kinds, their namespace), makes it
/// anew, or writes the credentials at all. Flux's own word on its objects and Stepgate's nudges are written beside their specifications.
fn is_forbidden(line: &Value) -> bool {
    let text = |path: &str| line.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (verb, resource, name) = (text("/verb"), text("/objectRef/resource"), text("/objectRef/name"));
    // A request that concerns a whole collection names none.
    let is_sync = text("/objectRef/namespace") == FLUX_NAMESPACE && ["", "flux-system"].contains(&name);
    let anew = verb == "create" || verb.starts_with("delete");
    match resource {
        "secrets" => is_sync && !["get", "list", "watch"].contains(&verb),
        "gitrepositories" | "kustomizations" => is_sync && anew,
        "customresourcedefinitions" => anew && (name.is_empty() || name.ends_with("toolkit.fluxcd.io")),
        "namespaces" => verb.starts_with("delete") && name == FLUX_NAMESPACE,
        _ => false,
    }
}

/// What a kubelet does once the Deployments of Flux have another image: the processes end, and others begin.
pub async fn restart(scene: &mut Scene) -> anyhow::Result<()> {
    for name in ["source-controller", "kustomize-controller"] {
        let deployment = "clusters/mgmt/flux-system/gotk-components.yaml";
        let wanted = objects(&scene.repository.deployed(deployment)?)?;
        let is_it =
            |object: &&Value| kind(object) == "Deployment" && object.pointer("/metadata/name") == Some(&json!(name));
        let wanted = wanted.iter().find(is_it).with_context(|| format!("no Deployment {name} in {deployment}"))?;
        let api = kind_in(&scene.client, ("apps/v1", "Deployment"), FLUX_NAMESPACE).await?;
        let replaced = async || Ok((images(&api.get(name).await?.data) == images(wanted)).then_some(()));
        scene.until(&format!("{name} is replaced"), replaced).await?;
    }
    for process in [&mut scene.flux.source, &mut scene.flux.kustomize] {
        process.kill()?;
        process.restart()?;
    }
    Ok(())
}
