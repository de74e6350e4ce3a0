//! The JSON schema of `stepgate.yaml`, derived from the types of the policy: editors complete and check the file by it.
//!
//! Types here stand for values that are written otherwise than they are kept, such as `10m` for a duration.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};

use super::types::Policy;

/// The JSON schema (draft 2020-12) of `stepgate.yaml`.
#[must_use]
pub fn policy_schema() -> Schema {
    let mut schema = schema_for!(Policy);
    schema.insert("title".to_owned(), "stepgate.yaml".into());
    if let Some(fields) = schema.get_mut("properties").and_then(|fields| fields.as_object_mut()) {
        let named = [("apiVersion", super::read::API_VERSION), ("kind", "Policy")];
        fields.extend(named.map(|(name, only)| (name.to_owned(), json_schema!({"const": only}).to_value())));
    }
    schema
}

/// Every field may be left out, and no other is known.
pub(super) fn every_field_is_optional(schema: &mut Schema) {
    schema.remove("required");
    schema.insert("additionalProperties".to_owned(), false.into());
}

/// As an environment, without the clusters that belong to one.
pub(super) fn of_one_cluster(schema: &mut Schema) {
    every_field_is_optional(schema);
    if let Some(fields) = schema.get_mut("properties").and_then(|fields| fields.as_object_mut()) {
        fields.remove("clusters");
    }
}

/// Stages by name; `workers/<group>` is one worker group.
pub(super) fn named_by_stage(schema: &mut Schema) {
    let names = super::read::STAGES.iter().filter(|name| !name.contains('<')).copied().collect::<Vec<_>>().join("|");
    schema.insert("propertyNames".to_owned(), json_schema!({"pattern": format!("^({names}|workers/.+)$")}).to_value());
}

/// `90s`, `10m`, `1h30m`, `2d`.
pub(super) struct DurationText;

impl JsonSchema for DurationText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^(0|([0-9]+[smhd])+)$", "examples": ["90s", "10m", "1h30m", "2d"]})
    }
}

/// A text, number or truth value.
pub(super) struct ScalarText;

impl JsonSchema for ScalarText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "number", "boolean"]})
    }
}

/// `fetch` of the policy.
#[derive(JsonSchema)]
#[schemars(inline, transform = every_field_is_optional)]
#[expect(dead_code, reason = "it stands for what is written")]
pub(super) struct FetchText {
    /// Hosts (or `host/path` prefixes) that manifests and charts may be fetched from over HTTPS.
    allow: Vec<String>,
}

/// `cilium` of the policy.
#[derive(JsonSchema)]
#[schemars(inline, transform = every_field_is_optional)]
#[expect(dead_code, reason = "it stands for what is written")]
pub(super) struct CiliumText {
    /// Values of Cilium's chart.
    values: BTreeMap<String, serde_json::Value>,
}

/// Who applies, of single clusters.
#[derive(JsonSchema)]
#[schemars(inline, rename_all = "kebab-case")]
#[expect(dead_code, reason = "it stands for what is written")]
pub(super) enum EksctlApplyText {
    /// Somebody's pipeline runs eksctl on it: for clusters of eksctl.
    Pipeline,
    /// Stepgate runs eksctl: for clusters of eksctl.
    Eksctl,
}

/// One of `windows`.
#[derive(JsonSchema)]
#[schemars(rename = "Window", rename_all = "camelCase", transform = every_field_is_optional)]
#[expect(dead_code, reason = "it stands for what is written")]
pub(super) struct WindowText {
    /// Days on which it opens, such as `friday` or `last sunday`; every day without them.
    #[schemars(inner(pattern(
        "^(?i)((every|first|second|third|fourth|last) )?(monday|tuesday|wednesday|thursday|friday|saturday|sunday)$"
    )))]
    days: Vec<String>,
    /// When it opens.
    #[schemars(pattern("^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    from: String,
    /// When it closes; at or before `from` means on the next day.
    #[schemars(pattern("^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"))]
    to: String,
    /// Time zone of the IANA database, such as `Europe/Berlin`; UTC without it.
    time_zone: String,
    /// Whether a stage begins only where it is over before the window closes, by the 80th percentile of what it took before.
    must_fit: bool,
    /// How long before the window closes it has to be over.
    #[schemars(with = "DurationText")]
    margin: String,
}

