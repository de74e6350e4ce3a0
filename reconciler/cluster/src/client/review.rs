//! Whether an API server knows who shows a token, and what it lets them do: `TokenReview` and `SubjectAccessReview`;
//! what it lets this program do: `SelfSubjectAccessReview`.

use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::{SelfSubjectAccessReview, SubjectAccessReview};
use kube::core::ApiResource;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use super::connection::Connection;
use super::error::RequestError;

/// What an API server says of whoever shows a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It does not know them.
    Unknown,
    /// It knows them, and they may not.
    Denied,
    /// They may.
    Granted,
}

/// Whether whoever shows this token may `get` this path of an API server.
///
/// # Errors
/// [`RequestError`] when the server does not say. No error holds the token.
pub async fn review(connection: &Connection, token: &SecretString, path: &str) -> Result<Permit, RequestError> {
    let resource = ApiResource::erase::<TokenReview>(&());
    let asked = json!({"apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {}, "spec": {"token": token.expose_secret()}});
    let answer = connection.create(&resource, None, &asked).await?;
    let status = answer.data.get("status").unwrap_or(&Value::Null);
    let user = status.get("user").unwrap_or(&Value::Null);
    let name = user.get("username").and_then(Value::as_str).filter(|name| !name.is_empty());
    let (Some(Value::Bool(true)), Some(name)) = (status.get("authenticated"), name) else { return Ok(Permit::Unknown) };
    let resource = ApiResource::erase::<SubjectAccessReview>(&());
    let asked = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {},
        "spec": {"user": name, "groups": user.get("groups"), "uid": user.get("uid"), "extra": user.get("extra"),
            "nonResourceAttributes": {"path": path, "verb": "get"}}});
    let answer = connection.create(&resource, None, &asked).await?;
    let status = answer.data.get("status").unwrap_or(&Value::Null);
    let is = |field: &str| status.get(field) == Some(&Value::Bool(true));
    Ok(if is("allowed") && !is("denied") { Permit::Granted } else { Permit::Denied })
}

/// Whether this program may patch objects of a kind, in any namespace.
///
/// # Errors
/// [`RequestError`] when the server does not say.
pub(crate) async fn may_patch(connection: &Connection, kind: &ApiResource) -> Result<bool, RequestError> {
    let resource = ApiResource::erase::<SelfSubjectAccessReview>(&());
    let asked = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {},
        "spec": {"resourceAttributes": {"group": kind.group, "resource": kind.plural, "verb": "patch"}}});
    let answer = connection.create(&resource, None, &asked).await?;
    let status = answer.data.get("status").unwrap_or(&Value::Null);
    Ok(status.get("allowed") == Some(&Value::Bool(true)))
}
