//! What the extension says that it answers.

use serde_json::{Value, json};

use super::{API_VERSION, Hook};

/// How long Cluster API waits for an answer, in seconds.
const TIMEOUT: u32 = 10;

/// The answer to [`Hook::Discovery`].
#[must_use]
pub fn discovered() -> Value {
    let handlers: Vec<Value> = Hook::ALL
        .into_iter()
        .filter_map(|hook| {
            Some(json!({
                "name": hook.handler()?,
                "requestHook": {"apiVersion": API_VERSION, "hook": hook.name()},
                "timeoutSeconds": TIMEOUT,
                // With `Ignore`, an extension that cannot be reached would be one that claims nothing: machines would be replaced.
                "failurePolicy": "Fail",
            }))
        })
        .collect();
    json!({
        "apiVersion": API_VERSION,
        "kind": "DiscoveryResponse",
        "status": "Success",
        "message": "",
        "handlers": handlers,
    })
}
