//! Harnesses for scenarios over several packages.
