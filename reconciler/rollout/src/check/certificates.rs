//! Whether certificates last longer than a rollout, with its windows and approvals, may take.

use jiff::{SignedDuration, Timestamp};

use crate::observation::Machine;
use policy::CheckName;

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};

pub(super) const CHECK: Check = Check {
    name: CheckName::Certificates,
    looks_at: "certificates of API servers, etcd, kubeconfigs and webhooks: when they end",
    severity: CheckSeverity::Blocking,
    remedy: "renew it, or see why what renews it by itself did not",
    judge,
};

/// What ends so soon is told.
const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);

/// What ends so soon may end while the rollout runs.
const DURING: SignedDuration = SignedDuration::from_hours(7 * 24);

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    let now = judged.observation.read_at;
    let held = judged.inspection.certificates.iter().filter_map(|known| {
        let finding = of_end(&format!("{} in {}", known.purpose, known.field), known.ends, now)?;
        Some(finding.on(FoundObject::from(&known.object)))
    });
    let cluster = judged.expectation.cluster.as_ref();
    let own = judged.observation.machines.iter().filter(|machine| {
        cluster.is_some_and(|(namespace, name)| (&machine.namespace, &machine.cluster) == (namespace, name))
    });
    held.chain(own.filter_map(|machine| of_machine(machine, now))).collect()
}

fn of_machine(machine: &Machine, now: Timestamp) -> Option<CheckFinding> {
    let object = FoundObject {
        kind: "Machine".to_owned(),
        namespace: Some(machine.namespace.clone()),
        name: machine.name.clone(),
    };
    let finding = of_end("API server and etcd certificates", machine.certificates_end?, now)?;
    Some(finding.on(object).remedy(
        "roll the control plane before they end: set rolloutAfter (spec.rollout.after), or renew them on the node by \
         `kubeadm certs renew all`",
    ))
}

/// None where it lasts long enough.
fn of_end(what: &str, ends: Timestamp, now: Timestamp) -> Option<CheckFinding> {
    let left = ends.duration_since(now);
    let days = left.as_hours() / 24;
    if left <= SignedDuration::ZERO {
        Some(CheckFinding::fail(format!("{what}: ended at {ends}")))
    } else if left < DURING {
        Some(CheckFinding::fail(format!("{what}: ends at {ends}, in {days} days, maybe while the rollout runs")))
    } else if left < SOON {
        Some(CheckFinding::warn(format!("{what}: ends at {ends}, in {days} days")))
    } else {
        None
    }
}
