//! Objects, `CustomResourceDefinitions` and webhooks.

use jiff::Timestamp;

use crate::observation::{ObjectPresence, ObjectReference, Observation, WebhookOutcome};
use crate::verdict::Reason;

use super::findings::Findings;

pub(super) fn check_object(reference: &ObjectReference, observation: &Observation, findings: &mut Findings) {
    let Some(presence) = presence(reference, observation, findings) else { return };
    let subject = reference.to_string();
    if presence.deleting {
        findings.fail(Reason::on(subject, "is being deleted").field("metadata.deletionTimestamp").help(get(reference)));
    } else if !presence.present {
        findings.wait(Reason::on(subject, "not found").help(get(reference)));
    } else if let Some(unfinished) = &presence.unfinished {
        let reason = Reason::on(subject, &unfinished.message).field(&unfinished.field).help(get(reference));
        if unfinished.failed { findings.fail(reason) } else { findings.wait(reason) }
    } else {
        findings.fact(subject, "present");
    }
}

/// Nobody else writes what the deploy branch says: two writers would undo each other for ever, and neither's state proves anything.
pub(super) fn check_taken(observation: &Observation, findings: &mut Findings) {
    for taken in &observation.taken {
        let since = taken.at.map(|at| format!(", which wrote it at {at}")).unwrap_or_default();
        let message = if taken.added {
            format!(
                "added by `{}`{since}, so that something else is applied than the deploy branch holds",
                taken.manager
            )
        } else {
            format!("set by the deploy branch and taken over by `{}`{since}", taken.manager)
        };
        let help = format!(
            "put the change into the fleet repository, or stop `{}` and let Flux apply again; {} --show-managed-fields -o yaml",
            taken.manager,
            get(&taken.object)
        );
        findings.wait(Reason::on(taken.object.to_string(), message).field(&taken.field).help(help));
    }
}

pub(super) fn check_absent(reference: &ObjectReference, observation: &Observation, findings: &mut Findings) {
    let Some(presence) = presence(reference, observation, findings) else { return };
    let subject = reference.to_string();
    if presence.present {
        let state = if presence.deleting { "is still being deleted" } else { "is still there" };
        findings.wait(Reason::on(subject, state).help(get(reference)));
    } else {
        findings.fact(subject, "absent");
    }
}

/// The entry of an object that was asked for; an object that was not asked for is unknown, neither there nor gone.
pub(super) fn presence<'a>(
    reference: &ObjectReference,
    observation: &'a Observation,
    findings: &mut Findings,
) -> Option<&'a ObjectPresence> {
    if !findings.was_read(&reference.kind, observation) {
        return None;
    }
    let found = observation.objects.iter().find(|known| &known.reference == reference);
    if found.is_none() {
        findings.wait(Reason::on(reference.to_string(), "was not read").help(get(reference)));
    }
    found
}

fn get(reference: &ObjectReference) -> String {
    let group = reference.api_version.split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
    let namespace = reference.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    format!("kubectl get {}{group} {}{namespace}", reference.kind.to_lowercase(), reference.name)
}

/// What looks at the part of cert-manager that writes `caBundle`.
const CA_INJECTOR: &str = "kubectl logs -n cert-manager deployment/cert-manager-cainjector";

pub(super) fn check_definition(
    name: &str,
    served: &[String],
    storage: &str,
    observation: &Observation,
    findings: &mut Findings,
) {
    if !findings.was_read("CustomResourceDefinition", observation) {
        return;
    }
    let subject = format!("CustomResourceDefinition {name}");
    let help = format!("kubectl describe crd {name}");
    let Some(definition) = observation.custom_resource_definitions.iter().find(|known| known.name == name) else {
        findings.wait(Reason::on(subject, "not found").help(help));
        return;
    };
    if definition.deleting {
        findings.fail(Reason::on(&subject, "is being deleted").field("metadata.deletionTimestamp").help(&help));
    }
    if !definition.names_accepted {
        findings.wait(Reason::on(&subject, "not True").field("status.conditions[NamesAccepted]").help(&help));
    }
    if !definition.established {
        findings.wait(Reason::on(&subject, "not True").field("status.conditions[Established]").help(&help));
    }
    for version in served {
        if !definition.served_versions.contains(version) {
            findings.wait(
                Reason::on(&subject, format!("{version} is not served")).field("spec.versions[].served").help(&help),
            );
        }
    }
    if definition.storage_version.as_deref() != Some(storage) {
        let seen = definition.storage_version.as_deref().unwrap_or("none");
        findings.wait(
            Reason::on(&subject, format!("{seen}, {storage} expected")).field("spec.versions[].storage").help(&help),
        );
    }
    for version in &definition.stored_versions {
        if !definition.versions.contains(version) {
            // The API server could not read such objects any more, and refuses the next update of the definition.
            let message = format!("lists {version}, which the definition no longer has");
            let help = format!(
                "rewrite every object of {name} at {storage}, then take {version} out of its status: `kubectl edit crd {name} --subresource=status`"
            );
            findings.fail(Reason::on(&subject, message).field("status.storedVersions").help(help));
        }
    }
    if definition.stored_versions.is_empty() {
        findings.wait(Reason::on(&subject, "empty").field("status.storedVersions").help(&help));
    }
    if definition.conversion_authority_injected == Some(false) {
        let field = "spec.conversion.webhook.clientConfig.caBundle";
        findings.wait(Reason::on(&subject, "not injected yet").field(field).help(CA_INJECTOR));
    }
    findings.settle(format!("{subject} {}", definition.stored_versions.join(",")));
    findings.fact(subject, format!("established, stores {storage}"));
}

pub(super) fn check_webhook(
    name: &str,
    committed_at: Option<Timestamp>,
    observation: &Observation,
    findings: &mut Findings,
) {
    if !findings.was_read("Webhook", observation) {
        return;
    }
    let subject = format!("webhook {name}");
    let help = format!("kubectl describe validatingwebhookconfiguration,mutatingwebhookconfiguration {name}");
    let probe = observation.webhooks.iter().filter(|known| known.name == name).max_by_key(|known| known.probed_at);
    let Some(probe) = probe else {
        findings.wait(Reason::on(subject, "was not called yet").help(help));
        return;
    };
    if committed_at.is_some_and(|committed_at| probe.probed_at <= committed_at) {
        findings.wait(Reason::on(subject, "was called before the commit only").help(help));
        return;
    }
    match &probe.outcome {
        WebhookOutcome::Answered => findings.fact(subject, "was called by a dry run, and answers"),
        WebhookOutcome::Unreachable { message } => {
            // Whose certificate nobody has vouched for waits for cert-manager, not for itself.
            let is_unknown = message.contains("x509: certificate signed by unknown authority");
            let help = if is_unknown { CA_INJECTOR.to_owned() } else { help };
            findings.wait(Reason::on(subject, format!("cannot be called: {message}")).help(help));
        }
        WebhookOutcome::Serving { endpoints, reason } => {
            findings.fact(subject, format!("{endpoints} endpoints are ready; no dry run proves a call: {reason}"));
        }
        WebhookOutcome::Unproven { message } => {
            findings.wait(Reason::on(subject, format!("is not proven to answer: {message}")).help(help));
        }
    }
}
