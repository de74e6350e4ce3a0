//! What the answer to a dry run tells of webhooks. The words are those of the API server's admission.

use std::collections::BTreeSet;

use super::hook::{Admission, Backend, Hook};
use crate::client::error::RequestError;

/// What one request tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AdmissionAnswer {
    /// What serves these was called, and has answered.
    Answered(BTreeSet<Backend>),
    /// One of the webhooks could not be called; the server's words.
    Unreachable(String),
    /// Nothing, for this reason.
    Nothing(String),
}

/// Tells what the answer to a request says of these webhooks.
pub(super) fn tell(
    answer: Result<(), RequestError>,
    admission: &Admission<'_>,
    hooks: &[Hook],
) -> Result<AdmissionAnswer, RequestError> {
    let passed = |is_asked: fn(&Hook) -> bool| {
        let proven = hooks.iter().filter(|hook| is_asked(hook) && hook.is_proven_by(admission));
        answered(proven, "its rules and selectors leave the probe out")
    };
    let error = match answer {
        Ok(()) => return Ok(passed(|_| true)),
        Err(error) => error,
    };
    let message = match &error {
        RequestError::Forbidden { message, .. }
        | RequestError::Conflict { message, .. }
        | RequestError::Refused { message, .. }
        | RequestError::Unavailable { message, .. } => message.clone(),
        _ => return Err(error),
    };
    if message.contains("failed calling webhook") || message.contains("failed to call webhook") {
        let is_other =
            named(&message, "failed calling webhook \"").is_some_and(|name| hooks.iter().all(|hook| hook.name != name));
        return Ok(if is_other { AdmissionAnswer::Nothing(message) } else { AdmissionAnswer::Unreachable(message) });
    }
    if message.contains("denied the request")
        && let Some(name) = named(&message, "admission webhook \"")
    {
        // Whoever denies was called, whatever lets requests pass otherwise.
        let denies = hooks.iter().filter(|hook| hook.name == name && hook.is_chosen(admission));
        return Ok(answered(denies, &message));
    }
    match error {
        // The schema is checked after the webhooks that change an object and before those that check it.
        RequestError::Refused { code: 422, .. } => Ok(match passed(|hook| hook.mutates) {
            AdmissionAnswer::Nothing(_) => AdmissionAnswer::Nothing(message),
            told => told,
        }),
        RequestError::Refused { .. } | RequestError::Conflict { .. } => Ok(AdmissionAnswer::Nothing(message)),
        // A missing verb or a server in trouble says nothing of the webhook, and the reading has to say so.
        _ => Err(error),
    }
}

fn answered<'a>(hooks: impl Iterator<Item = &'a Hook>, otherwise: &str) -> AdmissionAnswer {
    let backends: BTreeSet<Backend> = hooks.map(|hook| hook.backend.clone()).collect();
    if backends.is_empty() {
        AdmissionAnswer::Nothing(otherwise.to_owned())
    } else {
        AdmissionAnswer::Answered(backends)
    }
}

/// The quoted name that follows these words.
fn named<'a>(message: &'a str, words: &str) -> Option<&'a str> {
    message.split_once(words)?.1.split('"').next()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::read::probe::hook::{Labels, Operation, Target};

    fn refused(code: u16, message: &str) -> RequestError {
        let (attempt, server) = (String::from("create"), String::from("s"));
        RequestError::Refused { attempt, server, code, message: message.to_owned() }
    }

    fn unavailable(message: &str) -> RequestError {
        let (attempt, server) = (String::from("create"), String::from("s"));
        RequestError::Unavailable { attempt, server, code: 500, message: message.to_owned() }
    }

    /// What is told of a webhook `ours` of this policy.
    fn told(answer: Result<(), RequestError>, mutates: bool, policy: &str) -> &'static str {
        let rule =
            json!({"apiGroups": ["a.b"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"]});
        let configuration = json!({"metadata": {"name": "x"}, "webhooks": [{"name": "ours", "failurePolicy": policy,
            "clientConfig": {"url": "https://a"}, "rules": [rule]}]});
        let hooks = Hook::of(&serde_json::from_value(configuration).unwrap(), mutates);
        let (target, labels) =
            (Target { api_version: "a.b/v1".to_owned(), plural: "things".to_owned() }, Labels::new());
        let admission = Admission {
            target: &target,
            operation: Operation::Create,
            namespace: None,
            namespaced: false,
            labels: &labels,
        };
        match tell(answer, &admission, &hooks) {
            Ok(AdmissionAnswer::Answered(_)) => "answered",
            Ok(AdmissionAnswer::Unreachable(_)) => "unreachable",
            Ok(AdmissionAnswer::Nothing(_)) => "nothing",
            Err(_) => "error",
        }
    }

    #[test]
    fn answers_of_the_admission_chain_are_told_apart() {
        let denied = |name: &str| format!("admission webhook \"{name}\" denied the request: spec: Required value");
        let down = |name: &str| {
            format!(
                "Internal error occurred: failed calling webhook \"{name}\": failed to call webhook: connection refused"
            )
        };
        let invalid = "Thing is invalid: spec: Required value";
        for (answer, mutates, policy, expected) in [
            (Ok(()), false, "Fail", "answered"),
            (Ok(()), false, "Ignore", "nothing"),
            (Err(refused(400, &denied("ours"))), false, "Fail", "answered"),
            (Err(refused(400, &denied("ours"))), false, "Ignore", "answered"),
            (Err(refused(400, &denied("another"))), false, "Fail", "nothing"),
            (Err(unavailable(&down("ours"))), false, "Fail", "unreachable"),
            (Err(unavailable(&down("another"))), false, "Fail", "nothing"),
            (Err(refused(422, invalid)), false, "Fail", "nothing"),
            (Err(refused(422, invalid)), true, "Fail", "answered"),
            (Err(refused(422, invalid)), true, "Ignore", "nothing"),
            (Err(unavailable("etcdserver: request timed out")), false, "Fail", "error"),
            (Err(refused(404, "namespace not found")), false, "Fail", "nothing"),
        ] {
            let text = format!("{answer:?}");
            assert_eq!(told(answer, mutates, policy), expected, "{text} mutates {mutates}, {policy}");
        }
    }
}
