//! Readers of what lies in a volume.

use std::path::Path;

use fuzz::{files_below, fuzz};

use super::dumps;
use super::header::BackupHeader;

/// The dumps of the fixtures.
fn dumps_of_fixtures() -> Vec<Vec<u8>> {
    let files = files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/dumps"));
    files.into_iter().filter(|(path, _)| path.ends_with(".json")).map(|(_, text)| text).collect()
}

#[test]
fn fuzzed_dumps_are_read_or_refused() {
    fuzz("dump", dumps_of_fixtures(), |input| match dumps::parsed(input, Path::new("dump.json")) {
        Err(error) if !error.to_string().contains("dump.json") => Err(format!("{error} does not name its file")),
        _ => Ok(()),
    });
}

#[test]
fn fuzzed_headers_of_backups_say_nothing_of_what_they_hold() {
    let header = br#"{"format": 2, "digest": "sha256:00", "report": {"rollout": "aaaaaaaaaaaa", "objects": 1}, "files": {"a.json":
        {"objects": 1, "secret": "c2VjcmV0LXdvcmQ="}}}"#;
    fuzz("backup-header", [header.to_vec()], |input| match BackupHeader::parse(input, Path::new("backup.json")) {
        Err(error) if error.to_string().contains("c2VjcmV0LXdvcmQ") => Err(format!("{error} tells a value")),
        _ => Ok(()),
    });
}
