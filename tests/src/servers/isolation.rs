//! Tests in namespaces of their own: an own loopback, an own process tree that ends as a whole.

use std::future::Future;
use std::process::{Command, Stdio};

use super::programs::Programs;

/// Tells the inner run of a test from the outer one.
const INSIDE: &str = "STEPGATE_TEST_IS_ISOLATED";

/// Of the network, of processes, and of the mounts that show them.
const NAMESPACES: [&str; 5] = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Runs `test` in network, process and mount namespaces of its own, and in a user namespace where only that gives the right to it.
///
/// The test's binary runs itself again there, for the test `name` alone (its full path in the binary). Servers that bind every
/// interface reach nobody, fixed ports never collide, and all that was started ends with the test, also after a panic,
/// Ctrl-C or SIGKILL: the process namespace goes with its first process, and that one with the test outside.
///
/// Where a program of `needed` is missing the test is skipped with a printed line; on CI (`CI=true`) it fails.
///
/// # Panics
/// When the test fails, or cannot be run.
#[expect(clippy::panic, reason = "the outside of a test")]
pub fn isolated<T: Future<Output = anyhow::Result<()>>>(name: &str, needed: &[&str], test: impl FnOnce(Programs) -> T) {
    let Some(programs) = Programs::find_or_skip(needed) else { return };
    if !is_isolated() {
        return run_again(name);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("could not start a runtime: {error}"));
    if let Err(error) = runtime.block_on(test(programs)) {
        panic!("{error:?}");
    }
}

/// Whether this process has namespaces of its own.
pub(super) fn is_isolated() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Whether this user may make the namespaces. OpenSSH's server does not work for the root of a user namespace: it may not give up groups.
fn is_privileged() -> bool {
    Command::new("unshare").args(NAMESPACES).arg("true").output().is_ok_and(|output| output.status.success())
}

#[expect(clippy::panic, clippy::print_stdout, reason = "the outside of a test")]
fn run_again(name: &str) {
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("could not find the test's program: {error}"));
    let mut command = Command::new("setpriv");
    command
        // Whoever is killed ends nothing himself: the kernel has to.
        .args(["--pdeathsig", "KILL", "unshare"])
        .args(if is_privileged() { &[] } else { &["--user", "--map-root-user"][..] })
        .args(NAMESPACES)
        .args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"])
        .arg(program)
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env(INSIDE, "1")
        .stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("could not run setpriv (of util-linux): {error}"));
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    // A name that is no test's runs nothing and succeeds.
    let ran = said.contains("1 passed");
    if !output.status.success() || !ran {
        panic!("{name} failed in its namespaces ({}); its output is above", output.status);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::path::Path;
    use std::process::Child;

    use rustix::process::{Pid, Signal, kill_process, kill_process_group};

    use super::super::{Folder, Process};
    use super::*;
    use crate::waiting;

    /// Tells the test that is run to be ended what its processes are known by, and which file appears when it shall panic.
    const MARK: &str = "STEPGATE_TEST_MARK";
    const PANICS: &str = "STEPGATE_TEST_PANICS";

    /// As servers do: a child, and one that has left its session.
    const TREE: &str = "sleep \"$0\" & setsid sleep \"$0\" & exec sleep \"$0\"";
    const PROCESSES: usize = 3;

    /// The processes with this word in their command line, as far as this process sees.
    fn running(mark: &str) -> Vec<u32> {
        let entries = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap());
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_marked = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.starts_with(b"sleep\0") && line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
        };
        pids.filter(is_marked).collect()
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(waiting::until(what, async || Ok(holds().then_some(())))).unwrap();
    }

    fn pid(child: &Child) -> Pid {
        Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
    }

    #[test]
    fn all_that_a_test_has_started_ends_with_it() {
        let name = "servers::isolation::tests::all_that_a_test_has_started_ends_with_it";
        if let (Ok(mark), Some(panics)) = (std::env::var(MARK), std::env::var_os(PANICS)) {
            return isolated(name, &[], async |_| start_and_panic(&mark, Path::new(&panics)).await);
        }
        let folder = Folder::new().unwrap();
        for end in ["panic", "Ctrl-C", "SIGKILL"] {
            // A time of its own for each run, which no other process sleeps for.
            let mark = format!("86400.{}{}", std::process::id(), jiff::Timestamp::now().subsec_nanosecond());
            let panics = folder.path().join(end);
            // Who runs tests in the background of a shell has them ignore Ctrl-C, and with them all that they start.
            let mut test = Command::new("env");
            test.arg("--default-signal=INT").arg(std::env::current_exe().unwrap());
            test.args(["--exact", name, "--nocapture"]).env(MARK, &mark).env(PANICS, &panics);
            // Ctrl-C goes to all processes of a terminal's foreground: to a group.
            let mut test = test.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            until("its processes run", || running(&mark).len() == PROCESSES);
            match end {
                "panic" => std::fs::write(panics, "").unwrap(),
                "Ctrl-C" => kill_process_group(pid(&test), Signal::INT).unwrap(),
                _ => kill_process(pid(&test), Signal::KILL).unwrap(),
            }
            assert!(!test.wait().unwrap().success());
            until(&format!("nothing is left after {end}"), || running(&mark).is_empty());
        }
        folder.done();
    }

    async fn start_and_panic(mark: &str, panics: &Path) -> anyhow::Result<()> {
        let mut command = Command::new("sh");
        command.args(["-c", TREE, mark]);
        let _tree = Process::start(panics.parent().unwrap_or(panics), "tree", command)?;
        waiting::until("it is told to panic", async || Ok(panics.exists().then_some(()))).await?;
        panic!("as it was told");
    }
}
