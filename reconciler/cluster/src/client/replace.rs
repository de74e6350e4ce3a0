//! Objects that are put in the place of what is there.

use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject, Request};
use serde_json::Value;

use super::connection::Connection;
use super::error::RequestError;
use super::request::{FIELD_MANAGER, described, path};

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
        self.send(&attempt, Request::new(path(resource, namespace)).replace(name, &parameters, body)).await
    }
}
