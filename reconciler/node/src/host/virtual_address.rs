//! kube-vip: out of the way while the node is upgraded, so that another node has the address, and back afterwards.

use crate::files::Found;
use crate::files::manifest::Component;
use crate::files::root::NodePath;
use crate::host::static_pods;
use crate::journal::Saved;
use crate::work::Work;

/// Moves its manifest aside: kubelet stops it, and another node takes the address over.
///
/// # Errors
/// When the manifest cannot be kept or removed.
pub fn leave(work: &mut Work<'_>) -> anyhow::Result<bool> {
    let path = NodePath::try_from(static_pods::path("kube-vip")).map_err(anyhow::Error::msg)?;
    if work.journal.virtual_address.is_none() {
        let Some(before) = work.files().keep_copy(path.as_str())? else { return Ok(false) };
        // Written down first: whatever happens, it is known that it has to come back.
        work.journal.virtual_address = Some(Saved { path: path.clone(), before });
        work.save()?;
    }
    work.files().take_away(path.as_str())?;
    Ok(true)
}

/// Puts the manifest there that the machine is to have, if there is one. Returns whether it is another than before.
///
/// # Errors
/// When it cannot be written.
pub fn renew(work: &mut Work<'_>) -> anyhow::Result<bool> {
    let _changed = work.install(Component::VirtualAddress)?;
    let content = |found: Option<Found>| found.map(|found| found.sha256);
    Ok(work.component(Component::VirtualAddress).iter().any(|file| content(file.before) != Some(file.after.sha256)))
}

/// Puts it back as it was before, where nothing is there.
///
/// # Errors
/// When the manifest is not kept whole, or cannot be written.
pub fn come_back(work: &mut Work<'_>) -> anyhow::Result<()> {
    let Some(saved) = work.journal.virtual_address.clone() else { return Ok(()) };
    // What somebody put there meanwhile is newer than what was moved aside.
    if work.files().found(saved.path.as_str())?.is_none() {
        work.files().put(saved.path.as_str(), &work.files().kept(saved.before.sha256)?, saved.before)?;
    }
    work.journal.virtual_address = None;
    work.save()
}