/// One of `freezes`.
#[derive(JsonSchema)]
#[schemars(rename = "Freeze", rename_all = "camelCase", transform = every_field_is_optional)]
#[expect(dead_code, reason = "it stands for what is written")]
pub(super) struct FreezeText {
    /// Its first day, such as `2026-12-20`; without the year, that of every year.
    #[schemars(regex(pattern = r"^([0-9]{4}-)?[0-9]{2}-[0-9]{2}$"))]
    from: String,
    /// Its last day, with a year as the first one or without.
    #[schemars(regex(pattern = r"^([0-9]{4}-)?[0-9]{2}-[0-9]{2}$"))]
    to: String,
    /// Time zone of the IANA database whose days are meant; UTC without it.
    time_zone: String,
    /// Why.
    reason: String,
    /// What begins all the same: stages by name, `workers` for every group, `rollback` for stages that go back.
    except: Vec<String>,
}

/// The forges that pull requests are opened on.
#[derive(JsonSchema)]
#[schemars(inline, rename_all = "lowercase")]
#[expect(dead_code, reason = "it stands for what is written")]
pub(super) enum ForgeText {
    /// Gitea.
    Gitea,
    /// Forgejo, which speaks as Gitea does.
    Forgejo,
    /// GitHub, or an own GitHub Enterprise.
    GitHub,
    /// GitLab.
    GitLab,
}

#[cfg(test)]
mod tests {
    use domain::RepoPath;
    use serde_json::Value;

    use super::*;
    use crate::read_policy;

    fn properties<'a>(root: &'a Value, schema: &'a Value) -> Vec<(&'a str, &'a Value)> {
        let schema = match schema.get("$ref").and_then(Value::as_str) {
            Some(place) => root.pointer(place.trim_start_matches('#')).unwrap(),
            None => schema,
        };
        let own = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        own.map(|(name, schema)| (name.as_str(), schema)).collect()
    }

    /// What the reader says of a file in which this field stands.
    fn unknown(text: &str) -> Vec<String> {
        let (_, problems) = read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        let problems = problems.iter().map(ToString::to_string);
        problems.filter(|problem| problem.contains("unknown field")).collect()
    }

    #[test]
    fn each_field_of_the_schema_is_read_and_each_that_is_read_is_there() {
        let root = policy_schema().to_value();
        let fleet = properties(&root, &root);
        let names: Vec<&str> = fleet.iter().map(|(name, _)| *name).collect();
        for name in &names {
            assert_eq!(unknown(&format!("{name}: null\n")), [""; 0], "{name}");
        }
        for name in super::super::read::known(&super::super::read::FLEET, false) {
            assert!(names.contains(&name), "{name} is read, and not in the schema");
        }
        let level = |field: &str| {
            let (_, schema) = fleet.iter().find(|(name, _)| *name == field).unwrap();
            properties(&root, schema.get("additionalProperties").unwrap())
        };
        for (field, own) in
            [("environments", ["clusters"].as_slice()), ("clusters", &["environment", "workerOrder", "addresses"])]
        {
            let names: Vec<&str> = level(field).iter().map(|(name, _)| *name).collect();
            for name in &names {
                assert_eq!(unknown(&format!("{field}: {{one: {{{name}: null}}}}\n")), [""; 0], "{field}: {name}");
            }
            for name in super::super::read::known(own, true) {
                assert!(names.contains(&name), "{field}: {name} is read, and not in the schema");
            }
        }
        for (field, schema) in fleet.iter().filter(|(name, _)| {
            ["deploy", "flux", "backup", "forge", "author", "signing", "fetch", "announce", "updates"].contains(name)
        }) {
            let nested = properties(&root, schema.get("anyOf").and_then(|any| any.get(0)).unwrap_or(schema));
            assert!(!nested.is_empty(), "{field}: {schema}");
            for (name, _) in nested {
                assert_eq!(unknown(&format!("{field}: {{{name}: null}}\n")), [""; 0], "{field}.{name}");
            }
        }
    }
}
