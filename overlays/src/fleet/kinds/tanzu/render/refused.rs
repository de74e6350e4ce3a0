//! What a `TanzuKubernetesCluster` says that is not rendered, told before anything is recorded.

use domain::{Problem, ProblemCode, Severity};
use yaml::Node;

use super::Material;
use crate::ClusterSpec;

/// The longest label value, which the name of a `MachineDeployment` becomes.
const LABEL: usize = 63;

/// Fields that change nothing of what is rendered.
const LEFT_OUT: [(&[&str], Severity, &str, &str); 3] = [
    (
        &["spec", "settings", "network", "proxy"],
        Severity::Error,
        "without a Supervisor, nothing sets up a proxy on its nodes",
        "take the field out and have the image bring the proxy, or have a Supervisor carry the cluster out (tanzu.mode: front)",
    ),
    (
        &["spec", "settings", "network", "trust"],
        Severity::Error,
        "without a Supervisor, nothing brings certificates to its nodes",
        "take the field out and have the image bring them, or have a Supervisor carry the cluster out (tanzu.mode: front)",
    ),
    (
        &["spec", "settings", "storage"],
        Severity::Warning,
        "without a Supervisor, nothing makes StorageClasses in the cluster",
        "commit the StorageClasses for the cluster itself",
    ),
];

pub(super) fn check(node: &Node, cluster: &ClusterSpec, plane: &Material<'_>) -> Vec<Problem> {
    let place = &cluster.places.name;
    let told = |message: String, hint: &str| {
        let problem = Problem::new(ProblemCode::BadCluster, format!("cluster {:?}: {message}", cluster.name));
        problem.path(&place.path).at(place.line, place.column).cluster(&cluster.name).hint(hint)
    };
    let mut problems = Vec::new();
    for (path, severity, what, hint) in LEFT_OUT {
        if node.at(path).is_some_and(|node| !node.is_null()) {
            problems.push(told(format!("{}: {what}", path.join(".")), hint).severity(severity));
        }
    }
    for group in &cluster.worker_groups {
        let name = format!("{}-{}", cluster.name, group.name);
        if name.len() > LABEL {
            let message = format!(
                "MachineDeployment {name:?} has {} characters, and labels that hold it may have {LABEL}",
                name.len()
            );
            problems.push(told(message, "give the node pool, or the cluster, a shorter name"));
        }
    }
    if plane.components.kubernetes.is_none() {
        let message =
            format!("nothing recorded of release {} says from where its nodes get Kubernetes' images", plane.version);
        let hint = "record its image with the property vmware-system.guest.kubernetes.distribution.image.version";
        problems.push(told(message, hint).severity(Severity::Warning));
    }
    problems
}
