//! Whether there is something to call behind a webhook, where no request proves that it was called.

use serde_json::Value;

use super::hook::Backend;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{ENDPOINT_SLICE, SERVICE};

/// How many endpoints are ready behind the Service, or why there are none.
pub(super) async fn ready(connection: &Connection, backend: &Backend) -> Result<Result<u32, String>, RequestError> {
    let (namespace, name, port) = match backend {
        Backend::Service { namespace, name, port } => (namespace, name, *port),
        Backend::Url(url) => return Ok(Err(format!("whether {url} answers only a call can tell"))),
    };
    let service = format!("Service {namespace}/{name}");
    let Some(found) = connection.get(&SERVICE.resource("v1"), Some(namespace), name).await? else {
        return Ok(Err(format!("there is no {service}")));
    };
    let ports = found.data.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
    let Some(port) = ports.filter(|known| number(known, "port") == Some(port)).map(port_name).next() else {
        return Ok(Err(format!("{service} has no port {port}")));
    };
    let labels = format!("kubernetes.io/service-name={name}");
    let slices = connection.list(&ENDPOINT_SLICE, Some("v1"), Some(namespace), Some(&labels)).await?;
    let slices = slices
        .iter()
        .map(|slice| &slice.data)
        .filter(|slice| list(slice, "ports").any(|known| port_name(known) == port));
    let count = slices.flat_map(|slice| list(slice, "endpoints")).filter(|endpoint| is_ready(endpoint)).count();
    if count == 0 {
        return Ok(Err(format!("{service} has no endpoint that is ready")));
    }
    Ok(Ok(u32::try_from(count).unwrap_or(u32::MAX)))
}

/// An endpoint that does not say is ready.
fn is_ready(endpoint: &Value) -> bool {
    endpoint.pointer("/conditions/ready").and_then(Value::as_bool).unwrap_or(true)
        && list(endpoint, "addresses").next().is_some()
}

/// Ports of a Service and of its slices belong together by their names; the only one needs none.
fn port_name(port: &Value) -> &str {
    port.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, key: &str) -> Option<i64> {
    value.get(key).and_then(Value::as_i64)
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}
