//! Which add-ons of an image a cluster gets.

use bundles::tanzu::ImageAddon;
use domain::{Problem, ProblemCode, Severity};
use policy::TanzuPolicy;
use yaml::Node;

use super::{Material, RELEASE_LABEL};
use crate::ClusterSpec;
use crate::fleet::objects::field;
use crate::tanzu::{AddonState, RenderedAddon, rendered_addons};

/// Add-ons of which a cluster has one.
const NETWORKS: [&str; 2] = ["antrea", "calico"];

/// Those that are applied, those that cannot be read, and those that others look after.
pub(super) fn chosen(
    node: &Node,
    cluster: &ClusterSpec,
    plane: &Material<'_>,
    policy: &TanzuPolicy,
    problems: &mut Vec<Problem>,
) -> Vec<RenderedAddon> {
    let place = &cluster.places.name;
    let mut tell = |message: String, severity: Severity, hint: String| {
        let message = format!("cluster {:?}: {message}", cluster.name);
        let problem = Problem::new(ProblemCode::BadCluster, message).path(&place.path).at(place.line, place.column);
        problems.push(problem.cluster(&cluster.name).severity(severity).hint(hint));
    };
    let image = &plane.image;
    if plane.addons.is_empty() {
        let message =
            format!("nothing recorded of image {image} brings add-ons, so that Stepgate applies no network plug-in");
        let hint =
            "record the image with its properties vmware-system.guest.kubernetes.addons.*, or apply them yourself";
        tell(message, Severity::Warning, hint.to_owned());
        return Vec::new();
    }
    let networks: Vec<&str> =
        NETWORKS.into_iter().filter(|name| plane.addons.iter().any(|addon| addon.name == *name)).collect();
    let written = field(node, &["spec", "settings", "network", "cni", "name"]);
    // The one that routes by NSX is the same add-on.
    let wanted = written.as_deref().map(|name| name.strip_suffix("-nsx-routed").unwrap_or(name));
    let network = match (wanted, networks.as_slice()) {
        (Some(name), known) if known.contains(&name) => Some(name),
        (Some(name), known) => {
            let message = format!("image {image} brings no network plug-in {name}");
            tell(
                message,
                Severity::Error,
                format!("write one of {} under spec.settings.network.cni.name", known.join(", ")),
            );
            None
        }
        (None, [only]) => Some(*only),
        (None, []) => None,
        (None, known) => {
            let message =
                format!("image {image} brings {}, and the cluster names no network plug-in", known.join(" and "));
            tell(message, Severity::Error, "write its name under spec.settings.network.cni.name".to_owned());
            None
        }
    };
    let is_meant =
        |addon: &&ImageAddon| !NETWORKS.contains(&addon.name.as_str()) || network == Some(addon.name.as_str());
    let meant: Vec<ImageAddon> = plane.addons.iter().filter(is_meant).cloned().collect();
    let release = plane.version.to_string();
    let label = (RELEASE_LABEL, plane.label.as_str());
    let rendered = rendered_addons(&meant, &policy.unmanaged, (&cluster.name, &release), label);
    for addon in &rendered {
        if let AddonState::Unreadable(why) = &addon.state {
            let message = format!("add-on {} of image {image}: error: {why}", addon.name);
            let hint = format!(
                "record the image anew, or list {} under `tanzu: {{unmanaged: […]}}` in stepgate.yaml",
                addon.name
            );
            tell(message, Severity::Warning, hint);
        }
    }
    rendered
}
