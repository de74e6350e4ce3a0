//! The file of the deploy branch that says what people have said of waves.
//!
//! Architecture Invariant: a commit speaks for its author alone. What it writes in the name of anybody else does not count.

use std::sync::{Arc, PoisonError};

use domain::CommitId;
use domain::RepoPath;
use policy::Person;
use rollout::{WaveWord, WaveWords};
use serde::{Deserialize, Serialize};

use crate::reconcile::clusters::directory::path;
use crate::reconcile::planner::Planner;
use git::{DeployLayout, GitError, GitSnapshot, Limit};

/// The file, below the deploy path.
const FILE: &str = "waves.yaml";

/// The newest format that can be read.
const FORMAT: u32 = 1;

/// What is written there.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    format: u32,
    words: Vec<WaveWord>,
}

/// Where it is.
///
/// # Errors
/// Never: the name is a path.
pub(super) fn record_path() -> Result<RepoPath, GitError> {
    path(FILE)
}

/// The file that says this.
///
/// # Errors
/// When it cannot be written as text.
pub(super) fn record_text(words: Vec<WaveWord>) -> Result<Arc<[u8]>, serde_yaml::Error> {
    let heading = "# Written by whoever says something of a wave, such as by `stepgate approve --wave NAME`.\n";
    let text = serde_yaml::to_string(&Record { format: FORMAT, words })?;
    Ok(format!("{heading}{text}").into_bytes().into())
}

/// What a commit of the deploy branch says; why it cannot be read, where it cannot.
fn read_at(deploy: &GitSnapshot) -> Result<Result<Vec<WaveWord>, String>, GitError> {
    let path = record_path()?;
    if deploy.tree_id(&path)?.is_none() {
        return Ok(Ok(Vec::new()));
    }
    let bytes = match deploy.read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.is_of_content() => return Ok(Err(error.to_string())),
        Err(error) => return Err(error),
    };
    Ok(match serde_yaml::from_slice::<Record>(&bytes) {
        Ok(record) if record.format <= FORMAT => Ok(record.words),
        Ok(record) => Err(format!("{FILE} has format {}, and this program reads {FORMAT} at most", record.format)),
        Err(error) => Err(format!("{FILE}: {error}")),
    })
}

impl Planner {
    /// What people have said of waves, by the deploy branch: each word that the author of its commit says for themselves.
    pub(in crate::reconcile) fn wave_words(
        &self,
        layout: &DeployLayout,
        deploy: Option<&GitSnapshot>,
    ) -> Result<Arc<WaveWords>, GitError> {
        let Some(deploy) = deploy else { return Ok(Arc::default()) };
        let Some(id) = deploy.tree_id(&record_path()?)? else { return Ok(Arc::default()) };
        let known = || self.known_words().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(words) = known().get(&id) {
            return Ok(words);
        }
        let words = Arc::new(match read_at(deploy)? {
            Ok(said) => WaveWords { words: self.own_words(layout, deploy, &said)?, problem: None },
            Err(problem) => WaveWords { words: Vec::new(), problem: Some(problem) },
        });
        let bytes = words.words.iter().map(|word| 256 + 160 * word.plans.len()).sum::<usize>();
        known().insert(id, Arc::clone(&words), 256 + bytes);
        Ok(words)
    }

    /// Those of these words that the commit which brought them says in the name of its own author.
    fn own_words(
        &self,
        layout: &DeployLayout,
        deploy: &GitSnapshot,
        said: &[WaveWord],
    ) -> Result<Vec<WaveWord>, GitError> {
        let (repository, file) = (self.repository(), record_path()?);
        let (mut commit, mut id) = (deploy.commit().clone(), deploy.tree_id(&file)?);
        let (mut open, mut own): (Vec<&WaveWord>, Vec<&WaveWord>) = (said.iter().collect(), Vec::new());
        for _ in 0..repository.limits().get(Limit::Commits) {
            if open.is_empty() {
                break;
            }
            let parent: Option<CommitId> = repository.parent(&commit)?;
            let before = parent.as_ref().map(|parent| repository.deploy_snapshot(layout, parent)).transpose()?;
            let id_before = before.as_ref().map(|before| before.tree_id(&file)).transpose()?.flatten();
            if id_before != id {
                let known = before.as_ref().map(read_at).transpose()?.and_then(Result::ok).unwrap_or_default();
                let author = repository.author(&commit)?.parse::<Person>();
                let (kept, brought): (Vec<_>, Vec<_>) = open.into_iter().partition(|word| known.contains(word));
                own.extend(
                    brought.into_iter().filter(|word| author.as_ref().is_ok_and(|author| is_one(author, &word.by))),
                );
                open = kept;
            }
            let Some(parent) = parent else { break };
            (commit, id) = (parent, id_before);
        }
        Ok(said.iter().filter(|word| own.contains(word)).cloned().collect())
    }
}

/// Whether both are one author of commits.
fn is_one(one: &Person, other: &Person) -> bool {
    matches!((one, other), (Person::Commit { email: one, .. }, Person::Commit { email: other, .. }) if one == other)
}
