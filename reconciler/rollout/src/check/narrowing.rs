//! What a new schema of a custom resource asks that the old one did not, and which values do not meet it.

use std::fmt;

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

/// A change of a definition that a plan makes, as far as existing objects may be touched by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionChange {
    /// Name, `<plural>.<group>`.
    pub name: String,
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Plural name.
    pub plural: String,
    /// The versions that it has afterwards.
    pub versions: Vec<String>,
    /// The one that is stored afterwards.
    pub storage: String,
    /// What its schemas ask anew, by version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrowed: Vec<NarrowedVersion>,
}

/// A version of a definition whose schema asks for more than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NarrowedVersion {
    /// The version.
    pub version: String,
    /// What it asks anew.
    pub narrowings: Vec<Narrowing>,
}

/// One step from a value to a value in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FieldStep {
    /// The field of this name.
    Field(String),
    /// Each item of a list, each value of a map.
    Each,
}

/// One thing that a new schema asks of the values at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Narrowing {
    /// Where the values are, from the object on.
    pub path: Vec<FieldStep>,
    /// What is asked of them.
    pub requirement: Requirement,
}

/// A limit of a number or of a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Bound {
    /// A number at least.
    Minimum,
    /// A number at most.
    Maximum,
    /// Characters at least.
    MinLength,
    /// Characters at most.
    MaxLength,
    /// Items at least.
    MinItems,
    /// Items at most.
    MaxItems,
    /// Fields at least.
    MinProperties,
    /// Fields at most.
    MaxProperties,
}

impl Bound {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Minimum,
        Self::Maximum,
        Self::MinLength,
        Self::MaxLength,
        Self::MinItems,
        Self::MaxItems,
        Self::MinProperties,
        Self::MaxProperties,
    ];

    /// The word of schemas.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minimum => "minimum",
            Self::Maximum => "maximum",
            Self::MinLength => "minLength",
            Self::MaxLength => "maxLength",
            Self::MinItems => "minItems",
            Self::MaxItems => "maxItems",
            Self::MinProperties => "minProperties",
            Self::MaxProperties => "maxProperties",
        }
    }

    /// Whether it is a limit from below.
    #[must_use]
    pub fn is_lower(self) -> bool {
        matches!(self, Self::Minimum | Self::MinLength | Self::MinItems | Self::MinProperties)
    }

    /// The number of a value that it limits; none where it does not limit such values.
    fn of(self, value: &Value) -> Option<f64> {
        let count = |count: usize| u32::try_from(count).ok().map(f64::from);
        match (self, value) {
            (Self::Minimum | Self::Maximum, Value::Number(number)) => number.as_f64(),
            (Self::MinLength | Self::MaxLength, Value::String(text)) => count(text.chars().count()),
            (Self::MinItems | Self::MaxItems, Value::Array(items)) => count(items.len()),
            (Self::MinProperties | Self::MaxProperties, Value::Object(fields)) => count(fields.len()),
            _ => None,
        }
    }
}

/// What a new schema asks of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requirement {
    /// The field is not known any more: what is there is dropped.
    Unknown,
    /// No fields but these are known any more.
    OnlyFields(Vec<String>),
    /// The field of this name has to be there, and nothing fills it in.
    Required(String),
    /// The value has one of these types.
    Types(Vec<String>),
    /// The value is not null.
    NotNull,
    /// The value is one of these.
    OneOf(Vec<Value>),
    /// The text matches this pattern.
    Pattern(String),
    /// The value keeps within this limit.
    Within {
        /// Which limit.
        bound: Bound,
        /// The limit.
        limit: Number,
    },
    /// A rule in the Common Expression Language, which is not evaluated here.
    Rule(String),
    /// Part of the schema changes in a way that is not compared here.
    NotCompared(String),
}

/// A value that does not meet what is asked, or of which that cannot be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where it is, such as `spec.machines[2].name`.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// Whether it is known to be wrong.
    pub is_certain: bool,
}

