//! Compares two `OpenAPI` schemas of a custom resource: what the new one asks of values that the old one did not.
//!
//! Widening is no difference. `status` is left out: its controller writes it anew, and whoever writes the rest of an
//! object does not write it.

use rollout::check::{Bound, FieldStep, Narrowing, Requirement};
use serde_json::{Map, Number, Value};

/// Fields of an object at its top that its schema does not decide about.
const NOT_COMPARED: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// Parts of a schema that are compared as a whole.
const OPAQUE: [&str; 5] = ["allOf", "anyOf", "oneOf", "not", "multipleOf"];

/// What the new schema of a version asks of whole objects that the old one did not.
pub(super) fn narrowings(old: &Value, new: &Value) -> Vec<Narrowing> {
    let mut walk = Walk { path: Vec::new(), found: Vec::new() };
    walk.compare(old, new);
    walk.found
}

struct Walk {
    path: Vec<FieldStep>,
    found: Vec<Narrowing>,
}

impl Walk {
    fn add(&mut self, requirement: Requirement) {
        self.found.push(Narrowing { path: self.path.clone(), requirement });
    }

    fn below(&mut self, step: FieldStep, look: impl FnOnce(&mut Self)) {
        self.path.push(step);
        look(self);
        self.path.pop();
    }

    fn compare(&mut self, old: &Value, new: &Value) {
        if old == new {
            return;
        }
        let (was, is) = (types(old), types(new));
        if !is.is_empty() && (was.is_empty() || !was.iter().all(|name| allows(&is, name))) {
            // What lies below a value of another type is another matter.
            self.add(Requirement::Types(is.into_iter().map(str::to_owned).collect()));
            return;
        }
        if is_set(old, "nullable") && !is_set(new, "nullable") {
            self.add(Requirement::NotNull);
        }
        self.values(old, new);
        self.bounds(old, new);
        self.rules(old, new);
        self.properties(old, new);
        if let (Some(old), Some(new)) = (old.get("items"), new.get("items")) {
            self.below(FieldStep::Each, |walk| walk.compare(old, new));
        }
        if let (Some(old), Some(new)) = (schema(old, "additionalProperties"), schema(new, "additionalProperties")) {
            self.below(FieldStep::Each, |walk| walk.compare(old, new));
        }
        for part in OPAQUE {
            if new.get(part).is_some() && old.get(part) != new.get(part) {
                self.add(Requirement::NotCompared(part.to_owned()));
            }
        }
    }

    fn values(&mut self, old: &Value, new: &Value) {
        if let Some(allowed) = new.get("enum").and_then(Value::as_array) {
            let before = old.get("enum").and_then(Value::as_array);
            if before.is_none_or(|before| before.iter().any(|value| !allowed.contains(value))) {
                self.add(Requirement::OneOf(allowed.clone()));
            }
        }
        if let Some(pattern) = new.get("pattern").and_then(Value::as_str)
            && old.get("pattern").and_then(Value::as_str) != Some(pattern)
        {
            self.add(Requirement::Pattern(pattern.to_owned()));
        }
    }

    fn bounds(&mut self, old: &Value, new: &Value) {
        for bound in Bound::ALL {
            let Some(limit) = number(new, bound.as_str()) else { continue };
            let is_narrower = number(old, bound.as_str()).is_none_or(|before| {
                if bound.is_lower() { limit.as_f64() > before.as_f64() } else { limit.as_f64() < before.as_f64() }
            });
            if is_narrower {
                self.add(Requirement::Within { bound, limit: limit.clone() });
            }
        }
        for exclusive in ["exclusiveMinimum", "exclusiveMaximum"] {
            if is_set(new, exclusive) && !is_set(old, exclusive) {
                self.add(Requirement::NotCompared(exclusive.to_owned()));
            }
        }
    }

    fn rules(&mut self, old: &Value, new: &Value) {
        let rules = |schema: &Value| -> Vec<String> {
            let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
            let text = |rule: &Value| rule.get("rule").and_then(Value::as_str).map(str::to_owned);
            rules.into_iter().flatten().filter_map(text).collect()
        };
        let before = rules(old);
        for rule in rules(new) {
            if !before.contains(&rule) {
                self.add(Requirement::Rule(rule));
            }
        }
    }

    fn properties(&mut self, old: &Value, new: &Value) {
        let none = Map::new();
        let fields = |schema: &'_ Value| schema.get("properties").and_then(Value::as_object).cloned();
        let (was, is) = (fields(old).unwrap_or_default(), fields(new).unwrap_or_default());
        let is_compared = |name: &str| !self.path.is_empty() || !NOT_COMPARED.contains(&name);
        let keeps = keeps_unknown_fields(new);
        let mut below: Vec<(String, Value, Option<Value>)> = Vec::new();
        for (name, old) in was.iter().filter(|(name, _)| is_compared(name)) {
            below.push((name.clone(), old.clone(), is.get(name).cloned()));
        }
        if keeps_unknown_fields(old) {
            // What was never looked at may be anything.
            let unseen = is.iter().filter(|(name, _)| is_compared(name) && !was.contains_key(*name));
            below.extend(unseen.map(|(name, new)| (name.clone(), Value::Object(none.clone()), Some(new.clone()))));
            if !keeps && types(new).contains(&"object") {
                self.add(Requirement::OnlyFields(is.keys().cloned().collect()));
            }
        }
        for (name, old, new) in below {
            let step = FieldStep::Field(name);
            match new {
                Some(new) => self.below(step, |walk| walk.compare(&old, &new)),
                None if keeps => {}
                None => self.below(step, |walk| walk.add(Requirement::Unknown)),
            }
        }
        let required = |schema: &Value| -> Vec<String> {
            let names = schema.get("required").and_then(Value::as_array);
            names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let before = required(old);
        for name in required(new) {
            let is_filled_in = is.get(&name).is_some_and(|field| field.get("default").is_some());
            if !before.contains(&name)
                && !is_filled_in
                && (!self.path.is_empty() || !NOT_COMPARED.contains(&name.as_str()))
            {
                self.add(Requirement::Required(name));
            }
        }
    }
}

/// The types that a schema allows; none where it allows any.
fn types(schema: &Value) -> Vec<&str> {
    if is_set(schema, "x-kubernetes-int-or-string") {
        return vec!["integer", "string"];
    }
    schema.get("type").and_then(Value::as_str).into_iter().collect()
}

fn allows(types: &[&str], name: &str) -> bool {
    types.contains(&name) || (name == "integer" && types.contains(&"number"))
}

fn is_set(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or_default()
}

fn schema<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|value| value.is_object())
}

