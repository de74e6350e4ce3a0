//! The `stepgate` program.

use std::process::ExitCode;

/// Without huge pages, which would double the memory of short work.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    stepgate::cli::main(std::env::args_os())
}
