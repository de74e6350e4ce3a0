//! Network plugins: replaced. Each call to one starts it anew, so nothing is restarted.

use crate::files::manifest::Component;
use crate::work::Work;

/// Replaces.
///
/// # Errors
/// When a file cannot be replaced.
pub fn perform(work: &mut Work<'_>) -> anyhow::Result<String> {
    let changed = work.install(Component::CniPlugins)?;
    Ok(format!("{changed} files replaced"))
}
