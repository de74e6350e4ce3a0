//! From a stage commit that was decided to a commit in the object store.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::ClusterName;
use domain::RepoPath;
use jiff::Timestamp;
use overlays::RenderedTree;
use policy::{Policy, SigningFormat};
use rollout::{Evidence, Ledger, LedgerCommit, StageCommit, StageName};

use crate::reconcile::clusters::directory::ledger_path;
use crate::reconcile::effects::dumps::DUMP;
use crate::reconcile::proposal::body_path;
use git::{CommitDraft, CommitMessage, GitError, Identity, IdentityError, Signing, StageTrailers};
use planning::ClusterDirectory;
use planning::stage_tree::StageTree;

/// Why a decided commit is not made: the world is not the one it was decided on. It is planned again.
#[derive(Debug, thiserror::Error)]
pub enum StaleDecision {
    /// The plan has no such stage any more.
    #[error("the plan has no stage {0} any more")]
    NoStage(String),
    /// The part's digest before or after is another.
    #[error("the files of stage {0} are not the ones that were decided on")]
    OtherFiles(String),
    /// Git.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The ledger cannot be written down.
    #[error("cannot write the ledger: {0}")]
    Ledger(#[from] serde_yaml::Error),
}

/// Who commits, when, and where below the top of the tree.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Author and committer.
    pub author: Identity,
    /// How commits are signed.
    pub signing: Signing,
    /// The deploy path, where source and deploy share a branch.
    pub prefix: Option<RepoPath>,
}

/// Why nothing can be committed under a policy.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// Name or address cannot be written into a commit.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The policy asks for signatures that the operator's key does not give.
    #[error(
        "stepgate.yaml asks for commits that are signed by a key of the format {wanted}, and {given}; give --signing-key {example} (STEPGATE_SIGNING_KEY)"
    )]
    Key {
        /// The format that is wanted.
        wanted: &'static str,
        /// What is given instead.
        given: &'static str,
        /// How such a key is given.
        example: &'static str,
    },
}

impl Signature {
    /// Who the policy says, signed by the key of whoever runs the program, where there is one.
    ///
    /// # Errors
    /// [`SignatureError`] when name or address cannot be written into a commit, or the policy asks for another signature.
    pub fn of(policy: &Policy, signing: &Signing) -> Result<Self, SignatureError> {
        let author: Identity = format!("{} <{}>", policy.author.name, policy.author.email).parse()?;
        let given = match signing {
            Signing::None => None,
            Signing::Ssh { .. } => Some(SigningFormat::Ssh),
            Signing::OpenPgp { .. } => Some(SigningFormat::Gpg),
        };
        if let Some(wanted) = policy.signing.as_ref().map(|signing| signing.format).filter(|it| Some(*it) != given) {
            let (wanted, example) = match wanted {
                SigningFormat::Ssh => ("ssh", "FILE"),
                SigningFormat::Gpg => ("gpg", "gpg:ID"),
            };
            let given = if given.is_none() { "Stepgate has no key" } else { "Stepgate's key has the other one" };
            return Err(SignatureError::Key { wanted, given, example });
        }
        Ok(Self { author, signing: signing.clone(), prefix: policy.deploy.path.clone() })
    }
}

/// The draft of a stage's commit: the part's files, and the ledger with the evidence, in one commit.
///
/// # Errors
/// [`StaleDecision`] when the parts at hand are not the ones the decision was made on.
pub fn stage_draft(
    commit: &StageCommit,
    directory: &ClusterDirectory,
    parts: &[StageTree],
    signature: &Signature,
    now: Timestamp,
) -> Result<CommitDraft, StaleDecision> {
    let part = parts.iter().find(|part| part.stage == commit.stage);
    let part = part.ok_or_else(|| StaleDecision::NoStage(commit.stage.to_string()))?;
    if part.before.digest() != commit.before || part.after.digest() != commit.after {
        return Err(StaleDecision::OtherFiles(commit.stage.to_string()));
    }
    let message = CommitMessage {
        subject: format!("{}: {}", commit.cluster, subject(commit, part)),
        body: body(commit),
        trailers: vec![trailers(commit)],
    };
    draft(commit, directory, &part.before, &part.after, message, signature, now)
}

