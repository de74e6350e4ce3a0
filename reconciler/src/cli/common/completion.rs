//! `stepgate completion SHELL` and `stepgate man`: made from the argument tree, so that they cannot fall behind.

use std::ffi::OsString;

use clap::{Args, CommandFactory as _};
use clap_complete::env::{CompleteEnv, Shells};

use super::error::CommandError;
use super::exit::Exit;
use super::output;
use crate::cli::Cli;

/// The variable by which a shell asks for what completes a line.
const VARIABLE: &str = "STEPGATE_COMPLETE";

/// Arguments of `stepgate completion`.
#[derive(Debug, Args)]
pub struct CompletionArguments {
    /// The shell that will read the script.
    shell: clap_complete::Shell,
}

/// Answers a shell that asks for what completes a line; false where none asks.
///
/// # Errors
/// When it cannot be answered.
pub fn answered(arguments: &[OsString]) -> Result<bool, clap::Error> {
    let folder = std::env::current_dir().ok();
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).try_complete(arguments, folder.as_deref())
}

/// Prints the completion script. It asks the program itself, which knows the names of a fleet.
pub fn completion(arguments: &CompletionArguments) -> Result<Exit, CommandError> {
    let shells = Shells::builtins();
    let shell = shells.completer(&arguments.shell.to_string()).ok_or_else(|| {
        CommandError::new(format!("{} has no completion", arguments.shell))
            .hint("name bash, elvish, fish, powershell or zsh")
    })?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "stepgate", "stepgate", "stepgate", &mut script)?;
    output::print_text(&String::from_utf8(script)?)?;
    Ok(Exit::Success)
}

/// Prints the manual page.
pub fn manual() -> Result<Exit, CommandError> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    output::print_text(&String::from_utf8(page)?)?;
    Ok(Exit::Success)
}
