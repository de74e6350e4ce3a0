//! A fleet repository as its people have it: a bare one that everybody pushes to, and a clone of theirs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// Name of the bare repository in its folder.
const BARE: &str = "fleet.git";

/// The branch that people write.
const SOURCE: &str = "main";

/// The branch that Stepgate writes.
pub const DEPLOY: &str = "deploy";

/// What names of branches that are proposed begin with.
const PROPOSED: &str = "refs/heads/stepgate/";

/// Of each commit the stages that it names, on a line of its own: one for each cluster.
const STAGE: &str = "--format=%(trailers:key=Stepgate-Stage,valueonly,separator=%x20)";

/// Of each commit the rollouts that it names, and then the stages.
const ROLLOUT_AND_STAGE: &str = "--format=%(trailers:key=Stepgate-Rollout,valueonly,separator=%x20) \
    %(trailers:key=Stepgate-Stage,valueonly,separator=%x20)";

/// A bare repository and a person's clone of it.
#[derive(Clone)]
pub struct FleetRepository {
    folder: PathBuf,
    bare: PathBuf,
}

impl FleetRepository {
    /// Makes both below `folder`.
    ///
    /// # Errors
    /// When git does not succeed.
    pub fn create(folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        git(folder, &["init", "--quiet", "--bare", "--initial-branch", SOURCE, BARE])?;
        Self::cloned(folder, &folder.join(BARE), BARE)
    }

    /// The bare repository of a forge, and below `folder` a person's clone from the forge's `url`.
    ///
    /// # Errors
    /// When git does not succeed.
    pub fn cloned(folder: &Path, bare: &Path, url: &str) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        git(folder, &["clone", "--quiet", url, "person"])?;
        Ok(Self { folder: folder.to_owned(), bare: bare.to_owned() })
    }

    /// The folder that the bare repository lies in, and its name there.
    #[must_use]
    pub fn served(&self) -> (&Path, &'static str) {
        (&self.folder, BARE)
    }

    /// The bare repository.
    #[must_use]
    pub fn bare(&self) -> PathBuf {
        self.bare.clone()
    }

    /// A person commits these files to the source branch and pushes; the commit's id.
    ///
    /// # Errors
    /// When git does not succeed.
    pub fn push(&self, message: &str, files: &[(&str, &str)]) -> anyhow::Result<String> {
        let clone = self.folder.join("person");
        for (path, text) in files {
            let path = clone.join(path);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        commit(&clone, message)?;
        git(&clone, &["push", "--quiet", "origin", &format!("HEAD:{SOURCE}")])?;
        Ok(git(&clone, &["rev-parse", "HEAD"])?.trim().to_owned())
    }

    /// A person writes a file of the deploy branch, which only Stepgate should, or takes it away.
    ///
    /// # Errors
    /// When git does not succeed.
    pub fn tamper(&self, message: &str, path: &str, text: Option<&str>) -> anyhow::Result<()> {
        let work = tempfile::tempdir_in(&self.folder)?;
        // From where people have it: a forge wants to be told of what is pushed.
        let origin = git(&self.folder.join("person"), &["remote", "get-url", "origin"])?;
        let clone = work.path().display().to_string();
        git(&self.folder, &["clone", "--quiet", "--branch", DEPLOY, origin.trim(), &clone])?;
        let file = work.path().join(path);
        match text {
            Some(text) => std::fs::write(&file, text),
            None => std::fs::remove_file(&file),
        }
        .with_context(|| file.display().to_string())?;
        commit(work.path(), message)?;
        git(work.path(), &["push", "--quiet", "origin", DEPLOY]).map(drop)
    }

    /// The stages of the deploy branch's commits, oldest first; those of others are left out.
    ///
    /// # Errors
    /// When git does not succeed.
    pub fn stages(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.history()?.into_iter().flatten().collect())
    }

    /// The stage of each commit of the deploy branch, oldest first, for each cluster that it names; none of what others committed.
    ///
    /// # Errors
    /// When git does not succeed.
    pub fn history(&self) -> anyhow::Result<Vec<Option<String>>> {
        let text = git(&self.bare(), &["log", "--reverse", STAGE, DEPLOY])?;
        let stages = |line: &str| -> Vec<Option<String>> {
            if line.is_empty() { vec![None] } else { line.split(' ').map(|stage| Some(stage.to_owned())).collect() }
        };
        Ok(text.lines().flat_map(stages).collect())
    }

    /// The rollout and the stage of each commit of Stepgate on the deploy branch, oldest first, for each cluster that it names.
    ///
    /// # Errors
    /// When git does not succeed.
    pub fn rollouts(&self) -> anyhow::Result<Vec<(String, String)>> {
        let text = git(&self.bare(), &["log", "--reverse", ROLLOUT_AND_STAGE, DEPLOY])?;
        let named = |line: &str| -> Vec<(String, String)> {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (rollouts, stages) = words.split_at(words.len() / 2);
            rollouts.iter().zip(stages).map(|(rollout, stage)| ((*rollout).to_owned(), (*stage).to_owned())).collect()
        };
        Ok(text.lines().flat_map(named).collect())
    }

    /// The stage that a commit says it is of; none where somebody else made it.
    ///
    /// # Errors
    /// When there is no such commit.
    pub fn stage_of(&self, commit: &str) -> anyhow::Result<Option<String>> {
        let text = git(&self.bare(), &["log", "--max-count=1", STAGE, commit, "--"])?;
        Ok(Some(text.trim()).filter(|stage| !stage.is_empty()).map(str::to_owned))
    }

    /// The branches that Stepgate proposes stages on.
    ///
    /// # Errors
    /// When git does not succeed.
    pub fn proposed(&self) -> anyhow::Result<Vec<String>> {
        let text = git(&self.bare(), &["for-each-ref", "--format=%(refname:short)", PROPOSED])?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// A file of the deploy branch.
    ///
    /// # Errors
    /// When it is not there.
    pub fn deployed(&self, path: &str) -> anyhow::Result<String> {
        git(&self.bare(), &["show", &format!("{DEPLOY}:{path}")])
    }

    /// The files of the deploy branch below a folder.
    ///
    /// # Errors
    /// When git does not succeed.
    pub fn deployed_files(&self, folder: &str) -> anyhow::Result<Vec<String>> {
        let text = git(&self.bare(), &["ls-tree", "-r", "--name-only", DEPLOY, &format!("{folder}/")])?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// The commit that the deploy branch holds.
    ///
    /// # Errors
    /// When there is no such branch.
    pub fn head(&self) -> anyhow::Result<String> {
        Ok(git(&self.bare(), &["rev-parse", DEPLOY])?.trim().to_owned())
    }
}

/// A person commits everything in a clone.
fn commit(clone: &Path, message: &str) -> anyhow::Result<()> {
    git(clone, &["add", "--all"])?;
    let person = ["-c", "user.name=Person", "-c", "user.email=person@example.com"];
    git(clone, &[&person[..], &["commit", "--quiet", "--message", message]].concat()).map(drop)
}

fn git(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().context("could not run git")?;
    if !output.status.success() {
        bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
