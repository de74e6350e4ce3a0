//! Kubernetes objects as the API server returns them, projected to the fields that gates read.
//!
//! The same projection serves the API server's answers and folders of dumped objects. Everything else of an object is dropped at once.

mod cluster_api;
mod eks_anywhere;
mod extension;
mod fields;
mod flux;
mod manifest;
mod node;
mod origin;
mod ownership;
mod tanzu;
mod workload;

pub(crate) use cluster_api::contract::contract_control_plane;
pub(crate) use cluster_api::extension_config::{PROVIDER_LABEL, manager_without_in_place, runtime_extensions};
pub(crate) use cluster_api::in_place::{IN_PLACE_KINDS, in_place_upgrade};
pub(crate) use cluster_api::machine_pool::machine_pool;
pub(crate) use cluster_api::mark::marked;
pub use cluster_api::pause::PauseLease;
pub(crate) use cluster_api::pause::{PAUSE, pause_lease, suspenders};
pub(crate) use cluster_api::{
    Contract, cluster, cluster_name, control_plane, etcd_endpoints, etcdadm_cluster, fill_in_legacy_machines,
    infrastructure_of_owner, infrastructure_reference, is_paused_by_others, machine, machine_addresses,
    machine_deployment, machine_set,
};
pub(crate) use eks_anywhere::eksa_cluster;
pub(crate) use extension::custom_resource_definition;
pub(crate) use fields::{owner, refuses_since, status};
pub(crate) use flux::{helm_release, kustomization, source};
pub(crate) use manifest::from_yaml;
pub(crate) use node::{node, virtual_address};
pub(crate) use origin::origin;
pub(crate) use ownership::{Taken, applier, is_left_alone, last_writer, taken};
pub(crate) use tanzu::{hardware, node_image, tanzu_cluster, tanzu_image};
pub(crate) use workload::selector::{admits, fitting_labels, is_empty_selector, selector_text};
pub(crate) use workload::{
    OwnedPod, PodSelector, daemon_set, deployment, is_complete, is_of_application, pod, pods_of_status, unfinished,
};
