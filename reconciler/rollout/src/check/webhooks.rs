//! Whether an admission webhook keeps nodes from joining, or system pods from starting.

use crate::observation::{AdmissionWebhook, SystemRequest};
use policy::CheckName;

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};

pub(super) const CHECK: Check = Check {
    name: CheckName::Webhooks,
    looks_at: "admission webhooks with failurePolicy Fail that are called for nodes, leases and system pods",
    severity: CheckSeverity::Blocking,
    remedy: "leave kube-system and kube-node-lease out by its namespaceSelector, and nodes out of its rules",
    judge,
};

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    judged.inspection.webhooks.iter().map(of_webhook).collect()
}

fn of_webhook(webhook: &AdmissionWebhook) -> CheckFinding {
    let AdmissionWebhook { configuration, name, called_for, conditional, backend, unserved } = webhook;
    let requests: Vec<&str> = called_for.iter().copied().map(SystemRequest::as_str).collect();
    let what = format!("webhook {name} is called for {} and refuses them while it is silent", requests.join(", "));
    let conditions = if *conditional { ", unless its matchConditions leave them out" } else { "" };
    let finding = match (unserved, conditional) {
        (Some(unserved), false) => {
            let remedy = format!("let {backend} have a ready endpoint again, or {}", CHECK.remedy);
            CheckFinding::fail(format!("{what}; nothing answers now: {unserved}")).remedy(remedy)
        }
        (Some(unserved), true) => CheckFinding::warn(format!("{what}{conditions}; nothing answers now: {unserved}")),
        (None, _) => CheckFinding::warn(format!("{what}{conditions}: {backend} has to answer all through the rollout")),
    };
    finding.on(FoundObject::from(configuration))
}
