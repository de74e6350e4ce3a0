//! The `kustomize build` pipeline in Rust.

pub mod yaml;
