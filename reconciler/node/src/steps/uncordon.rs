//! The end: kube-vip may come back, and Pods too.

use crate::node_object::{self, Cordon};
use crate::virtual_address;
use crate::work::Work;

/// Takes the own cordon back, and leaves that of somebody else.
///
/// # Errors
/// When the Node cannot be changed.
pub fn perform(work: &mut Work<'_>) -> anyhow::Result<String> {
    virtual_address::come_back(work)?;
    let cordon = node_object::uncordon(work.api()?, &work.journal.node, work.deadline)?;
    Ok(match cordon {
        Cordon::Foreign => "somebody else has cordoned the node: it stays so".to_owned(),
        Cordon::None | Cordon::Ours(_) => "uncordoned".to_owned(),
    })
}
