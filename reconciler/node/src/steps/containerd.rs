//! containerd and runc: replaced, and containerd restarted. Containers go on meanwhile; their shims are processes of
//! their own.

use crate::digest::Digest;
use crate::manifest::Component;
use crate::services::{owe_restart, settle};
use crate::work::Work;

/// Replaces and restarts.
///
/// # Errors
/// When a file cannot be replaced, or containerd does not come up.
pub fn perform(work: &mut Work<'_>) -> anyhow::Result<String> {
    if work.component(Component::Containerd).is_empty() {
        return Ok("the release has no containerd".to_owned());
    }
    if !work.is_installed(Component::Containerd)? {
        owe_restart(work, "containerd")?;
    }
    let changed = work.install(Component::Containerd)?;
    let program = program(work, Component::Containerd, "containerd");
    let service = settle(work, "containerd", program)?;
    Ok(format!("{changed} files replaced, {service}"))
}

/// Of the program that a service runs afterwards.
pub(super) fn program(work: &Work<'_>, component: Component, name: &str) -> Option<Digest> {
    let files = work.component(component);
    files.iter().find(|file| file.path.name() == name && file.after.mode & 0o111 != 0).map(|file| file.after.sha256)
}
