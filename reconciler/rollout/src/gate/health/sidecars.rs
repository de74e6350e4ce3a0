//! Sidecars: the pods that ask for one have it again, as far as they had it before the rollout.

use crate::before::Before;
use crate::gate::findings::Findings;
use crate::observation::Observation;
use crate::verdict::Reason;

const SUBJECT: &str = "sidecars";

/// All pods were looked at, whatever they lack.
pub(in crate::gate) fn check_read(observation: &Observation, findings: &mut Findings) {
    let Some(reading) = &observation.sidecars else {
        return findings.wait(Reason::on(SUBJECT, "were not looked at yet"));
    };
    for unread in &reading.unread {
        findings.wait(Reason::on(SUBJECT, format!("whether pods have them is not known: {unread}")));
    }
    if reading.unread.is_empty() {
        let lacking = reading.missing.len();
        findings.fact(SUBJECT, format!("{} pods, {lacking} workloads lack one that they ask for", reading.pods));
    }
}

/// What pods had before they have now; what they lacked before is remarked on.
pub(in crate::gate) fn check_before(before: &Before, observation: &Observation, findings: &mut Findings) {
    let Some(reading) = &observation.sidecars else { return };
    for lacking in &reading.missing {
        if before.lacked(&lacking.key(), reading.missing.len()) {
            findings.fact(lacking.owner.to_string(), format!("{lacking}, as before the rollout"));
        } else {
            findings.wait(Reason::on(lacking.owner.to_string(), lacking.to_string()).help(&lacking.restart));
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::dump::{MissingSidecar, PodOwner};
    use crate::observation::{SidecarReading, Survey};
    use crate::verdict::GateVerdict;

    fn observation(lacking: &[&str]) -> Observation {
        let missing = |name: &&str| MissingSidecar {
            owner: PodOwner { kind: "Deployment".into(), namespace: "shop".into(), name: (*name).to_owned() },
            injector: "vault".to_owned(),
            missing: vec!["container vault-agent".to_owned()],
            pods: 1,
            of: 2,
            restart: format!("kubectl rollout restart deployment/{name} -n shop"),
        };
        Observation {
            survey: Some(Survey::default()),
            sidecars: Some(SidecarReading {
                pods: 9,
                missing: lacking.iter().map(missing).collect(),
                unread: Vec::new(),
            }),
            ..Observation::empty(Timestamp::UNIX_EPOCH)
        }
    }

    fn waits(before: Option<&Before>, observation: &Observation) -> Vec<(String, Option<String>)> {
        let mut findings = Findings::default();
        match before {
            Some(before) => check_before(before, observation, &mut findings),
            None => check_read(observation, &mut findings),
        }
        match findings.into_verdict().map_err(|verdict| *verdict) {
            Err(GateVerdict::Wait { reason, .. }) => {
                reason.into_lines().into_iter().map(|it| (it.to_string(), it.help)).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn only_sidecars_that_were_there_before_are_waited_for() {
        let before = Before::of(&observation(&["old"])).unwrap();
        let [(line, help)] = &waits(Some(&before), &observation(&["old", "web"]))[..] else { panic!() };
        assert_eq!(line, "Deployment shop/web: 1 of 2 pods lack vault: container vault-agent");
        assert_eq!(help.as_deref(), Some("kubectl rollout restart deployment/web -n shop"));
        assert_eq!(waits(Some(&before), &observation(&["old"])), []);
        let unknown = Before { missing_sidecars: None, ..before };
        assert_eq!(waits(Some(&unknown), &observation(&["old"])).len(), 1, "nobody knows that it lacked one before");
    }

    #[test]
    fn sidecars_that_were_not_read_are_waited_for() {
        assert_eq!(waits(None, &observation(&["web"])), [], "what is lacking before a rollout is noted down");
        let mut unread = observation(&[]);
        unread.sidecars.as_mut().unwrap().unread.push("pods is forbidden".to_owned());
        let [(line, _)] = &waits(None, &unread)[..] else { panic!() };
        assert_eq!(line, "sidecars: whether pods have them is not known: pods is forbidden");
        let [(line, _)] = &waits(None, &Observation::empty(Timestamp::UNIX_EPOCH))[..] else { panic!() };
        assert_eq!(line, "sidecars: were not looked at yet");
    }
}
