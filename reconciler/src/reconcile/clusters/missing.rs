//! A cluster without a ledger: whether nobody has recorded it yet, or the record was lost, and what helps then.
//!
//! Recording a cluster anew whose rollout is on the way would put every stage that is left onto the deploy branch at once. So it is
//! only advised where nothing speaks for a record that was there.

use std::path::Path;

use domain::{ClusterName, CommitId};
use rollout::Block;

use domain::BranchName;
use git::{DeployLayout, LastSeen, Repository, RepositoryLocation, SeenBy};

/// Why the deploy branch holds no ledger of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingRecord {
    /// The branch is there, and its history knows nothing of this cluster.
    Never,
    /// There is no such branch, and nothing in the repository knows of one.
    NoBranch,
    /// There is no such branch here, but it was seen.
    Lost {
        /// Where it was.
        seen: LastSeen,
        /// Whether the cluster was asked, so that nothing newer is known.
        asked: bool,
    },
    /// The branch is there, and does not hold the commit that the cluster was brought to.
    Rewritten(LastSeen),
    /// The branch is there, and the record lies in another folder of it than the policy names.
    Elsewhere {
        /// The folder; `/` for the top.
        folder: String,
    },
    /// This is a clone, and the branch that it is a clone of has the record.
    Behind(LastSeen),
    /// The branch is there, and somebody took the ledger away.
    Removed {
        /// The commit that did.
        by: CommitId,
        /// Its author.
        author: String,
    },
}

impl MissingRecord {
    /// Whether a record was there.
    pub fn is_lost(&self) -> bool {
        !matches!(self, Self::Never | Self::NoBranch)
    }

    /// What helps a cluster that nobody has recorded.
    pub fn first_time(&self, cluster: &ClusterName, repository: &Repository) -> String {
        format!("{}`stepgate adopt {cluster} --yes` records what the source branch says", of_clone(repository))
    }

    /// The commit that has the record that is missing, or took it away, where that is known.
    pub fn commit(&self) -> Option<&CommitId> {
        match self {
            Self::Lost { seen, .. } | Self::Rewritten(seen) => Some(&seen.commit),
            Self::Removed { by, .. } => Some(by),
            Self::Never | Self::NoBranch | Self::Elsewhere { .. } | Self::Behind(_) => None,
        }
    }

    /// Whether the cluster may know better.
    pub fn asks_cluster(&self) -> bool {
        match self {
            Self::Never | Self::NoBranch => true,
            // Of a clone there is nothing to know: the repository that it is of is to be asked.
            Self::Lost { seen, asked } => !asked && !matches!(seen.by, SeenBy::Clone { .. }),
            Self::Rewritten(_) | Self::Removed { .. } | Self::Elsewhere { .. } | Self::Behind(_) => false,
        }
    }

