//! What cannot be upgraded in place at all: named before anything begins.

use bundles::{ImageReference, KubernetesVersion};

use super::{Architecture, Machine, World};

/// Systems without kubeadm's file layout, by what their nodes say.
const OTHER_SYSTEMS: [&str; 6] =
    ["Bottlerocket", "Talos", "Flatcar", "Fedora CoreOS", "Container-Optimized OS", "Windows"];

/// Why this machine cannot go to `version` in place; none where it can.
pub(super) fn why_not(world: &World, machine: &Machine, version: &KubernetesVersion) -> Option<String> {
    let name = &machine.object.name;
    let Some(node) = &machine.node else {
        return Some(format!("Machine {name} has no Node: `kubectl describe machine {name}`"));
    };
    if node.operating_system != "linux" {
        return Some(format!("node {}: operating system {:?} is not known", node.name, node.operating_system));
    }
    if let Some(system) = OTHER_SYSTEMS.iter().find(|system| node.os_image.contains(*system)) {
        return Some(format!("node {}: {system} is not upgraded by kubeadm", node.name));
    }
    let known = [Architecture::Amd64, Architecture::Arm64];
    let Some(architecture) = known.into_iter().find(|known| known.as_str() == node.architecture) else {
        let reason = match node.architecture.as_str() {
            "386" | "arm" => "has 32 bits",
            _ => "is not known",
        };
        return Some(format!("node {}: architecture {:?} {reason}", node.name, node.architecture));
    };
    let Some(release) = world.releases.get(version.as_str()) else {
        let help = "make one of its EKS-D release by `stepgate upgrader build`";
        return Some(format!("no upgrader image is known for {version}: {help}"));
    };
    if release.image.parse::<ImageReference>().is_err() {
        return Some(format!("{:?} is not a valid image of the upgrader of {version}", release.image));
    }
    if !release.architectures.is_empty() && !release.architectures.contains(&architecture) {
        let image = &release.image;
        return Some(format!("node {}: {image} is not built for {}", node.name, architecture.as_str()));
    }
    let Ok(current) = node.kubelet_version.parse::<KubernetesVersion>() else {
        return Some(format!("node {}: kubelet's version {:?} is not valid", node.name, node.kubelet_version));
    };
    match version.minor().minors_above(current.minor()) {
        Some(0 | 1) if version.order(&current).is_ge() => None,
        Some(less) if less < 1 => Some(format!("node {} runs {current}: it does not go back to {version}", node.name)),
        _ => Some(format!("node {} runs {current}: {version} is more than one minor version away", node.name)),
    }
}