/// The draft of a revert: the stage's files as they were before it.
///
/// # Errors
/// As [`stage_draft`].
pub fn revert_draft(
    commit: &StageCommit,
    directory: &ClusterDirectory,
    restored: &RenderedTree,
    current: &RenderedTree,
    signature: &Signature,
    now: Timestamp,
) -> Result<CommitDraft, StaleDecision> {
    if current.digest() != commit.before || restored.digest() != commit.after {
        return Err(StaleDecision::OtherFiles(commit.stage.to_string()));
    }
    let reasons = commit.ledger.last_record(&commit.stage).map(|record| record.reasons.as_slice()).unwrap_or_default();
    let message = CommitMessage {
        subject: format!("{}: revert {}", commit.cluster, commit.stage),
        body: reasons.iter().map(|reason| format!("- {reason}\n")).collect(),
        trailers: vec![trailers(commit)],
    };
    draft(commit, directory, current, restored, message, signature, now)
}

/// The draft of the commit that closes a rollout: it changes the ledger alone.
///
/// # Errors
/// [`StaleDecision::Ledger`] and [`StaleDecision::Git`].
pub fn close_draft(
    close: &LedgerCommit,
    directory: &ClusterDirectory,
    signature: &Signature,
    now: Timestamp,
) -> Result<CommitDraft, StaleDecision> {
    let ledger = close.ledger.clone().with_tree(directory.files.digest());
    let mut edits = BTreeMap::from([(ledger_path(&close.cluster)?, Some(ledger_text(&ledger)?))]);
    take_away_proposal(&mut edits, &close.cluster, directory)?;
    let subject = format!("{}: verify, rollout {} is done", close.cluster, ledger.rollout);
    let trailers = StageTrailers {
        rollout: ledger.rollout,
        cluster: close.cluster.clone(),
        stage: StageName::Verify.into(),
        plan: ledger.plan,
        source: ledger.source,
    };
    Ok(CommitDraft {
        parent: close.parent.clone(),
        prefix: signature.prefix.clone(),
        edits,
        message: CommitMessage { subject, body: closing_body(close), trailers: vec![trailers] },
        author: signature.author.clone(),
        time: now,
        merges: None,
        allow_empty: false,
    })
}

/// What the last gate saw, with what differs from before the rollout.
fn closing_body(close: &LedgerCommit) -> String {
    let Some(evidence) = &close.ledger.verified else { return String::new() };
    format!("Verified at {}:\n{}", evidence.observed_at, told(evidence))
}

/// The ledger as the file that it is on the deploy branch.
///
/// # Errors
/// [`serde_yaml::Error`] in theory only.
pub fn ledger_text(ledger: &Ledger) -> Result<Arc<[u8]>, serde_yaml::Error> {
    let heading = "# Written by Stepgate in the same commit as the stage it records. Do not edit: a change here stops the rollout.\n";
    Ok(format!("{heading}{}", serde_yaml::to_string(ledger)?).into_bytes().into())
}

fn draft(
    commit: &StageCommit,
    directory: &ClusterDirectory,
    before: &RenderedTree,
    after: &RenderedTree,
    message: CommitMessage,
    signature: &Signature,
    now: Timestamp,
) -> Result<CommitDraft, StaleDecision> {
    let mut tree = directory.files.clone();
    let mut edits = edits(before, after);
    for (path, bytes) in &edits {
        match bytes {
            Some(bytes) => tree.insert(path.clone(), Arc::clone(bytes)),
            None => {
                tree.files.remove(path);
            }
        }
    }
    let ledger = commit.ledger.clone().with_tree(tree.digest());
    edits.insert(ledger_path(&commit.cluster)?, Some(ledger_text(&ledger)?));
    take_away_proposal(&mut edits, &commit.cluster, directory)?;
    Ok(CommitDraft {
        parent: commit.parent.clone(),
        prefix: signature.prefix.clone(),
        edits,
        message,
        author: signature.author.clone(),
        time: now,
        merges: None,
        allow_empty: false,
    })
}

