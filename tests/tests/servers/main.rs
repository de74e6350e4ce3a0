//! What only real servers can show. Each test runs in namespaces of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod alerts;
mod api_server;
mod approved;
mod backups;
mod charts;
mod checks;
mod components;
mod direct_apply;
mod direct_rollout;
mod eksa_layout;
mod ending;
mod faults;
mod flux_upgrade;
mod guard;
mod identity;
mod installation;
mod installed;
mod killing;
mod kubernetes_minor;
mod lost_branch;
mod machines;
mod pausing;
mod probing;
mod recording;
mod registry;
mod rendered;
mod replaced;
mod requests;
mod restoring;
mod scene;
mod scraping;
mod second_writer;
mod simulator;
mod verdicts;
mod watching;
