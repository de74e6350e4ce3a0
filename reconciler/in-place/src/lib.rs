//! Upgrades of Kubernetes on the machines that are there.
//!
//! [`hooks`] is the wire of Cluster API's in-place hooks: requests and answers. [`claims`] says of two states of a
//! machine which differences the node upgrader can bring about, and names every other. The hook answers by it, and
//! the plan says by it *in place* or *replace* before anything starts. [`objects`] are the kinds in which upgrades are
//! wanted and told, [`order`] decides which machine goes when and what is done about it, and [`admission`] pauses an
//! owner before it reads another version. [`pod`] is what upgrades one
//! node, [`image`] what it runs, and [`files`] what it brings besides a release.
//!
//! Architecture Invariant: this package does no I/O, and the same request has the same answer for ever: Cluster API
//! keeps answers for a day.

pub mod admission;
pub mod claims;
pub mod files;
#[cfg(test)]
mod fuzzed;
pub mod hooks;
pub mod image;
pub mod objects;
pub mod order;
pub mod pod;
