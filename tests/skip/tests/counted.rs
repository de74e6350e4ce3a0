//! What a skipped test says, counts, and when it fails: this program runs itself again for one test that is skipped.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

/// Tells the inner run what it misses.
const MISSES: &str = "STEPGATE_TEST_MISSES";

#[test]
fn skips_what_it_is_told_to() {
    match std::env::var(MISSES).as_deref() {
        Ok("program") => assert!(!skip::has_programs(&["sh", "a-program-of-nobody"])),
        Ok("variable") => assert_eq!(skip::named_by("STEPGATE_PROGRAM_OF_NOBODY"), None),
        Ok("data") => assert_eq!(skip::shared("data/of/nobody"), None),
        Ok("demand") => skip::on_demand("on demand: build it"),
        _ => {}
    }
}

/// Whether the inner run passes, and what it has counted.
fn run(misses: &str, shared: &Path, ci: bool) -> (bool, String) {
    let counted = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "skips_what_it_is_told_to"]).env(MISSES, misses).env("STEPGATE_SHARED", shared);
    command.env(skip::COUNTED_IN, counted.path()).env_remove("CI").envs(ci.then_some(("CI", "true")));
    let output = command.output().unwrap();
    let line = std::fs::read_to_string(counted.path()).unwrap();
    (output.status.success(), line.split_once('\t').map(|(_, reason)| reason.trim().to_owned()).unwrap_or_default())
}

#[test]
fn what_is_missing_is_counted_and_fails_on_ci() {
    let shared = tempfile::tempdir().unwrap();
    let absent = shared.path().join("absent");
    for (misses, reason) in [
        ("program", "the program a-program-of-nobody is not in PATH"),
        ("variable", "STEPGATE_PROGRAM_OF_NOBODY does not name a program (tests/run builds it)"),
        ("data", "../shared is there without data/of/nobody"),
    ] {
        assert_eq!(run(misses, shared.path(), false), (true, reason.to_owned()));
        assert_eq!(run(misses, shared.path(), true), (false, String::new()), "{misses}");
    }
    for (misses, reason) in [("data", "../shared is not there"), ("demand", "on demand: build it")] {
        for ci in [false, true] {
            assert_eq!(run(misses, &absent, ci), (true, reason.to_owned()));
        }
    }
}

#[test]
fn one_closing_line_gives_number_and_reasons() {
    let counted = tempfile::NamedTempFile::new().unwrap();
    let close = || {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("count");
        String::from_utf8(Command::new(script).arg(counted.path()).output().unwrap().stdout).unwrap()
    };
    assert_eq!(close(), "0 tests skipped: none\n");
    let lines = ["a one\tno data\n", "a one\tno data\n", "a two\tno data\n", "b one\tno sshd; root only\n"];
    std::fs::write(counted.path(), lines.concat()).unwrap();
    assert_eq!(close(), "3 tests skipped: 2 × no data; 1 × no sshd; root only\n");
}
