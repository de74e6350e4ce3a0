//! containerd and runc: replaced, and containerd restarted. Containers go on meanwhile; their shims are processes of
//! their own. What it reads of registries is written first: it reads that at every pull.

use crate::files::manifest::Component;
use crate::work::Work;

use super::service::replace;

/// Replaces and restarts.
///
/// # Errors
/// When a file cannot be replaced, or containerd does not come up.
pub fn perform(work: &mut Work<'_>) -> anyhow::Result<String> {
    let written = work.install(Component::Registries)?;
    let told = if written > 0 { format!("; {written} files of registries written") } else { String::new() };
    if work.component(Component::Containerd).is_empty() {
        return Ok(format!("the release has no containerd{told}"));
    }
    Ok(replace(work, Component::Containerd, "containerd")? + &told)
}
