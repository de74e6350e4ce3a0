//! The `stepgate` program, for tests that start and kill it.

use std::process::ExitCode;

fn main() -> ExitCode {
    stepgate::cli::main(std::env::args_os())
}
