//! A cluster specification moves from the deployed to the target text in steps.

use crate::render::Note;
use crate::{ClusterSpec, RenderedTree, RepoPath, SpecFile};

/// The files of a specification below `cluster/`: their paths from the folder that all of them share.
pub fn spec_tree(files: &[SpecFile]) -> RenderedTree {
    let mut common: Option<Vec<&str>> = None;
    for file in files {
        let mut folders: Vec<&str> = file.path.segments().collect();
        folders.pop();
        common = Some(match common {
            None => folders,
            Some(known) => {
                known.iter().zip(&folders).take_while(|(left, right)| left == right).map(|(left, _)| *left).collect()
            }
        });
    }
    let skip = common.map_or(0, |folders| folders.len());
    files
        .iter()
        .filter_map(|file| {
            let rest: Vec<&str> = file.path.segments().skip(skip).collect();
            let path = RepoPath::new(format!("cluster/{}", rest.join("/"))).ok()?;
            Some((path, std::sync::Arc::clone(&file.bytes)))
        })
        .collect()
}

/// Worker groups that share a machine configuration with something that goes earlier: they roll with it.
pub fn shared_machine_configs(_: &ClusterSpec) -> Vec<Note> {
    Vec::new()
}
