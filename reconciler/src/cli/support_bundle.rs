//! `stepgate support-bundle`: what whoever helps needs to know, in one archive, without anything secret.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use rollout::LedgerFormat;
use serde::Serialize;

use super::common::error::CommandError;
use super::common::exit::Exit;
use super::common::{fleet, output};
use super::{ClusterArguments, FleetArguments};
use crate::dashboard::{Document, FleetReader, ReadBy};

/// What the names of settings in the environment begin with.
const SETTINGS: &str = "STEPGATE_";

/// Arguments of `stepgate support-bundle`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// The archive to write (`.tar.gz`), which must not be there.
    #[arg(long, value_name = "FILE", default_value = "stepgate-support.tar.gz")]
    to: PathBuf,
}

/// Which program wrote the archive.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Program {
    version: &'static str,
    ledger_format: u32,
    system: &'static str,
    architecture: &'static str,
    /// Names alone: values may be secret.
    settings: BTreeSet<String>,
}

/// Writes the archive.
///
/// # Errors
/// When the repository cannot be read, or the archive cannot be written.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let planner = fleet::planner(&arguments.fleet)?;
    let reader = FleetReader::new(planner, arguments.access.open()?, ReadBy::Web);
    let snapshot = super::run::verb::runtime()?.block_on(reader.read()).map_err(fleet::explain)?;
    let settings = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let program = Program {
        version: env!("CARGO_PKG_VERSION"),
        ledger_format: LedgerFormat::CURRENT.into(),
        system: std::env::consts::OS,
        architecture: std::env::consts::ARCH,
        settings: settings.filter(|name| name.starts_with(SETTINGS)).collect(),
    };
    let mut documents = snapshot.documents();
    let text = format!("{}\n", serde_json::to_string_pretty(&program)?);
    documents.push(Document { path: "program.json".to_owned(), text });
    write(arguments, &documents).map_err(|error| {
        let error = CommandError::from(error).context(format!("writing {}", arguments.to.display()));
        error.hint("name a file that is not there, in a folder that this user may write, by --to")
    })?;
    let names: String = documents.iter().map(|document| format!("  {}\n", document.path)).collect();
    let note = "It names clusters, versions, images, objects and people; read it before you send it.";
    output::print_text(&format!("{}\n{names}{note}\n", arguments.to.display()))?;
    Ok(Exit::Success)
}

fn write(arguments: &Arguments, documents: &[Document]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(&arguments.to)?;
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    for document in documents {
        let mut header = tar::Header::new_gnu();
        header.set_size(document.text.len().try_into().unwrap_or(u64::MAX));
        header.set_mode(0o644);
        archive.append_data(&mut header, &document.path, document.text.as_bytes())?;
    }
    archive.into_inner()?.finish()?.flush()
}
