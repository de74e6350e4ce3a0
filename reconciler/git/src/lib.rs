//! The fleet repository: snapshots of its source branch, commits and pushes to its deploy branch.
//!
//! Reading, trees, commits and signatures use the git library without its network code; fetching, and pushing to
//! anything but a plain local repository, use the `git` program. The library's types do not leave this folder.
//!
//! ```no_run
//! use git::{BranchName, GitSnapshot, Repository, RepositoryLocation};
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

mod bases;
mod budget;
mod chain;
mod commit;
mod commit_fields;
mod copies;
mod deflate;
mod difference;
mod durable;
mod edit;
mod error;
mod history;
mod last_seen;
mod limits;
mod listing;
mod location;
mod loose;
mod measure;
mod name;
mod object;
mod object_id;
mod pack;
mod packs;
mod program;
mod progress;
mod push;
mod range;
mod reference;
mod remote;
mod repository;
mod sign;
mod single;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;
mod trailer;
mod tree;
mod units;
mod work_tree;

pub use bases::GitBases;
pub use chain::Chain;
pub use commit::{CommitDraft, CommitMessage, CommitOutcome};
pub use difference::{ChangedFile, Difference};
pub use error::GitError;
pub use history::{DeployLayout, HistoryEntry};
pub use last_seen::{LastSeen, SeenBy};
pub use limits::{Limit, LimitError, LimitSetting, Limits};
pub use listing::{ListedSnapshot, Listing};
pub use location::{LocationError, RepositoryLocation, RepositoryUrl, Transport};
pub use name::{BranchName, BranchNameError, Identity, IdentityError};
pub use progress::Pace;
pub use push::PushOutcome;
pub use range::WrittenCommit;
pub use remote::Heads;
pub use repository::{GitSettings, Repository};
pub use sign::Signing;
pub use snapshot::GitSnapshot;
pub use trailer::StageTrailers;
pub use work_tree::WorkTree;
