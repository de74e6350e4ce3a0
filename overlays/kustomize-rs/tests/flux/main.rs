//! What Flux makes of a source: recorded answers of Flux's own library, and comparisons with it where it is there.
//!
//! `STEPGATE_FLUX_KUSTOMIZE` names the program of `tests/servers/flux-kustomize`. `fixtures/flux/record` records anew.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::print_stdout
)]

#[path = "../support/mod.rs"]
mod support;

mod bounds;
mod case;

mod fixtures;
mod given;
mod random;
mod random_sources;
mod random_templates;
