//! Which release of EKS Anywhere a cluster follows, and whether that is the one that runs.

use serde_json::Value;

use super::Refusal;
use super::object::{EKSA, EKSA_SYSTEM, Object};

/// Says that a management cluster's own components run ahead of it.
const MANAGEMENT_COMPONENTS: &str = "anywhere.eks.amazonaws.com/management-components-version";

/// The objects that say which versions a cluster follows.
#[derive(Debug, Default)]
pub(super) struct Release<'a> {
    pub(super) bundles: Option<Object<'a>>,
    pub(super) release: Option<Object<'a>>,
}

/// What a cluster follows, as EKS Anywhere looks it up: by its version, by its reference, by its
/// name; else what its manager follows.
pub(super) fn release<'a>(cluster: &Object<'a>, all: &[Object<'a>]) -> Result<Release<'a>, Refusal> {
    let manager = cluster.text("/spec/managementCluster/name").filter(|manager| *manager != cluster.name);
    let manager = manager.and_then(|name| all.iter().find(|known| known.is(EKSA, "Cluster") && known.name == name));
    let of_bundles = |name: &str| all.iter().find(|known| known.is(EKSA, "Bundles") && known.name == name).copied();
    let name = cluster.name;
    for followed in [Some(cluster), manager].into_iter().flatten() {
        if let Some(version) = followed.text("/spec/eksaVersion") {
            let is_it =
                |known: &&Object<'_>| known.is(EKSA, "EKSARelease") && known.text("/spec/version") == Some(version);
            let Some(release) = all.iter().find(is_it).copied() else {
                let message = format!("cluster {name} is at eksaVersion {version}, of which there is no EKSARelease");
                return Err(Refusal::new(message, "apply the release's manifest, or correct spec.eksaVersion"));
            };
            let bundles = release.text("/spec/bundlesRef/name").unwrap_or_default();
            let Some(bundles) = of_bundles(bundles) else {
                let message =
                    format!("cluster {name} follows {}, whose Bundles {bundles:?} are not there", release.place());
                return Err(Refusal::new(message, "apply the release's Bundles manifest"));
            };
            return Ok(Release { bundles: Some(bundles), release: Some(release) });
        }
        if let Some(bundles) = followed.text("/spec/bundlesRef/name") {
            let Some(found) = of_bundles(bundles) else {
                let message = format!("cluster {name} follows Bundles {bundles:?}, which are not there");
                return Err(Refusal::new(message, "apply them, or correct spec.bundlesRef"));
            };
            return Ok(Release { bundles: Some(found), release: None });
        }
    }
    let names = [Some(cluster), manager].into_iter().flatten().map(|followed| followed.name);
    match names.filter_map(of_bundles).next().or_else(|| only(all)) {
        Some(bundles) => Ok(Release { bundles: Some(bundles), release: None }),
        None => {
            let message = format!("cluster {name} names no release, and which Bundles it follows cannot be told");
            Err(Refusal::new(message, "write spec.eksaVersion into it"))
        }
    }
}

/// The Bundles, where there are no others.
fn only<'a>(all: &[Object<'a>]) -> Option<Object<'a>> {
    let mut bundles = all.iter().filter(|known| known.is(EKSA, "Bundles"));
    bundles.next().copied().filter(|_| bundles.next().is_none())
}

/// Why what runs in a management cluster is not the release that it declares.
pub(super) fn behind(cluster: &Object<'_>, release: &Release<'_>, all: &[Object<'_>]) -> Option<Refusal> {
    if cluster.text("/spec/managementCluster/name").is_some_and(|manager| manager != cluster.name) {
        return None;
    }
    let (name, bundles) = (cluster.name, release.bundles?);
    let help = "let EKS Anywhere finish its upgrade, or correct what the cluster declares, and try again";
    let declared = cluster.text("/spec/eksaVersion");
    if let (Some(ahead), Some(declared)) = (cluster.annotation(MANAGEMENT_COMPONENTS), declared)
        && ahead != declared
    {
        let message =
            format!("cluster {name} declares eksaVersion {declared}, and its management components are of {ahead}");
        return Some(Refusal::new(message, help));
    }
    let is_controller = |known: &&Object<'_>| known.is("apps", "Deployment") && known.namespace == EKSA_SYSTEM;
    let Some(controller) = all.iter().find(is_controller) else {
        let message =
            format!("the controller of EKS Anywhere is not there: nothing tells which release cluster {name} runs");
        return Some(Refusal::new(message, help));
    };
    let containers = controller.value.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    let images: Vec<&str> =
        containers.into_iter().flatten().filter_map(|container| container.get("image")?.as_str()).collect();
    let of_bundles = bundles.value.pointer("/spec/versionsBundles/0/eksa/clusterController")?;
    let text = |key: &str| of_bundles.get(key).and_then(Value::as_str);
    let (uri, digest) = (text("uri")?, text("imageDigest"));
    // A mirror has another host, and who pins an image may leave its tag out.
    let is_it = |image: &&&str| {
        digest.is_some_and(|digest| image.ends_with(digest)) || tag(image).is_some() && tag(image) == tag(uri)
    };
    if images.iter().any(|image| is_it(&image)) {
        return None;
    }
    let (place, images) = (controller.place(), images.join(", "));
    let message =
        format!("cluster {name} declares {}, whose controller is {uri}, and {place} runs {images}", bundles.place());
    Some(Refusal::new(message, help))
}

fn tag(image: &str) -> Option<&str> {
    let image = image.split_once('@').map_or(image, |(image, _)| image);
    image.rsplit('/').next()?.split_once(':').map(|(_, tag)| tag)
}
