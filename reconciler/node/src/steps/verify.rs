//! The proof: nothing before it was believed.

use anyhow::bail;

use crate::files::manifest::Component;
use crate::proof::{Wanted, images_of_target, prove};
use crate::work::Work;

use super::service::program;

/// Waits until the node is healthy at the target, and stays so.
///
/// # Errors
/// All that is not true when the time is over.
pub fn perform(work: &mut Work<'_>) -> anyhow::Result<String> {
    // kube-vip comes to a proven node.
    for file in work.journal.files.iter().filter(|file| file.component != Component::VirtualAddress) {
        let found = work.files().found(file.path.as_str())?;
        if found != Some(file.after) {
            let found = found.map_or("missing".to_owned(), |found| format!("{} (mode {:o})", found.sha256, found.mode));
            bail!("{} is {found}, and {} is wanted (mode {:o})", file.path, file.after.sha256, file.after.mode);
        }
    }
    let wanted = Wanted {
        version: work.journal.target.kubernetes_version.clone(),
        kubelet: program(work, Component::Kubelet, "kubelet", |file| Some(file.after.sha256)),
        images: images_of_target(work)?,
    };
    prove(work, &wanted)
}
