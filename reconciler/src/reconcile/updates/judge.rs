//! Whether the plans of a proposed commit forbid what they do not forbid today.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::CommitId;
use git::{CommitDraft, CommitMessage, CommitOutcome};
use planning::updates::FileEdits;
use rollout::Plan;

use super::Run;
use super::downloads::{Downloads, WithDownloads};
use crate::reconcile::effects::commit::Signature;
use crate::reconcile::planner::ClusterView;

/// A commit on top of the source branch, and what it would lead to.
pub(super) struct Judged {
    pub commit: CommitId,
    /// The plan of each cluster that is asked about.
    pub plans: Vec<Arc<Plan>>,
    /// Clusters for which it is forbidden, and why.
    pub refused: Vec<(String, String)>,
}

impl Run<'_> {
    /// Makes the commit, which no branch holds yet, and plans these clusters at it.
    pub(super) fn judge(
        &self,
        clusters: &[String],
        files: &FileEdits,
        downloads: &Downloads,
        message: CommitMessage,
    ) -> anyhow::Result<Judged> {
        let planner = &self.updater.planner;
        let source = self.reading.source_commit();
        let signature = Signature::of(&self.reading.fleet.policy, planner.signing())?;
        let draft = CommitDraft {
            parent: Some(source.clone()),
            merges: None,
            prefix: None,
            edits: files.iter().map(|(path, bytes)| (path.clone(), Some(Arc::clone(bytes)))).collect(),
            message,
            author: signature.author,
            // The same update on the same commit is the same commit.
            time: planner.repository().committed_at(source)?,
            allow_empty: false,
        };
        let commit = match planner.repository().commit(&draft, &signature.signing)? {
            CommitOutcome::Created(commit) => commit,
            CommitOutcome::Unchanged => anyhow::bail!("the source branch says all of it already"),
        };
        let sources = WithDownloads { downloads: downloads.clone(), sources: Arc::clone(&self.updater.sources) };
        let planner = planner.clone().with_sources(Arc::new(sources));
        let (before, after) = (planner.read_commit(source)?, planner.read_commit(&commit)?);
        let (mut plans, mut refused) = (Vec::new(), Vec::new());
        for name in clusters {
            let view = match planner.view(&after, name) {
                Ok(view) => view,
                Err(error) => {
                    refused.push((name.clone(), error.to_string()));
                    continue;
                }
            };
            // What is in the way today is no fault of the update.
            let known = planner.view(&before, name).map(|view| reasons(&view)).unwrap_or_default();
            let mut new = reasons(&view).into_iter().filter(|(code, _)| !known.iter().any(|(it, _)| it == code));
            if let Some((_, reason)) = new.next() {
                refused.push((name.clone(), reason));
            }
            plans.push(Arc::clone(&view.plan));
        }
        Ok(Judged { commit, plans, refused })
    }
}

/// What forbids the plan of a cluster: by a code, and in words.
fn reasons(view: &ClusterView) -> BTreeSet<(String, String)> {
    let blocks = view.plan.blocked.iter().map(|block| (block.code.clone(), block.message.clone()));
    let unrendered = view.parts.iter().filter_map(|part| {
        let error = part.error.as_ref()?;
        Some((format!("render {}", part.stage), error.message.clone()))
    });
    blocks.chain(unrendered).collect()
}