impl Narrowing {
    /// What of an object does not meet it.
    #[must_use]
    pub fn violations(&self, object: &Value) -> Vec<Violation> {
        let mut values = Vec::new();
        find(object, &self.path, String::new(), &mut values);
        values.into_iter().filter_map(|(field, value)| self.requirement.violation(&field, value)).collect()
    }
}

/// Every value at a path, with its place.
fn find<'a>(value: &'a Value, path: &[FieldStep], place: String, found: &mut Vec<(String, &'a Value)>) {
    let Some((step, rest)) = path.split_first() else {
        found.push((place, value));
        return;
    };
    let below = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    match (step, value) {
        (FieldStep::Field(name), Value::Object(fields)) => {
            if let Some(value) = fields.get(name) {
                find(value, rest, below(name), found);
            }
        }
        (FieldStep::Each, Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                find(item, rest, format!("{place}[{index}]"), found);
            }
        }
        (FieldStep::Each, Value::Object(fields)) => {
            for (name, value) in fields {
                find(value, rest, below(name), found);
            }
        }
        _ => {}
    }
}

impl Requirement {
    fn violation(&self, field: &str, value: &Value) -> Option<Violation> {
        let certain = |message: String| Some(Violation { field: field.to_owned(), message, is_certain: true });
        let uncertain = |message: String| Some(Violation { field: field.to_owned(), message, is_certain: false });
        match self {
            Self::Unknown => certain("is dropped: the new schema does not have it".to_owned()),
            Self::OnlyFields(known) => {
                let fields = value.as_object()?;
                let lost: Vec<&str> = fields.keys().map(String::as_str).filter(|name| !contains(known, name)).collect();
                if lost.is_empty() {
                    return None;
                }
                certain(format!("{} dropped: the new schema does not have them", are(&lost)))
            }
            Self::Required(name) => {
                let lacks = value.as_object().is_some_and(|fields| !fields.contains_key(name));
                if lacks { certain(format!("has no {name}, which the new schema requires")) } else { None }
            }
            Self::Types(types) => {
                let fits = value.is_null() || types.iter().any(|name| is_of(name, value));
                if fits { None } else { certain(format!("is not of type {}", types.join(" or "))) }
            }
            Self::NotNull => {
                if value.is_null() {
                    certain("is null".to_owned())
                } else {
                    None
                }
            }
            Self::OneOf(allowed) => {
                let fits = value.is_null() || allowed.contains(value);
                let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
                if fits { None } else { certain(format!("{value} is none of {}", allowed.join(", "))) }
            }
            Self::Pattern(pattern) => {
                let text = value.as_str()?;
                match Regex::new(pattern) {
                    Ok(regex) if regex.is_match(text) => None,
                    Ok(_) => certain(format!("{text:?} does not match {pattern}")),
                    Err(_) => uncertain(format!("whether it matches {pattern} cannot be told here")),
                }
            }
            Self::Within { bound, limit } => {
                let (number, limit_number) = (bound.of(value)?, limit.as_f64()?);
                let fits = if bound.is_lower() { number >= limit_number } else { number <= limit_number };
                if fits { None } else { certain(format!("{number} is beyond {} {limit}", bound.as_str())) }
            }
            Self::Rule(rule) => uncertain(format!("the new rule `{rule}` is not evaluated here")),
            Self::NotCompared(what) => uncertain(format!("{what} of its schema changes, which is not compared here")),
        }
    }
}

fn contains(known: &[String], name: &str) -> bool {
    known.iter().any(|known| known == name)
}

fn are(names: &[&str]) -> String {
    format!("{} {}", names.join(", "), if names.len() == 1 { "is" } else { "are" })
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        _ => true,
    }
}

