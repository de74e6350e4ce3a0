//! kubelet and kubectl: replaced, and kubelet restarted. At a new minor version it restarts the static Pods once more;
//! `verify` waits for that to be over.

use crate::manifest::Component;
use crate::services::{owe_restart, settle};
use crate::work::Work;

use super::containerd::program;

/// Replaces and restarts.
///
/// # Errors
/// When a file cannot be replaced, or kubelet does not stay up.
pub fn perform(work: &mut Work<'_>) -> anyhow::Result<String> {
    if !work.is_installed(Component::Kubelet)? {
        owe_restart(work, "kubelet")?;
    }
    let changed = work.install(Component::Kubelet)?;
    let program = program(work, Component::Kubelet, "kubelet");
    let service = settle(work, "kubelet", program)?;
    Ok(format!("{changed} files replaced, {service}"))
}
