//! Programs whose clocks are wrong: libfaketime (Debian: faketime) tells them another time.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::isolation::is_isolated;

/// Where Debian puts the library, below the folder of the machine's architecture: the one for programs with threads.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// How a clock goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Skew {
    /// As everybody's.
    Right,
    /// So many seconds ahead, or behind where negative, and as fast as others.
    Off(i32),
    /// So many times as fast.
    Fast(f64),
}

/// The library, in a mount namespace in which programs that use it share nothing with those of other tests.
pub struct Clocks(PathBuf);

impl Clocks {
    /// Whether there is the library, which `tests/run` installs where it may.
    #[must_use]
    pub fn are_there() -> bool {
        library().is_some()
    }

    /// Prepares the namespace.
    ///
    /// # Errors
    /// When the test has no namespaces of its own, or there is no library.
    pub fn start() -> anyhow::Result<Self> {
        ensure!(is_isolated(), "what programs share would be hidden from others: run it in namespaces of its own");
        // The library keeps something there by the number of the process, and leaves it there where that is killed. Other namespaces have the
        // same numbers.
        let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs", "/dev/shm"]).output()?;
        ensure!(mounted.status.success(), "mount on /dev/shm: {}", String::from_utf8_lossy(&mounted.stderr));
        library().map(Self).context("there is no libfaketime (Debian: faketime)")
    }

    /// The program has such a clock when it is started.
    pub fn set(&self, command: &mut Command, skew: Skew) {
        let time = match skew {
            Skew::Right => return,
            Skew::Off(seconds) => {
                // A machine whose time of day is wrong measures spans as any other does.
                command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
                format!("{seconds:+}")
            }
            Skew::Fast(times) => format!("+0 x{times}"),
        };
        command.env("LD_PRELOAD", &self.0).env("FAKETIME", time);
    }
}

fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    folders.map(|folder| folder.path().join(LIBRARY)).find(|library| library.is_file())
}

#[cfg(test)]
mod tests {
    use super::super::isolated;
    use super::*;

    #[test]
    fn a_program_is_told_the_time_of_its_own_clock() {
        let name = "servers::clocks::tests::a_program_is_told_the_time_of_its_own_clock";
        if !Clocks::are_there() {
            return skip::missing("there is no libfaketime (Debian: faketime)");
        }
        isolated(name, &[], async |_| {
            let clocks = Clocks::start()?;
            for (skew, expected) in [(Skew::Right, 0), (Skew::Off(-600), -600), (Skew::Off(600), 600)] {
                let mut command = Command::new("date");
                clocks.set(command.arg("+%s"), skew);
                let now = jiff::Timestamp::now().as_second();
                let told: i64 = String::from_utf8(command.output()?.stdout)?.trim().parse()?;
                let off = told - now - expected;
                assert!((0..60).contains(&off), "{skew:?}: {off} s");
            }
            Ok(())
        });
    }
}