impl fmt::Display for Narrowing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.path.iter().enumerate() {
            match step {
                FieldStep::Field(name) if index == 0 => formatter.write_str(name)?,
                FieldStep::Field(name) => write!(formatter, ".{name}")?,
                FieldStep::Each => formatter.write_str("[]")?,
            }
        }
        match &self.requirement {
            Requirement::Unknown => formatter.write_str(" is gone"),
            Requirement::OnlyFields(_) => formatter.write_str(" keeps no unknown fields"),
            Requirement::Required(name) => write!(formatter, ".{name} is required"),
            Requirement::Types(types) => write!(formatter, " is of type {}", types.join(" or ")),
            Requirement::NotNull => formatter.write_str(" is never null"),
            Requirement::OneOf(_) => formatter.write_str(" has fewer values"),
            Requirement::Pattern(pattern) => write!(formatter, " matches {pattern}"),
            Requirement::Within { bound, limit } => write!(formatter, " has {} {limit}", bound.as_str()),
            Requirement::Rule(rule) => write!(formatter, " obeys `{rule}`"),
            Requirement::NotCompared(what) => write!(formatter, " has another {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> Vec<FieldStep> {
        let step = |part: &str| if part == "*" { FieldStep::Each } else { FieldStep::Field(part.to_owned()) };
        text.split('.').filter(|part| !part.is_empty()).map(step).collect()
    }

    #[track_caller]
    fn check(at: &str, requirement: Requirement, object: &Value, expected: &[&str]) {
        let narrowing = Narrowing { path: path(at), requirement };
        let told = narrowing.violations(object).into_iter().map(|found| {
            let sign = if found.is_certain { "" } else { "?" };
            format!("{sign}{}: {}", found.field, found.message)
        });
        assert_eq!(told.collect::<Vec<_>>(), expected, "{narrowing}");
    }

    #[test]
    fn each_requirement_finds_the_values_that_do_not_meet_it() {
        let object =
            json!({"spec": {"a": "x", "n": 7, "none": null, "items": [{"b": 1}, {"c": 2}], "map": {"k": {"d": 1}}}});
        let number = |value: u32| Number::from(value);
        check("spec.a", Requirement::Unknown, &object, &["spec.a: is dropped: the new schema does not have it"]);
        check("spec.z", Requirement::Unknown, &object, &[]);
        check(
            "spec.items.*",
            Requirement::Required("b".into()),
            &object,
            &["spec.items[1]: has no b, which the new schema requires"],
        );
        check(
            "spec.map.*",
            Requirement::Required("b".into()),
            &object,
            &["spec.map.k: has no b, which the new schema requires"],
        );
        check(
            "spec.map.*",
            Requirement::OnlyFields(vec![]),
            &object,
            &["spec.map.k: d is dropped: the new schema does not have them"],
        );
        check("spec.n", Requirement::Types(vec!["string".into()]), &object, &["spec.n: is not of type string"]);
        check("spec.n", Requirement::Types(vec!["string".into(), "integer".into()]), &object, &[]);
        check("spec.none", Requirement::Types(vec!["string".into()]), &object, &[]);
        check("spec.none", Requirement::NotNull, &object, &["spec.none: is null"]);
        check("spec.a", Requirement::OneOf(vec![json!("y")]), &object, &["spec.a: \"x\" is none of \"y\""]);
        check("spec.a", Requirement::OneOf(vec![json!("x")]), &object, &[]);
        check("spec.a", Requirement::Pattern("^y+$".into()), &object, &["spec.a: \"x\" does not match ^y+$"]);
        check("spec.a", Requirement::Pattern("^x$".into()), &object, &[]);
        check(
            "spec.a",
            Requirement::Pattern("(?!x)".into()),
            &object,
            &["?spec.a: whether it matches (?!x) cannot be told here"],
        );
        let within = |bound, limit| Requirement::Within { bound, limit: number(limit) };
        check("spec.n", within(Bound::Maximum, 6), &object, &["spec.n: 7 is beyond maximum 6"]);
        check("spec.n", within(Bound::Maximum, 7), &object, &[]);
        check("spec.n", within(Bound::MaxLength, 1), &object, &[]);
        check("spec.a", within(Bound::MinLength, 2), &object, &["spec.a: 1 is beyond minLength 2"]);
        check("spec.items", within(Bound::MaxItems, 1), &object, &["spec.items: 2 is beyond maxItems 1"]);
        check(
            "spec",
            Requirement::Rule("self.n < 3".into()),
            &object,
            &["?spec: the new rule `self.n < 3` is not evaluated here"],
        );
        check("spec.z", Requirement::Rule("self.n < 3".into()), &object, &[]);
    }
}
