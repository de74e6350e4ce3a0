//! Real nodes for tests: systemd, containerd, kubelet and the static Pods of kubeadm in containers of `systemd-nspawn`.
//!
//! A test runs in [`crate::servers::isolated`]: the nodes' bridge is in its network, and all processes end with it.

mod archive;
mod by_hand;
mod cluster;
mod machine;
mod network;
mod programs;
mod upgrader;

pub use archive::{Archive, architecture};
pub use by_hand::{ByHand, said};
pub use cluster::Cluster;
pub use machine::Machine;
pub use programs::{NEW, OLD, Version, are_there, images, kubernetes, needed};
pub use upgrader::UpgraderImage;
