//! How much memory this process is to take, and what of that goes to what it remembers.
//!
//! Architecture Invariant: whatever is remembered between passes has its part of one limit, and all parts are listed here. What is remembered can be
//! had again: too small a limit costs time only.
//!
//! Everything remembered is named by its content (a git id, a digest), so nothing is out of date
//! and losing it costs time only. All of it takes a third of one limit (`--memory-limit`, else what
//! the control group allows); a plan for which there is no room is made anew in each pass. `helm`
//! may allocate half of the limit, and at most 512 MiB. What is remembered, by what, and where:
//!
//! - trees, commits, costs, small files, what folders come to, which names differ between two
//!   trees: by object ids (git/object.rs)
//! - what a file of the source branch says: by path and blob id (overlays: fleet/scan.rs)
//! - a source commit as a fleet, and what each cluster's plan follows from: by commit id; the last three
//!   whatever they take, since each cluster asks for one of them (controller/inputs.rs)
//! - a cluster's view, or that it is done: by digest of its inputs, ids of its folders on the
//!   deploy branch (controller/views.rs)
//! - which clusters commits of the deploy branch changed, back to its last merge or as far as anybody
//!   asked, once for all clusters: by its head (git/changes.rs)
//! - the history of a cluster's folder: by the head it was read at, as far back as it was asked for
//!   (controller/deploy.rs)
//! - the deploy branch back to its last merge, once for all clusters: by its head; newer commits
//!   are added (git/chain.rs)
//! - that a cluster waits, where nobody is asked anything: by both heads, where the other clusters
//!   stand, until something is told of it or its time has come (controller/resting.rs)
//! - the last pass, when every cluster was done: by both heads (controller/mod.rs)
//! - what a definition in a cluster says: by its uid and `resourceVersion`, which each reading asks
//!   for (cluster: kubernetes/known.rs)
//! - how a server's kinds are addressed, and which have too many objects to list (this alone may be
//!   out of date: then nothing is found, and gates wait): for ten minutes (cluster:
//!   kubernetes/known.rs)
//!
//! `tests/tests/controller/remembering.rs` compares with a planner that remembers nothing.

mod weight;

pub use weight::bytes_of;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

/// The limit where neither anybody nor the system sets one, in bytes.
const USUAL: u64 = 768 << 20;

/// Less is not believed: the program itself takes as much, in bytes.
const LEAST: u64 = 64 << 20;

/// The share of the limit that is for what is remembered. The rest is for what is being worked on.
const REMEMBERED: u64 = 3;

/// How much memory the process is to stay below.
static LIMIT: OnceLock<u64> = OnceLock::new();

/// Something that is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Trees of the repository.
    Trees,
    /// Commits of the repository.
    Commits,
    /// Small files of the repository.
    Blobs,
    /// What reading objects of the repository costs.
    Costs,
    /// Which names differ between two trees.
    Differences,
    /// What files of the source branch say.
    Files,
    /// Source commits as fleets.
    Sources,
    /// What is deployed, by folder.
    Deployed,
    /// Histories of clusters' folders.
    Histories,
    /// The newest commits of the deploy branch.
    Chain,
    /// Which clusters the newest commits of the deploy branch changed.
    Changes,
    /// What earlier policies say, and where ledgers say that clusters are.
    Policies,
    /// Plans of clusters with what they were made from.
    Views,
    /// What was read of clusters last, and how long their gates have held.
    Readings,
    /// What watches of API servers have told, what these serve and what their definitions say.
    Servers,
    /// Manifests that were fetched.
    Manifests,
    /// Charts that were rendered.
    Charts,
    /// Answers of forges.
    Answers,
}

impl Part {
    /// Its part, in thousandths of what is remembered.
    const fn share(self) -> u64 {
        match self {
            Self::Trees | Self::Blobs | Self::Manifests => 70,
            Self::Files => 160,
            Self::Sources => 95,
            Self::Views => 190,
            Self::Readings => 70,
            Self::Chain | Self::Histories | Self::Policies | Self::Servers => 30,
            Self::Costs => 40,
            Self::Commits | Self::Deployed | Self::Charts => 25,
            Self::Changes => 20,
            Self::Differences | Self::Answers => 10,
        }
    }

    /// How many bytes it may take of what this process remembers.
    pub fn bytes(self) -> usize {
        self.bytes_of(limit())
    }

