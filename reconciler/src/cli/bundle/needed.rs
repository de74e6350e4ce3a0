//! What of the manifests that bundles name a fleet needs: the infrastructure providers of its clusters and of nobody else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use domain::RepoPath;
use overlays::MemoryFiles;
use planning::wanted::NeededProviders;

use crate::cli::CommandError;
use host::disk;

/// Files that are looked at, at most.
const MAXIMUM_FILES: usize = 200_000;
/// Bytes that are read, at most.
const MAXIMUM_BYTES: u64 = 256 << 20;
/// Folders inside of folders, at most.
const MAXIMUM_DEPTH: usize = 16;

/// The clusters of a folder, as far as they tell what to fetch.
#[derive(Debug, Default)]
pub struct Needed(NeededProviders);

impl Needed {
    /// What the clusters of the fleet in `folder` need. Nothing below `skipped` is read.
    ///
    /// # Errors
    /// A folder that holds more than a fleet does.
    pub fn of(folder: &Path, skipped: &[PathBuf]) -> Result<Self, CommandError> {
        let mut files = MemoryFiles::new();
        let skipped = skipped.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
        let mut walk = Walk { top: folder, skipped, files: &mut files, left: MAXIMUM_FILES, bytes: MAXIMUM_BYTES };
        walk.folder(folder, 0).map_err(|error| {
            CommandError::from(error)
                .context(format!("looking for clusters in {}", folder.display()))
                .hint("--all fetches everything that the bundles name, whatever clusters there are")
        })?;
        Ok(Self(NeededProviders::of(&overlays::read_fleet(&files))))
    }

    /// Whether a section of a bundle is that of a provider that no cluster has.
    pub fn leaves_out(&self, section: &str) -> bool {
        self.0.leaves_out(section)
    }
}

/// Reads YAML files below a folder into memory. Links are not followed, and hidden folders (`.git`) not entered.
struct Walk<'a> {
    top: &'a Path,
    skipped: BTreeSet<PathBuf>,
    files: &'a mut MemoryFiles,
    left: usize,
    bytes: u64,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path, depth: usize) -> std::io::Result<()> {
        let too_much = |what: &str| std::io::Error::new(std::io::ErrorKind::QuotaExceeded, what.to_owned());
        if folder.canonicalize().is_ok_and(|folder| self.skipped.contains(&folder)) {
            return Ok(());
        }
        if depth > MAXIMUM_DEPTH {
            return Err(too_much(&format!("it has more than {MAXIMUM_DEPTH} folders inside of each other")));
        }
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let left = self.left.checked_sub(1);
            self.left = left.ok_or_else(|| too_much(&format!("it has more than {MAXIMUM_FILES} files")))?;
            // Of the entry itself: a link is none of both.
            let (kind, path) = (entry.file_type()?, entry.path());
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if kind.is_dir() {
                self.folder(&path, depth + 1)?;
            } else if kind.is_file() {
                let relative = path.strip_prefix(self.top).ok().and_then(Path::to_str);
                let Some(relative) = relative.and_then(|path| RepoPath::new(path).ok()) else { continue };
                if !relative.is_yaml() {
                    continue;
                }
                let bytes = disk::read(&path, self.bytes)?;
                self.bytes = self.bytes.saturating_sub(bytes.len() as u64);
                self.files.insert(relative, bytes);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn cluster(provider: &str) -> String {
        format!(
            "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {{name: a}}\nspec:\n  kubernetesVersion: \"1.33\"\n  \
             managementCluster: {{name: a}}\n  controlPlaneConfiguration: {{count: 1}}\n  datacenterRef: {{kind: {provider}DatacenterConfig, name: a}}\n"
        )
    }

    #[test]
    fn providers_that_no_cluster_has_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!Needed::of(folder.path(), &[]).unwrap().leaves_out("docker"));
        write(folder.path(), "clusters/a/cluster.yaml", &cluster("VSphere"));
        write(folder.path(), ".git/other.yaml", &cluster("Docker"));
        write(folder.path(), "mirror/host/other.yaml", &cluster("Nutanix"));
        let needed = Needed::of(folder.path(), &[folder.path().join("mirror")]).unwrap();
        let sections = ["docker", "vSphere", "tinkerbell", "nutanix", "snow", "cloudStack"];
        let left_out: Vec<_> = sections.into_iter().filter(|section| needed.leaves_out(section)).collect();
        assert_eq!(left_out, ["docker", "tinkerbell", "nutanix", "snow", "cloudStack"]);
        assert!(!needed.leaves_out("clusterAPI") && !needed.leaves_out("eksD"));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(outside.path(), "cluster.yaml", &cluster("Docker"));
        std::os::unix::fs::symlink(outside.path(), folder.path().join("clusters")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("cluster.yaml"), folder.path().join("cluster.yaml")).unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("again")).unwrap();
        assert!(!Needed::of(folder.path(), &[]).unwrap().leaves_out("nutanix"));
    }
}
