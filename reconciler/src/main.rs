//! The `stepgate` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    stepgate::cli::main(std::env::args_os())
}
