//! Whether an API server knows who shows a token, and what it lets them do: `TokenReview` and `SubjectAccessReview`;
//! what it lets this program do: `SelfSubjectAccessReview`.

use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::{SelfSubjectAccessReview, SubjectAccessReview};
use kube::core::ApiResource;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
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
    let Some(user) = known_user(connection, token, None).await? else { return Ok(Permit::Unknown) };
    let attributes = json!({"nonResourceAttributes": {"path": path, "verb": "get"}});
    Ok(if is_granted(connection, &user, attributes).await? { Permit::Granted } else { Permit::Denied })
}

/// Somebody whom an API server knows, as its `TokenReview` names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownUser {
    /// The name.
    pub username: String,
    /// The groups, by which most of what somebody may is granted.
    #[serde(default)]
    pub groups: Vec<String>,
    /// What tells two of the same name apart.
    #[serde(default)]
    pub uid: Option<String>,
    /// What authenticators add.
    #[serde(default)]
    pub extra: Value,
}

/// Who shows this token; none where the server does not know them. With an audience, a token that was not made for it is nobody's.
///
/// # Errors
/// [`RequestError`] when the server does not say. No error holds the token.
pub async fn known_user(
    connection: &Connection,
    token: &SecretString,
    audience: Option<&str>,
) -> Result<Option<KnownUser>, RequestError> {
    let resource = ApiResource::erase::<TokenReview>(&());
    let mut spec = json!({"token": token.expose_secret()});
    if let (Some(audience), Some(spec)) = (audience, spec.as_object_mut()) {
        spec.insert("audiences".to_owned(), json!([audience]));
    }
    let asked = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec});
    let answer = connection.create(&resource, None, &asked).await?;
    let status = answer.data.get("status").unwrap_or(&Value::Null);
    if status.get("authenticated") != Some(&Value::Bool(true)) {
        return Ok(None);
    }
    // A server whose authenticators know no audiences answers with none: that is not this one.
    let audiences = status.get("audiences").and_then(Value::as_array);
    let is_meant = |audience: &str| audiences.is_some_and(|given| given.iter().any(|it| it.as_str() == Some(audience)));
    if !audience.is_none_or(is_meant) {
        return Ok(None);
    }
    let user = status.get("user").and_then(|user| KnownUser::deserialize(user).ok());
    Ok(user.filter(|user| !user.username.is_empty()))
}

/// Whether somebody may do this to the `Rollout` of a cluster in that namespace: of every cluster, where none is named.
///
/// # Errors
/// [`RequestError`] when the server does not say.
pub async fn may_on_rollout(
    connection: &Connection,
    user: &KnownUser,
    verb: &str,
    (namespace, cluster): (&str, Option<&str>),
) -> Result<bool, RequestError> {
    let mut attributes = json!({"group": "stepgate.dev", "resource": "rollouts", "namespace": namespace, "verb": verb});
    if let (Some(cluster), Some(attributes)) = (cluster, attributes.as_object_mut()) {
        attributes.insert("name".to_owned(), json!(cluster));
    }
    is_granted(connection, user, json!({"resourceAttributes": attributes})).await
}

async fn is_granted(connection: &Connection, user: &KnownUser, attributes: Value) -> Result<bool, RequestError> {
    let resource = ApiResource::erase::<SubjectAccessReview>(&());
    let KnownUser { username, groups, uid, extra } = user;
    let mut spec = json!({"user": username, "groups": groups, "uid": uid, "extra": extra});
    if let (Some(spec), Value::Object(attributes)) = (spec.as_object_mut(), attributes) {
        spec.extend(attributes);
    }
    let asked = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec});
    let answer = connection.create(&resource, None, &asked).await?;
    let status = answer.data.get("status").unwrap_or(&Value::Null);
    let is = |field: &str| status.get(field) == Some(&Value::Bool(true));
    Ok(is("allowed") && !is("denied"))
}

/// Whether this program may patch objects of a kind, in any namespace.
///
/// # Errors
/// [`RequestError`] when the server does not say.
pub(crate) async fn may_patch(connection: &Connection, kind: &ApiResource) -> Result<bool, RequestError> {
    is_allowed(connection, json!({"group": kind.group, "resource": kind.plural, "verb": "patch"})).await
}

/// Whether this program may ask kubelets through the API server. Whoever may can run commands in their Pods, so that the role of the
/// installation does not have it.
///
/// # Errors
/// [`RequestError`] when the server does not say.
pub(crate) async fn may_ask_kubelets(connection: &Connection) -> Result<bool, RequestError> {
    is_allowed(connection, json!({"group": "", "resource": "nodes", "subresource": "proxy", "verb": "get"})).await
}

async fn is_allowed(connection: &Connection, attributes: Value) -> Result<bool, RequestError> {
    let resource = ApiResource::erase::<SelfSubjectAccessReview>(&());
    let asked = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {},
        "spec": {"resourceAttributes": attributes}});
    let answer = connection.create(&resource, None, &asked).await?;
    let status = answer.data.get("status").unwrap_or(&Value::Null);
    Ok(status.get("allowed") == Some(&Value::Bool(true)))
}
