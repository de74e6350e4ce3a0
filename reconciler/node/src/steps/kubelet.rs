//! kubelet and kubectl: replaced, and kubelet restarted. At a new minor version it restarts the static Pods once more;
//! `verify` waits for that to be over.

use crate::files::manifest::Component;
use crate::work::Work;

use super::service::replace;

/// Replaces and restarts.
///
/// # Errors
/// When a file cannot be replaced, or kubelet does not stay up.
pub fn perform(work: &mut Work<'_>) -> anyhow::Result<String> {
    replace(work, Component::Kubelet, "kubelet")
}
