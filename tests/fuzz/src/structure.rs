//! Changes of JSON values: a reader sees well-formed text that says something else.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

/// One change of a document.
#[derive(Debug, Clone)]
enum Edit {
    /// Another value in place of one.
    Replace(Index, Value),
    /// A value of the document itself in place of another one.
    Move(Index, Index),
    /// A member or an item less.
    Remove(Index, Index),
    /// Another name of a member.
    Rename(Index, Index, &'static str),
}

/// What readers do not expect.
fn odd() -> Vec<Value> {
    let deep = (0..60).fold(json!([]), |inner, _| json!([inner]));
    let texts = ["", " ", "\0", "../..", "a\nb", "ä\u{202e}", "-1", "v1.2.3+build-2", "1970-01-01T00:00:00Z", "null"];
    let numbers = [json!(-1), json!(0), json!(u64::MAX), json!(i64::MIN), json!(1e300), json!(0.5)];
    let others = [Value::Null, json!(true), json!([]), json!({}), json!([null]), json!("a".repeat(5_000)), deep];
    texts.into_iter().map(Value::from).chain(numbers).chain(others).collect()
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        4 => (at(), select(odd())).prop_map(|(at, value)| Edit::Replace(at, value)),
        2 => (at(), at()).prop_map(|(at, from)| Edit::Move(at, from)),
        2 => (at(), at()).prop_map(|(at, which)| Edit::Remove(at, which)),
        1 => (at(), at(), select(vec!["", "a", "__proto__", "metadata/name"]))
            .prop_map(|(at, which, name)| Edit::Rename(at, which, name)),
    ]
}

/// How many values a document has, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// The value with this number, in the order of the text.
fn nth(value: &mut Value, number: usize) -> Option<&mut Value> {
    let mut queue = vec![value];
    let mut left = number;
    while let Some(next) = queue.pop() {
        if left == 0 {
            return Some(next);
        }
        left -= 1;
        match next {
            Value::Array(items) => queue.extend(items.iter_mut().rev()),
            Value::Object(fields) => queue.extend(fields.values_mut().rev()),
            _ => {}
        }
    }
    None
}

fn apply(document: &mut Value, edit: &Edit) {
    let values = count(document);
    match edit {
        Edit::Replace(at, new) => {
            if let Some(old) = nth(document, at.index(values)) {
                old.clone_from(new);
            }
        }
        Edit::Move(at, from) => {
            let Some(new) = nth(document, from.index(values)).cloned() else { return };
            // A document that holds itself doubles.
            if let Some(old) = nth(document, at.index(values)).filter(|_| count(&new) < 1_000) {
                *old = new;
            }
        }
        Edit::Remove(at, which) => match nth(document, at.index(values)) {
            Some(Value::Array(items)) if !items.is_empty() => drop(items.remove(which.index(items.len()))),
            Some(Value::Object(fields)) if !fields.is_empty() => {
                let name = fields.keys().nth(which.index(fields.len())).cloned();
                name.and_then(|name| fields.remove(&name));
            }
            _ => {}
        },
        Edit::Rename(at, which, new) => {
            if let Some(Value::Object(fields)) = nth(document, at.index(values)).filter(|value| value.is_object())
                && !fields.is_empty()
            {
                let name = fields.keys().nth(which.index(fields.len())).cloned();
                if let Some(value) = name.and_then(|name| fields.remove(&name)) {
                    fields.insert((*new).to_owned(), value);
                }
            }
        }
    }
}

/// A document with some changes, as text.
pub fn mutated(documents: Vec<Value>) -> impl Strategy<Value = Vec<u8>> {
    (select(documents), prop::collection::vec(edit(), 1..6)).prop_map(|(mut document, edits)| {
        edits.iter().for_each(|edit| apply(&mut document, edit));
        document.to_string().into_bytes()
    })
}
