//! The machine loses its power after any call that changes files, and with it what was not synchronised: the program, begun anew on what is
//! left, comes to the same end, in a repository that git finds nothing wrong with.
//!
//! Disks are made from a record of one rollout. `STEPGATE_DISKS` says how many (40).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::disk::{Disk, Loss};
use super::trace::{OPTIONS, operations};
use super::{comes_to_its_end, end, number_of, traced};
use crate::support::Fleet;

/// What may be lost wherever something can be.
const LOSSES: [Loss; 6] =
    [Loss::Contents, Loss::HalfOfContents, Loss::Zeros, Loss::Everything, Loss::Any(1), Loss::Any(2)];

#[test]
fn a_rollout_that_loses_power_at_any_call_comes_to_the_same_end() {
    if !skip::has_programs(&["strace"]) {
        return;
    }
    let fleet = Fleet::pending();
    let record = tempfile::tempdir().unwrap();
    let before = Disk::of(fleet.folder());
    let (is_done, trace) = traced(&fleet, &record.path().join("trace"), &OPTIONS);
    assert!(is_done, "{trace}");
    let operations = operations(&trace);
    let expected = end(&fleet);

    // After each call, what can be left of it.
    let mut disk = before.clone();
    let mut losses = Vec::new();
    for (number, operation) in operations.iter().enumerate() {
        if disk.apply(operation) && !disk.is_synchronised() {
            losses.extend(LOSSES.map(|loss| (number, loss)));
        }
    }
    let whole = tempfile::tempdir().unwrap();
    disk.write_to(whole.path(), Loss::Nothing);
    assert!(files(whole.path()) == files(fleet.folder()), "something was written in a way that is not recorded");
    assert!(losses.len() > 1_000, "{} disks", losses.len());

    let step = losses.len().div_ceil(number_of("STEPGATE_DISKS", 40)).max(1);
    let mut disk = before;
    let mut applied = 0;
    for (number, loss) in losses.iter().step_by(step) {
        for operation in &operations[applied..=*number] {
            disk.apply(operation);
        }
        applied = number + 1;
        let place = format!("{loss:?} after {number}: {}", operations[*number]);
        let folder = tempfile::tempdir().unwrap();
        disk.write_to(folder.path(), *loss);
        comes_to_its_end(&Fleet::at(folder, &place), &expected, &place);
    }
    println!("{} disks, every {step}. of {}", losses.len().div_ceil(step), losses.len());
}

/// Files by their paths.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = PathBuf::from(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            let below = self::files(&entry.path()).into_iter();
            files.extend(below.map(|(path, bytes)| (name.join(path), bytes)));
        } else {
            files.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
    files
}
