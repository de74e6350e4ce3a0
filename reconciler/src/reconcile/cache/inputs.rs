//! What a cluster's plan follows from on the source branch, as digests: while they stay, nothing is rendered again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use domain::{Problem, RepoPath, Scope};
use overlays::{BundleReference, ClusterSpec, FileEntry, Files, Fleet, Management};
use ring::digest::{Context, SHA256};

use git::ListedSnapshot;

/// Digest of everything on the source branch that one cluster's plan follows from, apart from the commit's own id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inputs([u8; 32]);

/// A source commit, read.
#[derive(Clone, Debug)]
pub struct SourceReading {
    /// Its files.
    pub files: Arc<ListedSnapshot>,
    /// What they say.
    pub fleet: Arc<Fleet>,
    inputs: Arc<HashMap<String, Inputs>>,
}

impl SourceReading {
    /// A commit and what it says.
    pub fn new(files: Arc<ListedSnapshot>, fleet: Fleet) -> Self {
        let inputs = Arc::new(inputs(files.as_ref(), &fleet));
        Self { files, fleet: Arc::new(fleet), inputs }
    }

    /// The same files with another fleet: one in which a cluster is at a target of its chain.
    #[must_use]
    pub fn with_fleet(&self, fleet: Fleet) -> Self {
        Self { fleet: Arc::new(fleet), ..self.clone() }
    }

    /// What the plan of a cluster follows from; none for a cluster that is not there.
    pub fn inputs(&self, cluster: &str) -> Option<Inputs> {
        self.inputs.get(cluster).copied()
    }

    /// About how much memory it takes, in bytes; files and parsed objects are shared with other commits.
    pub fn bytes(&self) -> usize {
        self.files.paths().len() * 256 + self.fleet.clusters.len() * 4096 + self.fleet.problems.len() * 512
    }
}

/// The inputs of every cluster. Each costs the bytes of its own files; what concerns everybody is digested once.
fn inputs(files: &dyn Files, fleet: &Fleet) -> HashMap<String, Inputs> {
    let everybody = everybody(files, fleet);
    let mut problems: HashMap<&str, Vec<&Problem>> = HashMap::new();
    for problem in &fleet.problems {
        if let Scope::Cluster(name) = &problem.scope {
            problems.entry(name).or_default().push(problem);
        }
    }
    let mut managed: BTreeMap<&str, Vec<&ClusterSpec>> = BTreeMap::new();
    for cluster in &fleet.clusters {
        if let Management::ManagedBy(manager) = &cluster.management {
            managed.entry(manager).or_default().push(cluster);
        }
    }
    let of = |cluster: &ClusterSpec| {
        let mut digest = Digest::new();
        digest.add(&everybody);
        for file in &cluster.files {
            digest.add(file.path.as_str().as_bytes());
            digest.add(&file.bytes);
        }
        digest.add(format!("{:?}", fleet.flux_settings.get(&cluster.name)).as_bytes());
        digest.entries(&files.below(&format!("clusters/{}/overlays", cluster.name)));
        for problem in problems.get(cluster.name.as_str()).into_iter().flatten() {
            digest.problem(problem);
        }
        if let Management::ManagedBy(manager) = &cluster.management {
            digest.bundle(fleet.cluster(manager).and_then(|manager| manager.bundle_reference.as_ref()));
        }
        // What a management cluster carries for the others: providers, EKS-D releases, definitions in use.
        for other in managed.get(cluster.name.as_str()).into_iter().flatten() {
            digest.add(other.name.as_bytes());
            digest.add(format!("{:?} {}", other.provider, other.kubernetes_version).as_bytes());
            digest.add(other.namespace.as_bytes());
            digest.add(&[u8::from(overlays::asks_for_in_place(fleet, other))]);
            for group in &other.worker_groups {
                digest.add(group.kubernetes_version.as_bytes());
            }
        }
        if cluster.is_management() {
            digest.add(format!("{:?}", fleet.flux_versions_in_use).as_bytes());
        }
        digest.finish()
    };
    fleet.clusters.iter().map(|cluster| (cluster.name.clone(), Inputs(of(cluster)))).collect()
}

