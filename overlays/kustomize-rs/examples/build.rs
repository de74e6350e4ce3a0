//! `build [--reorder none|legacy] [--load-restrictor LoadRestrictionsNone] DIRECTORY`: prints what kustomize prints.
//! The file tree is the working directory.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

use kustomize_rs::{DiskFileSystem, LoadRestrictor, Options, Order, build};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::default();
    let mut target = String::from(".");
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "build").peekable();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--reorder" => {
                let none = arguments.next().as_deref() == Some("none");
                options.order = if none { Order::None } else { Order::Legacy };
            }
            "--load-restrictor" => {
                let none = arguments.next().as_deref() == Some("LoadRestrictionsNone");
                options.load_restrictor = if none { LoadRestrictor::None } else { LoadRestrictor::RootOnly };
            }
            "--enable-alpha-plugins" => {}
            "--enable-managedby-label" => options.managed_by_label = true,
            path => target = path.to_owned(),
        }
    }
    let files = DiskFileSystem::new(".")?;
    let resources = build(&files, &target, &options)?;
    for warning in resources.warnings() {
        eprintln!("{warning}");
    }
    std::io::stdout().write_all(resources.to_yaml().as_bytes())?;
    Ok(())
}
