//! Flux has applied a commit of the stage's lineage.

use crate::observation::{Condition, ConditionStatus, FluxKustomization, FluxSource, Observation, SourceKind};
use crate::verdict::{Binding, Reason};
use domain::CommitId;

use super::findings::{Findings, describe, object};

/// Where an artifact from a registry says which commit it was made of.
const ORIGIN: &str = "status.artifact.metadata[org.opencontainers.image.revision]";

/// What helps where it does not say.
const NAME_COMMIT: &str = "push the artifact with flux push artifact … --revision=BRANCH@sha1:COMMIT";

pub(super) fn check(
    namespace: &str,
    kustomizations: &[String],
    binding: Option<&Binding>,
    observation: &Observation,
    findings: &mut Findings,
) {
    if !findings.was_read("Kustomization", observation) || !findings.was_read("GitRepository", observation) {
        return;
    }
    for name in kustomizations {
        let found =
            observation.flux.kustomizations.iter().find(|known| known.namespace == namespace && &known.name == name);
        let Some(kustomization) = found else {
            let help = find_source(namespace, observation);
            findings.wait(Reason::on(object("Kustomization", namespace, name), "not found").help(help));
            findings.untried();
            continue;
        };
        let tried = [&kustomization.last_applied_revision, &kustomization.last_attempted_revision];
        let ours = |binding: &Binding| tried.into_iter().flatten().any(|revision| binding.lineage.contains(revision));
        if binding.is_some_and(|binding| !ours(binding)) {
            findings.untried();
        }
        check_source(kustomization, binding, observation, findings);
        check_kustomization(kustomization, binding, findings);
    }
}

/// What makes Flux look for a Kustomization that is not there: its source, as far as that is known.
fn find_source(namespace: &str, observation: &Observation) -> String {
    let sources = observation.flux.sources.iter().filter(|source| source.namespace == namespace);
    let command = |source: &FluxSource| match source.kind {
        SourceKind::GitRepository => Some(format!("flux reconcile source git {} -n {namespace}", source.name)),
        SourceKind::OciRepository => Some(format!("flux reconcile source oci {} -n {namespace}", source.name)),
        SourceKind::Other(_) => None,
    };
    sources.filter_map(command).next().unwrap_or_else(|| format!("flux get kustomizations -n {namespace}"))
}

/// What Flux says of a commit of the stage's lineage that it will not apply, however often it tries: the commit has to be another one. None where it
/// has not tried it, is still trying, or only could not ask.
pub(super) fn refused(kustomization: &FluxKustomization, binding: Option<&Binding>) -> Option<Reason> {
    let ready = kustomization.ready.as_ref().filter(|ready| ready.status == ConditionStatus::False)?;
    let is_current = kustomization.observed_generation == Some(kustomization.generation)
        && ready.observed_generation.is_none_or(|observed| observed == kustomization.generation);
    let tried = kustomization.last_attempted_revision.as_ref();
    let is_ours = binding.is_none_or(|binding| tried.is_some_and(|tried| binding.lineage.contains(tried)));
    let is_refusal = match ready.reason.as_str() {
        "BuildFailed" => true,
        "ReconciliationFailed" | "ApplyFailed" => is_said_no(&ready.message),
        _ => false,
    };
    let (namespace, name) = (&kustomization.namespace, &kustomization.name);
    (is_current && is_ours && is_refusal && !kustomization.suspended).then(|| {
        let help = format!("flux get kustomization {name} -n {namespace}");
        Reason::on(object("Kustomization", namespace, name), describe(ready)).field(READY).help(help)
    })
}

/// Whether Flux has applied a commit of the stage's lineage. It may wait in vain since then for what it applied to be
/// healthy: then it has tried that commit, and names it as the one that succeeded only when it is.
pub(super) fn has_applied(kustomization: &FluxKustomization, binding: &Binding) -> bool {
    let is_ours =
        |revision: &Option<CommitId>| revision.as_ref().is_some_and(|revision| binding.lineage.contains(revision));
    let is_unhealthy = kustomization.ready.as_ref().is_some_and(|ready| ready.reason == "HealthCheckFailed");
    is_ours(&kustomization.last_applied_revision) || is_unhealthy && is_ours(&kustomization.last_attempted_revision)
}