/// Policy, lock, bundles, the team's overlays, and what is wrong with the repository as a whole.
fn everybody(files: &dyn Files, fleet: &Fleet) -> [u8; 32] {
    let mut digest = Digest::new();
    let manifests = fleet.bundles.iter().map(|file| &file.path);
    let manifests = manifests.chain(fleet.eksa_releases.iter().map(|file| &file.path));
    let manifests = manifests.chain(fleet.eksd_releases.iter().map(|file| &file.path));
    let fixed: Vec<RepoPath> =
        ["stepgate.yaml", "bundles.lock"].into_iter().filter_map(|name| RepoPath::new(name).ok()).collect();
    for path in fixed.iter().chain(manifests) {
        digest.entries(files.entry(path).as_slice());
    }
    digest.entries(&files.below("overlays"));
    // With what nodes are upgraded in place counts for every cluster of a namespace.
    for file in overlays::files_naming_upgraders(fleet) {
        digest.add(file.path.as_str().as_bytes());
        digest.add(&file.bytes);
    }
    for problem in fleet.problems.iter().filter(|problem| problem.scope == Scope::Fleet) {
        digest.problem(problem);
    }
    digest.finish()
}

/// A digest over parts that cannot run into each other: each is preceded by its length.
struct Digest(Context);

impl Digest {
    fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    fn add(&mut self, part: &[u8]) {
        self.0.update(&part.len().to_le_bytes());
        self.0.update(part);
    }

    fn entries(&mut self, entries: &[FileEntry]) {
        self.add(&entries.len().to_le_bytes());
        for entry in entries {
            self.add(entry.path.as_str().as_bytes());
            self.add(format!("{:?}", entry.kind).as_bytes());
            self.add(entry.id.as_ref().map_or(&[][..], |id| id.bytes()));
        }
    }

    fn problem(&mut self, problem: &Problem) {
        self.add(format!("{:?} {} {problem}", problem.severity, problem.code).as_bytes());
    }

    fn bundle(&mut self, reference: Option<&BundleReference>) {
        self.add(format!("{reference:?}").as_bytes());
    }

    fn finish(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (byte, from) in bytes.iter_mut().zip(self.0.finish().as_ref()) {
            *byte = *from;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use overlays::MemoryFiles;

    use super::*;

    #[test]
    fn upgraders_in_another_clusters_folder_are_an_input() {
        let of = |image: &str| {
            let cluster = |name: &str| {
                let text = format!(
                    "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {{name: {name}, namespace: shops}}\nspec:\n  \
                     controlPlaneRef: {{kind: KubeadmControlPlane, name: {name}}}\n---\n\
                     apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\n\
                     metadata: {{name: {name}, namespace: shops}}\nspec: {{replicas: 1, version: v1.36.1}}\n"
                );
                (RepoPath::new(format!("clusters/{name}/cluster.yaml")).unwrap(), text.into_bytes())
            };
            let upgraders = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: in-place-upgraders, namespace: shops}}\n\
                 data: {{v1.36.1: '{image}'}}\n"
            );
            let (path, mut two) = cluster("two");
            two.extend(format!("---\n{upgraders}").into_bytes());
            let files: MemoryFiles = [cluster("one"), (path, two)].into_iter().collect();
            let fleet = overlays::read_fleet(&files);
            assert_eq!(fleet.clusters.len(), 2, "{:?}", fleet.problems);
            inputs(&files, &fleet).remove("one").unwrap()
        };
        assert_eq!(of("registry.test/a"), of("registry.test/a"));
        assert_ne!(of("registry.test/a"), of("registry.test/b"));
    }
}
