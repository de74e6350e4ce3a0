//! The cluster side: what is read from clusters and what is done to them.

#[allow(dead_code, reason = "its readers come next")]
mod objects;
