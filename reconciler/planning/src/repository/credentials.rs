//! Credentials in objects: no repository may hold one.
//!
//! A secret may stand in any field. What is looked for is what EKS Anywhere's and Cluster API's
//! kinds have fields for, and what betrays
//! itself by its form; whoever takes the files over looks at the rest.

use serde_json::Value;

/// Fields, in lower case, whose text is a credential.
const FIELDS: [&str; 12] = [
    "accesskey",
    "accesskeyid",
    "apikey",
    "bindpassword",
    "clientsecret",
    "passwd",
    "password",
    "privatekey",
    "secretaccesskey",
    "secretkey",
    "sshprivatekey",
    "token",
];

/// Beginnings of texts that are, or hold, a credential.
const FORMS: [&str; 3] = ["PRIVATE KEY-----", "client-key-data:", "kind: Secret"];

/// The first field of an object that holds a credential.
pub(super) fn credential(object: &Value) -> Option<String> {
    if object.get("kind").and_then(Value::as_str) == Some("Secret") {
        return Some("data".to_owned());
    }
    find(object, "", "")
}

fn find(value: &Value, key: &str, path: &str) -> Option<String> {
    match value {
        Value::Object(fields) => fields.iter().find_map(|(key, value)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            find(value, key, &path)
        }),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| find(item, key, &format!("{path}[{index}]")))
        }
        Value::String(text) if is_credential(key, text) => Some(path.to_owned()),
        _ => None,
    }
}

fn is_credential(key: &str, text: &str) -> bool {
    let is_named = FIELDS.contains(&key.to_ascii_lowercase().as_str());
    !text.is_empty() && (is_named || FORMS.iter().any(|form| text.contains(form)) || names_whom_it_is_asked_as(text))
}

/// `https://me:secret@host/`.
fn names_whom_it_is_asked_as(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_credential_is_found_by_its_field_or_by_its_form() {
        for (spec, field) in [
            (json!({"users": [{"name": "a", "passwd": "$6$x"}]}), Some("spec.users[0].passwd")),
            (json!({"files": [{"content": "-----BEGIN RSA PRIVATE KEY-----\nx"}]}), Some("spec.files[0].content")),
            (json!({"url": "https://me:secret@git.example.com/fleet"}), Some("spec.url")),
            (json!({"bindPassword": "x"}), Some("spec.bindPassword")),
            (json!({"secretRef": {"name": "flux-system"}, "url": "ssh://git@git.example.com/fleet"}), None),
            (
                json!({"users": [{"sshAuthorizedKeys": ["ssh-ed25519 AAAA"]}], "licenseToken": "a.b.c", "password": ""}),
                None,
            ),
        ] {
            assert_eq!(credential(&json!({"kind": "A", "spec": spec})).as_deref(), field, "{spec}");
        }
        assert!(credential(&json!({"kind": "Secret"})).is_some());
    }
}
