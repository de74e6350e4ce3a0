//! Making what a proposed branch is to hold: commits on top of each other, and the words of people above them.
//!
//! The commits lie on the deploy head in the order of names. A commit that is found there for the
//! same plan and stage on the same directory stays as it is. The next commit of a cluster takes its
//! `proposal.md` away.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::RepoPath;
use domain::{ClusterName, CommitId};
use overlays::RenderedTree;

use crate::reconcile::clusters::directory::path;
use crate::reconcile::effects::commit::Signature;
use crate::reconcile::planner::FleetReading;
use git::{CommitDraft, CommitMessage, CommitOutcome, GitError, GitSnapshot, Identity, Repository, StageTrailers};
use planning::{cluster_folder, flux_folder};

/// New files by path; none removes one.
pub(super) type Edits = BTreeMap<RepoPath, Option<Arc<[u8]>>>;

/// What is proposed for one cluster.
#[derive(Clone, Debug)]
pub(super) enum Layer {
    /// What was proposed before.
    Known(ClusterName, CommitId),
    /// Something new; its parent is what lies below it then.
    New(Box<CommitDraft>),
}

/// Puts layers onto a commit, and what people said above them; gives the topmost commit. Layers that lie there already stay as they are.
pub(super) fn build(
    repository: &Repository,
    reading: &FleetReading,
    signature: &Signature,
    base: Option<&CommitId>,
    layers: Vec<Layer>,
    words: &[CommitId],
) -> Result<Option<CommitId>, GitError> {
    let mut top = base.cloned();
    let add = |draft: CommitDraft, top: &mut Option<CommitId>| -> Result<(), GitError> {
        let draft = CommitDraft { parent: top.clone(), ..draft };
        if let CommitOutcome::Created(commit) = repository.commit(&draft, &signature.signing)? {
            *top = Some(commit);
        }
        Ok(())
    };
    for layer in layers {
        match layer {
            Layer::Known(_, commit) if repository.parent(&commit)? == top => top = Some(commit),
            Layer::Known(cluster, commit) => {
                let edits = changes(repository, reading, &cluster, &commit)?;
                add(again(repository, signature, &commit, edits)?, &mut top)?;
            }
            Layer::New(draft) => add(*draft, &mut top)?,
        }
    }
    for word in words {
        let silent = repository.snapshot_of(word)?.tree();
        let same = match &top {
            Some(top) => repository.snapshot_of(top)?.tree() == silent,
            None => false,
        };
        if same && repository.parent(word)? == top {
            top = Some(word.clone());
        } else {
            add(again(repository, signature, word, Edits::new())?, &mut top)?;
        }
    }
    Ok(top)
}

/// A commit once more, with the same message, of the same author and time.
fn again(
    repository: &Repository,
    signature: &Signature,
    commit: &CommitId,
    edits: Edits,
) -> Result<CommitDraft, GitError> {
    let author = repository.author(commit)?;
    let author: Identity = author.parse().map_err(|error: git::IdentityError| GitError::Library {
        action: format!("name the author of {commit} again"),
        message: error.to_string(),
    })?;
    Ok(CommitDraft {
        parent: None,
        merges: None,
        prefix: signature.prefix.clone(),
        allow_empty: edits.is_empty(),
        edits,
        message: message(&repository.message(commit)?),
        author,
        time: repository.committed_at(commit)?,
    })
}

/// A message taken apart as it was put together.
fn message(text: &str) -> CommitMessage {
    let trailers = StageTrailers::parse_all(text);
    let (subject, rest) = text.split_once('\n').unwrap_or((text, ""));
    let rest = rest.trim();
    let body = match rest.rsplit_once("\n\n") {
        _ if trailers.is_empty() => rest,
        Some((body, _)) => body,
        None => "",
    };
    CommitMessage { subject: subject.to_owned(), body: body.to_owned(), trailers }
}

/// What a proposed commit changes of its cluster's folders.
pub(super) fn changes(
    repository: &Repository,
    reading: &FleetReading,
    cluster: &ClusterName,
    commit: &CommitId,
) -> Result<Edits, GitError> {
    let before = match repository.parent(commit)? {
        Some(parent) => files(&repository.deploy_snapshot(&reading.layout, &parent)?, cluster)?,
        None => RenderedTree::new(),
    };
    let after = files(&repository.deploy_snapshot(&reading.layout, commit)?, cluster)?;
    let changed = before.diff(&after).files.into_keys();
    Ok(changed
        .map(|path| {
            let bytes = after.get(path.as_str()).cloned();
            (path, bytes)
        })
        .collect())
}

/// Every file of the cluster's two folders, ledger and all.
fn files(deploy: &GitSnapshot, cluster: &ClusterName) -> Result<RenderedTree, GitError> {
    let mut tree = RenderedTree::new();
    for folder in [cluster_folder(cluster), flux_folder(cluster)] {
        for (name, bytes) in deploy.below(&path(&folder)?)?.files()?.files {
            tree.insert(path(&format!("{folder}/{name}"))?, bytes);
        }
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_put_together_as_it_was() {
        let trailers = format!(
            "Stepgate-Rollout: {}\nStepgate-Cluster: mgmt\nStepgate-Stage: cilium\nStepgate-Plan: sha256:{}\nStepgate-Source: {}\n",
            "a".repeat(12),
            "b".repeat(64),
            "c".repeat(40)
        );
        for text in [
            "mgmt: approve cilium\n\nSaid of plan x.\n\nStepgate-Answer: mgmt cilium x\nStepgate-Approved-By: A <a@x>\n".to_owned(),
            "Only a subject\n".to_owned(),
            format!("mgmt: cilium v1\n\n{trailers}"),
            format!("mgmt: cilium v1\n\nOpened by:\n- a: b\n\nmore\n\n{trailers}"),
        ] {
            assert_eq!(message(&text).text(), text);
            assert_eq!(message(&text).trailers, StageTrailers::parse_all(&text));
        }
    }
}
