//! The program on the node.

use std::process::ExitCode;

fn main() -> ExitCode {
    stepgate_node::cli::main(std::env::args_os())
}