/// The text of a proposal goes with the commit after the one that was proposed.
fn take_away_proposal(
    edits: &mut BTreeMap<RepoPath, Option<Arc<[u8]>>>,
    cluster: &ClusterName,
    directory: &ClusterDirectory,
) -> Result<(), GitError> {
    if directory.has_proposal {
        edits.insert(body_path(cluster)?, None);
    }
    Ok(())
}

/// What turns one tree into the other.
fn edits(before: &RenderedTree, after: &RenderedTree) -> BTreeMap<RepoPath, Option<Arc<[u8]>>> {
    let changed = |path: RepoPath| {
        let bytes = after.get(path.as_str()).cloned();
        (path, bytes)
    };
    before.diff(after).files.into_keys().map(changed).collect()
}

fn trailers(commit: &StageCommit) -> StageTrailers {
    StageTrailers {
        rollout: commit.rollout.clone(),
        cluster: commit.cluster.clone(),
        stage: commit.stage.clone(),
        plan: commit.plan.clone(),
        source: commit.source.clone(),
    }
}

fn subject(commit: &StageCommit, part: &StageTree) -> String {
    match &part.version {
        Some(version) => format!("{} {version}", commit.stage),
        None if commit.ledger.rollback.as_ref().is_some_and(|back| back.tree == commit.ledger.target) => {
            format!("roll back {}", commit.stage)
        }
        None => commit.stage.to_string(),
    }
}

/// What the gate before this stage saw, so that the history tells it without the ledger.
fn body(commit: &StageCommit) -> String {
    let evidence = commit.ledger.last_record(&commit.stage).and_then(|record| record.opened_by.as_ref());
    let Some(evidence) = evidence else { return String::new() };
    let Evidence { observed_at, held_since, .. } = evidence;
    format!("Opened by what was seen at {observed_at}, unbroken since {held_since}:\n{}", told(evidence))
}

/// So many facts stand in a message.
const TOLD: usize = 20;

/// The facts of evidence, a line each, those about dumps first.
fn told(evidence: &Evidence) -> String {
    let start = evidence.facts.iter().position(|fact| fact.object == DUMP).unwrap_or(0);
    let (rest, first) = evidence.facts.split_at(start);
    let facts = first.iter().chain(rest).take(TOLD).map(|fact| format!("- {}: {}\n", fact.object, fact.seen));
    let facts = facts.collect::<String>();
    let more = evidence.facts.len().saturating_sub(TOLD);
    let rest = if more > 0 { format!("- and {more} more, see the ledger\n") } else { String::new() };
    format!("{facts}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::clusters::directory::path;

    #[test]
    fn edits_name_what_differs_and_remove_what_is_gone() {
        let tree = |files: &[(&str, &str)]| RenderedTree {
            files: files.iter().map(|(name, text)| (path(name).unwrap(), Arc::from(text.as_bytes()))).collect(),
        };
        let before = tree(&[("changed", "1"), ("gone", "1"), ("same", "1")]);
        let after = tree(&[("changed", "2"), ("new", "2"), ("same", "1")]);
        let found = edits(&before, &after);
        let text = |name: &str| found.get(&path(name).unwrap()).map(|bytes| bytes.as_deref().map(<[u8]>::to_vec));
        assert_eq!(text("changed"), Some(Some(b"2".to_vec())));
        assert_eq!(text("new"), Some(Some(b"2".to_vec())));
        assert_eq!(text("gone"), Some(None));
        assert_eq!(found.len(), 3);
        assert!(edits(&after, &after).is_empty());
    }
}
