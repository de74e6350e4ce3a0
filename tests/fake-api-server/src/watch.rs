//! Watches: what happens to the objects of a resource, event by event.

use serde_json::{Value, json};

use crate::kind::ServedKind;
use crate::objects::{Change, Objects};
use crate::reply::Reply;
use crate::request::{Parameters, Place};
use crate::selector::Selector;

/// A watch that has begun.
#[derive(Clone, Debug)]
pub struct Watch {
    kind: ServedKind,
    namespace: Option<String>,
    selector: Selector,
    /// Up to which revision it was told.
    told: u64,
    /// What it begins with.
    first: Vec<Value>,
    /// Whether it has ended: nothing follows what it begins with.
    has_ended: bool,
}

impl Watch {
    pub(crate) fn begin(objects: &Objects, place: &Place<'_>, parameters: &Parameters) -> Self {
        let kind = place.kind;
        let selector = Selector::new(parameters.get("labelSelector"), parameters.get("fieldSelector"));
        let since =
            parameters.get("resourceVersion").and_then(|since| since.parse::<u64>().ok()).filter(|since| *since > 0);
        let mut watch = Self {
            kind: kind.clone(),
            namespace: place.namespace.clone(),
            selector,
            told: since.unwrap_or_else(|| objects.revision()),
            first: Vec::new(),
            has_ended: false,
        };
        let streams_list = parameters.is("sendInitialEvents");
        if streams_list || since.is_none() {
            watch.told = objects.revision();
            let resource = kind.resource();
            let all = objects.at(objects.revision(), &resource, watch.namespace.as_deref(), None);
            let selected = all.filter(|(_, object)| watch.selector.selects(object));
            watch.first = selected.map(|(_, object)| json!({"type": "ADDED", "object": **object})).collect();
        } else if watch.told < objects.compacted() {
            let message = format!("too old resource version: {} ({})", watch.told, objects.compacted());
            watch.first = vec![json!({"type": "ERROR", "object": Reply::expired(&message).body})];
            watch.has_ended = true;
        }
        if streams_list {
            watch.first.push(watch.listed());
        }
        watch
    }

    /// Everything that has happened since this was called last; none where the watch has ended.
    pub(crate) fn next(&mut self, objects: &Objects) -> Option<Vec<Value>> {
        let mut events = std::mem::take(&mut self.first);
        if self.has_ended {
            return (!events.is_empty()).then_some(events);
        }
        let resource = self.kind.resource();
        let namespace = self.namespace.as_deref();
        let is_wanted = |change: &&Change| {
            change.key.resource == resource && namespace.is_none_or(|namespace| change.key.namespace == namespace)
        };
        events.extend(objects.since(self.told).filter(is_wanted).filter_map(|change| self.event(change)));
        self.told = objects.revision();
        Some(events)
    }

    /// To whoever selects some objects, one that is selected no more is deleted.
    fn event(&self, change: &Change) -> Option<Value> {
        let selected =
            |object: &Option<std::sync::Arc<Value>>| object.clone().filter(|object| self.selector.selects(object));
        let (kind, object) = match (selected(&change.before), selected(&change.after)) {
            (None, None) => return None,
            (None, Some(after)) => ("ADDED", after),
            (Some(_), Some(after)) => ("MODIFIED", after),
            (Some(before), None) => ("DELETED", before),
        };
        let mut object = (*object).clone();
        object["metadata"]["resourceVersion"] = json!(change.revision.to_string());
        Some(json!({"type": kind, "object": object}))
    }

    /// Says that everything was told that was there in the beginning.
    fn listed(&self) -> Value {
        let metadata = json!({"resourceVersion": self.told.to_string(),
            "annotations": {"k8s.io/initial-events-end": "true"}});
        json!({"type": "BOOKMARK", "object": {"kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata}})
    }
}
