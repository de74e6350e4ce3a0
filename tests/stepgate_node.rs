//! The `stepgate-node` program, for tests on real servers.

use std::process::ExitCode;

fn main() -> ExitCode {
    stepgate_node::cli::main(std::env::args_os())
}
