//! Remote repositories: addresses, copies, fetching and pushing with the `git` program.

pub(crate) mod copies;
pub(crate) mod heads;
pub(crate) mod location;
pub(crate) mod program;
pub(crate) mod progress;
pub(crate) mod push;
pub(crate) mod single;
