//! The cluster side: what is read from clusters and what is done to them.

mod objects;
pub mod recording;
