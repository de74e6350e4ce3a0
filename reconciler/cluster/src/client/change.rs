//! Requests that change something, or would.

use std::sync::Arc;

use axum::http;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;

use super::connection::Connection;
use super::error::RequestError;
use super::request::{FIELD_MANAGER, at, described, within};

impl Connection {
    /// Creates an object without keeping it.
    pub(crate) async fn create_dry_run(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<(), RequestError> {
        let parameters = PostParams { dry_run: true, field_manager: Some(FIELD_MANAGER.to_owned()) };
        let attempt = format!("create a {} as a dry run", resource.kind);
        let body = object.to_string().into_bytes();
        let request = within(resource, namespace).and_then(|request| request.create(&parameters, body));
        self.send::<Value>(&attempt, request).await.map(drop)
    }

    /// Creates an object. One that is there already is a conflict.
    pub(crate) async fn create(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<DynamicObject, RequestError> {
        let parameters = PostParams { dry_run: false, field_manager: Some(FIELD_MANAGER.to_owned()) };
        let attempt = format!("create a {}", resource.kind);
        let body = object.to_string().into_bytes();
        let request = within(resource, namespace).and_then(|request| request.create(&parameters, body));
        self.send(&attempt, request).await
    }

    /// What a path answers that a request is posted to which creates nothing.
    pub(crate) async fn post(&self, path: &str, attempt: &str) -> Result<Vec<u8>, RequestError> {
        let request = http::Request::post(path).body(Vec::new()).map_err(kube::core::request::Error::BuildRequest);
        self.answer(attempt, request).await.map(Arc::unwrap_or_clone)
    }

    /// Deletes an object as it was read: one that changed since, or was made anew, is a conflict.
    pub(crate) async fn delete(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        object: &DynamicObject,
    ) -> Result<(), RequestError> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let preconditions = Preconditions {
            uid: object.metadata.uid.clone(),
            resource_version: object.metadata.resource_version.clone(),
        };
        let parameters = DeleteParams::background().preconditions(preconditions);
        let attempt = format!("delete {}", described(resource, namespace, name));
        let request = at(resource, namespace, name).and_then(|request| request.delete(name, &parameters));
        // Some servers answer without a word.
        self.answer(&attempt, request).await.map(drop)
    }

    /// Changes an object by a merge patch; as a dry run nothing is kept.
    pub(crate) async fn merge(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        patch: &Value,
        dry_run: bool,
    ) -> Result<DynamicObject, RequestError> {
        let parameters =
            PatchParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let attempt = format!("patch {}", described(resource, namespace, name));
        let request = at(resource, namespace, name);
        let request = request.and_then(|request| request.patch(name, &parameters, &Patch::Merge(patch)));
        self.send(&attempt, request).await
    }

    /// Changes an object's status by a merge patch.
    pub(crate) async fn merge_status(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        patch: &Value,
    ) -> Result<DynamicObject, RequestError> {
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let attempt = format!("patch the status of {}", described(resource, namespace, name));
        let request = at(resource, namespace, name);
        let request =
            request.and_then(|request| request.patch_subresource("status", name, &parameters, &Patch::Merge(patch)));
        self.send(&attempt, request).await
    }

    /// Applies an object on the server's side. Fields of other managers are never taken over.
    pub(crate) async fn apply(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        object: &Value,
        dry_run: bool,
    ) -> Result<DynamicObject, RequestError> {
        let parameters = PatchParams { dry_run, ..PatchParams::apply(FIELD_MANAGER) };
        let attempt = format!("apply {}", described(resource, namespace, name));
        let request = at(resource, namespace, name);
        let request = request.and_then(|request| request.patch(name, &parameters, &Patch::Apply(object)));
        self.send(&attempt, request).await
    }

    /// What an object would be once it is applied in the name of this manager, whoever owns its fields now. Nothing is
    /// kept.
    pub(crate) async fn apply_dry_run(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        object: &Value,
        manager: &str,
    ) -> Result<DynamicObject, RequestError> {
        let parameters = PatchParams { dry_run: true, force: true, ..PatchParams::apply(manager) };
        let attempt = format!("apply {} as a dry run", described(resource, namespace, name));
        let request = at(resource, namespace, name);
        let request = request.and_then(|request| request.patch(name, &parameters, &Patch::Apply(object)));
        self.send(&attempt, request).await
    }
}
