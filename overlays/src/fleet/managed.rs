//! Who manages whom: found once, since every cluster asks.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Fleet;
use crate::{ClusterSpec, Management};
use domain::{Problem, ProblemCode, Severity};

/// Clusters by their manager, as places in the fleet.
#[derive(Clone, Debug, Default)]
pub(super) struct Managed {
    /// How many clusters there were.
    clusters: usize,
    managing_themselves: Vec<usize>,
    by_others: HashMap<String, Vec<usize>>,
}

impl Managed {
    fn of(clusters: &[ClusterSpec]) -> Self {
        let mut managed = Self { clusters: clusters.len(), ..Self::default() };
        for (place, cluster) in clusters.iter().enumerate() {
            match &cluster.management {
                Management::SelfManaged => managed.managing_themselves.push(place),
                Management::ManagedBy(manager) => managed.by_others.entry(manager.clone()).or_default().push(place),
                Management::Undeclared => {}
            }
        }
        managed
    }
}

impl Fleet {
    fn managed(&self) -> Cow<'_, Managed> {
        let known = self.managed.get_or_init(|| Managed::of(&self.clusters));
        // Somebody who had it changed may have added one.
        if known.clusters == self.clusters.len() {
            Cow::Borrowed(known)
        } else {
            Cow::Owned(Managed::of(&self.clusters))
        }
    }

    fn clusters_at<'a>(&'a self, places: &[usize]) -> impl Iterator<Item = &'a ClusterSpec> + use<'a> {
        let found: Vec<&ClusterSpec> = places.iter().filter_map(|place| self.clusters.get(*place)).collect();
        found.into_iter()
    }

    /// The clusters whose specifications say that they manage themselves, by name.
    pub fn management_clusters(&self) -> impl Iterator<Item = &ClusterSpec> + use<'_> {
        self.clusters_at(&self.managed().managing_themselves)
    }

    /// The clusters that `cluster` manages, itself left out, by name.
    pub fn managed_by(&self, cluster: &str) -> impl Iterator<Item = &ClusterSpec> + use<'_> {
        let managed = self.managed();
        self.clusters_at(managed.by_others.get(cluster).map(Vec::as_slice).unwrap_or_default())
    }
}

/// Each management cluster but the first is told that a process is connected to one of them.
pub(super) fn several(fleet: &Fleet) -> Vec<Problem> {
    let managing: Vec<&ClusterSpec> = fleet.management_clusters().collect();
    let names: Vec<&str> = managing.iter().map(|cluster| cluster.name.as_str()).collect();
    // Each of a thousand is told, and none of them by a thousand names.
    let names = match names.as_slice() {
        [one, two, three, rest @ ..] if rest.len() > 1 => format!("{one}, {two}, {three} and {} more", rest.len()),
        names => names.join(", "),
    };
    let told = |cluster: &&ClusterSpec| {
        let place = &cluster.places.name;
        let message = format!("clusters {names} each manage themselves, and a process is connected to one of them");
        let problem = Problem::new(ProblemCode::SeveralManagementClusters, message).path(&place.path);
        let problem = problem.at(place.line, place.column).cluster(&cluster.name).severity(Severity::Note);
        problem.hint("run one process for each: `stepgate run --management-cluster NAME` with its kubeconfig")
    };
    managing.iter().skip(1).map(told).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Management, MemoryFiles, read_fleet};

    fn cluster(name: &str, manager: &str) -> (domain::RepoPath, Vec<u8>) {
        let text = format!(
            "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec:\n  \
             controlPlaneConfiguration: {{count: 1}}\n  datacenterRef: {{kind: DockerDatacenterConfig, name: {name}}}\n  \
             kubernetesVersion: '1.31'\n  managementCluster: {{name: {manager}}}\n"
        );
        (format!("clusters/{name}/cluster.yaml").parse().unwrap(), text.into_bytes())
    }

    #[test]
    fn a_fleet_knows_who_manages_whom_also_after_somebody_changed_it() {
        let files = [cluster("shop", "one"), cluster("one", "one"), cluster("two", "two"), cluster("desk", "one")];
        let mut fleet = read_fleet(&files.into_iter().collect::<MemoryFiles>());
        let told = |fleet: &crate::Fleet| {
            let name = |cluster: &crate::ClusterSpec| cluster.name.clone();
            let managing: Vec<String> = fleet.management_clusters().map(name).collect();
            let managed =
                ["one", "two", "nobody"].map(|it| fleet.managed_by(it).map(name).collect::<Vec<_>>().join(" "));
            (managing.join(" "), managed)
        };
        assert_eq!(told(&fleet), ("one two".to_owned(), ["desk shop".to_owned(), String::new(), String::new()]));
        let mut added = fleet.cluster("shop").unwrap().clone();
        added.name = "zoo".to_owned();
        added.management = Management::ManagedBy("two".to_owned());
        fleet.clusters.push(added);
        assert_eq!(told(&fleet), ("one two".to_owned(), ["desk shop".to_owned(), "zoo".to_owned(), String::new()]));
    }

    #[test]
    fn each_of_many_management_clusters_is_told_by_few_names() {
        let names = ["a", "b", "c", "d", "e"];
        let files = names.map(|name| cluster(name, name));
        let fleet = read_fleet(&files.into_iter().collect::<MemoryFiles>());
        let told: Vec<String> = fleet.problems.iter().map(ToString::to_string).collect();
        let told: Vec<&String> = told.iter().filter(|it| it.contains("each manage themselves")).collect();
        assert_eq!(told.len(), names.len() - 1);
        assert!(told.iter().all(|it| it.contains("clusters a, b, c and 2 more each")), "{told:?}");
    }
}
