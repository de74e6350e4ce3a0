//! What the releases of Flux' helm-controller hold, as Helm has stored them: each Secret by its name, since nobody may
//! list Secrets.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use kube::core::DynamicObject;
use rollout::{ApiUse, ApiUseKind, ObjectReference};
use serde_json::Value;

use super::apis::{gone, use_of};
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{HELM_RELEASE, SECRET};

/// The largest release that is unpacked, in bytes.
const LARGEST: u64 = 32 << 20;

/// What releases hold for versions that the target does not serve.
pub(super) async fn uses(own: &Connection, target: u32) -> Result<Vec<ApiUse>, RequestError> {
    let served = own.lately_served_versions().await?;
    let releases = own.list(&HELM_RELEASE, served.version_of(&HELM_RELEASE), None, None).await?;
    let mut found = Vec::new();
    for release in &releases {
        let Some((namespace, name)) = secret_of(release) else { continue };
        let secret = own.get(&SECRET.resource("v1"), Some(&namespace), &name).await?;
        let Some(manifest) = secret.and_then(|secret| manifest(&secret)) else { continue };
        let object = ObjectReference {
            api_version: format!("{}/{}", HELM_RELEASE.group, served.version_of(&HELM_RELEASE).unwrap_or_default()),
            kind: HELM_RELEASE.kind.to_owned(),
            namespace: release.metadata.namespace.clone(),
            name: release.metadata.name.clone().unwrap_or_default(),
        };
        let held = overlays::objects_of(manifest.as_bytes());
        for node in held {
            let text = |key: &str| node.get(key).and_then(yaml::Node::as_str).unwrap_or_default();
            let Some(removal) = gone(text("apiVersion"), text("kind"), target) else { continue };
            let known = use_of(object.clone(), removal, ApiUseKind::HelmRelease);
            if !found.contains(&known) {
                found.push(known);
            }
        }
    }
    Ok(found)
}

/// Namespace and name of the Secret with the release that was deployed last.
fn secret_of(release: &DynamicObject) -> Option<(String, String)> {
    let last = release.data.pointer("/status/history/0")?;
    let text = |key: &str| last.get(key).and_then(Value::as_str);
    let storage = release.data.pointer("/status/storageNamespace").and_then(Value::as_str);
    let version = last.get("version")?.as_u64()?;
    Some((
        storage.or_else(|| text("namespace"))?.to_owned(),
        format!("sh.helm.release.v1.{}.v{version}", text("name")?),
    ))
}

/// The manifest of a release; none where it is not written as Helm writes it.
fn manifest(secret: &DynamicObject) -> Option<String> {
    let outer = STANDARD.decode(secret.data.pointer("/data/release")?.as_str()?).ok()?;
    let inner = STANDARD.decode(outer).ok()?;
    let mut text = String::new();
    GzDecoder::new(inner.as_slice()).take(LARGEST).read_to_string(&mut text).ok()?;
    let release: Value = serde_json::from_str(&text).ok()?;
    Some(release.get("manifest")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_manifest_of_a_release_is_read_as_helm_stores_it() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(json!({"name": "r", "manifest": "kind: A\n"}).to_string().as_bytes()).unwrap();
        let stored = STANDARD.encode(STANDARD.encode(packed.finish().unwrap()));
        let secret = |release: &str| {
            serde_json::from_value(json!({"metadata": {"name": "s"}, "data": {"release": release}})).unwrap()
        };
        assert_eq!(manifest(&secret(&stored)).as_deref(), Some("kind: A\n"));
        assert_eq!(manifest(&secret("bm90aGluZw==")), None);
    }

    #[test]
    fn the_release_that_was_deployed_last_is_the_one_that_counts() {
        let release = serde_json::from_value(json!({"metadata": {"name": "a"}, "status": {"storageNamespace": "s",
            "history": [{"name": "x", "namespace": "n", "version": 7}, {"name": "x", "namespace": "n", "version": 6}]}}));
        assert_eq!(secret_of(&release.unwrap()), Some(("s".to_owned(), "sh.helm.release.v1.x.v7".to_owned())));
    }
}
