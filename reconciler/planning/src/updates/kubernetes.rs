//! The next Kubernetes minor of each environment, of those that the policy names.

use std::collections::BTreeMap;

use overlays::{ClusterKind, ClusterSpec, Files, Fleet};
use policy::{MinorVersion, UpdatePolicy};

use super::FileEdits;

/// Clusters that may go to a Kubernetes minor together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesUpdate {
    /// Whether they are eksctl's; else EKS Anywhere's.
    pub eksctl: bool,
    /// The environment; none for clusters that have none.
    pub environment: Option<String>,
    /// The minor.
    pub minor: MinorVersion,
    /// The clusters whose version is written anew, with what the file that says it is to hold.
    pub clusters: BTreeMap<String, FileEdits>,
    /// Clusters that could go too, and why they do not.
    pub left_out: BTreeMap<String, String>,
}

impl KubernetesUpdate {
    /// The edits of these clusters together.
    ///
    /// # Errors
    /// Why the version of a cluster cannot be written.
    pub fn edits(&self, fleet: &Fleet, source: &dyn Files) -> Result<FileEdits, String> {
        let mut files = FileEdits::new();
        for cluster in self.clusters.keys().filter_map(|name| fleet.cluster(name)) {
            write(&mut files, source, cluster, self.minor)?;
        }
        Ok(files)
    }
}

/// For each environment and kind of cluster the lowest next minor: those who are behind go first, so that nobody is asked twice at once.
#[must_use]
pub fn kubernetes_updates(fleet: &Fleet, source: &dyn Files, policy: &UpdatePolicy) -> Vec<KubernetesUpdate> {
    let mut groups: BTreeMap<(bool, Option<String>, MinorVersion), KubernetesUpdate> = BTreeMap::new();
    for cluster in &fleet.clusters {
        let (eksctl, allowed) = match cluster.kind {
            ClusterKind::EksAnywhere => (false, &policy.kubernetes),
            ClusterKind::Eksctl => (true, &policy.eks),
            // Their machine images are chosen with the version, by whoever makes them.
            ClusterKind::ClusterApi | ClusterKind::ClusterClass | ClusterKind::Tanzu => continue,
        };
        let Some(next) = next(cluster).filter(|next| allowed.contains(next)) else { continue };
        let environment = fleet.policy.environment_of(&cluster.name).map(str::to_owned);
        let key = (eksctl, environment.clone(), next);
        let (clusters, left_out) = (BTreeMap::new(), BTreeMap::new());
        let new = KubernetesUpdate { eksctl, environment, minor: next, clusters, left_out };
        let group = groups.entry(key).or_insert(new);
        match offered(fleet, source, cluster, next) {
            Ok(edits) => drop(group.clusters.insert(cluster.name.clone(), edits)),
            Err(reason) => drop(group.left_out.insert(cluster.name.clone(), reason)),
        }
    }
    let mut lowest: BTreeMap<(bool, Option<String>), KubernetesUpdate> = BTreeMap::new();
    for ((eksctl, environment, _), group) in groups {
        // They come by their minors, the lowest first; one that nobody can go to keeps nobody.
        let known = lowest.entry((eksctl, environment)).or_insert_with(|| group.clone());
        if known.clusters.is_empty() && !group.clusters.is_empty() {
            let left_out = std::mem::take(&mut known.left_out);
            *known = group;
            known.left_out.extend(left_out);
        }
    }
    lowest.into_values().collect()
}

fn next(cluster: &ClusterSpec) -> Option<MinorVersion> {
    let own: MinorVersion = cluster.kubernetes_minor().parse().ok()?;
    Some(MinorVersion { minor: own.minor.checked_add(1)?, ..own })
}

fn offered(fleet: &Fleet, source: &dyn Files, cluster: &ClusterSpec, next: MinorVersion) -> Result<FileEdits, String> {
    if cluster.kind == ClusterKind::EksAnywhere {
        let file = overlays::bundle_for(fleet, cluster).map_err(|problem| problem.message.clone())?;
        let version = next.to_string().parse().map_err(|error| format!("{error}"))?;
        if file.bundles.versions_bundle(&version).is_none() {
            return Err(format!("{} does not have Kubernetes {next}", file.bundles.name));
        }
    }
    let mut files = FileEdits::new();
    write(&mut files, source, cluster, next).map(|()| files)
}

fn write(files: &mut FileEdits, source: &dyn Files, cluster: &ClusterSpec, next: MinorVersion) -> Result<(), String> {
    let field: &[&str] = match cluster.kind {
        ClusterKind::Eksctl => &["metadata", "version"],
        ClusterKind::EksAnywhere | ClusterKind::ClusterApi | ClusterKind::ClusterClass | ClusterKind::Tanzu => {
            &["spec", "kubernetesVersion"]
        }
    };
    super::bundle::edit(files, source, cluster, field, &next.to_string())
}

#[cfg(test)]
mod tests {
    use domain::RepoPath;
    use overlays::MemoryFiles;

    use super::*;

    fn config(name: &str, version: &str) -> String {
        format!(
            "# Of the team.\napiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata:\n  name: {name}\n  \
             region: eu-central-1\n  version: \"{version}\" # bumped by hand\n"
        )
    }

    #[test]
    fn each_environment_goes_to_its_lowest_next_minor_that_is_named() {
        let mut files = MemoryFiles::new();
        let policy = "updates: {eks: [\"1.33\", \"1.34\"]}\nenvironments: {prod: {clusters: [\"prod-*\"]}}\n";
        files.insert(RepoPath::new("stepgate.yaml").unwrap(), policy.as_bytes().to_vec());
        for (name, version) in [("prod-a", "1.32"), ("prod-b", "1.33"), ("dev", "1.33"), ("new", "1.34")] {
            let path = RepoPath::new(format!("clusters/{name}.yaml")).unwrap();
            files.insert(path, config(name, version).into_bytes());
        }
        let fleet = overlays::read_fleet(&files);
        let updates = kubernetes_updates(&fleet, &files, fleet.policy.updates.as_ref().unwrap());
        let told: Vec<_> = updates
            .iter()
            .map(|it| {
                (it.environment.as_deref(), it.minor.to_string(), it.clusters.keys().cloned().collect::<Vec<_>>())
            })
            .collect();
        // `new` has no next minor that is named, and `prod-b` waits for `prod-a`.
        let expected = [
            (None, "1.34".to_owned(), vec!["dev".to_owned()]),
            (Some("prod"), "1.33".to_owned(), vec!["prod-a".to_owned()]),
        ];
        assert_eq!(told, expected);
        let edits = updates[1].edits(&fleet, &files).unwrap();
        let (path, bytes) = edits.first_key_value().unwrap();
        assert_eq!(path.as_str(), "clusters/prod-a.yaml");
        assert_eq!(std::str::from_utf8(bytes).unwrap(), config("prod-a", "1.33"));
    }
}
