//! The steps, one file each.

pub mod cni_plugins;
pub mod containerd;
pub mod copy;
pub mod drain;
pub mod kubeadm;
pub mod kubelet;
pub mod rollback;
mod service;
pub mod status;
pub mod uncordon;
pub mod verify;

use anyhow::bail;

use crate::step::Step;
use crate::work::Work;

/// Does one step, or what is left of it.
///
/// # Errors
/// What went wrong, with the command if there was one.
pub fn perform(step: Step, work: &mut Work<'_>) -> anyhow::Result<String> {
    match step {
        Step::Copy => bail!("`copy` needs the release that it brings"),
        Step::Containerd => containerd::perform(work),
        Step::CniPlugins => cni_plugins::perform(work),
        Step::Drain => drain::perform(work),
        Step::Kubeadm => kubeadm::perform(work),
        Step::Kubelet => kubelet::perform(work),
        Step::Verify => verify::perform(work),
        Step::Uncordon => uncordon::perform(work),
    }
}
