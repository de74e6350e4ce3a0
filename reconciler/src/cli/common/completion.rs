//! `stepgate completion SHELL` and `stepgate man`: made from the argument tree, so that they cannot fall behind.

use clap::{Args, CommandFactory as _};

use super::error::CommandError;
use super::exit::Exit;
use super::output;
use crate::cli::Cli;

/// Arguments of `stepgate completion`.
#[derive(Debug, Args)]
pub struct CompletionArguments {
    /// The shell that will read the script.
    shell: clap_complete::Shell,
}

/// Prints the completion script.
pub fn completion(arguments: &CompletionArguments) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "stepgate", &mut script);
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
