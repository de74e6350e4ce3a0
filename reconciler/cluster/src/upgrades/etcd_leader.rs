//! Which member of etcd leads: each is asked for itself by the `etcdctl` of its own image, through its kubelet.

use in_place::order::Holder;
use serde_json::Value;

use crate::client::connection::Connection;
use crate::client::error::RequestError;

/// Asks the member of the container that it runs in.
const COMMAND: &str = "etcdctl endpoint status --write-out=json --endpoints=https://127.0.0.1:2379 \
     --cacert=/etc/kubernetes/pki/etcd/ca.crt --cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt \
     --key=/etc/kubernetes/pki/etcd/healthcheck-client.key";

/// The machine whose member leads, of machines with their nodes.
pub(super) async fn read(own: &Connection, members: &[(String, String)]) -> Holder {
    let mut unknown = String::from("no member says that it leads");
    for (machine, node) in members {
        match leads(own, node).await {
            Ok(Some(true)) => return Holder::Known(machine.clone()),
            Ok(Some(false)) => {}
            Ok(None) => unknown = format!("etcdctl on node {node} does not say which member leads"),
            Err(error) => unknown = error.to_string(),
        }
    }
    Holder::Unknown(unknown)
}

async fn leads(own: &Connection, node: &str) -> Result<Option<bool>, RequestError> {
    let path = format!("/api/v1/nodes/{node}/proxy/run/kube-system/etcd-{node}/etcd");
    let query = format!("cmd={}", COMMAND.replace(' ', "+"));
    let told = own.post(&format!("{path}?{query}"), &format!("ask the member of etcd on node {node}")).await?;
    Ok(says(&told))
}

/// Whether a member says of itself that it leads. What it warns of stands behind that.
fn says(told: &[u8]) -> Option<bool> {
    let told = serde_json::Deserializer::from_slice(told).into_iter::<Value>().next()?.ok()?;
    let [status] = told.as_array()?.as_slice() else { return None };
    let id = |place: &str| status.pointer(place)?.as_u64().filter(|id| *id != 0);
    Some(id("/Status/header/member_id")? == id("/Status/leader")?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_leads_that_names_itself_and_none_without_a_leader() {
        let told = |leader: u64| {
            let status = json!({"header": {"member_id": 12_248_902_185_641_307_362_u64}, "leader": leader});
            let told = json!([{"Endpoint": "https://127.0.0.1:2379", "Status": status}]);
            says(format!("{told}\n{{\"level\":\"warn\"}}\n").as_bytes())
        };
        assert_eq!([told(12_248_902_185_641_307_362), told(7), told(0)], [Some(true), Some(false), None]);
        assert_eq!((says(b"exec: etcdctl: not found"), says(b"[]")), (None, None));
    }
}
