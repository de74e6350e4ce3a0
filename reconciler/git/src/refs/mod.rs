//! References and branch names: what they point to and what was seen of them last.

pub(crate) mod last_seen;
pub(crate) mod name;
pub(crate) mod object_id;
pub(crate) mod reference;
pub(crate) mod revision;
