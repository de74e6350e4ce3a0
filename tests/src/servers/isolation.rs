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
#[expect(clippy::panic, clippy::print_stdout, reason = "the outside of a test")]
pub fn isolated<T: Future<Output = anyhow::Result<()>>>(name: &str, needed: &[&str], test: impl FnOnce(Programs) -> T) {
    let programs = match Programs::find(needed) {
        Ok(programs) => programs,
        Err(missing) if std::env::var_os("CI").is_some() => panic!("{missing}"),
        Err(missing) => {
            println!("skipped: {missing}");
            return;
        }
    };
    if std::env::var_os(INSIDE).is_none() {
        return run_again(name);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("could not start a runtime: {error}"));
    if let Err(error) = runtime.block_on(test(programs)) {
        panic!("{error:?}");
    }
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
