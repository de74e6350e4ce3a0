//! Runs the `git` program (and `ssh-keygen`, `gpg`) without prompts, without surprises from the environment, and with limits of
//! time, memory and files of its own.
//!
//! The `git` program has limits of memory and files of its own. A list that it prints and that is
//! cut is an error, never a shorter list.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::process::Resource;

use super::location::{RepositoryUrl, Transport, redact};
use super::progress::{Pace, Progress, without_progress};
use crate::error::GitError;
use crate::limits::{Limit, Limits};
use crate::store::budget::Exceeded;
use host::child_limits::confine;
use host::disk;

/// What is read of one output stream, in bytes. Of standard output nothing may be missing: half a list is not a list.
const KEPT: usize = 8 << 20;

/// Settings by which git itself stays below its limit of memory: packs are mapped in small pieces, and large objects are not
/// held in memory where git can do without.
const SPARING: [&str; 5] = [
    "core.packedGitWindowSize=16m",
    "core.packedGitLimit=128m",
    "core.deltaBaseCacheLimit=32m",
    "core.bigFileThreshold=32m",
    "pack.threads=1",
];

/// How long output may stay open after the program ended. An ssh connection shared with others holds stderr.
const GRACE_OF_STDOUT: Duration = Duration::from_secs(30);
const GRACE_OF_STDERR: Duration = Duration::from_secs(1);

/// Variables that redirect git to another repository, trace secrets, or ask a person.
const REMOVED: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ASKPASS",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CURL_VERBOSE",
    "GIT_DIR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_TRACE",
    "GIT_TRACE2",
    "GIT_TRACE2_EVENT",
    "GIT_TRACE_CURL",
    "GIT_TRACE_PACKET",
    "GIT_WORK_TREE",
    "SSH_ASKPASS",
];

/// What a program printed and how it ended.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    /// Redacted.
    pub(crate) stderr: String,
}

impl Output {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// The `git` program and what it is given to log in.
#[derive(Clone, Debug)]
pub(crate) struct GitProgram {
    /// Name or path of the program.
    pub(crate) program: PathBuf,
    /// How long one run may take that transfers nothing.
    pub(crate) timeout: Duration,
    /// How slow a run may be that transfers something.
    pub(crate) pace: Pace,
    /// What it may take.
    pub(crate) limits: Limits,
    /// Folder with `username` and `password`, or `identity` and `known_hosts`.
    pub(crate) secret: Option<PathBuf>,
}

impl GitProgram {
    /// Runs `git` in the repository `git_dir`. `url` decides which credentials are handed over.
    pub(crate) fn run<S: AsRef<OsStr>>(
        &self,
        git_dir: Option<&Path>,
        url: Option<&RepositoryUrl>,
        arguments: &[S],
    ) -> Result<Output, GitError> {
        self.start(git_dir, url, &[], arguments, Patience::Within(self.timeout))
    }

    /// As [`GitProgram::run`], with these settings and as long as it gets on. `--progress` has to be among the arguments.
    pub(crate) fn transfer<S: AsRef<OsStr>>(
        &self,
        git_dir: Option<&Path>,
        url: Option<&RepositoryUrl>,
        settings: &[String],
        arguments: &[S],
    ) -> Result<Output, GitError> {
        self.start(git_dir, url, settings, arguments, Patience::GettingOn(self.pace))
    }

    fn start<S: AsRef<OsStr>>(
        &self,
        git_dir: Option<&Path>,
        url: Option<&RepositoryUrl>,
        settings: &[String],
        arguments: &[S],
        patience: Patience,
    ) -> Result<Output, GitError> {
        let mut command = Command::new(&self.program);
        for name in REMOVED {
            command.env_remove(name);
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "")
            .env("SSH_ASKPASS_REQUIRE", "never")
            .env("GCM_INTERACTIVE", "never")
            .args(["-c", "core.fsmonitor=false", "-c", "protocol.ext.allow=never", "-c", "advice.detachedHead=false"])
            // What a repository names, such as a submodule, is never a folder of this machine (git's own default since 2.38.1).
            .args(["-c", "protocol.file.allow=user"])
            .args(SPARING.into_iter().chain(settings.iter().map(String::as_str)).flat_map(|setting| ["-c", setting]))
            .arg("-c")
            .arg(format!("http.lowSpeedLimit={}", self.pace.bytes_per_second))
            .arg("-c")
            .arg(format!("http.lowSpeedTime={}", self.pace.patience.as_secs().max(1)));
        if let Some(url) = url {
            self.authenticate(url, &mut command);
        }
        if let Some(folder) = git_dir {
            command.arg("--git-dir").arg(folder);
        }
        command.args(arguments);
        let verb = arguments.first().map(|verb| verb.as_ref().to_string_lossy().into_owned()).unwrap_or_default();
        let shown = match url {
            Some(url) => format!("git {verb} of {url}"),
            None => format!("git {verb}"),
        };
        let output = run(command, &shown, None, patience, Some(&self.limits))?;
        match self.exceeded(&output) {
            Some(limit) => Err(Exceeded { limit, allowed: self.limits.get(limit) }.of(shown)),
            None => Ok(output),
        }
    }