    fn bytes_of(self, limit: u64) -> usize {
        let bytes = (limit / REMEMBERED / 1000).saturating_mul(self.share());
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// What is taken of a part by things that go one by one, and not the oldest first.
#[derive(Debug)]
pub struct Account {
    most: usize,
    taken: AtomicUsize,
}

/// What is remembered of all API servers together.
pub static SERVERS: LazyLock<Arc<Account>> = LazyLock::new(|| Account::new(Part::Servers));

/// Bytes of an account, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Account {
    /// Nothing is taken of a part yet.
    pub fn new(part: Part) -> Arc<Self> {
        Self::of(part.bytes())
    }

    /// An account of so many bytes.
    pub fn of(bytes: usize) -> Arc<Self> {
        Arc::new(Self { most: bytes, taken: AtomicUsize::new(0) })
    }

    /// How many bytes are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes so many bytes, whether there are as many left or not: of what cannot be had again. What can be had again has as much less.
    pub fn claim(self: &Arc<Self>, bytes: usize) -> Charge {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        Charge { account: Arc::clone(self), bytes }
    }

    /// Takes so many bytes, where there are as many left.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let more = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Charge { account: Arc::clone(self), bytes })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An amount of memory in bytes, as Kubernetes writes it: `192Mi`, `1Gi`, `500M` or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount(pub u64);

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let units = [
            ("Ki", 1 << 10),
            ("Mi", 1 << 20),
            ("Gi", 1 << 30),
            ("k", 1000),
            ("M", 1_000_000),
            ("G", 1_000_000_000),
            ("", 1),
        ];
        let amount = units
            .into_iter()
            .find_map(|(unit, factor): (&str, u64)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(factor));
        match amount {
            Some(bytes) if bytes >= LEAST => Ok(Self(bytes)),
            Some(_) => Err(format!("at least {}Mi are needed", LEAST >> 20)),
            None => Err("expected an amount such as 192Mi, 1Gi or 500M".to_owned()),
        }
    }
}

/// Sets the limit of this process. It counts for what is made afterwards; the first word stays.
pub fn set(limit: Amount) {
    let _ = LIMIT.set(limit.0);
}

/// How much memory the process is to stay below, in bytes: what was set, or what its cgroup allows.
pub fn limit() -> u64 {
    *LIMIT.get_or_init(|| {
        let root = Path::new("/sys/fs/cgroup");
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        allowed(root, &own).unwrap_or(USUAL).clamp(LEAST, 1 << 40)
    })
}

/// What the control groups that `own` (`/proc/self/cgroup`) names allow at most, below `root`; none where none of them limits anything. Those
/// above count too, and in a container the own group is the root.
fn allowed(root: &Path, own: &str) -> Option<u64> {
    let groups = own.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let is_memory = controllers.split(',').any(|controller| controller == "memory");
        match controllers {
            "" => Some((root.to_owned(), "memory.max", path)),
            _ if is_memory => Some((root.join("memory"), "memory.limit_in_bytes", path)),
            _ => None,
        }
    });
    let limits = groups.flat_map(|(root, file, path)| {
        let own = root.join(path.trim_start_matches('/'));
        let folders: Vec<PathBuf> =
            own.ancestors().take_while(|folder| folder.starts_with(&root)).map(Path::to_owned).collect();
        folders.into_iter().filter_map(move |folder| crate::disk::read_text(&folder.join(file), 64).ok())
    });
    // Without a limit there is the word `max`, or a number that no machine has.
    limits.filter_map(|text| text.trim().parse::<u64>().ok()).filter(|limit| *limit < 1 << 50).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [Part; 18] = [
        Part::Trees,
        Part::Commits,
        Part::Blobs,
        Part::Costs,
        Part::Differences,
        Part::Files,
        Part::Sources,
        Part::Deployed,
        Part::Histories,
        Part::Chain,
        Part::Changes,
        Part::Policies,
        Part::Views,
        Part::Readings,
        Part::Servers,
        Part::Manifests,
        Part::Charts,
        Part::Answers,
    ];

    #[test]
    fn all_parts_together_are_what_is_remembered() {
        assert_eq!(PARTS.map(Part::share).iter().sum::<u64>(), 1000);
        let all: usize = PARTS.iter().map(|part| part.bytes_of(192 << 20)).sum();
        assert!(all <= 64 << 20, "{all}");
    }

    #[test]
    fn the_lowest_limit_of_the_control_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("kubepods/pod/memory.max", "536870912\n");
        write("kubepods/pod/container/memory.max", "max\n");
        write("memory/old/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/memory.limit_in_bytes", "1073741824\n");
        for (own, expected) in [
            ("0::/kubepods/pod/container\n", Some(512 << 20)),
            ("0::/kubepods\n", None),
            ("9:name=systemd:/\n4:cpu,memory:/old\n", Some(1 << 30)),
            ("4:cpu:/kubepods/pod\n", None),
            ("", None),
        ] {
            assert_eq!(allowed(root.path(), own), expected, "{own:?}");
        }
        // In a container the own group is all that is seen.
        write("memory.max", "201326592");
        assert_eq!(allowed(root.path(), "0::/"), Some(192 << 20));
    }

    #[test]
    fn an_account_gives_no_more_than_it_has_and_takes_back_what_is_dropped() {
        let account = Account::of(10);
        let first = account.take(6).unwrap();
        assert!(account.take(5).is_none() && account.take(usize::MAX).is_none());
        let second = account.take(4).unwrap();
        drop(first);
        assert!(account.take(6).is_some() && account.take(7).is_none());
        drop(second);
        assert!(account.take(10).is_some());
        let claimed = account.claim(11);
        assert!(account.take(0).is_none());
        drop(claimed);
        assert!(account.take(10).is_some());
    }

    #[test]
    fn amounts_are_written_as_kubernetes_writes_them() {
        for (text, expected) in
            [("192Mi", 192 << 20), ("1Gi", 1 << 30), ("500M", 500_000_000), ("134217728", 128 << 20)]
        {
            assert_eq!(text.parse::<Amount>().unwrap().0, expected, "{text}");
        }
        for text in ["", "1Mi", "Mi", "-1Gi", "12 Gi", "99999999999Gi", "many"] {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
    }
}
