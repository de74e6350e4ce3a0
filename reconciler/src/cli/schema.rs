//! `stepgate schema policy`: the JSON schema by which editors complete and check `stepgate.yaml`.

use clap::{Args, ValueEnum};

use super::common::error::CommandError;
use super::common::exit::Exit;
use super::common::output;

/// What has a schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Document {
    /// `stepgate.yaml`.
    Policy,
}

/// Arguments of `stepgate schema`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Of which document.
    #[arg(value_enum, value_name = "DOCUMENT")]
    document: Document,
}

/// The file of the schema beside `stepgate.yaml`, as the first line of the commented policy names it.
pub(super) const POLICY_FILE: &str = "stepgate.schema.json";

/// The JSON schema of `stepgate.yaml`.
///
/// # Errors
/// None in practice: a schema is JSON.
pub(super) fn of_policy() -> Result<String, CommandError> {
    Ok(format!("{}\n", serde_json::to_string_pretty(&policy::policy_schema())?))
}

/// Prints the schema.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    match arguments.document {
        Document::Policy => output::print_content(&of_policy()?)?,
    }
    Ok(Exit::Success)
}
