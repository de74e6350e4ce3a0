//! API versions: those that go, and those that are used.

pub mod removed;
pub mod used;