    /// What this forbids, and what helps.
    pub fn block(&self, cluster: &ClusterName, layout: &DeployLayout, repository: &Repository) -> Block {
        let branch = &layout.branch;
        let location = repository.location();
        let (code, message, help) = match self {
            Self::Never => (
                "not-adopted",
                format!("branch {branch} does not hold clusters/{cluster} with a ledger"),
                self.first_time(cluster, repository),
            ),
            Self::NoBranch => (
                "not-adopted",
                format!("there is no branch {branch} in {location}"),
                format!(
                    "if it was there, push its last commit back: `stepgate why {cluster}` asks the cluster for it, other clones may \
                     have it; if it never was, {}",
                    self.first_time(cluster, repository)
                ),
            ),
            Self::Lost { seen: LastSeen { commit, by: by @ SeenBy::Clone { .. } }, .. } => (
                "clone-without-deploy-branch",
                format!("{location} is a clone without a branch {branch} of its own: it knows {by}, at {commit}"),
                used_repository(by),
            ),
            Self::Lost { seen: LastSeen { commit, by }, asked } => (
                "lost-deploy-branch",
                format!("branch {branch} is gone from {location}; it was last seen at {commit}, by {by}"),
                if *asked {
                    push(repository, commit, branch)
                } else {
                    let push = push(repository, commit, branch);
                    format!("{push}, unless Flux has applied a later commit: `stepgate why {cluster}` asks it")
                },
            ),
            Self::Rewritten(LastSeen { commit, by }) => (
                "lost-record",
                format!(
                    "the cluster is at commit {commit}, by {by}, and branch {branch} of {location} does not hold its record"
                ),
                format!(
                    "put it back in a clone that has that commit: `git checkout {branch}`, `git checkout {commit} -- {0}/{cluster} \
                     {1}/{cluster}`, commit and push",
                    in_layout(layout, "clusters"),
                    in_layout(layout, "flux")
                ),
            ),
            Self::Elsewhere { folder } => (
                "record-elsewhere",
                format!(
                    "the record of {cluster} lies in {folder} of branch {branch}, and deploy.path of stepgate.yaml names another folder"
                ),
                format!(
                    "name {folder} under deploy.path again, or move the folders clusters and flux there by `git mv` on {branch}"
                ),
            ),
            Self::Behind(LastSeen { commit, by }) => (
                "clone-behind",
                format!(
                    "branch {branch} of {location} is behind {by}, at {commit}, which holds the record of {cluster}"
                ),
                used_repository(by),
            ),
            Self::Removed { by, author } => (
                "removed-ledger",
                format!("commit {by} by {author} took the ledger of {cluster} away from branch {branch}"),
                format!("revert it there: `git revert {by}` on {branch}, and push"),
            ),
        };
        Block { code: code.to_owned(), stage: None, message, help }
    }
}

/// The repository that a clone is of is the one to name.
pub fn used_repository(by: &SeenBy) -> String {
    let url = match by {
        SeenBy::Clone { url: Some(url), .. } => quoted(url),
        _ => "URL".to_owned(),
    };
    format!("`--repo {url}` (or STEPGATE_REPO) names the repository that Stepgate and Flux use")
}

/// A clone may have been made without the branch.
fn of_clone(repository: &Repository) -> String {
    match (repository.location(), repository.remotes().into_iter().find_map(|(_, url)| url)) {
        (RepositoryLocation::Local(_), Some(url)) => {
            format!("with `--repo {}`, of which this is a clone, ", quoted(&url))
        }
        _ => String::new(),
    }
}

/// A folder of the deploy tree as it lies on the branch.
fn in_layout(layout: &DeployLayout, folder: &str) -> String {
    layout.prefix.as_ref().map_or_else(|| folder.to_owned(), |prefix| format!("{prefix}/{folder}"))
}

/// The push that brings the branch back, from where the commit is, as far as that is known.
fn push(repository: &Repository, commit: &CommitId, branch: &BranchName) -> String {
    let to = match repository.location() {
        RepositoryLocation::Local(path) => quoted(&absolute(path)),
        RepositoryLocation::Remote(url) => quoted(&url.to_string()),
    };
    let (from, place) = if repository.holds(commit) {
        (format!("-C {} ", quoted(&absolute(repository.folder()))), "")
    } else {
        (String::new(), "in a clone that has that commit, ")
    };
    format!("{place}`git {from}push {to} {commit}:{}` brings it back", branch.reference())
}

/// As it can be named from any folder.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// As a shell takes it for one word.
fn quoted(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/:.@_-+~=".contains(character);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_word_of_a_command() {
        for (text, word) in [
            ("/srv/fleet.git", "/srv/fleet.git"),
            ("ssh://git@host:22/fleet.git", "ssh://git@host:22/fleet.git"),
            ("/srv/our fleet.git", "'/srv/our fleet.git'"),
            ("/srv/it's", r"'/srv/it'\''s'"),
            ("/srv/$(x)", "'/srv/$(x)'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(text), word);
        }
    }
}
