//! A real registry on loopback, with TLS; `tests/servers/registry` is its program.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use super::programs::Programs;

/// A running registry over a folder; it ends when dropped.
pub struct Registry {
    process: Child,
    address: String,
    authority: PathBuf,
}

impl Registry {
    /// Starts one that asks nobody who he is.
    ///
    /// # Errors
    /// When it cannot be started, or does not say where it listens.
    pub fn start(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(programs.path("registry"));
        command.arg(folder).arg("open").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().context("could not start the registry")?;
        let mut address = String::new();
        BufReader::new(process.stdout.take().context("its output")?).read_line(&mut address)?;
        Ok(Self { process, address: address.trim().to_owned(), authority: folder.join("ca.pem") })
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The file with the authority of its certificate.
    #[must_use]
    pub fn authority(&self) -> &Path {
        &self.authority
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
