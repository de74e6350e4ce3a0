use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::client::kind::NODE;
use crate::client::server::{Answer, ApiServer, Asked, Script};
use host::waiting::end_of;

/// The request that begins with what is there, and the one that goes on where this version was.
const BEGINS: &str = "GET /api/v1/nodes?sendInitialEvents=true";

fn goes_on(version: u64) -> String {
    format!("GET /api/v1/nodes?resourceVersion={version}")
}

fn node(name: &str, version: u64, ready: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version.to_string()}, "status": {"conditions": [{"type": "Ready", "status": ready}]}})
}

fn added(node: &Value) -> Value {
    json!({"type": "ADDED", "object": node})
}

/// So far everything was told.
fn bookmark(version: u64) -> Value {
    json!({"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "Node", "metadata": {"resourceVersion": version.to_string()}}})
}

/// What is there was told.
fn begun(version: u64) -> Value {
    let mut bookmark = bookmark(version);
    bookmark["object"]["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    bookmark
}

/// As API servers word it within a watch.
fn expired() -> Value {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
        "message": "too old resource version: 5 (9)"});
    json!({"type": "ERROR", "object": status})
}

/// Clusters that look at the node of their own name.
fn follow(server: &ApiServer, names: &[&str]) -> (Watches, Arc<Changes>) {
    let changes = Arc::<Changes>::default();
    let watches = Watches::new(Arc::clone(&changes));
    for name in names {
        let named = BTreeMap::from([(String::new(), BTreeSet::from([(*name).to_owned()]))]);
        let mut interest = Interest::default();
        interest.add(NODE.resource("v1"), Filter::Named(named), ChangeScope::More);
        watches.follow(&server.connection(), name, interest);
    }
    (watches, changes)
}

/// Waits until each of these clusters was told of.
async fn told(changes: &Changes, expected: &[&str]) {
    let mut told = BTreeSet::new();
    while !expected.iter().all(|name| told.contains(*name)) {
        end_of(&format!("something is told of {expected:?}, besides {told:?}"), changes.changed()).await;
        told.extend(changes.take().into_keys());
    }
}

fn begins(asked: &Asked) -> bool {
    asked.query.contains("sendInitialEvents=true")
}

#[tokio::test]
async fn a_server_whose_events_cannot_be_read_is_asked_once() {
    let event = "{\n \"type\": \"ADDED\",\n \"object\": {}\n}\n";
    let script = Script::default().on("GET /api/v1/nodes?watch=true", Answer::Text(200, event));
    let server = ApiServer::start(script).await;
    let watches = Watches::new(Arc::default());
    let follow = || {
        let mut interest = Interest::default();
        interest.add(NODE.resource("v1"), Filter::All, ChangeScope::More);
        watches.follow(&server.connection(), "prod", interest);
        watches.tasks.lock().unwrap().drain().map(|(_, task)| task).collect::<Vec<_>>()
    };
    let tasks = follow();
    assert_eq!(tasks.len(), 1);
    for task in tasks {
        end_of("the watch is given up", task).await.unwrap();
    }
    assert!(follow().is_empty());
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_watch_that_is_cut_goes_on_from_its_last_bookmark() {
    let script = Script::default()
        .on(BEGINS, Answer::Events(vec![added(&node("a", 1, "True")), begun(3), bookmark(7)]))
        .on(&goes_on(7), Answer::Events(vec![added(&node("b", 8, "True"))]))
        .on(&goes_on(8), Answer::Silence);
    let server = ApiServer::start(script).await;
    let (_watches, changes) = follow(&server, &["a", "b"]);
    told(&changes, &["a", "b"]).await;
    let asked = server.asked();
    assert!(begins(&asked[0]) && !begins(&asked[1]) && asked[1].query.contains("resourceVersion=7"), "{asked:?}");
    assert!(asked.iter().all(|asked| asked.query.contains("allowWatchBookmarks=true")), "{asked:?}");
}

/// However the server says that it has forgotten what happened meanwhile, it is found by a list.
#[tokio::test]
async fn a_watch_that_has_expired_begins_anew_and_nothing_is_missed() {
    let within = find_what_was_missed(Answer::Events(vec![expired()]));
    let before = find_what_was_missed(Answer::Error(410, "too old resource version: 5 (9)"));
    tokio::join!(within, before);
}

async fn find_what_was_missed(refusal: Answer) {
    let there = |nodes: &[Value], version: u64| {
        let events = nodes.iter().map(added).chain([begun(version)]);
        Answer::Open(events.collect())
    };
    let [a, b, c] = ["a", "b", "c"].map(|name| node(name, 1, "True"));
    let server = ApiServer::start(Script::default().on(BEGINS, there(&[a, b.clone(), c.clone()], 5))).await;
    let (watches, changes) = follow(&server, &["a", "b", "c"]);
    told(&changes, &["a", "b", "c"]).await;
    // Only `a` has changed, so nobody else is told.
    let a = node("a", 8, "False");
    let script = Script::default().on(BEGINS, there(&[a.clone(), b, c.clone()], 9));
    server.answer(script.on(&goes_on(5), refusal.clone()));
    told(&changes, &["a"]).await;
    assert_eq!((changes.take().len(), watches.objects()), (0, 3));
    // Then `b` is gone. Nothing but its name is known any more, so everybody is told who looks at nodes.
    server.answer(Script::default().on(BEGINS, there(&[a, c], 12)).on(&goes_on(9), refusal));
    told(&changes, &["a", "b", "c"]).await;
    assert_eq!(watches.objects(), 2);
}

#[tokio::test]
async fn a_server_before_watch_list_is_listed_and_then_watched() {
    for code in [400, 422] {
        let page = |names: &[&str], next: &str| {
            let items: Vec<Value> = names.iter().map(|name| node(name, 1, "True")).collect();
            let metadata = json!({"resourceVersion": "5", "continue": next});
            Answer::Json(json!({"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": items}))
        };
        let refused = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        let script = Script::default()
            .on(BEGINS, Answer::Error(code, refused))
            .on("GET /api/v1/nodes", page(&["a"], "next"))
            .on("GET /api/v1/nodes?continue=next", page(&["b"], ""))
            .on(&goes_on(5), Answer::Events(vec![added(&node("c", 6, "True"))]))
            .on(&goes_on(6), Answer::Silence);
        let server = ApiServer::start(script).await;
        let (watches, changes) = follow(&server, &["a", "b", "c"]);
        told(&changes, &["a", "b", "c"]).await;
        assert_eq!(watches.objects(), 3);
        assert_eq!(server.asked().iter().filter(|asked| begins(asked)).count(), 1);
    }
}

#[tokio::test]
async fn a_watch_begins_anew_once_a_server_answers_that_had_fallen_silent() {
    let (a, b) = (node("a", 1, "True"), node("b", 2, "True"));
    let silent = Script::default().on(BEGINS, Answer::Watch(vec![a.clone()])).on("GET /apis", Answer::Silence);
    let server = ApiServer::start(silent).await;
    let connection = server.connection().with_timeout(Duration::from_millis(200));
    let changes = Arc::<Changes>::default();
    let watches = Watches::new(Arc::clone(&changes));
    for name in ["a", "b"] {
        let named = BTreeMap::from([(String::new(), BTreeSet::from([name.to_owned()]))]);
        let mut interest = Interest::default();
        interest.add(NODE.resource("v1"), Filter::Named(named), ChangeScope::More);
        watches.follow(&connection, name, interest);
    }
    told(&changes, &["a"]).await;
    connection.served_versions().await.unwrap_err();
    // Nobody is told of it by the watch of before.
    server.answer(Script::default().on(BEGINS, Answer::Watch(vec![a, b])).serves(&[]));
    connection.served_versions().await.unwrap();
    told(&changes, &["b"]).await;
}
