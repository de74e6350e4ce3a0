//! What the plans of one cluster share.

use domain::{ClusterName, CommitId};
use git::{DeployLayout, LastSeen};
use planning::ClusterDirectory;
use planning::edits::Edit;
use planning::policies::Befores;
use policy::Policy;

use crate::reconcile::cache::deployed::Deployed;
use crate::reconcile::cache::inputs::SourceReading;

/// What the plans of one cluster share.
pub struct Context<'a> {
    /// The cluster.
    pub name: &'a ClusterName,
    /// Its directory on the deploy branch.
    pub directory: &'a ClusterDirectory,
    /// What the deployed state was rendered from.
    pub base: Option<&'a SourceReading>,
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
