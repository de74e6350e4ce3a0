//! The end: kube-vip may come back, and Pods too. A kube-vip that is another one has to run before they do.

use crate::api::node_object::{self, Cordon};
use crate::host::virtual_address;
use crate::proof::{Wanted, WantedImage, prove};
use crate::work::Work;

/// Takes the own cordon back, and leaves that of somebody else.
///
/// # Errors
/// When kube-vip does not run, or the Node cannot be changed.
pub fn perform(work: &mut Work<'_>) -> anyhow::Result<String> {
    let is_new = virtual_address::renew(work)?;
    virtual_address::come_back(work)?;
    if is_new {
        let version = work.journal.target.kubernetes_version.clone();
        let images = vec![("kube-vip".to_owned(), WantedImage::OfManifest)];
        prove(work, &Wanted { version, kubelet: None, images })?;
    }
    let cordon = node_object::uncordon(work.api()?, &work.journal.node, work.deadline)?;
    let told = if is_new { ", kube-vip runs by its new manifest" } else { "" };
    Ok(match cordon {
        Cordon::Foreign => format!("somebody else has cordoned the node: it stays so{told}"),
        Cordon::None | Cordon::Ours(_) => format!("uncordoned{told}"),
    })
}
