//! What checks look at before a rollout, beyond what gates read: one room for each kind of reading.
//!
//! Architecture Invariant: what could not be read is noted under its check, and never missing in silence. Of Secrets
//! only certificates are looked at, and nothing else of them is kept.

mod certificates;

use futures::join;
use kube::core::DynamicObject;
use policy::CheckName;
use rollout::{ChecksExpectation, Inspection};

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{Kind, MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION};
use crate::read::probe;

/// Reads what the checks of this expectation look at, in the cluster itself and in the one that manages it.
pub(crate) async fn inspect(management: &Connection, own: &Connection, expectation: &ChecksExpectation) -> Inspection {
    let mut inspection = Inspection::default();
    let (configurations, secrets) =
        join!(configurations(own), certificates::of_secrets(management, expectation.cluster.as_ref()));
    let configurations = match configurations {
        Ok(configurations) => configurations,
        Err(error) => {
            note(&mut inspection, CheckName::Webhooks, &error);
            note(&mut inspection, CheckName::Certificates, &error);
            Vec::new()
        }
    };
    inspection.certificates = certificates::of_configurations(&configurations);
    match secrets {
        Ok(held) => inspection.certificates.extend(held),
        Err(error) => note(&mut inspection, CheckName::Certificates, &error),
    }
    match probe::called_for_system(own, &configurations).await {
        Ok(webhooks) => inspection.webhooks = webhooks,
        Err(error) => note(&mut inspection, CheckName::Webhooks, &error),
    }
    inspection
}

fn note(inspection: &mut Inspection, check: CheckName, error: &RequestError) {
    inspection.unread.entry(check).or_insert_with(|| error.to_string());
}

/// Every webhook configuration with its kind.
async fn configurations(own: &Connection) -> Result<Vec<(&'static Kind, DynamicObject)>, RequestError> {
    const KINDS: [&Kind; 2] = [&VALIDATING_WEBHOOK_CONFIGURATION, &MUTATING_WEBHOOK_CONFIGURATION];
    let mut found = Vec::new();
    for kind in KINDS {
        let listed = own.list(kind, Some("v1"), None, None).await?;
        found.extend(listed.into_iter().map(|object| (kind, object)));
    }
    Ok(found)
}
