//! Readers of what Cluster API asks: whoever reaches the extension can ask anything.

use std::path::Path;

use fuzz::{files_below, fuzz};

use crate::hooks::{CanUpdate, UpdateMachine};

/// The requests of the fixtures.
fn requests() -> Vec<Vec<u8>> {
    let files = files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hooks"));
    files.into_iter().filter(|(path, _)| path.ends_with("request.json")).map(|(_, text)| text).collect()
}

#[test]
fn fuzzed_requests_of_hooks_are_read_or_refused() {
    fuzz("hook-request", requests(), |input| {
        let errors = [CanUpdate::of_machine(input).err(), UpdateMachine::read(input).err()];
        match errors.into_iter().flatten().find(|error| error.to_string().is_empty()) {
            Some(error) => Err(format!("{error:?} has no message")),
            None => Ok(()),
        }
    });
}
