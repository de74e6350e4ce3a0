use std::collections::BTreeMap;

use super::*;
use crate::observation::MachineTopology;

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn reference(purpose: &str) -> ObjectReference {
    ObjectReference {
        api_version: "v1".into(),
        kind: "Secret".into(),
        namespace: Some("fleet".into()),
        name: format!("depot-{purpose}"),
    }
}

/// Both Secrets as a rollout found them.
fn expectation() -> SecretsExpectation {
    let secrets = ["ca", "kubeconfig"].map(reference);
    let before = secrets.iter().map(|known| (known.to_string(), format!("{PRESENT}first"))).collect();
    SecretsExpectation { namespace: "fleet".into(), cluster: "depot".into(), secrets: secrets.to_vec(), before }
}

fn secret(purpose: &str, uid: &str, made_by: &str) -> ObjectPresence {
    let origin = ObjectOrigin { uid: uid.into(), owners: vec![OWNER.into()], made_by: Some(made_by.into()) };
    ObjectPresence {
        reference: reference(purpose),
        present: true,
        generation: None,
        deleting: false,
        unfinished: None,
        origin: Some(origin),
    }
}

fn reading(secrets: Vec<ObjectPresence>, paused: bool, lease: Option<Hold>) -> Observation {
    let mut observation = Observation::empty(now());
    observation.objects = secrets;
    let (namespace, name) = ("fleet".into(), "depot".into());
    observation.clusters.push(MachineTopology { namespace, name, paused, lease, ..MachineTopology::default() });
    observation
}

fn lease(hours: i64) -> Hold {
    let until = now().checked_add(SignedDuration::from_hours(hours)).unwrap();
    Hold { owner: US.into(), reason: "lost".into(), until }
}

fn gone(purpose: &str) -> ObjectPresence {
    ObjectPresence { present: false, origin: None, ..secret(purpose, "first", "manager") }
}

#[test]
fn a_cluster_stands_still_while_a_secret_is_lost_and_goes_on_with_it() {
    let well = vec![secret("ca", "first", "manager"), secret("kubeconfig", "first", "manager")];
    assert_eq!(act(&expectation(), &reading(well.clone(), false, None), now()), None);
    let lost = vec![gone("ca"), secret("kubeconfig", "first", "manager")];
    let Some(ClusterAct::Pause { lease: written, .. }) =
        act(&expectation(), &reading(lost.clone(), false, None), now())
    else {
        panic!("it goes on")
    };
    assert!(written.reason.starts_with("Secret fleet/depot-ca is gone"), "{written:?}");
    assert_eq!(written.until, lease(24).until);
    assert_eq!(act(&expectation(), &reading(lost.clone(), true, Some(lease(20))), now()), None);
    // What is still lost when half of its time is over stands still for longer.
    let renewed = act(&expectation(), &reading(lost.clone(), true, Some(lease(11))), now());
    assert!(matches!(renewed, Some(ClusterAct::Pause { .. })), "{renewed:?}");
    // A person's own pause is theirs.
    assert_eq!(act(&expectation(), &reading(lost, true, None), now()), None);
    let back = act(&expectation(), &reading(well, true, Some(lease(20))), now());
    assert!(matches!(back, Some(ClusterAct::Resume { .. })), "{back:?}");
}

#[test]
fn a_cluster_that_is_new_is_not_paused_while_its_secrets_are_made() {
    let new = SecretsExpectation { before: BTreeMap::new(), ..expectation() };
    assert_eq!(act(&new, &reading(vec![gone("ca"), gone("kubeconfig")], false, None), now()), None);
}

#[test]
fn a_secret_that_controllers_make_anew_is_lost_and_one_that_is_put_back_is_not() {
    let acts = |purpose: &str, uid: &str, made_by: &str| {
        let others = ["ca", "kubeconfig"].into_iter().filter(|known| *known != purpose);
        let others = others.map(|known| secret(known, "first", "manager"));
        let secrets = others.chain([secret(purpose, uid, made_by)]).collect();
        act(&expectation(), &reading(secrets, false, None), now()).is_some()
    };
    assert!(acts("ca", "second", "manager"));
    assert!(!acts("ca", "second", "stepgate") && !acts("ca", "second", "kubectl-create"));
    // It follows from the others.
    assert!(!acts("kubeconfig", "second", "manager"));
}

#[test]
fn what_was_not_read_neither_pauses_nor_resumes() {
    assert_eq!(
        act(&expectation(), &reading(vec![secret("ca", "first", "manager")], true, Some(lease(20))), now()),
        None
    );
    let mut unread = reading(vec![gone("ca"), gone("kubeconfig")], false, None);
    unread.unread.insert("Secret".into(), "forbidden".into());
    assert_eq!(act(&expectation(), &unread, now()), None);
}

#[test]
fn a_secret_without_its_owner_makes_the_gate_wait() {
    let mut orphan = secret("ca", "first", "manager");
    orphan.origin.as_mut().unwrap().owners.clear();
    let observation = reading(vec![orphan, secret("kubeconfig", "first", "manager")], false, None);
    let mut findings = Findings::default();
    check(&SecretsExpectation { before: BTreeMap::new(), ..expectation() }, &observation, &mut findings);
    let reason = findings.first_wait().unwrap().to_string();
    assert!(reason.contains("is owned by no KubeadmControlPlane"), "{reason}");
}
