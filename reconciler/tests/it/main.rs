//! Stepgate through its program, as people and scripts use it.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests: they fail by panic"
)]

mod acceptance;
mod apis;
mod approvals;
mod bad_input;
mod bad_repository;
mod canary;
mod checking;
mod commands;
mod demo;
mod documents;
mod fleets;
mod forge;
mod gates;
mod hostile_repository;
mod install;
mod kustomize;
mod listening;
mod lost_branch;
mod machine_paths;
mod measured;
mod plan_text;
mod registry;
mod run;
mod support;
mod tls;
mod verbs;
