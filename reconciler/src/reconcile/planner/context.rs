//! What the plans of one cluster share.

use std::cell::OnceCell;
use std::sync::Arc;

use domain::{ClusterName, CommitId};
use git::{DeployLayout, LastSeen};
use planning::ClusterDirectory;
use planning::edits::Edit;
use planning::policies::Befores;
use policy::Policy;

use super::PlanError;
use crate::reconcile::cache::deployed::Deployed;
use crate::reconcile::cache::inputs::SourceReading;

/// What the deployed state of a cluster was rendered from, read when a plan asks for it.
///
/// A fleet that is upgraded cluster by cluster is deployed from as many source commits. Whoever begins to watch it would read all of them, and a plan
/// that changes nothing needs none.
pub struct Base<'a> {
    read: Box<dyn Fn() -> Result<Option<Arc<SourceReading>>, PlanError> + 'a>,
    known: OnceCell<Option<Arc<SourceReading>>>,
}

impl<'a> Base<'a> {
    /// What `read` gives, as soon as somebody asks for it.
    pub fn new(read: impl Fn() -> Result<Option<Arc<SourceReading>>, PlanError> + 'a) -> Self {
        Self { read: Box::new(read), known: OnceCell::new() }
    }

    /// The source commit; none where nothing is deployed, or its commit is gone.
    ///
    /// # Errors
    /// [`PlanError`] when commits cannot be read.
    pub fn get(&self) -> Result<Option<&SourceReading>, PlanError> {
        if let Some(known) = self.known.get() {
            return Ok(known.as_deref());
        }
        let read = (self.read)()?;
        Ok(self.known.get_or_init(|| read).as_deref())
    }
}

/// What the plans of one cluster share.
pub struct Context<'a> {
    /// The cluster.
    pub name: &'a ClusterName,
    /// Its directory on the deploy branch.
    pub directory: &'a ClusterDirectory,
    /// What the deployed state was rendered from.
    pub base: &'a Base<'a>,
    /// The policies of before that count besides the newest.
    pub befores: &'a Befores,
    /// The newest policy.
    pub newest: &'a Policy,
    /// All clusters as deployed.
    pub deployed: &'a Deployed,
    /// What people have changed of what is proposed.
    pub proposed: &'a [Edit],
    /// Where the deploy branch is, and what is known of it where it is not there.
    pub deploy: DeployBranch<'a>,
}

/// The deploy branch: its head, or what is known of it.
#[derive(Clone, Copy)]
pub struct DeployBranch<'a> {
    /// Where Stepgate writes.
    pub layout: &'a DeployLayout,
    /// Its head; none where there is no such branch.
    pub head: Option<&'a CommitId>,
    /// Where it was last seen, where there is none.
    pub lost: Option<&'a LastSeen>,
}
