//! Where a process ends, and what is left of the effect that it was carrying out.

use rollout::{ClusterAct, Effect, EtcdAct};

/// How a process ends at an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// Before the effect is carried out.
    Before,
    /// After it is carried out, before anything is remembered.
    After,
    /// It does not end; but the answer to the effect is lost, and it takes the effect for failed.
    AnswerLost,
    /// In the middle of an effect of several writes.
    Within(Torn),
    /// It does not end; but some writes of the effect are refused, and it takes all of it for failed.
    Failed(Torn),
}

/// Which writes of an effect were carried out: the first one where the lowest bit is set, and so on.
///
/// What is written one after another leaves the first few of them; what is written at once, or reaches
/// the disk of a server in another order, leaves any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn(u64);

impl Crash {
    /// What is carried out of an effect.
    pub(super) fn left_of(self, effect: &Effect) -> Effect {
        let mut left = effect.clone();
        if let Self::Within(Torn(mut bits)) | Self::Failed(Torn(mut bits)) = self {
            retain_writes(&mut left, || {
                let is_carried_out = bits & 1 == 1;
                bits >>= 1;
                is_carried_out
            });
        }
        left
    }
}

impl Torn {
    /// Every way in which an effect can be torn, by its first four writes; none where it is a single one.
    #[must_use]
    pub fn ways(effect: &Effect) -> Vec<Self> {
        let mut writes = 0_u32;
        retain_writes(&mut effect.clone(), || {
            writes += 1;
            true
        });
        let whole = (1_u64 << writes.min(4)) - 1;
        (0..whole).map(Self).collect()
    }
}

/// Asks of each write of an effect, in the program's order, whether it is carried out. What comes
/// before them always is: the note of an attempt on the Cluster, the pause of etcd's controller.
fn retain_writes(effect: &mut Effect, mut is_carried_out: impl FnMut() -> bool) {
    match effect {
        Effect::OrderMachines { changes } => changes.retain(|_| is_carried_out()),
        Effect::Etcd(EtcdAct::TakeBack { give_back, delete, .. }) => {
            give_back.retain(|_| is_carried_out());
            delete.retain(|_| is_carried_out());
        }
        Effect::Cluster(ClusterAct::GiveUp { machines, .. }) => machines.retain(|_| is_carried_out()),
        Effect::Cluster(ClusterAct::Sign { machines, owners, .. }) => {
            owners.retain(|_| is_carried_out());
            machines.retain(|_| is_carried_out());
        }
        // One write, which is there or not: a push, a request, a mark; or none.
        Effect::Cluster(ClusterAct::Pause { .. } | ClusterAct::Resume { .. })
        | Effect::Etcd(EtcdAct::Resume { .. })
        | Effect::Backup { .. }
        | Effect::RequestApproval(_)
        | Effect::Commit(_)
        | Effect::Revert(_)
        | Effect::Close(_)
        | Effect::Observe { .. }
        | Effect::Wait { .. }
        | Effect::Hold { .. }
        | Effect::Blocked { .. }
        | Effect::Done => {}
    }
}

#[cfg(test)]
mod tests {
    use rollout::{MarkChange, MarkKind};

    use super::*;

    fn marks(names: &[&str]) -> Effect {
        let change = |name: &&str| MarkChange {
            namespace: "eksa-system".to_owned(),
            machine: (*name).to_owned(),
            kind: MarkKind::Brake,
            mark: None,
        };
        Effect::OrderMachines { changes: names.iter().map(change).collect() }
    }

    #[test]
    fn a_torn_effect_leaves_each_part_of_its_writes_but_all() {
        let whole = marks(&["a", "b"]);
        let left: Vec<Effect> =
            Torn::ways(&whole).into_iter().map(|torn| Crash::Within(torn).left_of(&whole)).collect();
        assert_eq!(left, [marks(&[]), marks(&["a"]), marks(&["b"])]);
        assert_eq!(Crash::After.left_of(&whole), whole);
    }

    #[test]
    fn what_is_a_single_write_cannot_be_torn() {
        assert_eq!(Torn::ways(&Effect::Done), []);
    }
}