/// Whether somebody has looked at what was to be applied, and said no.
fn is_said_no(message: &str) -> bool {
    SAID_NO.iter().any(|sign| message.contains(sign)) || !IN_PASSING.iter().any(|sign| message.contains(sign))
}

/// Signs that the API server, or an admission webhook, has looked at it.
const SAID_NO: [&str; 6] =
    ["(Invalid)", "(Forbidden)", "(BadRequest)", "denied the request", "namespace not specified", "is immutable"];

/// Signs of a failure to apply that may pass by itself: nobody has looked at what was to be applied.
const IN_PASSING: [&str; 20] = [
    "failed calling webhook",
    "failed to call webhook",
    "connection refused",
    "connection reset",
    "no route to host",
    "no such host",
    "no endpoints available",
    "deadline exceeded",
    "handshake timeout",
    "i/o timeout",
    "timed out",
    "timeout waiting",
    ": EOF",
    "unexpected EOF",
    "the object has been modified",
    "(Conflict)",
    "(ServiceUnavailable)",
    "(TooManyRequests)",
    "Timeout)",
    "etcdserver",
];

/// Settled as it is, whatever it has applied.
pub(super) fn check_health(observation: &Observation, findings: &mut Findings) {
    if !findings.was_read("Kustomization", observation) || !findings.was_read("GitRepository", observation) {
        return;
    }
    for kustomization in &observation.flux.kustomizations {
        check_source(kustomization, None, observation, findings);
        check_kustomization(kustomization, None, findings);
    }
}

/// These Kustomizations are there.
pub(super) fn check_present<'a>(
    expected: impl IntoIterator<Item = (&'a str, &'a str)>,
    observation: &Observation,
    findings: &mut Findings,
) {
    for (namespace, name) in expected {
        if !observation.flux.kustomizations.iter().any(|known| known.namespace == namespace && known.name == name) {
            let reason = Reason::on(object("Kustomization", namespace, name), "not found");
            findings.wait(reason.help(find_source(namespace, observation)));
        }
    }
}

/// A release that is there says nothing yet: what helm-controller makes of it follows later, and may fail.
pub(super) fn check_release(namespace: &str, name: &str, observation: &Observation, findings: &mut Findings) {
    if !findings.was_read("HelmRelease", observation) {
        return;
    }
    let subject = object("HelmRelease", namespace, name);
    let help = format!("flux get helmrelease {name} -n {namespace}");
    let found = observation.flux.releases.iter().find(|known| known.namespace == namespace && known.name == name);
    let Some(release) = found else {
        findings.wait(Reason::on(subject, "not found").help(help));
        return;
    };
    if release.suspended {
        let by = release.suspended_by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
        let help = format!("flux resume helmrelease {name} -n {namespace}");
        findings.wait(Reason::on(&subject, format!("suspended{by}")).field("spec.suspend").help(help));
    }
    findings.observed(&subject, release.generation, release.observed_generation, &help);
    check_ready(&subject, release.ready.as_ref(), release.generation, &help, findings);
    findings.settle(format!("{subject} generation {}", release.generation));
    findings.fact(subject, "Ready");
}

