//! What EKS Anywhere's API server and webhook always refuse of a `Cluster`: versions and numbers of machines.

use yaml::Node;

use crate::fleet::objects::{FoundObject, count, field};
use domain::Problem;

/// The first thing that would be refused.
pub(super) fn check(object: &FoundObject, spec: &Node) -> Result<(), Box<Problem>> {
    let name = object.name.as_str();
    let refused = |path: &[&str], message: String, hint: &str| {
        let path: Vec<&str> = std::iter::once("spec").chain(path.iter().copied()).collect();
        Err(Box::new(object.problem(&path, name, message).hint(hint)))
    };
    let version = spec.get("kubernetesVersion");
    if let Some(written) = version.and_then(wrong_version) {
        let message = format!("cluster {name:?}: {written} is not a valid kubernetesVersion for EKS Anywhere");
        return refused(&["kubernetesVersion"], message, VERSION_HINT);
    }
    let planes = ["controlPlaneConfiguration", "count"];
    let has_etcd = spec.get("externalEtcdConfiguration").is_some_and(|etcd| !etcd.is_null());
    if let Some(written) = wrong_count(spec, &planes, !has_etcd) {
        let message = format!("cluster {name:?}: EKS Anywhere refuses {written} control-plane machines");
        let hint = "write a whole number, odd where they hold etcd: 1, 3 or 5";
        return refused(&planes, message, hint);
    }
    let members = ["externalEtcdConfiguration", "count"];
    if let Some(written) = wrong_count(spec, &members, true) {
        let message = format!("cluster {name:?}: EKS Anywhere refuses {written} members of external etcd");
        return refused(&members, message, "write an odd number: 3 or 5");
    }
    let groups = spec.get("workerNodeGroupConfigurations").and_then(Node::as_sequence).unwrap_or_default();
    groups.iter().try_for_each(|group| check_group(object, group))
}

const VERSION_HINT: &str = "write major and minor in quotes, as \"1.30\": the bundle says which patch";

fn check_group(object: &FoundObject, group: &Node) -> Result<(), Box<Problem>> {
    let name = field(group, &["name"]).unwrap_or_default();
    let told = |node: &Node, message: String| {
        let place = object.place(node.span);
        object.problem(&[], &object.name, message).at(place.line, place.column)
    };
    if let Some((node, written)) = group.get("kubernetesVersion").and_then(|node| Some((node, wrong_version(node)?))) {
        let message = format!("worker group {name:?}: {written} is not a valid kubernetesVersion for EKS Anywhere");
        return Err(Box::new(told(node, message).hint(VERSION_HINT)));
    }
    let machines = count(group, &["count"]);
    if let Some(node) = group.get("count").filter(|node| machines.is_none() && !is_open(node)) {
        let message = format!("worker group {name:?}: {} is not a valid number of machines", written(node));
        return Err(Box::new(told(node, message).hint("write a whole number, without quotes")));
    }
    let Some(scaling) = group.get("autoscalingConfiguration").filter(|node| !node.is_null()) else { return Ok(()) };
    let [least, most] = ["minCount", "maxCount"].map(|bound| count(scaling, &[bound]).unwrap_or_default());
    // Where no count stands, EKS Anywhere takes the least.
    let machines = machines.unwrap_or(least);
    if least > most || machines < least || machines > most {
        let message = format!(
            "worker group {name:?}: EKS Anywhere refuses count {machines} with minCount {least} and maxCount {most}"
        );
        return Err(Box::new(told(scaling, message).hint("write a count from minCount to maxCount")));
    }
    Ok(())
}

/// A version as it is written, where it is not text of major and minor.
fn wrong_version(node: &Node) -> Option<String> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_right = |text: &str| text.split_once('.').is_some_and(|(major, minor)| is_number(major) && is_number(minor));
    let is_fine = node.is_null() || is_open(node) || node.as_str().is_some_and(is_right);
    (!is_fine).then(|| written(node))
}

/// A number as it is written, where it is none of machines, or even where it has to be odd; none where nothing is written.
fn wrong_count(spec: &Node, path: &[&str], is_odd: bool) -> Option<String> {
    let node = spec.at(path).filter(|node| !node.is_null() && !is_open(node))?;
    let is_fine = count(spec, path).is_some_and(|number| number > 0 && (!is_odd || number % 2 == 1));
    (!is_fine).then(|| written(node))
}

/// Whether something else is to be put there.
fn is_open(node: &Node) -> bool {
    node.as_str().is_some_and(|text| text.contains(['$', '{']))
}

fn written(node: &Node) -> String {
    yaml::emit(node).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use crate::fleet::read_fleet;
    use crate::testing::memory;

    /// What is said of a cluster with these fields in its specification.
    fn told(version: &str, plane: &str, etcd: &str, groups: &str) -> Vec<String> {
        let text = format!(
            "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {{name: prod, namespace: default}}\n\
             spec:\n  kubernetesVersion: {version}\n  datacenterRef: {{kind: VSphereDatacenterConfig, name: prod}}\n\
             \x20 controlPlaneConfiguration: {{count: {plane}}}\n{etcd}  workerNodeGroupConfigurations: {groups}\n"
        );
        let fleet = read_fleet(&memory(&[("clusters/prod/cluster.yaml", text.as_str())]));
        let problems = fleet.problems.iter().map(ToString::to_string);
        problems.filter(|problem| problem.contains("EKS Anywhere refuses") || problem.contains("valid")).collect()
    }

    const GROUPS: &str = "[{name: a, count: 2}]";

    #[test]
    fn what_eks_anywhere_takes_is_not_told() {
        let etcd = "  externalEtcdConfiguration: {count: 3}\n";
        let scaled =
            "[{name: a, count: 2, autoscalingConfiguration: {minCount: 1, maxCount: 3}, kubernetesVersion: '1.32'}]";
        for (version, plane, etcd, groups) in
            [("\"1.33\"", "3", "", GROUPS), ("'1.33'", "2", etcd, GROUPS), ("\"1.33\"", "1", "", scaled)]
        {
            assert_eq!(told(version, plane, etcd, groups), [""; 0], "{version} {plane} {groups}");
        }
    }

    #[test]
    fn versions_that_the_api_server_refuses_are_errors() {
        for version in ["1.33", "\"v1.33\"", "\"1.33.4\"", "1.30"] {
            assert_eq!(told(version, "3", "", GROUPS).len(), 1, "{version}");
        }
        assert_eq!(told("\"1.33\"", "3", "", "[{name: a, count: 2, kubernetesVersion: v1.32}]").len(), 1);
    }

    #[test]
    fn numbers_of_machines_that_the_webhook_refuses_are_errors() {
        let etcd = "  externalEtcdConfiguration: {count: 4}\n";
        for (plane, etcd, groups) in [
            ("2", "", GROUPS),
            ("0", "", GROUPS),
            ("\"3\"", "", GROUPS),
            ("3", etcd, GROUPS),
            ("3", "", "[{name: a, count: \"2\"}]"),
            ("3", "", "[{name: a, count: -1}]"),
            ("3", "", "[{name: a, count: 5, autoscalingConfiguration: {minCount: 1, maxCount: 3}}]"),
        ] {
            assert_eq!(told("\"1.33\"", plane, etcd, groups).len(), 1, "{plane} {etcd} {groups}");
        }
    }
}
