//! `stepgate init`: a commented `stepgate.yaml` to start from.

use std::path::PathBuf;

use clap::Args;

use super::common::error::CommandError;
use super::common::exit::Exit;
use super::common::output;
use super::schema;

/// Arguments of `stepgate init`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The folder of the fleet repository.
    #[arg(default_value = ".", value_name = "DIR")]
    folder: PathBuf,
    /// Print the file instead of writing it.
    #[arg(long)]
    stdout: bool,
}

/// Writes the file, unless there is one, and its schema beside it.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let text = policy::commented_policy();
    if arguments.stdout {
        output::print_text(&text)?;
        return Ok(Exit::Success);
    }
    let path = arguments.folder.join("stepgate.yaml");
    let file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
    match file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes())) {
        Ok(()) => {
            let schema = arguments.folder.join(schema::POLICY_FILE);
            std::fs::write(&schema, schema::of_policy()?)
                .map_err(|error| CommandError::from(error).context(format!("writing {}", schema.display())))?;
            output::print_text(&format!(
                "wrote {}: read it, change it, commit it; editors complete it by {}\n",
                path.display(),
                schema::POLICY_FILE
            ))?;
            Ok(Exit::Success)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(CommandError::new(format!("{} is there already and stays as it is", path.display()))
                .hint("`stepgate init --stdout` prints the commented file, to compare with"))
        }
        Err(error) => Err(CommandError::from(error)
            .context(format!("writing {}", path.display()))
            .hint("name a folder that is there and may be written: the clone of the fleet repository")),
    }
}
