//! Whether what people changed on a proposed branch becomes what is proposed. It is decided about values: files, and the plan without them.

use std::sync::Arc;

use domain::{ClusterName, RepoPath};
use overlays::RenderedTree;
use rollout::{AcceptedEdit, Plan, StagePlan};

use crate::text::objects::{changed, plain};
use planning::edits::{self, Edit};
use planning::stage_tree::StageTree;

/// How many changed objects of one file are named.
const NAMED_OBJECTS: usize = 20;

/// Of the edits that a proposed commit has, those that the plan may have and does not have yet.
pub fn keep_proposed(known: &mut Vec<Edit>, plan: &Plan, stage: &StagePlan, part: &StageTree) {
    known.retain(|(edit, bytes)| {
        let may_be = || edits::objection(&plan.cluster, stage, part, &edit.path, Some(bytes)).is_none();
        edit.stage == stage.stage && !plan.edits.contains(edit) && may_be()
    });
}

/// Adds what people changed above what is proposed to what is `known`. What speaks against it: then nothing was added.
pub fn take_up(
    cluster: &ClusterName,
    stage: &StagePlan,
    part: &StageTree,
    files: &[EditedFile],
    known: &mut Vec<Edit>,
) -> Option<String> {
    let mut all = known.clone();
    for file in files {
        let path = plain(&file.path);
        let refused = |why: &str| Some(format!("{} changed `{path}`: {why}", names(&file.by)));
        if !file.is_inside {
            return refused("it is not below the deploy path");
        }
        if let Some(why) = edits::objection(cluster, stage, part, &file.path, file.after.as_ref()) {
            return refused(&why);
        }
        let rendered = part.rendered.get(&file.path).or_else(|| part.after.get(&file.path));
        let (Some(rendered), Some(after), Some(before)) = (rendered, &file.after, &file.before) else {
            return refused("files are neither added nor removed");
        };
        let earlier = all.iter().position(|(edit, _)| edit.path == file.path).map(|place| all.swap_remove(place));
        let is_of = before == rendered
            || part.after.get(&file.path) == Some(before)
            || earlier.as_ref().is_some_and(|(_, bytes)| bytes == before);
        if !is_of {
            return refused("the source branch renders another file by now");
        }
        let digests = (edits::file_digest(&file.path, rendered), edits::file_digest(&file.path, after));
        let (Some(rendered), Some(edited)) = digests else { return refused("that is not a valid path") };
        // Taken back to what is rendered it is none, unless another one lies on the deploy branch.
        if rendered == edited && !part.rendered.files.contains_key(file.path.as_str()) {
            continue;
        }
        let mut by = file.by.clone();
        by.extend(earlier.into_iter().flat_map(|(edit, _)| edit.by).filter(|name| !file.by.contains(name)));
        let edit = AcceptedEdit { path: file.path.clone(), stage: stage.stage.clone(), rendered, edited, by };
        all.push((edit, Arc::clone(after)));
    }
    all.sort_by(|(one, _), (other, _)| one.path.cmp(&other.path));
    *known = all;
    None
}

/// A file that people changed on a branch.
#[derive(Clone, Debug)]
pub struct EditedFile {
    /// From the top of the deploy tree, as far as it is inside of that.
    pub path: String,
    /// Whether it lies below the deploy path.
    pub is_inside: bool,
    /// Its bytes before, where it was there.
    pub before: Option<Arc<[u8]>>,
    /// Its bytes after, where it is there.
    pub after: Option<Arc<[u8]>>,
    /// Who, by git's word, the latest first.
    pub by: Vec<String>,
}

/// Names as part of a text that a forge shows.
pub fn names(by: &[String]) -> String {
    let name = |name: &String| plain(name.split_once(" <").map_or(name.as_str(), |(name, _)| name));
    if by.is_empty() { "somebody".to_owned() } else { by.iter().map(name).collect::<Vec<_>>().join(", ") }
}

/// What is taken up of what people changed and is not deployed yet, for people.
pub fn taken_up(part: &StageTree, edits: &[AcceptedEdit]) -> Vec<String> {
    let is_new = |edit: &&AcceptedEdit| part.before.get(&edit.path) != part.after.get(&edit.path);
    let of_part = edits.iter().filter(|edit| edit.stage == part.stage).filter(is_new);
    of_part
        .flat_map(|edit| entry(&edit.path, &edit.by, part.rendered.get(&edit.path), part.after.get(&edit.path)))
        .collect()
}

/// What somebody changed in one file, object by object, for people.
pub fn entry(path: &str, by: &[String], before: Option<&Arc<[u8]>>, after: Option<&Arc<[u8]>>) -> Vec<String> {
    let tree = |bytes: Option<&Arc<[u8]>>| {
        let mut tree = RenderedTree::new();
        if let (Ok(path), Some(bytes)) = (RepoPath::new(path.to_owned()), bytes) {
            tree.insert(path, Arc::clone(bytes));
        }
        tree
    };
    let who = format!("{} changed `{}`", names(by), plain(path));
    let objects = changed(&tree(before), &tree(after));
    if objects.is_empty() {
        return vec![who];
    }
    let more = objects.len().saturating_sub(NAMED_OBJECTS);
    let more = (more > 0).then(|| format!("{who}: and {more} more objects"));
    objects.iter().take(NAMED_OBJECTS).map(|object| format!("{who}: {object}")).chain(more).collect()
}
