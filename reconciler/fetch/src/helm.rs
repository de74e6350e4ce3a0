//! The `helm` program.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use overlays::ChartRequest;
use rustix::process::Resource;

use host::child_limits::confine;
use host::memory;

/// The variable that names the program.
pub const HELM_VARIABLE: &str = "STEPGATE_HELM";

/// More than any chart prints; what prints more is broken or hostile.
const MAXIMUM_OUTPUT: u64 = 64 << 20;

/// What one render may allocate at most, in bytes.
const MOST_MEMORY: u64 = 512 << 20;

/// A `helm` program, found once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helm {
    program: PathBuf,
    timeout: Duration,
    /// What it may allocate, in bytes.
    memory: u64,
}

/// Why helm gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum HelmError {
    /// No program was found.
    #[error("{searched}; install helm, or name it in {HELM_VARIABLE}")]
    Missing {
        /// Where it was looked for.
        searched: String,
    },
    /// It could not be started or fed.
    #[error("{program}: {source}")]
    Start {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It ended with an error.
    #[error("{program} ended with {status}: {message}")]
    Failed {
        /// The program.
        program: PathBuf,
        /// Its exit status.
        status: String,
        /// The end of what it printed to standard error.
        message: String,
    },
    /// It did not end in time, and was stopped.
    #[error("{program} did not end within {} s and was stopped", timeout.as_secs())]
    TimedOut {
        /// The program.
        program: PathBuf,
        /// The time it had.
        timeout: Duration,
    },
}

impl Helm {
    /// Looks for the program: `STEPGATE_HELM`, else the first `helm` on `PATH`.
    ///
    /// # Errors
    /// [`HelmError::Missing`].
    pub fn find() -> Result<Self, HelmError> {
        Self::find_in(std::env::var_os(HELM_VARIABLE), std::env::var_os("PATH").as_deref())
    }

    /// The program that a person named: a path, or a name that is looked for on `PATH`.
    ///
    /// # Errors
    /// [`HelmError::Missing`].
    pub fn named(program: &Path) -> Result<Self, HelmError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let candidates = match program.components().count() {
            1 => {
                std::env::split_paths(&path).filter(|folder| folder.is_absolute()).map(|it| it.join(program)).collect()
            }
            _ => vec![std::path::absolute(program).unwrap_or_else(|_| program.to_owned())],
        };
        candidates
            .into_iter()
            .find(|candidate| candidate.is_file())
            .map(Self::new)
            .ok_or_else(|| HelmError::Missing { searched: format!("there is no program {}", program.display()) })
    }

    fn find_in(named: Option<OsString>, path: Option<&OsStr>) -> Result<Self, HelmError> {
        if let Some(named) = named.filter(|named| !named.is_empty()) {
            let program = PathBuf::from(named);
            // What was named is used or refused, never replaced by another one.
            return match std::path::absolute(&program) {
                Ok(program) if program.is_file() => Ok(Self::new(program)),
                _ => Err(HelmError::Missing {
                    searched: format!("{HELM_VARIABLE} names {}, which is not a file", program.display()),
                }),
            };
        }
        let folders = path.map(std::env::split_paths).into_iter().flatten();
        let found =
            folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join("helm")).find(|file| file.is_file());
        found.map(Self::new).ok_or_else(|| HelmError::Missing { searched: "there is no helm on PATH".to_owned() })
    }

    /// The program at `program`, with two minutes for one render, and half of this process' memory, at most 512 MiB: a large chart takes 150.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self { program, timeout: Duration::from_secs(120), memory: (memory::limit() / 2).min(MOST_MEMORY) }
    }

    /// Gives one render another time.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Runs `helm template` on a packed chart. The program sees a home, caches and a working folder of its own, which are
    /// gone afterwards, and no variable of this process: no repository, plugin, credential or cluster of the person.
    ///
    /// # Errors
    /// [`HelmError`].
    pub fn template(&self, chart: &[u8], request: &ChartRequest) -> Result<Vec<u8>, HelmError> {
        let start = |source| HelmError::Start { program: self.program.clone(), source };
        let home = tempfile::tempdir().map_err(start)?;
        std::fs::write(home.path().join("chart.tgz"), chart).map_err(start)?;
        // JSON is YAML.
        std::fs::write(home.path().join("values.yaml"), &request.values).map_err(start)?;
        let mut command = self.command(home.path());
        command.arg("template").arg(&request.name).arg("chart.tgz");
        command.args(["--namespace", &request.namespace, "--kube-version", &request.kubernetes_version]);
        command.args(["--values", "values.yaml", "--include-crds", "--skip-tests"]);
        self.run(command)
    }

    pub(super) fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().current_dir(home);
        command.env("HOME", home).env("TMPDIR", home);
        // So that it rather collects what it needs no more than ends.
        command.env("GOMEMLIMIT", (self.memory / 4 * 3).to_string());
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HELM_PLUGINS"] {
            command.env(variable, home.join(variable.to_lowercase()));
        }
        // No cluster: a chart that looks one up must get nothing.
        command.env("KUBECONFIG", home.join("no-kubeconfig"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(super) fn run(&self, mut command: Command) -> Result<Vec<u8>, HelmError> {
        let start = |source| HelmError::Start { program: self.program.clone(), source };
        let mut child = command.spawn().map_err(start)?;
        confine(&child, &[(Resource::Data, self.memory), (Resource::Fsize, MAXIMUM_OUTPUT)]);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        // Both are read while it runs: a full pipe would stop it.
        let stdout = std::thread::spawn(move || read_all(stdout));
        let stderr = std::thread::spawn(move || read_all(stderr));
        let status = self.wait(&mut child)?;
        let read = |thread: std::thread::JoinHandle<io::Result<Vec<u8>>>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("reading its output broke off"))).map_err(start)
        };
        let (stdout, stderr) = (read(stdout)?, read(stderr)?);
        if status.success() {
            return Ok(stdout);
        }
        let message = String::from_utf8_lossy(&stderr);
        let message: Vec<&str> = message.lines().rev().take(20).collect();
        Err(HelmError::Failed {
            program: self.program.clone(),
            status: status.to_string(),
            message: message.into_iter().rev().collect::<Vec<_>>().join(" / "),
        })
    }

    fn wait(&self, child: &mut Child) -> Result<std::process::ExitStatus, HelmError> {
        let start = |source| HelmError::Start { program: self.program.clone(), source };
        let deadline = Instant::now() + self.timeout;
        loop {
            if let Some(status) = child.try_wait().map_err(start)? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                child.kill().map_err(start)?;
                child.wait().map_err(start)?;
                return Err(HelmError::TimedOut { program: self.program.clone(), timeout: self.timeout });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn read_all(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MAXIMUM_OUTPUT + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > MAXIMUM_OUTPUT {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it printed more than {MAXIMUM_OUTPUT} bytes"),
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "helm_tests.rs"]
mod tests;
