//! The `kustomize build` pipeline in Rust.
