//! What the manifests themselves say about an update: one-way doors, risks, changed defaults.

mod compare;
mod defaults;
mod index;
mod metadata;
mod webhooks;

pub use compare::{Comparison, compare};
pub use defaults::flipped_defaults;
pub use metadata::{accepted_contracts, declared_contract};

#[cfg(test)]
mod tests;
