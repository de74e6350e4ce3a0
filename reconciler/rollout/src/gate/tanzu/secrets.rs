//! What the machines of a cluster trust: while one of these Secrets is gone, controllers make another that no machine knows.
//!
//! Which Secret it was is told by its UID, as the evidence of the rollout's first gate has it. Whoever puts one back makes
//! another object of it, and is told by the field manager: a restore, or a person with `kubectl`.

use crate::effect::ClusterAct;
use crate::expectation::SecretsExpectation;
use crate::gate::extension::presence;
use crate::gate::findings::Findings;
use crate::ledger::Ledger;
use crate::observation::{Hold, ObjectOrigin, ObjectPresence, ObjectReference, Observation};
use crate::verdict::Reason;
use jiff::{SignedDuration, Timestamp};

/// How a fact about a Secret begins.
const PRESENT: &str = "present, ";

/// The kind that has to own them.
const OWNER: &str = "KubeadmControlPlane";

/// Field managers of whoever may put a Secret back.
const MAY_RESTORE: [&str; 2] = ["stepgate", "kubectl"];

/// How long a cluster stands still that has lost one, if nobody says it again.
const STANDS_STILL: SignedDuration = SignedDuration::from_hours(24);

/// Who says so.
const US: &str = "stepgate";

/// How the name of the one ends that follows from the others: made anew it is as good.
const DERIVED: &str = "-kubeconfig";

pub(in crate::gate) fn check(expectation: &SecretsExpectation, observation: &Observation, findings: &mut Findings) {
    for reference in &expectation.secrets {
        let Some(known) = presence(reference, observation, findings) else { continue };
        let subject = reference.to_string();
        if let Some(lost) = lost(expectation, reference, known) {
            findings.failing(lost);
            continue;
        }
        let Some(origin) = &known.origin else {
            findings.fact(subject, "present");
            continue;
        };
        if !origin.owners.iter().any(|kind| kind == OWNER) {
            let message = format!("is owned by no {OWNER}, which would not keep it");
            let help = format!("kubectl get secret {} -n {} -o yaml", reference.name, expectation.namespace);
            findings.wait(Reason::on(&subject, message).field("metadata.ownerReferences").help(help));
        }
        findings.fact(subject, words(origin));
    }
}

fn words(origin: &ObjectOrigin) -> String {
    format!("{PRESENT}{}", origin.uid)
}

/// Why a Secret is not the one that machines know; none where it is, as far as is known.
fn lost(expectation: &SecretsExpectation, reference: &ObjectReference, known: &ObjectPresence) -> Option<Reason> {
    let subject = reference.to_string();
    let cluster = &expectation.cluster;
    let help = format!(
        "`stepgate hold {cluster} --reason certificates --yes`, then `stepgate restore {cluster} --certificates --yes` from the backup that was \
         taken before the first machine (`--certificates-of MACHINE` reads the bootstrap data of a machine instead), then `stepgate \
         resume {cluster} --yes`"
    );
    let reason = |what: &str| Reason::on(&subject, format!("{what}, and its machines trust no other")).help(&help);
    if known.deleting {
        return Some(reason("is being deleted"));
    }
    if !known.present {
        return Some(reason("is gone"));
    }
    let origin = known.origin.as_ref()?;
    let before = expectation.before.get(&subject).and_then(|words| words.strip_prefix(PRESENT))?;
    let is_derived = reference.name.ends_with(DERIVED);
    let made_by = origin.made_by.as_deref().unwrap_or("somebody");
    let is_put_back = MAY_RESTORE.iter().any(|manager| made_by.starts_with(manager));
    (before != origin.uid && !is_derived && !is_put_back)
        .then(|| reason(&format!("was made anew by `{made_by}` since the rollout began")))
}

/// Lets a gate know which Secrets there were when the rollout began.
pub(crate) fn as_recorded(ledger: &Ledger, expectation: &mut SecretsExpectation) {
    let facts =
        ledger.stages.iter().filter_map(|record| record.opened_by.as_ref()).flat_map(|evidence| &evidence.facts);
    for fact in facts.filter(|fact| fact.seen.starts_with(PRESENT)) {
        let is_its = expectation.secrets.iter().any(|reference| reference.to_string() == fact.object);
        if is_its {
            expectation.before.entry(fact.object.clone()).or_insert_with(|| fact.seen.clone());
        }
    }
}

/// What is to be done about what was lost, or is back; none where nothing is, or something was not read.
pub(crate) fn act(expectation: &SecretsExpectation, observation: &Observation, now: Timestamp) -> Option<ClusterAct> {
    let SecretsExpectation { namespace, cluster, secrets, .. } = expectation;
    let topology = observation.clusters.iter().find(|known| known.namespace == *namespace && known.name == *cluster)?;
    let found = |reference: &ObjectReference| {
        let is_read = !observation.unread.contains_key(&reference.kind);
        observation.objects.iter().find(|known| &known.reference == reference).filter(|_| is_read)
    };
    // What was not there when the rollout began is still to be made: a cluster that is new has none of it.
    let was_there = |reference: &&ObjectReference| expectation.before.contains_key(&reference.to_string());
    let missing =
        secrets.iter().filter(was_there).find_map(|reference| lost(expectation, reference, found(reference)?));
    let (namespace, cluster) = (namespace.clone(), cluster.clone());
    let ours = topology.lease.as_ref().filter(|lease| lease.owner == US);
    match missing {
        // People's own pause is theirs.
        Some(_) if topology.paused && ours.is_none() => None,
        Some(lost) => {
            let is_lasting = |lease: &&Hold| lease.until.duration_since(now) > STANDS_STILL / 2;
            if topology.paused && ours.is_some_and(|lease| is_lasting(&lease)) {
                return None;
            }
            let until = now.checked_add(STANDS_STILL).ok()?;
            let reason = format!("{} {}", lost.object, lost.message);
            Some(ClusterAct::Pause { namespace, cluster, lease: Hold { owner: US.to_owned(), reason, until } })
        }
        None => {
            let is_whole = secrets.iter().all(|reference| found(reference).is_some());
            ours.filter(|_| is_whole).map(|_| ClusterAct::Resume { namespace, cluster })
        }
    }
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
