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
mod adopting;
mod apis;
mod approvals;
mod bad_input;
mod bad_repository;
mod between;
mod canary;
mod chained;
mod checking;
mod commands;
mod cut_clones;
mod dashboard;
mod demo;
mod documents;
mod ended;
mod extension;
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
mod readers;
mod registry;
mod rehearse;
mod run;
mod secrets;
mod snapshots;
mod support;
mod tls;
mod upgrader;
mod verbs;
mod version;
mod waiting;
