//! A folder of logs and state that outlives a failure.

use std::path::Path;

use tempfile::TempDir;

/// A temporary folder that is kept, and named on standard output, unless the test says that it is done.
pub struct Folder {
    folder: TempDir,
    done: bool,
}

impl Folder {
    /// An empty folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> anyhow::Result<Self> {
        let mut folder = TempDir::new()?;
        folder.disable_cleanup(true);
        Ok(Self { folder, done: false })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes it: everything went well.
    pub fn done(mut self) {
        self.folder.disable_cleanup(false);
        self.done = true;
    }
}

impl Drop for Folder {
    #[expect(clippy::print_stdout, reason = "told to whoever reads the output of a failed test")]
    fn drop(&mut self) {
        if !self.done {
            println!("logs and state are in {}", self.folder.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_test_leaves_is_kept_and_what_a_good_one_leaves_is_not() {
        let (failed, good) = (Folder::new().unwrap(), Folder::new().unwrap());
        let paths = [&failed, &good].map(|folder| folder.path().to_owned());
        for path in &paths {
            std::fs::write(path.join("server.log"), "why").unwrap();
        }
        drop(failed);
        good.done();
        assert_eq!(paths.each_ref().map(|path| path.exists()), [true, false]);
        std::fs::remove_dir_all(&paths[0]).unwrap();
    }
}
