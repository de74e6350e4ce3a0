//! The program, and fleet repositories to run it on.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use assert_cmd::Command;
use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Oid, Repository, Signature};
use serde_json::Value;
use tempfile::TempDir;

/// What one run of the program came to.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// Standard output as one JSON document.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.stdout, self.stderr))
    }

    /// Both streams, for messages that may be on either.
    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Runs the program without what the environment of the tests could tell it.
pub fn stepgate(arguments: &[&str]) -> Run {
    stepgate_with(arguments, &[])
}

/// The same with these variables.
pub fn stepgate_with(arguments: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate"));
    for name in ["STEPGATE_REPO", "STEPGATE_MIRROR", "STEPGATE_LOG_LEVEL", "STEPGATE_SOURCE_BRANCH", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.env("KUBECONFIG", "/nonexistent/kubeconfig");
    let output = command.args(arguments).envs(variables.iter().copied()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let run = Run { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) };
    assert!(!run.text().contains('\u{1b}'), "colour codes without a terminal: {arguments:?}\n{}", run.text());
    run
}

/// The files of a support bundle, by path, as `run` has the program write it.
pub fn support_bundle(run: impl Fn(&[&str]) -> Run) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("archive.tar.gz");
    let run = run(&["support-bundle", "--to", to.to_str().unwrap()]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.text());
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(File::open(to).unwrap()));
    let file = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        (path, std::io::read_to_string(&mut entry).unwrap())
    };
    archive.entries().unwrap().map(file).collect()
}

/// A demonstration that was run once for all tests: its folder and what it printed.
pub struct Demo {
    pub folder: PathBuf,
    pub run: Run,
}

/// The default demonstration, kept.
pub static DEMO: LazyLock<Demo> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("demo-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let run = stepgate(&["demo", "--dir", folder.to_str().unwrap(), "-o", "json"]);
    Demo { folder, run }
});

/// A copy of the demonstration's fleet repository and mirror.
pub struct Fleet {
    folder: TempDir,
    pub repository: Repository,
}

impl Fleet {
    /// The fleet after the demonstration: there is nothing to do.
    pub fn settled() -> Self {
        Self::settled_in(&std::env::temp_dir())
    }

    /// The same in a folder below `place`.
    pub fn settled_in(place: &Path) -> Self {
        let folder = tempfile::tempdir_in(place).unwrap();
        copy(&DEMO.folder, folder.path());
        Self::at(folder, "a settled fleet")
    }

    /// What is in a folder already; `what` says where it comes from.
    pub fn at(folder: TempDir, what: &str) -> Self {
        let repository = Repository::open_bare(folder.path().join("fleet.git"));
        let repository = repository.unwrap_or_else(|error| panic!("{what}: {error}"));
        Self { folder, repository }
    }

    /// The fleet as it was adopted, with the bump on the source branch and nothing of it committed.
    pub fn pending() -> Self {
        let fleet = Self::settled();
        let mut walk = fleet.repository.revwalk().unwrap();
        walk.push_ref("refs/heads/deploy").unwrap();
        let adopted = walk
            .map(Result::unwrap)
            .find(|id| {
                fleet
                    .repository
                    .find_commit(*id)
                    .unwrap()
                    .summary()
                    .unwrap()
                    .unwrap()
                    .ends_with("adopt as the source branch says")
            })
            .unwrap();
        fleet.repository.reference("refs/heads/deploy", adopted, true, "back to the adoption").unwrap();
        fleet
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The bare repository's folder.
    pub fn place(&self) -> String {
        self.folder().join("fleet.git").to_str().unwrap().to_owned()
    }

    /// Runs a verb on this fleet.
    pub fn run(&self, arguments: &[&str]) -> Run {
        let (place, mirror) = (self.place(), self.folder().join("mirror"));
        stepgate(&[arguments, &["--repo", &place, "--mirror", mirror.to_str().unwrap()]].concat())
    }

    /// Runs the demonstration on this folder once more.
    pub fn demo(&self) -> Run {
        stepgate(&["demo", "--dir", self.folder().to_str().unwrap(), "-o", "json"])
    }

    pub fn head(&self, branch: &str) -> Option<Oid> {
        self.repository.refname_to_id(&format!("refs/heads/{branch}")).ok()
    }

    /// The text of a file on a branch.
    pub fn text(&self, branch: &str, path: &str) -> String {
        let tree = self.repository.find_commit(self.head(branch).unwrap()).unwrap().tree().unwrap();
        let blob = self.repository.find_blob(tree.get_path(Path::new(path)).unwrap().id()).unwrap();
        String::from_utf8(blob.content().to_vec()).unwrap()
    }

    /// Commits one entry of any mode to a branch, as a person.
    pub fn entry(&self, branch: &str, path: &[u8], id: Oid, mode: FileMode) {
        let parent = self.repository.find_commit(self.head(branch).unwrap()).unwrap();
        let tree = TreeUpdateBuilder::new()
            .upsert(path.to_vec(), id, mode)
            .create_updated(&self.repository, &parent.tree().unwrap())
            .unwrap();
        let tree = self.repository.find_tree(tree).unwrap();
        let person = Signature::now("A Person", "person@example.com").unwrap();
        let reference = format!("refs/heads/{branch}");
        self.repository.commit(Some(&reference), &person, &person, "Change a file", &tree, &[&parent]).unwrap();
    }

    /// Commits one file to a branch, as a person.
    pub fn write(&self, branch: &str, path: &str, bytes: &[u8]) {
        let id = self.repository.blob(bytes).unwrap();
        self.entry(branch, path.as_bytes(), id, FileMode::Blob);
    }

    /// Replaces a text in a file of the source branch.
    pub fn replace(&self, path: &str, from: &str, to: &str) {
        let text = self.text("main", path);
        assert!(text.contains(from), "{path} has no {from:?}");
        self.write("main", path, text.replacen(from, to, 1).as_bytes());
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
