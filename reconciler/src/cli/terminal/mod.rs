//! How things look on a terminal, and without one.

pub(in crate::cli) mod paint;
pub(in crate::cli) mod printable;
pub(in crate::cli) mod progress;
pub(in crate::cli) mod screen;
pub(in crate::cli) mod tree;
