//! Flux's notification-controller: one event there reaches whatever a team has its alerts sent to.
//!
//! An Alert selects by kind, namespace, name and labels of an object that Flux knows, so an event is about a Kustomization or
//! the source, and never about a `Rollout`. Keys of metadata without a known prefix are dropped there. What is sent twice within five
//! minutes is answered with 429: it was taken before.

use std::sync::Arc;

use reqwest::{StatusCode, Url};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::{Map, Value, json};

use super::http::Http;
use crate::delivery::Delivery;
use crate::message::Message;
use crate::plain::bounded;
use policy::AnnouncementKind;

/// The most characters of a message that the controller takes.
const LONGEST: usize = 39_000;

/// What its own keys of metadata begin with; others are dropped.
const PREFIX: &str = "event.toolkit.fluxcd.io/";

#[derive(Debug)]
pub(crate) struct Flux {
    pub(crate) http: Arc<Http>,
    pub(crate) address: Url,
}

impl Flux {
    pub(crate) async fn tell(&self, message: &Message) -> Delivery {
        let request = self.http.post_json(self.address.clone(), &event(message));
        match self.http.ask(request).await {
            // The same event is known there: a process before this one has told it.
            Ok(answer) if answer.status == StatusCode::TOO_MANY_REQUESTS => Delivery::Taken(None),
            Ok(answer) => answer.delivery(),
            Err(reason) => Delivery::later(format!(
                "{reason}; where network policies are enforced, Flux lets nobody of other namespaces in: \
                 reconciler/docs/announcements.md has one that does"
            )),
        }
    }
}

fn event(message: &Message) -> Value {
    let (told, object) = (&message.announcement, &message.object);
    let (version, revision) = match object.kind.as_str() {
        "Kustomization" => ("kustomize.toolkit.fluxcd.io/v1", "kustomize.toolkit.fluxcd.io/revision"),
        _ => ("source.toolkit.fluxcd.io/v1", "source.toolkit.fluxcd.io/revision"),
    };
    let mut metadata = Map::new();
    let mut with = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            metadata.insert(format!("{PREFIX}{key}"), value.into());
        }
    };
    with("cluster", Some(told.cluster.to_string()));
    with("rollout", Some(told.rollout.to_string()));
    with("stage", told.stage.as_ref().map(ToString::to_string));
    with("action", Some(told.kind.to_string()));
    with("proposal", told.asked.clone());
    // Equal texts of two times are two events, and one that is sent again is the same.
    with("token", Some(message.id()));
    if let Some(commit) = &told.commit {
        metadata.insert(revision.to_owned(), format!("{}@sha1:{commit}", object.branch).into());
    }
    json!({
        "involvedObject": {
            "apiVersion": version, "kind": object.kind, "namespace": object.namespace, "name": object.name,
            // PagerDuty closes by it: the next success of Flux itself must not close what is held here.
            "uid": uid(&message.thread()),
        },
        "severity": if message.is_alarming() { "error" } else { "info" },
        "timestamp": told.at.to_string(),
        "message": bounded(&message.whole(), LONGEST),
        "reason": reason(message),
        "metadata": metadata,
        "reportingController": "stepgate",
        "reportingInstance": "stepgate",
    })
}

/// One word that stays the same: other tools name their alerts after it.
fn reason(message: &Message) -> String {
    let scope = if message.announcement.stage.is_some() { "Stage" } else { "Rollout" };
    let kind = match message.announcement.kind {
        AnnouncementKind::Upcoming => "Upcoming",
        AnnouncementKind::Started => "Started",
        AnnouncementKind::Waiting => "Waiting",
        AnnouncementKind::Held => "Held",
        AnnouncementKind::Done => "Done",
        AnnouncementKind::RolledBack => "RolledBack",
    };
    format!("{scope}{kind}")
}

/// A UUID (version 5) of a rollout.
fn uid(thread: &str) -> String {
    /// The namespace of addresses (RFC 9562).
    const URLS: [u8; 16] =
        [0x6b, 0xa7, 0xb8, 0x11, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8];
    let name = format!("https://stepgate.dev/rollouts/{thread}");
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[&URLS[..], name.as_bytes()].concat());
    let mut text = String::with_capacity(36);
    for (index, byte) in hash.as_ref().iter().take(16).enumerate() {
        let byte = match index {
            6 => byte & 0x0f | 0x50,
            8 => byte & 0x3f | 0x80,
            _ => *byte,
        };
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uid_is_one_of_version_five_that_stays() {
        // As `uuidgen --sha1 --namespace @url --name https://stepgate.dev/rollouts/prod/0a1b2c3d4e5f` says.
        assert_eq!(uid("prod/0a1b2c3d4e5f"), "c78a5203-b97a-52f9-a631-f4cc7eae54f3");
    }
}
