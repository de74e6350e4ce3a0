//! Real servers for tests: an API server with its etcd and controllers, and what is fake beside it: a kubelet, and the webhooks of Pods that it only says are running.
//!
//! A test that needs them runs [`isolated`]: in namespaces of its own, where nothing outlives it and no port is taken.

mod api_server;
mod artifacts;
mod certificate;
mod cluster_api;
mod demo;
mod demo_cluster;
mod fake_flux;
mod fake_webhooks;
mod fleet_repository;
mod flux;
mod folder;
pub mod forge_proxy;
mod git_server;
pub mod gitea;
mod isolation;
mod kubelet;
pub mod manifests;
mod pod;
mod port;
mod process;
mod programs;
mod registry;
mod restore;
mod service_account;
pub mod settled;
mod ssh_server;
mod tcp_proxy;
mod tls;
mod webhook;

pub use api_server::{ApiServer, ApiServerOptions};
pub use artifacts::Artifacts;
pub use certificate::{Authority, Identity};
pub use cluster_api::ClusterApi;
pub use demo::{definition, demo_definitions, demo_fleet};
pub use demo_cluster::DemoCluster;
pub use fake_flux::{FakeFlux, FollowingFlux, kustomization};
pub use fake_webhooks::FakeWebhooks;
pub use fleet_repository::{DEPLOY, FleetRepository};
pub use flux::{FLUX_NAMESPACE, Flux};
pub use folder::Folder;
pub use forge_proxy::ForgeProxy;
pub use git_server::GitServer;
pub use gitea::Gitea;
pub use isolation::isolated;
pub use kubelet::{FakeKubelet, Trouble};
pub use pod::pod;
pub use process::Process;
pub use programs::Programs;
pub use registry::Registry;
pub use restore::restore;
pub use service_account::{service_account, service_account_token};
pub use ssh_server::SshServer;
pub use tcp_proxy::{Network, TcpProxy};
pub use webhook::{Admission, Webhook};