fn check_kustomization(kustomization: &FluxKustomization, binding: Option<&Binding>, findings: &mut Findings) {
    let (namespace, name) = (&kustomization.namespace, &kustomization.name);
    let subject = object("Kustomization", namespace, name);
    let help = format!("flux get kustomization {name} -n {namespace}");
    if kustomization.suspended {
        let by = kustomization.suspended_by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
        let help = match &kustomization.hold {
            Some(_) => "`stepgate resume` with the cluster's name ends what `stepgate hold` began".to_owned(),
            None => format!("flux resume kustomization {name} -n {namespace}"),
        };
        findings.wait(Reason::on(&subject, format!("suspended{by}")).field("spec.suspend").help(help));
    }
    if kustomization.reconcile_disabled {
        let field = "metadata.annotations[kustomize.toolkit.fluxcd.io/reconcile]";
        let help =
            format!("kubectl annotate kustomization {name} -n {namespace} kustomize.toolkit.fluxcd.io/reconcile-");
        findings.wait(Reason::on(&subject, "disabled").field(field).help(help));
    }
    findings.observed(&subject, kustomization.generation, kustomization.observed_generation, &help);
    check_ready(&subject, kustomization.ready.as_ref(), kustomization.generation, &help, findings);
    let applied = kustomization.last_applied_revision.as_ref();
    if let (Some(attempted), Some(applied)) = (&kustomization.last_attempted_revision, applied)
        && attempted != applied
    {
        let message = format!("{attempted} is being tried, {applied} was the last to succeed");
        findings.behind(Reason::on(&subject, message).field("status.lastAttemptedRevision").help(&help));
    }
    let artifacts = &kustomization.artifacts;
    if let (Some(attempted), Some(applied)) = (&artifacts.attempted, &artifacts.applied)
        && attempted != applied
    {
        let message = format!("{attempted} is being tried, {applied} was the last to succeed");
        findings.wait(Reason::on(&subject, message).field("status.lastAttemptedRevision").help(&help));
    }
    let field = match kustomization.source_kind {
        SourceKind::OciRepository => "status.lastAppliedOriginRevision",
        SourceKind::GitRepository | SourceKind::Other(_) => "status.lastAppliedRevision",
    };
    if let Some(binding) = binding
        && check_revision(&subject, field, applied, binding, &help, findings)
        && let Some(applied) = applied
    {
        findings.applied(applied);
        findings.fact(subject.clone(), format!("applied {applied}, Ready"));
    }
    findings.settle(format!("{subject} generation {}", kustomization.generation));
}

fn check_source(
    kustomization: &FluxKustomization,
    binding: Option<&Binding>,
    observation: &Observation,
    findings: &mut Findings,
) {
    let Some(source) = &kustomization.source else { return };
    let namespace = kustomization.source_namespace.as_ref().unwrap_or(&kustomization.namespace);
    let kind = &kustomization.source_kind;
    let subject = object(&kind.to_string(), namespace, source);
    let Some(word) = word(kind) else {
        if binding.is_some() {
            let message = "names no commit, so that nothing proves which one is applied";
            findings.wait(
                Reason::on(subject, message).help("let a GitRepository or OCIRepository fetch the deploy branch"),
            );
        }
        return;
    };
    let Some(found) = kustomization.source_of(&observation.flux.sources) else {
        let help = format!("flux get source {word} {source} -n {namespace}");
        findings.wait(Reason::on(subject, "not found").help(help));
        return;
    };
    check_found_source(&subject, word, found, binding, findings);
}

/// What the flux program calls this kind; none for one that names no commit.
fn word(kind: &SourceKind) -> Option<&'static str> {
    match kind {
        SourceKind::GitRepository => Some("git"),
        SourceKind::OciRepository => Some("oci"),
        SourceKind::Other(_) => None,
    }
}

fn check_found_source(
    subject: &str,
    word: &str,
    source: &FluxSource,
    binding: Option<&Binding>,
    findings: &mut Findings,
) {
    let (namespace, name) = (&source.namespace, &source.name);
    let help = format!("flux reconcile source {word} {name} -n {namespace}");
    if source.suspended {
        let help = format!("flux resume source {word} {name} -n {namespace}");
        findings.wait(Reason::on(subject, "suspended").field("spec.suspend").help(help));
    }
    findings.observed(subject, source.generation, source.observed_generation, &help);
    check_ready(subject, source.ready.as_ref(), source.generation, &help, findings);
    if let Some(binding) = binding {
        let is_unnamed = source.artifact.is_some() && source.artifact_revision.is_none();
        let (field, help) = match source.kind {
            SourceKind::OciRepository if is_unnamed => (ORIGIN, NAME_COMMIT.to_owned()),
            SourceKind::OciRepository => (ORIGIN, help),
            SourceKind::GitRepository | SourceKind::Other(_) => ("status.artifact.revision", help),
        };
        check_revision(subject, field, source.artifact_revision.as_ref(), binding, &help, findings);
    }
}

