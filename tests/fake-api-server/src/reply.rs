//! What a server answers: an object, or a `Status` that says why not.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kind::ServedKind;

/// An answer that is no stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The HTTP status code.
    pub code: u16,
    /// The document.
    pub body: Value,
}

impl Reply {
    pub(crate) fn ok(body: Value) -> Self {
        Self { code: 200, body }
    }

    pub(crate) fn created(body: Value) -> Self {
        Self { code: 201, body }
    }

    fn failure(code: u16, reason: &str, message: &str, details: Option<Value>) -> Self {
        let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "code": code});
        if let Some(details) = details {
            body["details"] = details;
        }
        Self { code, body }
    }

    pub(crate) fn not_found(kind: &ServedKind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.resource());
        Self::failure(404, "NotFound", &message, Some(details(kind, name)))
    }

    pub(crate) fn no_namespace(name: &str) -> Self {
        let message = format!("namespaces \"{name}\" not found");
        Self::failure(404, "NotFound", &message, Some(json!({"name": name, "kind": "namespaces"})))
    }

    /// A path that nothing is served at.
    pub(crate) fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        Self::failure(404, "NotFound", message, Some(json!({})))
    }

    pub(crate) fn already_exists(kind: &ServedKind, name: &str, is_ending: bool) -> Self {
        let ending = if is_ending { "object is being deleted: " } else { "" };
        let message = format!("{ending}{} \"{name}\" already exists", kind.resource());
        Self::failure(409, "AlreadyExists", &message, Some(details(kind, name)))
    }

    pub(crate) fn modified(kind: &ServedKind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.resource());
        Self::failure(409, "Conflict", &message, Some(details(kind, name)))
    }

    /// An object that is to be deleted is another one than was said. Here it is named by its kind.
    pub(crate) fn another(kind: &ServedKind, name: &str, why: &str) -> Self {
        let mut details = details(kind, name);
        details["kind"] = json!(kind.kind);
        let message = format!("Operation cannot be fulfilled on {}{} \"{name}\": {why}", kind.kind, of_group(kind));
        Self::failure(409, "Conflict", &message, Some(details))
    }

    /// Fields that others own: the message, and each of them with what is said of it.
    pub(crate) fn field_conflicts(message: &str, causes: &[(String, String)]) -> Self {
        let cause = |(message, field): &(String, String)| json!({"reason": "FieldManagerConflict", "message": message, "field": field});
        let causes: Vec<Value> = causes.iter().map(cause).collect();
        Self::failure(409, "Conflict", message, Some(json!({"causes": causes})))
    }

    pub(crate) fn bad_request(message: &str) -> Self {
        Self::failure(400, "BadRequest", message, None)
    }

    /// An error that the server has no reason for.
    pub(crate) fn unexpected(message: &str) -> Self {
        let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": 500});
        Self { code: 500, body }
    }

    pub(crate) fn not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::failure(405, "MethodNotAllowed", message, Some(json!({})))
    }

    /// An object without a name.
    pub(crate) fn no_name(kind: &ServedKind) -> Self {
        let message = "Required value: name or generateName is required";
        Self::invalid(&kind.kind, kind, "", &[Cause::new("FieldValueRequired", message, "metadata.name")])
    }

    /// A replacement that does not say what it replaces. Here the kind is named by its plural.
    pub(crate) fn no_revision(kind: &ServedKind, name: &str) -> Self {
        let message = "Invalid value: 0: must be specified for an update";
        Self::invalid(&kind.plural, kind, name, &[Cause::new("FieldValueInvalid", message, "metadata.resourceVersion")])
    }

    /// What is wrong with an object; the kind is named by this word.
    fn invalid(word: &str, kind: &ServedKind, name: &str, causes: &[Cause]) -> Self {
        let mut details = details(kind, name);
        details["kind"] = json!(word);
        let told = |cause: &Cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field});
        details["causes"] = causes.iter().map(told).collect();
        let said: BTreeSet<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let is_one = said.len() == 1;
        let said = said.into_iter().collect::<Vec<_>>().join(", ");
        let said = if is_one { said } else { format!("[{said}]") };
        let text = format!("{word}{} \"{name}\" is invalid: {said}", of_group(kind));
        Self::failure(422, "Invalid", &text, Some(details))
    }

    /// An object that may not become what was asked for.
    pub(crate) fn not_valid(kind: &ServedKind, name: &str, causes: &[Cause]) -> Self {
        Self::invalid(&kind.kind, kind, name, causes)
    }

    pub(crate) fn expired(message: &str) -> Self {
        Self::failure(410, "Expired", message, None)
    }

    /// An object is gone.
    pub(crate) fn deleted(kind: &ServedKind, name: &str, uid: &Value) -> Self {
        let mut details = details(kind, name);
        details["uid"] = uid.clone();
        let body =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
        Self::ok(body)
    }
}

/// One field that is not as it has to be.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    reason: &'static str,
    message: String,
    field: &'static str,
}

impl Cause {
    fn new(reason: &'static str, message: &str, field: &'static str) -> Self {
        Self { reason, message: message.to_owned(), field }
    }

    /// Somebody wants to keep an object from being deleted that is being deleted. It is found twice.
    pub(crate) fn new_finalizers(new: &[String]) -> Vec<Self> {
        let quoted: Vec<String> = new.iter().map(|item| format!("\"{item}\"")).collect();
        let message = format!(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            quoted.join(", ")
        );
        vec![Self::new("FieldValueForbidden", &message, "metadata.finalizers"); 2]
    }

    /// A field that has to be an object is null.
    pub(crate) fn no_object(field: &'static str) -> Self {
        let message = format!("Invalid value: \"null\": {field} in body must be of type object: \"null\"");
        Self::new("FieldValueTypeInvalid", &message, field)
    }
}

fn details(kind: &ServedKind, name: &str) -> Value {
    let mut details = json!({"kind": kind.plural});
    if !name.is_empty() {
        details["name"] = json!(name);
    }
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    details
}

fn of_group(kind: &ServedKind) -> String {
    if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) }
}
