//! Objects that are put in the place of what is there.

use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;

use super::connection::Connection;
use super::error::RequestError;
use super::request::{FIELD_MANAGER, at, described};

impl Connection {
    /// Puts an object in the place of the one that is there. One that has another `resourceVersion` by now is a
    /// conflict; as a dry run nothing is kept.
    pub(crate) async fn replace(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        object: &Value,
        dry_run: bool,
    ) -> Result<DynamicObject, RequestError> {
        let parameters = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
        let attempt = format!("replace {}", described(resource, namespace, name));
        let body = object.to_string().into_bytes();
        let request = at(resource, namespace, name).and_then(|request| request.replace(name, &parameters, body));
        self.send(&attempt, request).await
    }
}
