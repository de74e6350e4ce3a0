//! The node itself: its programs, services, namespaces, static Pods, images, etcd and virtual address.

pub(crate) mod etcd;
pub(crate) mod host_namespaces;
pub(crate) mod images;
pub(crate) mod lock;
pub mod programs;
pub(crate) mod services;
pub(crate) mod static_pods;
pub(crate) mod virtual_address;
