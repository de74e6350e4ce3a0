//! Machines of EKS Anywhere: its own controllers upgrade them in place where the specification says so, on bare metal alone.

use policy::{MachinePolicy, OnDecline};
use rollout::StageName;
use yaml::Node;

use super::{Contradiction, Found, Sides};

const PLANE: &str = "controlPlaneConfiguration";
const GROUPS: &str = "workerNodeGroupConfigurations";

/// Fields that say how many machines there are and how they are replaced.
const OF_COUNTS: [&str; 4] = ["count", "autoscalingConfiguration", "upgradeRolloutStrategy", "kubernetesVersion"];

pub(super) fn found(sides: &Sides<'_>, policy: &MachinePolicy) -> Found {
    let Some(after) = cluster(&sides.after) else { return Found::default() };
    let Some(own) = part(after, sides.stage) else { return Found::default() };
    let mut found = Found {
        asks: is_in_place(own).then_some(OnDecline::Hold),
        driven: Some("EKS Anywhere's controllers do it".to_owned()),
        ..Found::default()
    };
    if policy.driver.is_some() {
        found.contradictions.push(Contradiction::new(
            "stepgate.yaml says inPlace: {driver: …}, and machines of EKS Anywhere are upgraded by its own controllers",
            "take inPlace.driver out for this cluster",
        ));
    }
    if found.asks.is_none() {
        found.contradictions.push(Contradiction::new(
            "EKS Anywhere replaces machines whose upgradeRolloutStrategy.type is not InPlace",
            "write upgradeRolloutStrategy: {type: InPlace}, or strategy: rolling into stepgate.yaml",
        ));
        return found;
    }
    found.declined.extend(rules(after));
    let Some(before) = cluster(&sides.before).and_then(|before| part(before, sides.stage)) else { return found };
    let of_fields = changed(before, own, &OF_COUNTS);
    found.declined.extend(of_fields.map(|field| format!("{field} differs, and machines are made from it")));
    let [old, new] = [(before, &sides.before), (own, &sides.after)].map(|(part, nodes)| machine_config(part, nodes));
    if let Some((old, new)) = old.zip(new) {
        let of_config = changed(old, new, &[]);
        found.declined.extend(of_config.map(|field| format!("{field} of the machine configuration differs")));
    }
    found
}

fn cluster(nodes: &[Node]) -> Option<&Node> {
    nodes.iter().find(|node| {
        node.get("kind").and_then(Node::as_str) == Some("Cluster")
            && node.get("apiVersion").and_then(Node::as_str).is_some_and(|version| version.starts_with("anywhere."))
    })
}

/// What the specification says of the machines of a stage.
fn part<'n>(cluster: &'n Node, stage: &StageName) -> Option<&'n Node> {
    match stage {
        StageName::Workers(group) => {
            groups(cluster).find(|known| known.get("name").and_then(Node::as_str).unwrap_or("md-0") == group.as_str())
        }
        _ => cluster.at(&["spec", PLANE]),
    }
}

fn groups(cluster: &Node) -> impl Iterator<Item = &Node> {
    cluster.at(&["spec", GROUPS]).and_then(Node::as_sequence).into_iter().flatten()
}

fn is_in_place(part: &Node) -> bool {
    part.at(&["upgradeRolloutStrategy", "type"]).and_then(Node::as_str) == Some("InPlace")
}

/// What EKS Anywhere refuses, or answers by replacing machines.
fn rules(cluster: &Node) -> impl Iterator<Item = String> {
    let plane = cluster.at(&["spec", PLANE]);
    let provider = cluster.at(&["spec", "datacenterRef", "kind"]).and_then(Node::as_str).unwrap_or_default();
    let parts = || plane.into_iter().chain(groups(cluster));
    [
        (provider != "TinkerbellDatacenterConfig")
            .then(|| format!("EKS Anywhere upgrades in place on bare metal alone, and not with {provider}")),
        parts().any(|part| !is_in_place(part)).then(|| {
            "EKS Anywhere wants one upgradeRolloutStrategy for the control plane and all worker groups".to_owned()
        }),
        parts()
            .any(|part| part.at(&["upgradeRolloutStrategy", "rollingUpdate"]).is_some())
            .then(|| "upgradeRolloutStrategy.rollingUpdate has to be left out with type InPlace".to_owned()),
        groups(cluster)
            .any(|group| group.get("autoscalingConfiguration").is_some())
            .then(|| "EKS Anywhere does not upgrade groups in place that an autoscaler sizes".to_owned()),
        cluster
            .at(&["spec", "externalEtcdConfiguration"])
            .is_some()
            .then(|| "EKS Anywhere does not upgrade in place with external etcd".to_owned()),
    ]
    .into_iter()
    .flatten()
}

/// Names of fields that differ.
fn changed<'n>(old: &'n Node, new: &'n Node, but: &'n [&str]) -> impl Iterator<Item = String> + 'n {
    let names = |node: &'n Node| node.as_mapping().into_iter().flatten().map(|entry| entry.key.to_string());
    let mut all: Vec<String> = names(old).chain(names(new)).collect();
    all.sort();
    all.dedup();
    all.into_iter().filter(move |name| !but.contains(&name.as_str()) && old.get(name) != new.get(name))
}

fn machine_config<'n>(part: &Node, nodes: &'n [Node]) -> Option<&'n Node> {
    let text = |name: &str| part.at(&["machineGroupRef", name]).and_then(Node::as_str);
    let (kind, name) = (text("kind")?, text("name")?);
    let is_it = |node: &&Node| {
        node.get("kind").and_then(Node::as_str) == Some(kind)
            && node.at(&["metadata", "name"]).and_then(Node::as_str) == Some(name)
    };
    nodes.iter().find(is_it)?.get("spec")
}