    /// The limit of its own that ended a run.
    fn exceeded(&self, output: &Output) -> Option<Limit> {
        if output.status.success() {
            return None;
        }
        let said =
            |needle: &str| output.stderr.lines().any(|line| !line.starts_with("remote:") && line.contains(needle));
        if said("Out of memory") || said("Cannot allocate memory") || said("out of memory") {
            Some(Limit::GitMemory)
        } else if said("File too large") || said("died of signal 25") {
            Some(Limit::GitFileBytes)
        } else {
            None
        }
    }

    fn authenticate(&self, url: &RepositoryUrl, command: &mut Command) {
        // A folder without what this server asks for is as none: in a cluster the Secret may hold a .gitconfig alone.
        let holds = |file: &str| self.secret.as_ref().filter(|secret| disk::open(&secret.join(file)).is_ok());
        let secret = match url.transport() {
            Transport::Http => holds("password"),
            Transport::Ssh => holds("identity"),
            Transport::File => None,
        };
        match (url.transport(), secret) {
            (Transport::Http, Some(secret)) => {
                // The helper reads the files itself, so no secret is on a command line; bound to this origin, so that a
                // redirect to another host does not get it.
                const HELPER: &str = "!f() { test \"$1\" = get || exit 0; \
                    printf 'username=%s\\n' \"$(cat \"$STEPGATE_GIT_SECRET/username\" 2>/dev/null || printf git)\"; \
                    printf 'password=%s\\n' \"$(cat \"$STEPGATE_GIT_SECRET/password\")\"; }; f";
                let origin = url.origin().unwrap_or_default();
                command
                    .env("STEPGATE_GIT_SECRET", secret)
                    .args(["-c", "credential.helper="])
                    .arg("-c")
                    .arg(format!("credential.{origin}.helper={HELPER}"));
            }
            (Transport::Ssh, Some(secret)) => {
                command.env("GIT_SSH_COMMAND", ssh_with_secret(secret));
            }
            (Transport::Ssh, None) if std::env::var_os("GIT_SSH_COMMAND").is_none() && !has_own_ssh() => {
                command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes -o ConnectTimeout=20");
            }
            _ => {}
        }
    }
}

/// Whether the person configured an ssh program for git, which is then theirs to keep free of prompts.
fn has_own_ssh() -> bool {
    git2::Config::open_default().is_ok_and(|config| config.get_string("core.sshCommand").is_ok())
}

fn ssh_with_secret(secret: &Path) -> OsString {
    let quoted = |name: &str| {
        let path = secret.join(name).to_string_lossy().replace('\'', "'\\''");
        format!("'{path}'")
    };
    let mut command = format!(
        "ssh -o BatchMode=yes -o ConnectTimeout=20 -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes -i {}",
        quoted("identity")
    );
    if secret.join("known_hosts").exists() {
        // ssh splits this option at blanks itself, hence quotes inside of quotes.
        let path = secret.join("known_hosts").to_string_lossy().replace('\'', "'\\''");
        command.push_str(&format!(" -o 'UserKnownHostsFile=\"{path}\"'"));
    }
    OsString::from(command)
}

/// How long a program may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// So long in all.
    Within(Duration),
    /// As long as it gets on.
    GettingOn(Pace),
}

