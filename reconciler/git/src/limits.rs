//! What may be read of a repository, and what the `git` program may take.

use std::fmt;
use std::str::FromStr;

/// Something of a repository, or of the `git` program, that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Files, links, submodules and folders of one cluster.
    Entries,
    /// Bytes of the paths of one cluster.
    PathBytes,
    /// Bytes of what the symbolic links of one cluster point to.
    LinkBytes,
    /// Bytes of one file.
    FileBytes,
    /// Bytes of all files of one cluster.
    ObjectBytes,
    /// Bytes of the bases and deltas that are inflated to make the objects of one cluster.
    DeltaBytes,
    /// Bytes of one such base or delta.
    BaseBytes,
    /// Bytes of the names in one folder.
    FolderBytes,
    /// Folders nested in each other.
    Depth,
    /// YAML nodes of what is kept of the specifications of one cluster.
    Nodes,
    /// Branches that propose something.
    Branches,
    /// Commits in one look at a history.
    Commits,
    /// Bytes of all commits that one look at a history reads.
    HistoryBytes,
    /// Bytes of memory that the `git` program may allocate.
    GitMemory,
    /// Bytes of one file that the `git` program may write.
    GitFileBytes,
}

impl Limit {
    const ALL: [Self; 15] = [
        Self::Entries,
        Self::PathBytes,
        Self::LinkBytes,
        Self::FileBytes,
        Self::ObjectBytes,
        Self::DeltaBytes,
        Self::BaseBytes,
        Self::FolderBytes,
        Self::Depth,
        Self::Nodes,
        Self::Branches,
        Self::Commits,
        Self::HistoryBytes,
        Self::GitMemory,
        Self::GitFileBytes,
    ];

    /// Its name in `--repo-limit NAME=NUMBER`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entries => "entries",
            Self::PathBytes => "path-bytes",
            Self::LinkBytes => "link-bytes",
            Self::FileBytes => "file-bytes",
            Self::ObjectBytes => "object-bytes",
            Self::DeltaBytes => "delta-bytes",
            Self::BaseBytes => "base-bytes",
            Self::FolderBytes => "folder-bytes",
            Self::Depth => "depth",
            Self::Nodes => "nodes",
            Self::Branches => "branches",
            Self::Commits => "commits",
            Self::HistoryBytes => "history-bytes",
            Self::GitMemory => "git-memory",
            Self::GitFileBytes => "git-file-bytes",
        }
    }

    /// What is counted, behind a number.
    pub(super) fn counted(self) -> &'static str {
        match self {
            Self::Entries => "files and folders",
            Self::PathBytes => "bytes of paths",
            Self::LinkBytes => "bytes of link targets",
            Self::FileBytes | Self::GitFileBytes => "bytes in one file",
            Self::ObjectBytes => "bytes of files",
            Self::DeltaBytes => "bytes of bases and deltas to inflate",
            Self::BaseBytes => "bytes in the base of a delta",
            Self::FolderBytes => "bytes of names and ids in one folder",
            Self::Depth => "folders nested in each other",
            Self::Nodes => "YAML nodes",
            Self::Branches => "branches",
            Self::Commits => "commits",
            Self::HistoryBytes => "bytes of commits to read",
            Self::GitMemory => "bytes of memory",
        }
    }

    /// What raises it.
    pub(super) fn hint(self) -> String {
        format!(
            "where that is as it should be, give every Stepgate that reads it --repo-limit {}=NUMBER (STEPGATE_REPO_LIMITS)",
            self.name()
        )
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The limits. Whoever runs the program sets them, never the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits([u64; Limit::ALL.len()]);

impl Default for Limits {
    /// Many times what clusters have: a management cluster's folder on the deploy branch has some 60 files of 10 MB.
    fn default() -> Self {
        Self([
            20_000,
            4 << 20,
            256 << 10,
            32 << 20,
            32 << 20,
            1 << 30,
            64 << 20,
            4 << 20,
            256,
            250_000,
            500,
            100_000,
            256 << 20,
            384 << 20,
            4 << 30,
        ])
    }
}

impl Limits {
    /// How much there may be of this.
    pub fn get(&self, limit: Limit) -> u64 {
        self.0.get(limit as usize).copied().unwrap_or_default()
    }

    /// The same with another number for one of them.
    #[must_use]
    pub fn with(mut self, limit: Limit, number: u64) -> Self {
        if let Some(slot) = self.0.get_mut(limit as usize) {
            *slot = number;
        }
        self
    }
}

/// One limit that is set: `NAME=NUMBER`. Bytes may end in `Ki`, `Mi` or `Gi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSetting {
    /// Which.
    pub limit: Limit,
    /// How much.
    pub number: u64,
}

/// Why a text sets no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no NAME=NUMBER; names are {names}; a number may end in Ki, Mi or Gi")]
pub struct LimitError {
    text: String,
    names: String,
}

impl FromStr for LimitSetting {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let read = || {
            let (name, number) = text.split_once('=')?;
            let limit = Limit::ALL.into_iter().find(|limit| limit.name() == name)?;
            let units = [("Ki", 10_u32), ("Mi", 20), ("Gi", 30)];
            let (digits, shift) = units
                .iter()
                .find_map(|(unit, shift)| Some((number.strip_suffix(unit)?, *shift)))
                .unwrap_or((number, 0));
            let number = digits.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|number| *number > 0)?;
            Some(Self { limit, number })
        };
        read().ok_or_else(|| LimitError { text: text.to_owned(), names: Limit::ALL.map(Limit::name).join(", ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_set_by_name() {
        let set = |text: &str| text.parse::<LimitSetting>().map(|set| (set.limit, set.number));
        assert_eq!(set("entries=5"), Ok((Limit::Entries, 5)));
        assert_eq!(set("git-memory=2Gi"), Ok((Limit::GitMemory, 2 << 30)));
        for text in ["", "entries", "entries=", "entries=0", "entries=-1", "other=1", "depth=1k", "depth=99999999999Gi"]
        {
            let error = set(text).unwrap_err();
            assert!(error.to_string().contains("object-bytes"), "{error}");
        }
        for limit in Limit::ALL {
            assert_eq!(Limits::default().with(limit, 7).get(limit), 7);
            assert!(Limits::default().get(limit) > 0 && limit.hint().contains(limit.name()));
        }
    }
}
