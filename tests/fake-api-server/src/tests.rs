//! What a client relies on, without a server.

use serde_json::{Value, json};

use super::*;

const MAPS: &str = "/api/v1/namespaces/n/configmaps";

fn state() -> State {
    State::new(vec![ServedKind::built_in("v1", "ConfigMap", "configmaps")], &["n"])
}

fn ask(state: &mut State, method: &str, path: &str, query: &str, body: Value) -> Answer {
    let content_type = match (method, body.get("apiVersion")) {
        ("PATCH", Some(_)) => "application/apply-patch+yaml",
        ("PATCH", None) => "application/merge-patch+json",
        _ => "application/json",
    };
    let [method, path, query, content_type] = [method, path, query, content_type].map(str::to_owned);
    let request = Request { method, path, query, content_type, body };
    state.answer(&request, "2026-03-01T12:00:00Z".parse().unwrap())
}

fn reply(state: &mut State, method: &str, path: &str, query: &str, body: Value) -> (u16, Value) {
    match ask(state, method, path, query, body) {
        Answer::Reply(Reply { code, body }) => (code, body),
        Answer::Watch(watch) => panic!("{watch:?}"),
    }
}

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[test]
fn of_two_who_write_what_they_read_one_is_refused() {
    let mut state = state();
    let (_, read) = reply(&mut state, "POST", MAPS, "", map("a", &json!({"k": "1"})));
    let write = |holder: &str| json!({"metadata": {"resourceVersion": read["metadata"]["resourceVersion"]}, "data": {"k": holder}});
    let path = format!("{MAPS}/a");
    assert_eq!(reply(&mut state, "PATCH", &path, "", write("us")).0, 200);
    let (code, refusal) = reply(&mut state, "PATCH", &path, "", write("them"));
    assert_eq!((code, &refusal["reason"]), (409, &json!("Conflict")));
    assert_eq!(reply(&mut state, "GET", &path, "", Value::Null).1["data"]["k"], "us");
}

#[test]
fn who_applies_what_another_owns_is_told_whose_it_is() {
    let mut state = state();
    let path = format!("{MAPS}/a");
    reply(&mut state, "PATCH", &path, "fieldManager=helm", map("a", &json!({"k": "1", "other": "1"})));
    let (code, refusal) = reply(&mut state, "PATCH", &path, "fieldManager=flux", map("a", &json!({"k": "2"})));
    assert_eq!(
        (code, &refusal["message"]),
        (409, &json!("Apply failed with 1 conflict: conflict with \"helm\": .data.k"))
    );
    let forced = reply(&mut state, "PATCH", &path, "fieldManager=flux&force=true", map("a", &json!({"k": "2"})));
    assert_eq!(forced.1["data"], json!({"k": "2", "other": "1"}));
    // What its manager applies no longer goes, unless it has become somebody else's.
    let dropped = reply(&mut state, "PATCH", &path, "fieldManager=helm", map("a", &json!({"new": "1"})));
    assert_eq!(dropped.1["data"], json!({"k": "2", "new": "1"}));
}

#[test]
fn a_list_goes_on_as_it_was_when_it_began() {
    let mut state = state();
    for name in ["a", "b", "c"] {
        reply(&mut state, "POST", MAPS, "", map(name, &json!({})));
    }
    let (_, first) = reply(&mut state, "GET", MAPS, "limit=2", Value::Null);
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a", "b"], &json!(1)));
    reply(&mut state, "DELETE", &format!("{MAPS}/c"), "", Value::Null);
    reply(&mut state, "POST", MAPS, "", map("d", &json!({})));
    let next = format!("limit=2&continue={}", first["metadata"]["continue"].as_str().unwrap());
    assert_eq!(names(&reply(&mut state, "GET", MAPS, &next, Value::Null).1), ["c"]);
    state.compact();
    assert_eq!(reply(&mut state, "GET", MAPS, &next, Value::Null).0, 410);
}

#[test]
fn a_watch_tells_what_follows_and_ends_where_that_is_forgotten() {
    let mut state = state();
    let (_, list) = reply(&mut state, "GET", MAPS, "", Value::Null);
    let since = format!("watch=true&resourceVersion={}", list["metadata"]["resourceVersion"].as_str().unwrap());
    reply(&mut state, "POST", MAPS, "", map("a", &json!({})));
    reply(&mut state, "DELETE", &format!("{MAPS}/a"), "", Value::Null);
    let begin = |state: &mut State| match ask(state, "GET", MAPS, &since, Value::Null) {
        Answer::Watch(watch) => watch,
        Answer::Reply(reply) => panic!("{reply:?}"),
    };
    let mut watch = begin(&mut state);
    let told = |events: Option<Vec<Value>>| -> Vec<Value> {
        events.unwrap_or_default().iter().map(|event| event["type"].clone()).collect()
    };
    assert_eq!(told(state.events(&mut watch)), ["ADDED", "DELETED"]);
    assert_eq!(state.events(&mut watch), Some(Vec::new()));
    state.compact();
    let mut late = begin(&mut state);
    assert_eq!(told(state.events(&mut late)), ["ERROR"]);
    assert_eq!(state.events(&mut late), None);
}
