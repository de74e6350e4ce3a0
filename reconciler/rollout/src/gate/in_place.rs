//! What upgrades of machines in place say of themselves: where they stand while the gate waits, and what was done once it
//! passes. Machines and nodes prove the stage; these objects never do.

use std::collections::BTreeSet;

use jiff::{Timestamp, Unit};

use super::findings::{Findings, object};
use crate::check::{EXTENSION_CONFIG, RIVALS_REMEDY, told_of_rivals};
use crate::observation::{InPlaceState, InPlaceUpgrade, Observation};
use crate::verdict::Reason;

/// The extension that an installation of Stepgate brings.
const OURS: &str = "stepgate";

/// Adds whoever keeps Cluster API from asking: of two that answer the same it asks neither.
pub(super) fn check_rivals(observation: &Observation, findings: &mut Findings) {
    let Some(read) = observation.runtime_extensions.as_ref().filter(|_| findings.waits()) else { return };
    let namespaces: BTreeSet<&str> = observation.clusters.iter().map(|it| it.namespace.as_str()).collect();
    for namespace in namespaces {
        let Some((names, hooks)) = read.rivals(namespace) else { continue };
        // Without ours, nobody said that the feature is used.
        if let Some(rival) = names.iter().find(|name| **name != OURS).filter(|_| names.contains(&OURS)) {
            let reason = Reason::on(format!("{EXTENSION_CONFIG} {rival}"), told_of_rivals(&names, &hooks, namespace));
            findings.failing(reason.help(format!("kubectl describe extensionconfig {rival}: {RIVALS_REMEDY}")));
        }
    }
}

/// Adds what they say. What was done before `committed_at` is not of this stage.
pub(super) fn check(observation: &Observation, committed_at: Option<Timestamp>, findings: &mut Findings) {
    let waits = findings.waits();
    for upgrade in &observation.in_place {
        match upgrade.state {
            InPlaceState::Failed if waits => findings.failing(reason(upgrade)),
            InPlaceState::Underway if waits => findings.underway(reason(upgrade)),
            InPlaceState::Done if upgrade.finished.is_some_and(|at| committed_at.is_none_or(|since| at >= since)) => {
                findings.timed_fact(subject(upgrade), done(upgrade), seconds(upgrade));
            }
            InPlaceState::Failed | InPlaceState::Underway | InPlaceState::Done => {}
        }
    }
}

fn subject(upgrade: &InPlaceUpgrade) -> String {
    object(&upgrade.kind, &upgrade.namespace, &upgrade.name)
}

fn reason(upgrade: &InPlaceUpgrade) -> Reason {
    let InPlaceUpgrade { resource, namespace, name, .. } = upgrade;
    let help = format!("kubectl describe {resource} {name} -n {namespace}");
    Reason::on(subject(upgrade), upgrade.told.clone()).help(help)
}

/// What was done, and when.
fn done(upgrade: &InPlaceUpgrade) -> String {
    let time = |at: Timestamp| at.round(Unit::Second).unwrap_or(at);
    match upgrade.started.zip(upgrade.finished) {
        Some((started, finished)) => format!("{}, {} to {}", upgrade.told, time(started), time(finished)),
        None => upgrade.told.clone(),
    }
}

/// How long a node took; groups take as long as their nodes.
fn seconds(upgrade: &InPlaceUpgrade) -> Option<u64> {
    let is_of_node = upgrade.kind.starts_with("Node");
    let (started, finished) = upgrade.started.zip(upgrade.finished).filter(|_| is_of_node)?;
    u64::try_from(finished.duration_since(started).as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{MachineTopology, RuntimeExtension, RuntimeExtensions};

    fn upgrade(state: InPlaceState, told: &str) -> InPlaceUpgrade {
        InPlaceUpgrade {
            kind: "NodeKubeadmUpgrade".to_owned(),
            namespace: "factory".to_owned(),
            name: "press-1-v1.36.1".to_owned(),
            resource: "nodekubeadmupgrade".to_owned(),
            version: "v1.36.1".to_owned(),
            state,
            told: told.to_owned(),
            started: Some(at(100)),
            finished: (state == InPlaceState::Done).then(|| at(400)),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn found(upgrade: InPlaceUpgrade, waits: bool, committed_at: i64) -> Findings {
        let observation = Observation { in_place: vec![upgrade], ..Observation::empty(at(1000)) };
        let mut findings = Findings::default();
        if waits {
            findings.wait(Reason::new("a machine is at the old version"));
        }
        check(&observation, Some(at(committed_at)), &mut findings);
        findings
    }

    #[test]
    fn what_a_node_is_at_is_told_before_what_follows_from_it() {
        for state in [InPlaceState::Underway, InPlaceState::Failed] {
            let told = found(upgrade(state, "step kubeadm (attempt 2 of 3): the disk is full"), true, 0);
            let first = told.first_wait().unwrap();
            assert_eq!(first.object, "NodeKubeadmUpgrade factory/press-1-v1.36.1");
            assert!(first.message.contains("attempt 2 of 3"), "{}", first.message);
            let help = first.help.unwrap();
            assert_eq!(help, "kubectl describe nodekubeadmupgrade press-1-v1.36.1 -n factory");
            assert!(found(upgrade(state, "goes on"), false, 0).holds(), "machines alone make a gate wait");
        }
    }

    #[test]
    fn a_second_extension_is_named_while_machines_wait() {
        let extension = |name: &str, namespace: &str| RuntimeExtension {
            name: name.to_owned(),
            hooks: vec!["UpdateMachine".to_owned()],
            namespaces: vec![namespace.to_owned()],
            undiscovered: None,
        };
        let found = |others: Vec<RuntimeExtension>, waits: bool| {
            let extensions = others.into_iter().chain([extension("stepgate", "factory")]).collect();
            let cluster = MachineTopology { namespace: "factory".to_owned(), ..topology() };
            let observation = Observation {
                runtime_extensions: Some(RuntimeExtensions { extensions, managers_without: Vec::new() }),
                clusters: vec![cluster],
                ..Observation::empty(at(1000))
            };
            let mut findings = Findings::default();
            if waits {
                findings.wait(Reason::new("a machine is at the old version"));
            }
            check_rivals(&observation, &mut findings);
            findings.first_wait()
        };
        let told = found(vec![extension("talos", "factory")], true).unwrap();
        assert_eq!(told.object, "ExtensionConfig talos");
        assert!(told.message.starts_with("stepgate and talos answer UpdateMachine"), "{}", told.message);
        assert!(told.help.unwrap().contains("namespaceSelector"));
        let alone = found(vec![extension("talos", "office")], true).unwrap();
        assert_eq!(alone.object, "", "asked for another namespace");
        assert!(found(vec![extension("talos", "factory")], false).is_none(), "nothing waits");
    }

    fn topology() -> MachineTopology {
        serde_json::from_value(serde_json::json!({"namespace": "factory", "name": "press"})).unwrap()
    }

    #[test]
    fn what_was_done_in_this_stage_is_evidence() {
        let done = || upgrade(InPlaceState::Done, "v1.35.4 to v1.36.1");
        let (facts, _) = found(done(), false, 50).into_verdict().unwrap();
        assert_eq!(facts[0].seen, "v1.35.4 to v1.36.1, 1970-01-01T00:01:40Z to 1970-01-01T00:06:40Z");
        assert_eq!(facts[0].seconds, Some(300));
        let (facts, _) = found(done(), false, 500).into_verdict().unwrap();
        assert!(facts.is_empty());
    }
}
