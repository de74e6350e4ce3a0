//! Kubernetes: API servers with their etcd and controllers, and what is fake beside them.

pub(in crate::servers) mod api_server;
pub(in crate::servers) mod cluster_api;
pub(in crate::servers) mod etcd;
pub(in crate::servers) mod fake_webhooks;
pub(in crate::servers) mod kubelet;
pub(in crate::servers) mod kubelet_api;
pub mod manifests;
pub(in crate::servers) mod pod;
pub(in crate::servers) mod restore;
pub(in crate::servers) mod service_account;
pub mod settled;
pub(in crate::servers) mod webhook;
