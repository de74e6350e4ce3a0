//! Sidecars that pods ask for and lack, read of all pods and their namespaces.

use futures::join;
use policy::InjectionRule;
use rollout::SidecarReading;
use rollout::dump::missing_sidecars;

use super::dump::dumped_pods;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{Kind, NAMESPACE, POD};

/// Reads which are missing. What may not be read is noted.
///
/// # Errors
/// [`RequestError`] when the server cannot be reached.
pub(crate) async fn read(own: &Connection, rules: &[InjectionRule]) -> Result<SidecarReading, RequestError> {
    // Servers that stand in for clusters do not serve all of them, and have none of what they do not serve.
    let served = match own.kinds("v1").await {
        Ok(served) if !served.is_empty() => served,
        // Every cluster serves some: an empty answer proves nothing.
        Ok(_) => {
            let unread = vec![format!("{} names no kinds of v1", own.server())];
            return Ok(SidecarReading { unread, ..SidecarReading::default() });
        }
        Err(error) if error.is_unreachable() => return Err(error),
        Err(error) => return Ok(SidecarReading { unread: vec![error.to_string()], ..SidecarReading::default() }),
    };
    let list = async |kind: &'static Kind| match served.iter().any(|known| known.resource.kind == kind.kind) {
        true => own.list(kind, Some("v1"), None, None).await,
        false => Ok(Vec::new()),
    };
    let mut reading = SidecarReading::default();
    let mut found = Vec::new();
    let (pods, namespaces) = join!(list(&POD), list(&NAMESPACE));
    for listed in [pods, namespaces] {
        match listed {
            Ok(objects) => found.push(objects),
            Err(error) if error.is_unreachable() => return Err(error),
            Err(error) => reading.unread.push(error.to_string()),
        }
    }
    if let [pods, namespaces] = found.as_slice() {
        reading.pods = u32::try_from(pods.len()).unwrap_or(u32::MAX);
        reading.missing = missing_sidecars(&dumped_pods(pods, namespaces, rules));
    }
    Ok(reading)
}
