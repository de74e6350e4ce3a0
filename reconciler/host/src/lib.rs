//! What the machine gives to this process, within bounds: files, memory, programs that are started, answers over HTTP.
//!
//! Every package with input and output uses it, and it knows none of them.

pub mod child_limits;
pub mod disk;
pub mod http_body;
pub mod memory;
pub mod once;
#[cfg(feature = "waiting")]
pub mod waiting;
