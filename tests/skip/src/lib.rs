//! The one way in which a test is skipped because something is not there.
//!
//! Each function prints a line `skipped: …` and appends `TEST<tab>REASON` to the file that [`COUNTED_IN`] names: `tests/run`
//! counts these lines at its end. Where `CI` is set, a test that is skipped fails; excepted are data that cannot be had.

#![allow(clippy::panic, clippy::print_stdout, reason = "only tests call this")]

use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The variable that names the file of skipped tests.
pub const COUNTED_IN: &str = "STEPGATE_SKIPPED";

/// The folder `path` of the sealed data that lie beside the checkout in `../shared`, or a skipped test where there are none.
///
/// # Panics
/// On CI, when there is such a folder and it lacks `path`: data are there as a whole, or not at all.
#[must_use]
pub fn shared(path: &str) -> Option<PathBuf> {
    let folder = shared_folder();
    let found = folder.join(path);
    match (found.exists(), folder.exists()) {
        (true, _) => return Some(found),
        (false, true) => missing(format!("../shared is there without {path}")),
        (false, false) => count("../shared is not there"),
    }
    None
}

/// Skips the test that calls it: `what` is missing, said with what brings it.
///
/// # Panics
/// On CI.
pub fn missing(what: impl Display) {
    assert!(std::env::var_os("CI").is_none(), "not skipped on CI: {what}");
    count(what);
}

/// Skips a test that runs only when somebody asks for it, on CI too.
pub fn on_demand(how: impl Display) {
    count(how);
}

/// Whether all these programs are in a folder of `PATH`; the test is skipped when one is not.
///
/// # Panics
/// On CI, when one is not.
#[must_use]
pub fn has_programs(names: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let absent = names.iter().find(|name| !is_there(name));
    if let Some(name) = absent {
        missing(format!("the program {name} is not in PATH"));
    }
    absent.is_none()
}

/// The program whose path a variable holds, as `tests/run` sets it; the test is skipped where there is none.
///
/// # Panics
/// On CI, when there is none.
#[must_use]
pub fn named_by(variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_file());
    if found.is_none() {
        missing(format!("{variable} does not name a program (tests/run builds it)"));
    }
    found
}

/// The folder beside the checkout, or the one that `STEPGATE_SHARED` names.
fn shared_folder() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = || package.ancestors().nth(2).unwrap_or(package).join("../shared");
    std::env::var_os("STEPGATE_SHARED").map_or_else(beside, PathBuf::from)
}

fn count(reason: impl Display) {
    println!("skipped: {reason}");
    let Some(file) = std::env::var_os(COUNTED_IN) else { return };
    // Tests of several programs may have the same name.
    let program = std::env::current_exe().ok().and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    let thread = std::thread::current();
    let line = format!("{} {}\t{reason}\n", program.unwrap_or_default(), thread.name().unwrap_or_default());
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(&file);
    // Many processes append: one write for each line keeps lines whole.
    if let Err(error) = opened.and_then(|mut opened| opened.write_all(line.as_bytes())) {
        panic!("could not count a skipped test in {}: {error}", file.display());
    }
}
