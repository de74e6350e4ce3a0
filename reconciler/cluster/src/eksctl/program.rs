//! A program itself: which one it is, and what it is asked.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ring::digest::{Context, SHA256};
use tokio::process::Command;

use super::output::last_lines;

/// How long one question may take.
const QUESTION: Duration = Duration::from_secs(60);

/// More than any answer; what prints more is broken.
const MOST: usize = 16 << 20;

/// The variables of this process that a program sees: the operator's credentials, the way to AWS, and nothing else.
const PASSED: [&str; 10] = [
    "HOME",
    "PATH",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "no_proxy",
];

/// Why a program was not started, or gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum EksctlError {
    /// It cannot be read or started.
    #[error("{program}: {source}")]
    Program {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is another program than the one that the operator named.
    #[error("{program} has digest {found}, and {wanted} was named: it is not started")]
    OtherDigest {
        /// The program.
        program: PathBuf,
        /// Its digest.
        found: String,
        /// The digest that was named.
        wanted: String,
    },
    /// It is another version than the one that the operator named.
    #[error("{program} says that it is version {found:?}, and {wanted} was named: it is not started")]
    OtherVersion {
        /// The program.
        program: PathBuf,
        /// What it says.
        found: String,
        /// The version that was named.
        wanted: String,
    },
    /// It ended with an error, or too late.
    #[error("`{command}` {message}")]
    Failed {
        /// The command.
        command: String,
        /// How it ended.
        message: String,
    },
    /// What is noted down of runs cannot be read or written.
    #[error("{path}: {source}")]
    Record {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl EksctlError {
    /// What helps; none where it may pass by itself.
    #[must_use]
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::Program { .. } => Some("name a program that can be started: --eksctl FILE, --aws FILE"),
            Self::OtherDigest { .. } => {
                Some("put the named program back, or name another one: --eksctl-digest, --aws-digest")
            }
            Self::OtherVersion { .. } => Some("name its version: --eksctl-version, --aws-version"),
            Self::Failed { .. } => None,
            Self::Record { .. } => Some("make the folder of --eksctl-state writable, or mend the file"),
        }
    }
}

/// What tells that a file is the same as when it was looked at.
type Stamp = (u64, u64, i64, i64, u64);

/// What a pinned program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// eksctl.
    Eksctl,
    /// The command line of AWS.
    Aws,
}

impl ProgramKind {
    fn word(self) -> &'static str {
        match self {
            Self::Eksctl => "eksctl",
            Self::Aws => "aws",
        }
    }

    /// How it is asked for its version, and where that stands in what it prints.
    fn asked_version(self) -> &'static str {
        match self {
            Self::Eksctl => "version",
            Self::Aws => "--version",
        }
    }

    fn version_in(self, said: &str) -> &str {
        match self {
            Self::Eksctl => said.trim(),
            // As `aws-cli/2.15.30 Python/3.11.8 Linux/6.1`.
            Self::Aws => {
                let first = said.split_whitespace().next().unwrap_or_default();
                first.strip_prefix("aws-cli/").unwrap_or(first)
            }
        }
    }
}

/// A program that is pinned by digest and version.
#[derive(Debug)]
pub struct PinnedProgram {
    kind: ProgramKind,
    path: PathBuf,
    digest: String,
    version: String,
    verified: Mutex<Option<Stamp>>,
}

impl PinnedProgram {
    /// The program at a path, with its digest (`sha256:…`) and version.
    #[must_use]
    pub fn new(kind: ProgramKind, path: PathBuf, digest: impl Into<String>, version: impl Into<String>) -> Self {
        Self { kind, path, digest: digest.into(), version: version.into(), verified: Mutex::default() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The version that the operator named.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Refuses another program than the one that was named.
    pub(super) async fn verify(&self) -> Result<(), EksctlError> {
        let error = |source| EksctlError::Program { program: self.path.clone(), source };
        let metadata = tokio::fs::metadata(&self.path).await.map_err(error)?;
        let stamp = (metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec(), metadata.dev());
        if *self.verified.lock().unwrap_or_else(PoisonError::into_inner) == Some(stamp) {
            return Ok(());
        }
        let path = self.path.clone();
        let hashed = tokio::task::spawn_blocking(move || digest_of(&path));
        let found = hashed.await.map_err(|broken| error(io::Error::other(broken)))?.map_err(error)?;
        if found != self.digest {
            let (program, wanted) = (self.path.clone(), self.digest.clone());
            return Err(EksctlError::OtherDigest { program, found, wanted });
        }
        let said = self.answer(&[self.kind.asked_version()]).await?;
        let said = self.kind.version_in(&String::from_utf8_lossy(&said)).to_owned();
        if said != self.version {
            let (program, wanted) = (self.path.clone(), self.version.clone());
            return Err(EksctlError::OtherVersion { program, found: said, wanted });
        }
        *self.verified.lock().unwrap_or_else(PoisonError::into_inner) = Some(stamp);
        Ok(())
    }

    /// What it prints when it is asked something.
    pub(super) async fn answer(&self, arguments: &[&str]) -> Result<Vec<u8>, EksctlError> {
        let failed = |message: String| EksctlError::Failed { command: shown(self.kind, arguments), message };
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(QUESTION, command.output()).await;
        let output = output.map_err(|_| failed(format!("did not answer within {} s", QUESTION.as_secs())))?;
        let output = output.map_err(|source| EksctlError::Program { program: self.path.clone(), source })?;
        if !output.status.success() {
            let lines = last_lines(&output.stderr);
            let from = lines.len().saturating_sub(3);
            let said = lines.get(from..).unwrap_or_default().join(" / ");
            return Err(failed(format!("ended with {}: {said}", output.status)));
        }
        if output.stdout.len() > MOST {
            return Err(failed(format!("printed more than {MOST} bytes")));
        }
        Ok(output.stdout)
    }

    /// It, with what it may know of this process.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        let is_passed =
            |name: &OsString| name.to_str().is_some_and(|name| PASSED.contains(&name) || name.starts_with("AWS_"));
        command.env_clear().envs(std::env::vars_os().filter(|(name, _)| is_passed(name)));
        // Keys on the terminal are for Stepgate alone.
        command.process_group(0);
        command
    }
}

/// `sha256:` and the digest of a file.
pub(super) fn digest_of(path: &Path) -> io::Result<String> {
    let (mut file, mut context) = (std::fs::File::open(path)?, Context::new(&SHA256));
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => context.update(buffer.get(..read).unwrap_or_default()),
        }
    }
    let digest = context.finish();
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{hex}"))
}

/// A command as somebody would type it.
pub(super) fn shown<T: AsRef<str>>(kind: ProgramKind, arguments: &[T]) -> String {
    let words: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    format!("{} {}", kind.word(), words.join(" "))
}