/// Runs a program to its end or to a limit; `shown` names it in errors.
pub(crate) fn run(
    mut command: Command,
    shown: &str,
    input: Option<Vec<u8>>,
    patience: Patience,
    limits: Option<&Limits>,
) -> Result<Output, GitError> {
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| GitError::ProgramMissing {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })?;
    if let Some(limits) = limits {
        let given = [(Resource::Data, Limit::GitMemory), (Resource::Fsize, Limit::GitFileBytes)];
        confine(&child, &given.map(|(resource, limit)| (resource, limits.get(limit))));
    }
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        // A program that does not read its input closes it; its status says why.
        std::thread::spawn(move || stdin.write_all(&input));
    }
    let progress = match patience {
        Patience::Within(_) => None,
        Patience::GettingOn(pace) => Some(Arc::new(Mutex::new(Progress::new(pace, Instant::now())))),
    };
    let stdout = child.stdout.take().map(|stream| collect(stream, None));
    let stderr = child.stderr.take().map(|stream| collect(stream, progress.clone()));
    let status = wait(&mut child, shown, patience, progress.as_deref())?;
    let take = |receiver: Option<mpsc::Receiver<Collected>>, grace| receiver?.recv_timeout(grace).ok();
    // Half an answer must not pass for a whole one.
    let stdout = take(stdout, GRACE_OF_STDOUT).ok_or_else(|| GitError::Program {
        command: shown.to_owned(),
        message: "it ended and left its output open".to_owned(),
    })?;
    if stdout.is_cut {
        return Err(GitError::OutputCut { command: shown.to_owned(), limit: KEPT as u64 });
    }
    let stderr = take(stderr, GRACE_OF_STDERR).unwrap_or_default().bytes;
    let stderr = redact(&without_progress(&String::from_utf8_lossy(&stderr)));
    Ok(Output { status, stdout: stdout.bytes, stderr })
}

fn wait(
    child: &mut Child,
    shown: &str,
    patience: Patience,
    progress: Option<&Mutex<Progress>>,
) -> Result<ExitStatus, GitError> {
    let begun = Instant::now();
    let failed = |error: std::io::Error| GitError::Program { command: shown.to_owned(), message: error.to_string() };
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        let late = match patience {
            Patience::Within(timeout) => (begun.elapsed() >= timeout)
                .then(|| GitError::TimedOut { command: shown.to_owned(), seconds: timeout.as_secs() }),
            Patience::GettingOn(pace) => progress
                .is_some_and(|it| it.lock().unwrap_or_else(PoisonError::into_inner).has_stalled(Instant::now()))
                .then(|| GitError::Stalled {
                    command: shown.to_owned(),
                    seconds: pace.patience.as_secs(),
                    bytes_per_second: pace.bytes_per_second,
                }),
        };
        if let Some(error) = late {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// What was read of a stream.
#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    /// Whether there was more.
    is_cut: bool,
}

/// Reads a stream to its end. What is not kept is read and dropped, so that the program is not held up.
fn collect(
    mut stream: impl Read + Send + 'static,
    progress: Option<Arc<Mutex<Progress>>>,
) -> mpsc::Receiver<Collected> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut kept = Collected::default();
        let mut buffer = [0_u8; 16 << 10];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            let read = buffer.get(..read).unwrap_or_default();
            if let Some(progress) = &progress {
                progress.lock().unwrap_or_else(PoisonError::into_inner).take(read, Instant::now());
                // Progress is long, and what matters stands at its end.
                if kept.bytes.len() > KEPT / 2 {
                    kept.bytes.drain(..KEPT / 4);
                }
            }
            let room = KEPT.saturating_sub(kept.bytes.len()).min(read.len());
            kept.is_cut |= room < read.len();
            kept.bytes.extend_from_slice(read.get(..room).unwrap_or_default());
        }
        let _ = sender.send(kept);
    });
    receiver
}