/// Where Flux says how its work went.
const READY: &str = "status.conditions[Ready]";

fn check_ready(subject: &str, ready: Option<&Condition>, generation: i64, help: &str, findings: &mut Findings) {
    let field = READY;
    match ready {
        None => findings.wait(Reason::on(subject, "not reported").field(field).help(help)),
        Some(ready) if ready.status != ConditionStatus::True => {
            let reason = Reason::on(subject, describe(ready)).field(field).help(help);
            match (ready.status, ready.reason.as_str()) {
                (ConditionStatus::False, "DependencyNotReady") => findings.dependent(reason),
                (ConditionStatus::False, reason_word) if reason_word != "Progressing" => findings.failing(reason),
                _ => findings.wait(reason),
            }
        }
        Some(ready) => {
            if let Some(observed) = ready.observed_generation
                && observed != generation
            {
                let message = format!("of generation {observed}, but the object is at generation {generation}");
                findings.behind(Reason::on(subject, message).field(field).help(help));
            }
        }
    }
}

/// A revision from before the stage's commit, or one that is not on the branch, proves nothing about the stage.
fn check_revision(
    subject: &str,
    field: &str,
    revision: Option<&CommitId>,
    binding: &Binding,
    help: &str,
    findings: &mut Findings,
) -> bool {
    let message = match revision {
        None => format!("not set, {} or a later commit is expected", binding.commit),
        Some(revision) if !binding.lineage.contains(revision) => {
            format!("{revision} does not contain the stage's commit {}", binding.commit)
        }
        Some(_) => return true,
    };
    findings.behind(Reason::on(subject, message).field(field).help(help));
    false
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::observation::{HelmRelease, conditions};

    #[test]
    fn a_release_holds_where_it_is_ready_at_its_own_generation_and_nobody_has_suspended_it() {
        let ready = |status| {
            let ready = conditions([("Ready", status)]).remove("Ready");
            ready.map(|ready| Condition { reason: "UpgradeFailed".into(), message: "no such image".into(), ..ready })
        };
        let release = HelmRelease {
            namespace: "a".into(),
            name: "b".into(),
            generation: 2,
            observed_generation: Some(2),
            suspended: false,
            suspended_by: None,
            ready: ready(ConditionStatus::True),
        };
        let said = |releases: Vec<HelmRelease>| {
            let mut observation = Observation::empty(Timestamp::UNIX_EPOCH);
            observation.flux.releases = releases;
            let mut findings = Findings::default();
            check_release("a", "b", &observation, &mut findings);
            match findings.into_verdict() {
                Ok((facts, _)) => format!("{facts:?}"),
                Err(verdict) => format!("{verdict:?}"),
            }
        };
        let elsewhere = HelmRelease { namespace: "c".into(), ..release.clone() };
        for (releases, expected) in [
            (vec![release.clone()], "Ready"),
            (vec![elsewhere], "not found"),
            (vec![HelmRelease { observed_generation: Some(1), ..release.clone() }], "its status is stale"),
            (vec![HelmRelease { ready: None, ..release.clone() }], "not reported"),
            (
                vec![HelmRelease { ready: ready(ConditionStatus::False), ..release.clone() }],
                "False (UpgradeFailed: no such image)",
            ),
            (
                vec![HelmRelease { suspended: true, suspended_by: Some("alice".into()), ..release }],
                "suspended by alice",
            ),
        ] {
            let said = said(releases);
            assert!(said.contains(expected) && said.starts_with('[') == (expected == "Ready"), "{said}");
        }
    }
}
