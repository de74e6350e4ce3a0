//! Exit codes: the same on every verb, documented in `--help`.

/// How a verb ended, as a process exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Done, and nothing differs.
    Success = 0,
    /// Differences exist: `diff`, `bundle diff`, `plan --exit-code`.
    Differences = 1,
    /// Wrong usage, bad input, or something failed while running.
    Error = 2,
    /// A check found something that blocks the rollout.
    Blocked = 3,
    /// Waiting for an approval, a window or health.
    Waiting = 4,
    /// Held, paused or aborted.
    Stopped = 5,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The table of exit codes that every `--help` ends with.
pub const EXIT_CODES: &str =
    "Exit codes: 0 success, no differences · 1 differences · 2 error · 3 blocked · 4 waiting · 5 stopped";
