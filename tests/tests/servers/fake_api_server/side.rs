//! One of the two servers, and what its answers say apart from revisions, identities and times.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::http;
use fake_api_server::ServedKind;
use futures::{AsyncBufReadExt as _, StreamExt as _};
use kube::Client;
use kube::client::Body;
use regex::Regex;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::operation::{Follows, Known, Operation, collection};

/// A server, and what it has told.
pub struct Side {
    client: Client,
    /// By path: the revision and the identity that were told last, and before.
    objects: HashMap<String, [Option<(String, String)>; 2]>,
    /// The revisions of objects, in the order in which they were told first.
    revisions: Vec<u64>,
    identities: HashMap<String, usize>,
    /// By path and selector: the revision of the last list, and where it goes on.
    lists: HashMap<String, (String, Option<String>)>,
    watches: Vec<Watching>,
    numbers: Regex,
    uuids: Regex,
}

struct Watching {
    lines: UnboundedReceiver<io::Result<String>>,
    kind: String,
}

impl Side {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            objects: HashMap::new(),
            revisions: Vec::new(),
            identities: HashMap::new(),
            lists: HashMap::new(),
            watches: Vec::new(),
            numbers: Regex::new(r"\(\d+\)").unwrap(),
            uuids: Regex::new(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap(),
        }
    }

    /// What the server answers, with the code, as far as it can be compared.
    pub async fn answer(&mut self, operation: &Operation) -> anyhow::Result<Value> {
        let (mut query, mut body) = (operation.query.clone(), operation.body.clone());
        let list = format!("{}?{}", operation.path, selection(&operation.query));
        let known = self.lists.get(&list).cloned();
        match (operation.follows, known) {
            (Follows::Answer, _) | (Follows::Pages, None) => {}
            (Follows::Pages, Some((_, token))) => match token {
                Some(token) => query = format!("{query}&continue={}", token.replace('=', "%3D")),
                None => return Ok(Value::Null),
            },
            (Follows::Watch, _) if query.contains("sendInitialEvents") => return self.watch(operation, &query).await,
            (Follows::Watch, None) => return Ok(Value::Null),
            (Follows::Watch, Some((revision, _))) => {
                return self.watch(operation, &format!("{query}&resourceVersion={revision}")).await;
            }
        }
        self.fill_in(operation, &mut body);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder()
            .method(operation.method)
            .uri(format!("{}?{query}", operation.path))
            .header("content-type", operation.content_type)
            .header("accept", "application/json")
            .body(Body::from(body))?;
        let response = self.client.send(request).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await?;
        let mut answer: Value =
            serde_json::from_slice(&bytes).with_context(|| String::from_utf8_lossy(&bytes).into_owned())?;
        if let Some(revision) = answer["items"].as_array().and_then(|_| answer["metadata"]["resourceVersion"].as_str())
        {
            let token = continued(&answer);
            self.lists.insert(list, (revision.to_owned(), token));
        }
        let is_kept = !query.contains("dryRun=All") && code < 300 && operation.method != "DELETE";
        self.normalise(&mut answer, is_kept.then_some(operation.path.as_str()))?;
        Ok(json!({"code": code, "answer": answer}))
    }

    /// Writes revision and identity into a body where the operation says so.
    fn fill_in(&self, operation: &Operation, body: &mut Value) {
        let Some([latest, before]) = self.objects.get(&operation.object()) else { return };
        let of = |known: Known| match known {
            Known::Nothing => None,
            Known::Latest => latest.as_ref(),
            Known::Before => before.as_ref(),
        };
        let place = if operation.method == "DELETE" { "preconditions" } else { "metadata" };
        if let Some((revision, _)) = of(operation.revision) {
            body[place]["resourceVersion"] = json!(revision);
        }
        if let Some((_, identity)) = of(operation.identity) {
            body[place]["uid"] = json!(identity);
        }
    }

    /// Deletes an object, whatever keeps it.
    pub async fn reset(&mut self, path: &str) -> anyhow::Result<()> {
        let patch = http::Request::patch(path).header("content-type", "application/merge-patch+json");
        let request = patch.body(Body::from(br#"{"metadata":{"finalizers":null}}"#.to_vec()))?;
        self.client.send(request).await?;
        self.client.send(http::Request::delete(path).body(Body::empty())?).await?;
        self.revisions.clear();
        self.identities.clear();
        Ok(())
    }

    async fn watch(&mut self, operation: &Operation, query: &str) -> anyhow::Result<Value> {
        if self.watches.len() > 40 {
            return Ok(Value::Null);
        }
        let request = http::Request::get(format!("{}?{query}", operation.path)).body(Vec::new())?;
        let mut lines = self.client.request_stream(request).await?.lines();
        // Read all the time: a server ends the watch of who does not listen.
        let (told, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(line) = lines.next().await {
                if told.send(line).is_err() {
                    break;
                }
            }
        });
        let kind = operation.path.rsplit('/').next().unwrap_or_default().to_owned();
        self.watches.push(Watching { lines: heard, kind });
        Ok(Value::Null)
    }

    /// What all watches were told, up to an object of each kind that is made and deleted now and selected by all.
    pub async fn watched(&mut self, kinds: &[ServedKind], patience: Duration) -> anyhow::Result<Vec<Vec<Value>>> {
        for kind in kinds {
            let places = if kind.namespaced { super::NAMESPACES } else { &["-"] };
            // Each selector selects one of them.
            let [one, two, three] = [json!({"a": "1"}), json!({"a": "2", "b": "2"}), json!({})];
            let ends = [("object-1", &three), ("end-1", &one), ("end-2", &two), ("end-3", &three)];
            for (place, (name, labels)) in places.iter().flat_map(|place| ends.map(|end| (place, end))) {
                let metadata = json!({"name": name, "labels": labels, "annotations": {"end": "here"}});
                let mut body = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata});
                if kind.kind != "ConfigMap" {
                    body["spec"] = json!({"holderIdentity": "end"});
                }
                let path = format!("{}/{name}?fieldManager=end&force=true", collection(kind, place));
                let request = http::Request::patch(&path)
                    .header("content-type", "application/apply-patch+yaml")
                    .body(Body::from(body.to_string().into_bytes()))?;
                let code = self.client.send(request).await?.status();
                ensure!(code.is_success(), "{path}: {code}");
            }
        }
        let mut all = Vec::new();
        for mut watching in std::mem::take(&mut self.watches) {
            let mut events: Vec<Value> = Vec::new();
            loop {
                let line = tokio::time::timeout(patience, watching.lines.recv()).await;
                let line = line.with_context(|| format!("a watch of {} does not end: {events:?}", watching.kind))?;
                let line = line.with_context(|| format!("a watch of {} ended: {events:?}", watching.kind))??;
                let mut event: Value = serde_json::from_str(&line)?;
                let is_end = event["object"]["metadata"]["annotations"].get("end").is_some();
                let has_list = event["object"]["metadata"]["annotations"].get("k8s.io/initial-events-end").is_some();
                if event["type"] == "BOOKMARK" && !has_list {
                    continue;
                }
                if event["type"] == "BOOKMARK" {
                    event["object"]["metadata"]["resourceVersion"] = json!("of the list");
                    // Some kinds have it with nothing in it.
                    event["object"].as_object_mut().map(|fields| fields.remove("spec"));
                }
                self.normalise(&mut event["object"], None)?;
                events.push(event);
                if is_end {
                    break;
                }
            }
            all.push(events);
        }
        Ok(all)
    }

    /// Replaces what differs between any two servers; an error where the order of revisions is no order. What is learned is of the object at `path`.
    fn normalise(&mut self, answer: &mut Value, path: Option<&str>) -> anyhow::Result<()> {
        if let Some(items) = answer.get_mut("items").and_then(Value::as_array_mut) {
            let mut items = std::mem::take(items);
            items.iter_mut().try_for_each(|item| self.normalise(item, None))?;
            answer["items"] = json!(items);
            let list = answer["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
            ensure!(list.is_some(), "a list without a revision");
            answer["metadata"]["resourceVersion"] = json!("of the list");
            if continued(answer).is_some() {
                answer["metadata"]["continue"] = json!("token");
            }
            return Ok(());
        }
        if let Some(message) = answer["message"].as_str() {
            let message = self.numbers.replace_all(message, "(revision)");
            answer["message"] = json!(self.uuids.replace_all(&message, "identity"));
        }
        if let Some(causes) = answer.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
            // They come in any order.
            causes.sort_by_key(|cause| (cause["message"].to_string(), cause["field"].to_string()));
        }
        if let Some(identity) = answer.pointer("/details/uid").and_then(Value::as_str).map(str::to_owned) {
            answer["details"]["uid"] = json!(self.identity(&identity));
        }
        let metadata = &answer["metadata"];
        let told = |name: &str| metadata[name].as_str().map(str::to_owned);
        let (revision, identity) = (told("resourceVersion"), told("uid"));
        if let Some((path, told)) = path.zip(revision.clone().zip(identity.clone())) {
            let name = metadata["name"].as_str().unwrap_or_default();
            let path = path.trim_end_matches("/status");
            let path = if path.ends_with(&format!("/{name}")) { path.to_owned() } else { format!("{path}/{name}") };
            let [latest, before] = self.objects.entry(path).or_default();
            if latest.as_ref() != Some(&told) {
                *before = latest.replace(told);
            }
        }
        if let Some(number) = revision.and_then(|text| text.parse::<u64>().ok()) {
            answer["metadata"]["resourceVersion"] = json!(self.ordinal(number));
        }
        if let Some(identity) = identity {
            answer["metadata"]["uid"] = json!(self.identity(&identity));
        }
        for name in ["creationTimestamp", "deletionTimestamp"] {
            if answer["metadata"].get(name).is_some_and(|time| time.is_string()) {
                answer["metadata"][name] = json!("a time");
            }
        }
        if let Some(entries) = answer.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) {
            entries.iter_mut().for_each(|entry| entry["time"] = json!("a time"));
            // They are sorted by times, of which there are too few to tell an order.
            let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            entries.sort_by_key(|entry| ["manager", "operation", "subresource"].map(|name| text(entry, name)));
        }
        Ok(())
    }

    /// Which of the revisions that were told so far this is.
    fn ordinal(&mut self, revision: u64) -> usize {
        // All are told when they are written, so that they come in their order.
        match self.revisions.binary_search(&revision) {
            Ok(place) => place,
            Err(place) => {
                self.revisions.insert(place, revision);
                place
            }
        }
    }

    fn identity(&mut self, identity: &str) -> usize {
        let next = self.identities.len();
        *self.identities.entry(identity.to_owned()).or_insert(next)
    }
}

/// Where a list goes on.
fn continued(list: &Value) -> Option<String> {
    let token = list.pointer("/metadata/continue").and_then(Value::as_str);
    token.filter(|token| !token.is_empty()).map(str::to_owned)
}

/// What selects the objects of a list, without what says how many are on a page.
fn selection(query: &str) -> String {
    let parts = query.split('&').filter(|part| part.contains("Selector"));
    parts.collect::<Vec<_>>().join("&")
}
