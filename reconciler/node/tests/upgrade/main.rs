//! The upgrader on a folder that looks like a node: its files are real, systemd and Kubernetes' programs are scripts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod crashing;
mod killing;
mod machine;
mod power;
mod refusing;
mod release;

/// Of this package; tests on real servers are of another one.
const PROGRAM: &str = env!("CARGO_BIN_EXE_stepgate-node");
