//! What the deploy branch holds for every cluster, by ids of folders, and which EKS Anywhere version each is at.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use domain::{ClusterName, ObjectId, ProblemCode};
use overlays::{BundleReference, ComponentName, ReadFiles, Remembered};

use crate::reconcile::clusters::directory;
use git::{GitError, GitSnapshot};
use host::memory::Part;
use planning::DirectoryIds;

/// The clusters of the deploy branch.
#[derive(Clone, Debug, Default)]
pub struct Deployed {
    directories: HashMap<String, DirectoryIds>,
    /// The EKS Anywhere version of every cluster.
    pub eksa: Arc<BTreeMap<ClusterName, String>>,
    /// Clusters whose deployed specification cannot be read, and why.
    pub unreadable: BTreeMap<ClusterName, String>,
}

impl Deployed {
    /// Clusters of which nothing is known but the EKS Anywhere version of each.
    pub fn at(versions: BTreeMap<ClusterName, String>) -> Self {
        Self { eksa: Arc::new(versions), ..Self::default() }
    }

    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        /// Of a cluster: its entries in two tables, and its name in both.
        const CLUSTER: usize = 384;
        self.directories.len() * CLUSTER
            + self.unreadable.values().map(|message| CLUSTER + message.len()).sum::<usize>()
    }

    /// The names of folders of clusters, in order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.directories.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// The ids of a cluster's folders.
    pub fn ids(&self, cluster: &str) -> DirectoryIds {
        self.directories.get(cluster).copied().unwrap_or_default()
    }
}

/// Versions by the id of the cluster's folder: one that did not change is not read again.
#[derive(Debug)]
pub struct DeployedVersions {
    known: Mutex<Remembered<ObjectId, Option<String>>>,
    files: ReadFiles,
}

impl Default for DeployedVersions {
    fn default() -> Self {
        let bytes = Part::Deployed.bytes();
        Self { known: Mutex::new(Remembered::new(bytes / 3)), files: ReadFiles::new(bytes / 3 * 2) }
    }
}

impl DeployedVersions {
    /// Reads the clusters of the deploy branch (below the deploy path, where there is one).
    ///
    /// # Errors
    /// [`GitError`] when the folder of the clusters cannot be read; a single cluster that cannot is told as such.
    pub fn read(&self, deploy: Option<&GitSnapshot>) -> Result<Deployed, GitError> {
        let Some(deploy) = deploy else { return Ok(Deployed::default()) };
        let mut deployed = Deployed::default();
        let mut eksa = BTreeMap::new();
        for (name, id) in deploy.folders(&directory::path("clusters")?)? {
            deployed.directories.entry(name.clone()).or_default().0 = Some(id);
            let Ok(cluster) = name.parse::<ClusterName>() else { continue };
            match self.version(deploy, &cluster, id) {
                Ok(Some(version)) => {
                    eksa.insert(cluster, version);
                }
                Ok(None) => {}
                Err(error) => {
                    deployed.unreadable.insert(cluster, error.to_string());
                }
            }
        }
        for (name, id) in deploy.folders(&directory::path("flux")?)? {
            deployed.directories.entry(name).or_default().1 = Some(id);
        }
        deployed.eksa = Arc::new(eksa);
        Ok(deployed)
    }

    fn version(&self, deploy: &GitSnapshot, cluster: &ClusterName, id: ObjectId) -> Result<Option<String>, GitError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(version) = known.get(&id) {
            return Ok(version);
        }
        let folder = format!("{}/{}", planning::cluster_folder(cluster), ComponentName::Cluster.directory());
        let files = deploy.below(&directory::path(&folder)?)?.listed()?;
        let fleet = overlays::read_fleet_remembering(&files, &self.files);
        if let Some(problem) = fleet.problems.iter().find(|problem| problem.code == ProblemCode::Unreadable) {
            return Err(GitError::Library { action: format!("read {folder}"), message: problem.to_string() });
        }
        let found = fleet.cluster(cluster.as_str()).and_then(|cluster| cluster.bundle_reference.clone());
        let version = match found {
            Some(BundleReference::EksaVersion(version)) => Some(version),
            Some(BundleReference::Bundles(_)) | None => None,
        };
        known.insert(id, version.clone(), 128);
        Ok(version)
    }
}
