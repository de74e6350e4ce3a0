//! What Cluster API is answered.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{API_VERSION, CanUpdate, Hook, OnDecline, RequestError};
use crate::claims::{Claims, Part};

/// How far a machine is that is brought to what is desired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Work goes on; asked again after so many seconds. The message is shown at the Machine, so it must not change
    /// while nothing happens.
    Working {
        /// What is being done.
        message: String,
        /// When to ask again.
        retry_after_seconds: u32,
    },
    /// The node is healthy at what is desired.
    Done,
}

/// The answer to [`Hook::CanUpdateMachine`] and [`Hook::CanUpdateMachineSet`].
///
/// Without the annotation nothing is claimed: the machine is replaced, as it always was. With it and `hold`, whatever
/// cannot be done in place is a failure: Cluster API asks again, and replaces nothing.
#[must_use]
pub fn can_update(request: &CanUpdate) -> Value {
    let on_decline = match request.on_decline() {
        Ok(Some(on_decline)) => on_decline,
        Ok(None) => return success(request.hook, "the rollout strategy is rolling", Map::new()),
        Err(error) => return refused(request.hook, &error),
    };
    let claims = Claims::of_request(request);
    match on_decline {
        OnDecline::Hold if !claims.rejected().is_empty() => {
            failure(request.hook, &format!("held, since it would be replaced: {}", claims.why()))
        }
        OnDecline::Hold | OnDecline::Replace => success(request.hook, &claims.why(), patches(request.hook, &claims)),
    }
}

/// The answer to [`Hook::UpdateMachine`].
#[must_use]
pub fn update_machine(progress: &Progress) -> Value {
    let (message, seconds) = match progress {
        Progress::Working { message, retry_after_seconds } => (message.as_str(), (*retry_after_seconds).max(1)),
        Progress::Done => ("", 0),
    };
    success(Hook::UpdateMachine, message, Map::from_iter([("retryAfterSeconds".to_owned(), json!(seconds))]))
}

/// The answer that makes Cluster API ask again, after ever longer pauses.
#[must_use]
pub fn failure(hook: Hook, message: &str) -> Value {
    answer(hook, "Failure", message, Map::new())
}

fn refused(hook: Hook, error: &RequestError) -> Value {
    failure(hook, &error.to_string())
}

fn success(hook: Hook, message: &str, fields: Map<String, Value>) -> Value {
    answer(hook, "Success", message, fields)
}

fn answer(hook: Hook, status: &str, message: &str, fields: Map<String, Value>) -> Value {
    let mut answer = Map::from_iter([
        ("apiVersion".to_owned(), json!(API_VERSION)),
        ("kind".to_owned(), json!(format!("{hook}Response"))),
        ("status".to_owned(), json!(status)),
        ("message".to_owned(), json!(message)),
    ]);
    answer.extend(fields);
    Value::Object(answer)
}

/// A part without claims has no key: a patch without a type is an error.
fn patches(hook: Hook, claims: &Claims) -> Map<String, Value> {
    let patch = |part: Part| {
        let patch = claims.patch(part)?;
        let document = match hook {
            Hook::CanUpdateMachineSet => json!({"spec": {"template": {"spec": patch}}}),
            Hook::Discovery | Hook::CanUpdateMachine | Hook::UpdateMachine => json!({"spec": patch}),
        };
        let encoded = STANDARD.encode(document.to_string());
        Some((key(hook, part).to_owned(), json!({"patchType": "JSONMergePatch", "patch": encoded})))
    };
    Part::ALL.into_iter().filter_map(patch).collect()
}

fn key(hook: Hook, part: Part) -> &'static str {
    match (hook, part) {
        (Hook::CanUpdateMachineSet, Part::Machine) => "machineSetPatch",
        (Hook::CanUpdateMachineSet, Part::Infrastructure) => "infrastructureMachineTemplatePatch",
        (Hook::CanUpdateMachineSet, Part::Bootstrap) => "bootstrapConfigTemplatePatch",
        (_, Part::Machine) => "machinePatch",
        (_, Part::Infrastructure) => "infrastructureMachinePatch",
        (_, Part::Bootstrap) => "bootstrapConfigPatch",
    }
}
