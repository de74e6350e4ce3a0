//! Where the programs are that `tests/servers/build` makes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// The folder of the programs.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// The folder that `STEPGATE_SERVERS` names, or `target/servers` of this repository, with all the programs that a test needs.
    ///
    /// # Errors
    /// When one is missing; the message names it.
    pub fn find(needed: &[&str]) -> anyhow::Result<Self> {
        let folder =
            std::env::var_os("STEPGATE_SERVERS").map_or_else(|| repository().join("target/servers"), PathBuf::from);
        let programs = Self { folder };
        for name in needed {
            if !programs.path(name).is_file() {
                bail!("{name} is not in {} (tests/servers/build makes it)", programs.folder.display());
            }
        }
        Ok(programs)
    }

    /// The same; the test is skipped when one is missing, and fails on CI.
    #[must_use]
    pub fn find_or_skip(needed: &[&str]) -> Option<Self> {
        Self::find(needed).map_err(skip::missing).ok()
    }

    /// The path of a program.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The folder of the Go module that `tests/servers/<server>` builds its programs from: definitions and manifests lie there.
    ///
    /// # Errors
    /// When Go does not know the module.
    pub fn module(&self, server: &str, module: &str) -> anyhow::Result<PathBuf> {
        let folder = repository().join("tests/servers").join(server);
        let output = Command::new("go")
            .args(["list", "-mod=mod", "-m", "-f", "{{.Dir}}", module])
            .env("GOFLAGS", "-mod=mod")
            .current_dir(&folder)
            .output()
            .with_context(|| format!("could not run go in {}", folder.display()))?;
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        if !output.status.success() || !path.is_dir() {
            bail!(
                "could not find module {module} of {}: {}",
                folder.display(),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(path)
    }
}

/// The top of this repository.
pub(super) fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}
