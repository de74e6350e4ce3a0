//! What of a difference may be told where everybody reads it, and it is mailed and kept: on a forge.
//!
//! Architecture Invariant: a secret may stand in any field, whatever that is called, so values are told by a list of fields that hold none,
//! never by a list of those that do.

use yaml::{Node, Value};

use super::compare::FieldDifference;

/// Fields whose values are versions, amounts, and names of kinds: what people look at before an upgrade.
const TOLD: &[&str] = &[
    "[app.kubernetes.io/version]",
    "[helm.sh/chart]",
    "apiVersion",
    "containerPort",
    "count",
    "cpu",
    "digest",
    "image",
    "imageDigest",
    "imagePullPolicy",
    "interval",
    "kind",
    "kubernetesVersion",
    "maxSurge",
    "maxUnavailable",
    "memory",
    "minReadySeconds",
    "name",
    "namespace",
    "number",
    "port",
    "priorityClassName",
    "progressDeadlineSeconds",
    "protocol",
    "replicas",
    "revisionHistoryLimit",
    "served",
    "serviceAccountName",
    "storage",
    "tag",
    "targetPort",
    "terminationGracePeriodSeconds",
    "timeout",
    "type",
    "uri",
    "version",
];

/// The longest value that is redacted, in characters.
const LONGEST: usize = 200;

/// The value of one side of a field, where it may be told.
pub fn redacted(field: &FieldDifference<'_>, side: Option<&Node>) -> Option<String> {
    let last = field.segments.last().map(String::as_str).unwrap_or_default();
    if field.secret {
        return None;
    }
    match &side?.value {
        Value::Bool(value) => Some(value.to_string()),
        // Environment variables and arguments have a name beside a value; the name is redacted, the value is not.
        _ if !TOLD.contains(&last) => None,
        Value::Int(value) => Some(value.to_string()),
        Value::Uint(value) => Some(value.to_string()),
        Value::Float(value) => Some(value.to_string()),
        Value::String(text) => harmless(text.as_str()).map(str::to_owned),
        Value::Null | Value::Sequence(_) | Value::Mapping(_) => None,
    }
}

/// A text that is no more than an image, a version, an amount or an address: without anybody's name or password before a host, without
/// parameters, and without anything that would be markup.
pub fn harmless(text: &str) -> Option<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:/@+-%~".contains(c);
    let named = text.split_once('@').is_some_and(|(_, digest)| !digest.starts_with("sha256:") || digest.contains('@'));
    let is_plain = !text.is_empty() && text.chars().count() <= LONGEST && text.chars().all(plain);
    (is_plain && !named).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::super::{compare, objects};
    use super::*;

    fn values(before: &str, after: &str) -> Vec<(String, Option<String>, Option<String>)> {
        let read = |text: &str| objects([(String::new(), text.as_bytes().to_vec())]).unwrap();
        let (before, after) = (read(before), read(after));
        let mut found = Vec::new();
        for object in compare(&before, &after) {
            for field in &object.fields {
                found.push((field.path.clone(), redacted(field, field.old), redacted(field, field.new)));
            }
        }
        found
    }

    #[test]
    fn versions_and_amounts_are_told() {
        let text = |image: &str, replicas: u8| {
            format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\nspec: {{replicas: {replicas}, paused: {}, image: '{image}'}}\n",
                replicas > 1
            )
        };
        let digest = format!("r.example.com/a:v1@sha256:{}", "a".repeat(64));
        let found = values(&text("r.example.com/a:v0", 1), &text(&digest, 2));
        let some = |text: &str| Some(text.to_owned());
        assert!(found.contains(&("spec.image".to_owned(), some("r.example.com/a:v0"), Some(digest))), "{found:?}");
        assert!(found.contains(&("spec.replicas".to_owned(), some("1"), some("2"))), "{found:?}");
        assert!(found.contains(&("spec.paused".to_owned(), some("false"), some("true"))), "{found:?}");
    }

    #[test]
    fn whatever_else_may_be_a_secret() {
        let text = |secret: &str| {
            format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a, annotations: {{note: {secret}}}}}\nspec: {{pin: 12{secret}, args: [--token={secret}], \
                 env: [{{name: T, value: {secret}}}], image: 'https://me:{secret}@r.example.com/a', uri: 'https://r.example.com/?t={secret}'}}\n---\n\
                 apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{image: {secret}}}\n---\n\
                 apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: e}}\nimage: {secret}\nsops: {{version: {secret}}}\n"
            )
        };
        let found = values(&text("one"), &text("two"));
        assert!(found.len() >= 9 && found.iter().all(|(_, old, new)| old.is_none() && new.is_none()), "{found:?}");
    }
}
