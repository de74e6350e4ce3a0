//! Commands that are named: the shell splits them, the program's own command line parses them.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use stepgate::cli::Cli;

use super::{commands, guides, read};

/// Writes down how it was called, a word a line, and a line `--` after each call: at once, since programs of a pipe run side by side.
const RECORDER: &str =
    "#!/bin/sh\ncall=$(printf '%s\\n' \"${0##*/}\" \"$@\")\nprintf '%s\\n--\\n' \"$call\" >>\"$CALLS\"\n";

/// The calls of `stepgate` in a script, in order of their writing. Nothing is carried out.
fn calls(script: &str, place: &str) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let (bin, file) = (folder.path().join("bin"), folder.path().join("calls"));
    std::fs::create_dir(&bin).unwrap();
    for program in ["stepgate", "kubectl", "flux", "git", "cargo"] {
        let path = bin.join(program);
        std::fs::write(&path, RECORDER).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut shell = Command::new("/bin/sh");
    shell.current_dir(folder.path()).env("PATH", &bin).env("CALLS", &file).env("STEPGATE_REPO", "URL");
    let output = shell.args(["-e", "-c", script]).output().unwrap();
    assert!(output.status.success(), "{place}: {}\n{script}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let calls = text.split_terminator("--\n").map(|call| call.lines().map(str::to_owned).collect::<Vec<_>>());
    calls.filter(|call| call.first().is_some_and(|program| program == "stepgate")).collect()
}

/// Parses a call. A verb that is only mentioned needs no arguments.
fn check(call: &[String], place: &str, is_mention: bool) {
    // Where a document says COMMIT, people write one; `<name>` and capitals stand for a word.
    let words = call.iter().map(|word| word.replace("COMMIT", &"a".repeat(40)).replace("ADDRESS", "127.0.0.1:9292"));
    let Some(error) = Cli::command().try_get_matches_from(words).err() else { return };
    let is_incomplete = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    assert!(is_help || (is_mention && is_incomplete && call.len() <= 3), "{place}: {call:?}: {error}");
}

#[test]
fn every_command_block_of_the_guides_parses() {
    let mut count = 0;
    for document in guides() {
        for block in commands(&document) {
            // Folders are not there, and what runs is followed elsewhere.
            let kept: Vec<&str> = block.text.lines().filter(|line| !line.contains("cd fleet")).collect();
            let place = format!("{document}:{}", block.line);
            for call in calls(&kept.join("\n"), &place) {
                check(&call, &place, false);
                count += 1;
            }
        }
    }
    assert!(count > 25, "{count} commands");
}

#[test]
fn every_command_that_the_guides_mention_parses() {
    let mut count = 0;
    for document in guides().into_iter().filter(|document| !document.ends_with("/cli.md")) {
        let text = read(&document);
        let prose: String = text.split("\n```").step_by(2).collect();
        for span in prose.split('`').skip(1).step_by(2).filter(|span| span.starts_with("stepgate ")) {
            let span = span.split_whitespace().collect::<Vec<_>>().join(" ");
            for call in calls(&span, &document) {
                check(&call, &document, true);
                count += 1;
            }
        }
    }
    assert!(count > 30, "{count} commands");
}

#[test]
fn a_command_that_does_not_exist_is_noticed() {
    for (script, is_fine) in [
        ("stepgate hold prod --reason 'a b' --for 4h --yes", true),
        ("stepgate plan | cat", false),
        ("stepgate hold prod --reason 'a b' --until 4h", false),
    ] {
        let run = std::panic::catch_unwind(|| calls(script, "here").iter().for_each(|call| check(call, "here", false)));
        assert_eq!(run.is_ok(), is_fine, "{script}");
    }
}
