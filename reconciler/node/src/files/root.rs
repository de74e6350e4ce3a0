//! Paths of the node below the folder where its root is mounted: its links lead to places in the node, never to ours.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// As many links on one way as Linux follows.
const MOST_LINKS: usize = 40;

/// An absolute path as the node itself sees it, without `.` and `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodePath(String);

impl NodePath {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part of it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for NodePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl TryFrom<String> for NodePath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        match text.strip_prefix('/') {
            Some(rest) if rest.split('/').all(is_plain) && !text.contains('\0') => Ok(Self(text)),
            _ => Err(format!("{text:?} is not an absolute path without \".\" and \"..\"")),
        }
    }
}

impl From<NodePath> for String {
    fn from(path: NodePath) -> Self {
        path.0
    }
}

/// The folder where the root of the node is.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

impl Root {
    /// # Errors
    /// When there is no such folder.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        if folder.is_dir() { Ok(Self(folder)) } else { Err(io::Error::from(io::ErrorKind::NotADirectory)) }
    }

    /// Whether this is the root of the process itself.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Where `path` of the node lies for us, all links followed inside the node. What does not exist has the place
    /// where it would be made.
    ///
    /// # Errors
    /// When links go in a circle.
    pub fn place(&self, path: &str) -> io::Result<PathBuf> {
        let mut pending: VecDeque<OsString> = parts(Path::new(path)).collect();
        let (mut reached, mut links) = (PathBuf::new(), 0);
        while let Some(part) = pending.pop_front() {
            if part == ".." {
                reached.pop();
                continue;
            }
            let next = reached.join(part);
            let here = self.0.join(&next);
            if !here.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
                reached = next;
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(io::Error::other(format!("{path}: its links go in a circle")));
            }
            let target = here.read_link()?;
            if target.is_absolute() {
                reached = PathBuf::new();
            }
            for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                pending.push_front(part);
            }
        }
        Ok(self.0.join(reached))
    }

    /// Where `path` lies, its last part not followed: for the links of `/proc`, which are none.
    #[must_use]
    pub fn unfollowed(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_of_the_node_lead_to_places_in_the_node() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("usr/bin")).unwrap();
        symlink("usr/bin", folder.path().join("bin")).unwrap();
        symlink("/opt/kubelet", folder.path().join("usr/bin/kubelet")).unwrap();
        symlink("../../../../etc", folder.path().join("usr/etc")).unwrap();
        symlink("/round", folder.path().join("round")).unwrap();
        let root = Root::new(folder.path()).unwrap();
        let top = folder.path().canonicalize().unwrap();
        assert_eq!(root.place("/bin/kubelet").unwrap(), top.join("opt/kubelet"));
        assert_eq!(root.place("/usr/etc/hosts").unwrap(), top.join("etc/hosts"));
        assert!(root.place("/round/x").unwrap_err().to_string().contains("circle"));
    }
}
