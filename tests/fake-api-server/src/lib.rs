//! A Kubernetes API server in memory, for tests.
//!
//! It keeps objects and their versions, and answers as `kube-apiserver` does: status codes, messages, revisions, pages of
//! lists, events of watches, who owns which fields. The suite on real servers asks both the same at random and compares
//! what they answer (`fake_api_server`). What they are not asked is not imitated: defaults, validation, admission, authorization,
//! discovery, other versions of a kind, strategic and JSON patches, metadata alone, maps with nothing in them.
#![expect(clippy::indexing_slicing, reason = "reading a field that is not there gives null, and documents are objects")]

mod fields;
mod kind;
mod list;
mod object;
mod objects;
mod reply;
mod request;
mod selector;
mod server;
mod watch;
mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

pub use self::kind::{Origin, ServedKind};
use self::objects::{Key, Objects};
pub use self::reply::Reply;
pub use self::request::Request;
use self::request::{Parameters, Place};
pub use self::server::FakeApiServer;
pub use self::watch::Watch;
use self::write::{Change, Write};

/// What a server keeps, and how it answers. It does no I/O and asks no clock.
#[derive(Debug, Default)]
pub struct State {
    kinds: Vec<ServedKind>,
    namespaces: BTreeSet<String>,
    objects: Objects,
}

/// An answer, or a stream of events.
#[derive(Debug)]
pub enum Answer {
    /// An answer.
    Reply(Reply),
    /// Events, which [`State::events`] gives.
    Watch(Watch),
}

impl State {
    /// A server that serves these kinds, and has these namespaces.
    #[must_use]
    pub fn new(kinds: Vec<ServedKind>, namespaces: &[&str]) -> Self {
        let namespaces = namespaces.iter().map(|&name| name.to_owned()).collect();
        Self { kinds, namespaces, objects: Objects::default() }
    }

    /// Answers a request that arrives at this time.
    pub fn answer(&mut self, request: &Request, now: Timestamp) -> Answer {
        match self.try_answer(request, now) {
            Ok(answer) => answer,
            Err(reply) => Answer::Reply(reply),
        }
    }

    fn try_answer(&mut self, request: &Request, now: Timestamp) -> Result<Answer, Reply> {
        let place = Place::of(&request.path, &self.kinds)?;
        let parameters = Parameters::of(&request.query);
        let exists = place.namespace.as_ref().is_none_or(|namespace| self.has_namespace(namespace));
        let is_dry_run = parameters.is_dry_run();
        let mut write =
            Write { objects: &mut self.objects, place: &place, parameters: &parameters, now, is_dry_run, exists };
        let reply = match (request.method.as_str(), &place.name) {
            ("GET", None) if parameters.is("watch") => {
                return Ok(Answer::Watch(Watch::begin(&self.objects, &place, &parameters)));
            }
            ("GET", None) => list::list(&self.objects, &place, &parameters)?,
            ("GET", Some(name)) => write.get(name)?,
            ("POST", None) => write.create(&request.body)?,
            ("PUT", Some(name)) => write.change(Change::Replace, name, &request.body)?,
            ("PATCH", Some(name)) => {
                let media_type = request.content_type.split(';').next().unwrap_or_default();
                let change = match media_type {
                    "application/merge-patch+json" => Change::Merge,
                    "application/apply-patch+yaml" => Change::Apply,
                    _ => return Err(Reply::not_allowed()),
                };
                write.change(change, name, &request.body)?
            }
            ("DELETE", Some(name)) => write.delete(name, &request.body)?,
            _ => return Err(Reply::not_allowed()),
        };
        Ok(Answer::Reply(reply))
    }

    /// Whether the objects of some kind are at this path.
    #[must_use]
    pub fn serves(&self, path: &str) -> bool {
        Place::of(path, &self.kinds).is_ok()
    }

    /// Whether a namespace was given, or is kept as an object.
    fn has_namespace(&self, name: &str) -> bool {
        let key = Key { resource: "namespaces".to_owned(), namespace: String::new(), name: name.to_owned() };
        self.namespaces.contains(name) || self.objects.get(&key).is_some()
    }

    /// What has happened that a watch was not told of yet; none where it has ended.
    pub fn events(&self, watch: &mut Watch) -> Option<Vec<Value>> {
        watch.next(&self.objects)
    }

    /// Forgets what was before now: watches and lists that go on from there have expired.
    pub fn compact(&mut self) {
        self.objects.compact();
    }
}