fn number<'a>(schema: &'a Value, key: &str) -> Option<&'a Number> {
    match schema.get(key) {
        Some(Value::Number(number)) => Some(number),
        _ => None,
    }
}

/// Whether fields that it does not name stay.
fn keeps_unknown_fields(schema: &Value) -> bool {
    let additional = schema.get("additionalProperties");
    is_set(schema, "x-kubernetes-preserve-unknown-fields")
        || additional.is_some_and(|value| value.is_object() || value.as_bool() == Some(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(old: &Value, new: &Value, expected: &[&str]) {
        let spec = |field: &Value| json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": field}}}});
        let found = narrowings(&spec(old), &spec(new));
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn narrower_schemas_are_told_and_wider_ones_are_not() {
        let object = |properties: Value| json!({"type": "object", "properties": properties});
        let text = json!({"type": "string"});
        for (old, new, expected) in [
            (text.clone(), json!({"type": "integer"}), "spec.a is of type integer"),
            (json!({"type": "integer"}), json!({"type": "number"}), ""),
            (json!({"type": "integer"}), json!({"x-kubernetes-int-or-string": true}), ""),
            (json!({"x-kubernetes-int-or-string": true}), json!({"type": "integer"}), "spec.a is of type integer"),
            (json!({"type": "string", "nullable": true}), text.clone(), "spec.a is never null"),
            (text.clone(), json!({"type": "string", "enum": ["x"]}), "spec.a has fewer values"),
            (json!({"type": "string", "enum": ["x"]}), json!({"type": "string", "enum": ["x", "y"]}), ""),
            (
                json!({"type": "string", "enum": ["x", "y"]}),
                json!({"type": "string", "enum": ["x"]}),
                "spec.a has fewer values",
            ),
            (text.clone(), json!({"type": "string", "pattern": "^x"}), "spec.a matches ^x"),
            (json!({"type": "string", "pattern": "^x"}), text.clone(), ""),
            (
                json!({"type": "string", "maxLength": 9}),
                json!({"type": "string", "maxLength": 8}),
                "spec.a has maxLength 8",
            ),
            (json!({"type": "string", "maxLength": 9}), json!({"type": "string", "maxLength": 10}), ""),
            (
                json!({"type": "integer", "minimum": 1}),
                json!({"type": "integer", "minimum": 2}),
                "spec.a has minimum 2",
            ),
            (json!({"type": "integer", "minimum": 1}), json!({"type": "integer", "minimum": 0}), ""),
            (
                text.clone(),
                json!({"type": "string", "x-kubernetes-validations": [{"rule": "self != ''"}]}),
                "spec.a obeys `self != ''`",
            ),
            (text.clone(), json!({"type": "string", "oneOf": [{"minLength": 1}]}), "spec.a has another oneOf"),
            (object(json!({"b": text})), object(json!({})), "spec.a.b is gone"),
            (object(json!({})), object(json!({"b": text})), ""),
            (
                object(json!({})),
                json!({"type": "object", "required": ["b"], "properties": {"b": text}}),
                "spec.a.b is required",
            ),
            (
                object(json!({})),
                json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string", "default": "x"}}}),
                "",
            ),
            (
                json!({"type": "array", "items": text}),
                json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
                "spec.a[] has minLength 1",
            ),
            (
                json!({"type": "object", "additionalProperties": text}),
                json!({"type": "object", "additionalProperties": {"type": "integer"}}),
                "spec.a[] is of type integer",
            ),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
                object(json!({"b": text})),
                "spec.a keeps no unknown fields|spec.a.b is of type string",
            ),
            (object(json!({"b": text})), json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), ""),
        ] {
            let expected: Vec<&str> = expected.split('|').filter(|text| !text.is_empty()).collect();
            check(&old, &new, &expected);
            check(&old, &old, &[]);
        }
    }

    #[test]
    fn what_schemas_do_not_decide_about_is_left_out() {
        let top = |more: Value| json!({"type": "object", "properties": more});
        let old = top(
            json!({"metadata": {"type": "object"}, "status": {"type": "object", "properties": {"a": {"type": "string"}}}}),
        );
        assert_eq!(narrowings(&old, &top(json!({"metadata": {"type": "object"}}))), []);
        let required =
            json!({"type": "object", "required": ["metadata", "spec"], "properties": {"spec": {"type": "object"}}});
        let found = narrowings(&top(json!({"spec": {"type": "object"}})), &required);
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [".spec is required"]);
    }
}
