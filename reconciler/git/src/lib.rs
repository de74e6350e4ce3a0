//! The fleet repository: snapshots of its source branch, commits and pushes to its deploy branch.
//!
//! Reading, trees, commits and signatures use the git library without its network code; fetching, and pushing to
//! anything but a plain local repository, use the `git` program. The library's types do not leave this folder.
//!
//! ```no_run
//! use domain::BranchName;
//! use git::{GitSnapshot, Repository, RepositoryLocation};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let location: RepositoryLocation = "/srv/fleet.git".parse()?;
//! let repository = Repository::open(&location)?;
//! let main: BranchName = "main".parse()?;
//! repository.refresh(std::slice::from_ref(&main))?;
//! let snapshot: GitSnapshot = repository.snapshot(&main)?;
//! let policy = snapshot.read(&"stepgate.yaml".parse()?)?;
//! # Ok(())
//! # }
//! ```

mod borrow;
mod durable;
mod error;
#[cfg(test)]
mod fuzzed;
mod history;
mod limits;
mod refs;
mod remote;
mod repository;
mod store;
#[cfg(test)]
mod tests;
mod work_tree;

pub use error::GitError;
pub use history::chain::Chain;
pub use history::changes::{Changes, Older, Reach};
pub use history::commit::{CommitDraft, CommitMessage, CommitOutcome};
pub use history::deploy_history::{DeployLayout, HistoryEntry};
pub use history::difference::{ChangedFile, Difference};
pub use history::listing::{ListedSnapshot, Listing};
pub use history::range::WrittenCommit;
pub use history::sign::Signing;
pub use history::snapshot::GitSnapshot;
pub use history::trailer::StageTrailers;
pub use limits::{Limit, LimitError, LimitSetting, Limits};
pub use refs::last_seen::{LastSeen, SeenBy};
pub use refs::name::{Identity, IdentityError};
pub use remote::heads::Heads;
pub use remote::location::{LocationError, RepositoryLocation, RepositoryUrl, Transport};
pub use remote::progress::{Pace, follow_transfers};
pub use remote::push::PushOutcome;
pub use repository::{GitSettings, Repository};
pub use store::bases::GitBases;
pub use work_tree::WorkTree;