/// The typed error behind what `git` printed when it talked to `repository`.
pub(crate) fn refusal(repository: &str, verb: &str, output: &Output) -> GitError {
    let text = output.stderr.as_str();
    let message = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("hint:"))
        .collect::<Vec<_>>()
        .join("; ");
    let repository = repository.to_owned();
    let any = |needles: &[&str]| needles.iter().any(|needle| text.contains(needle));
    if any(&["Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"]) {
        GitError::HostKey { repository, message }
    } else if any(&[
        "Authentication failed",
        "could not read Username",
        "could not read Password",
        "Permission denied (",
        "HTTP Basic: Access denied",
        "requested URL returned error: 401",
        "requested URL returned error: 403",
        "terminal prompts disabled",
    ]) {
        GitError::Authentication { repository, message }
    } else if any(&[
        "does not appear to be a git repository",
        "repository not found",
        "Repository not found",
        "does not exist",
        "requested URL returned error: 404",
        "not found: did you run git update-server-info",
    ]) {
        GitError::RemoteNotFound { repository, message }
    } else if any(&[
        "Could not resolve host",
        "Failed to connect",
        "Couldn't connect",
        "Connection refused",
        "Connection timed out",
        "Connection reset",
        "Connection closed",
        "connection was closed",
        "Operation timed out",
        "Network is unreachable",
        "No route to host",
        "SSL certificate problem",
        "server certificate verification failed",
        "unable to access",
        "early EOF",
        "the remote end hung up",
        "requested URL returned error: 5",
        "requested URL returned error: 429",
    ]) {
        GitError::Unreachable { repository, message }
    } else {
        GitError::Program { command: format!("git {verb} of {repository}"), message }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn messages_of_git_become_named_errors() {
        for (text, code) in [
            ("Host key verification failed.\nfatal: Could not read from remote repository.", "host-key"),
            ("fatal: could not read Username for 'https://h': terminal prompts disabled", "authentication"),
            ("git@h: Permission denied (publickey).\nfatal: Could not read from remote", "authentication"),
            ("fatal: '/x' does not appear to be a git repository", "remote-not-found"),
            ("fatal: unable to access 'https://h/': Could not resolve host: h", "unreachable"),
            ("fatal: unable to access 'https://h/': The requested URL returned error: 503", "unreachable"),
            ("fatal: the sky is falling", "program"),
        ] {
            let output = Output { status: ExitStatus::from_raw(128 << 8), stdout: Vec::new(), stderr: text.to_owned() };
            assert_eq!(refusal("h", "fetch", &output).code(), code, "{text}");
        }
    }

    const SOON: Patience = Patience::Within(Duration::from_secs(30));

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_list_that_is_too_long_is_an_error_and_not_a_short_list() {
        let error = run(shell("head -c 9000000 /dev/zero"), "git ls-remote", None, SOON, None).unwrap_err();
        assert_eq!(error.code(), "output-cut");
        assert!(error.to_string().contains("git ls-remote printed more than 8388608 bytes"), "{error}");
        // What is said beside it may be long.
        assert!(run(shell("head -c 9000000 /dev/zero >&2"), "git", None, SOON, None).is_ok());
    }

    #[test]
    fn a_transfer_ends_when_it_does_not_get_on() {
        let pace = Pace { bytes_per_second: 1_000, patience: Duration::from_millis(300) };
        let error = run(shell("exec sleep 60"), "git fetch", None, Patience::GettingOn(pace), None).unwrap_err();
        assert_eq!(error.code(), "stalled");
        assert!(error.is_transient() && error.hint().unwrap().contains("--git-patience"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_has_limits_of_its_own() {
        let limits = Limits::default().with(Limit::GitFileBytes, 1 << 20).with(Limit::GitMemory, 64 << 20);
        let folder = tempfile::tempdir().unwrap();
        let script =
            format!("sleep 0.2; ulimit -d; ulimit -f; head -c 5000000 /dev/zero > {}/x", folder.path().display());
        let output = run(shell(&script), "sh", None, SOON, Some(&limits)).unwrap();
        assert_eq!((output.text().as_str(), output.status.success()), ("65536\n2048\n", false), "{}", output.stderr);
        assert_eq!(std::fs::metadata(folder.path().join("x")).unwrap().len(), 1 << 20);
    }

    #[test]
    fn a_program_that_hangs_is_stopped() {
        let mut command = Command::new("sh");
        command.args(["-c", "exec sleep 60"]);
        let error = run(command, "a sleep", None, Patience::Within(Duration::from_millis(50)), None).unwrap_err();
        assert_eq!(error.code(), "timed-out");
    }

    #[test]
    fn input_and_both_outputs_are_carried_whole() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat; echo oops https://u:CANARY@h/x >&2; exit 3"]);
        let big = vec![b'x'; 3 << 20];
        let output = run(command, "cat", Some(big.clone()), SOON, None).unwrap();
        assert_eq!((output.status.code(), output.stdout == big), (Some(3), true));
        assert_eq!(output.stderr, "oops https://***@h/x\n");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(Command::new("/nonexistent/git"), "git", None, SOON, None).unwrap_err();
        assert_eq!(error.code(), "program-missing");
        assert!(error.to_string().contains("/nonexistent/git"), "{error}");
    }
}
