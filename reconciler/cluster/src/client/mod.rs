//! Connections to API servers: credentials, identity, requests and their errors.

pub(crate) mod authorities;
pub(crate) mod change;
pub(crate) mod concurrent;
pub(crate) mod connection;
pub(crate) mod credentials;
pub(crate) mod error;
pub(crate) mod http;
pub(crate) mod identity;
pub(crate) mod kind;
pub(crate) mod limit;
pub(crate) mod replace;
pub(crate) mod request;
pub(crate) mod review;
pub(crate) mod secrets;
mod send;
#[cfg(test)]
pub(crate) mod server;
mod shared_read;
