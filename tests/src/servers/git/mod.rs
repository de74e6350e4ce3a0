//! Git: fleet repositories, and the servers and forges that serve them.

pub(in crate::servers) mod fleet_repository;
pub mod forge_proxy;
pub(in crate::servers) mod git_server;
pub mod gitea;
pub(in crate::servers) mod ssh_server;
