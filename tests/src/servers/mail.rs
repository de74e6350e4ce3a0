//! A real mail server on loopback, with TLS and a login; `tests/servers/smtp` is its program.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use super::programs::Programs;

/// A running mail server over a folder of what came; it ends when dropped.
pub struct MailServer {
    process: Child,
    address: String,
    folder: PathBuf,
}

impl MailServer {
    /// What has to be built for it.
    pub const NEEDED: &'static str = "smtp";
    /// Whom it takes mail from.
    pub const LOGIN: (&'static str, &'static str) = ("reader", "open sesame");

    /// Starts one.
    ///
    /// # Errors
    /// When it cannot be started, or does not say where it listens.
    pub fn start(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(programs.path(Self::NEEDED));
        command.arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().context("could not start the mail server")?;
        let mut address = String::new();
        BufReader::new(process.stdout.take().context("its output")?).read_line(&mut address)?;
        Ok(Self { process, address: address.trim().to_owned(), folder: folder.to_owned() })
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The file with the authority of its certificate.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// The messages that came, oldest first.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn messages(&self) -> anyhow::Result<Vec<String>> {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(&self.folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        files.retain(|file| file.extension().is_some_and(|end| end == "eml"));
        files.sort();
        Ok(files.iter().map(std::fs::read_to_string).collect::<std::io::Result<_>>()?)
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
