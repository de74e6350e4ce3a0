//! Reads that wait for their turn: whoever asks for the same meanwhile is given the same answer.
//!
//! Clusters of one management cluster are read at once, and many of their requests are the same: which versions are served, whether the server is ready,
//! Flux' source. An answer is given to those alone who asked before its request was sent, so that it is no older than one of their own would be.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Request;
use axum::http::header::ACCEPT;
use tokio::sync::watch::{Receiver, Sender, channel};

use super::error::RequestError;

/// What a server has answered.
pub(super) type Answer = Result<Arc<Vec<u8>>, RequestError>;

/// The reads of one connection that have not been sent yet.
#[derive(Debug, Default)]
pub(super) struct SharedReads {
    waiting: Mutex<HashMap<Read, Receiver<Option<Answer>>>>,
}

/// What is read, and in which form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Read(String, Option<Vec<u8>>);

impl Read {
    pub(super) fn of(request: &Request<Vec<u8>>) -> Self {
        let accept = request.headers().get(ACCEPT).map(|value| value.as_bytes().to_vec());
        Self(request.uri().to_string(), accept)
    }
}

/// Who sends a read.
pub(super) enum Asked<'a> {
    /// Whoever has asked now.
    Now(Turn<'a>),
    /// Somebody who waits for its turn.
    Before(Receiver<Option<Answer>>),
}

/// A read that waits for its turn.
pub(super) struct Turn<'a> {
    reads: &'a SharedReads,
    read: Read,
    answer: Sender<Option<Answer>>,
    has_begun: bool,
}

impl SharedReads {
    /// Asks for the same as somebody who waits for its turn, or waits for a turn of its own.
    pub(super) fn ask(&self, read: &Read) -> Asked<'_> {
        match self.waiting().entry(read.clone()) {
            Entry::Occupied(waiting) => Asked::Before(waiting.get().clone()),
            Entry::Vacant(place) => {
                let (answer, receiver) = channel(None);
                place.insert(receiver);
                Asked::Now(Turn { reads: self, read: read.clone(), answer, has_begun: false })
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Read, Receiver<Option<Answer>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// The request is sent now: whoever asks from now on asks anew.
    pub(super) fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.reads.waiting().remove(&self.read);
        }
    }

    /// Gives the answer to all who wait for it.
    pub(super) fn end(self, answer: &Answer) {
        self.answer.send_replace(Some(answer.clone()));
    }
}

impl Drop for Turn<'_> {
    /// Whoever gives up before its turn leaves it to the others.
    fn drop(&mut self) {
        self.begin();
    }
}

/// The answer to a read that somebody else sends; none where that one gives up.
pub(super) async fn answer_of(mut receiver: Receiver<Option<Answer>>) -> Option<Answer> {
    receiver.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str, accept: &str) -> Read {
        Read::of(&Request::get(path).header(ACCEPT, accept).body(Vec::new()).unwrap())
    }

    fn now(asked: Asked<'_>) -> Turn<'_> {
        match asked {
            Asked::Now(turn) => turn,
            Asked::Before(_) => panic!("somebody asks for the same"),
        }
    }

    fn before(asked: Asked<'_>) -> Receiver<Option<Answer>> {
        match asked {
            Asked::Before(receiver) => receiver,
            Asked::Now(_) => panic!("nobody asks for the same"),
        }
    }

    #[tokio::test]
    async fn who_asks_before_the_turn_is_given_its_answer_and_who_asks_later_is_not() {
        let (reads, apis) = (SharedReads::default(), read("/apis", "application/json"));
        let mut first = now(reads.ask(&apis));
        let same = before(reads.ask(&apis));
        first.begin();
        let later = now(reads.ask(&apis));
        first.end(&Ok(Arc::new(b"old".to_vec())));
        assert_eq!(answer_of(same).await.unwrap().unwrap().as_slice(), b"old");
        // Whoever was first takes no turn of others away.
        let of_later = before(reads.ask(&apis));
        later.end(&Ok(Arc::new(b"new".to_vec())));
        assert_eq!(answer_of(of_later).await.unwrap().unwrap().as_slice(), b"new");
    }

    #[tokio::test]
    async fn who_gives_up_leaves_its_turn_to_the_others() {
        let (reads, apis) = (SharedReads::default(), read("/apis", "application/json"));
        let first = now(reads.ask(&apis));
        let same = before(reads.ask(&apis));
        drop(first);
        assert!(answer_of(same).await.is_none());
        drop(now(reads.ask(&apis)));
    }

    #[test]
    fn what_is_read_in_another_form_is_another_read() {
        let reads = SharedReads::default();
        let _whole = now(reads.ask(&read("/api/v1/pods", "application/json")));
        now(reads.ask(&read("/api/v1/pods", "application/json;as=PartialObjectMetadataList")));
        now(reads.ask(&read("/api/v1/pods?limit=1", "application/json")));
    }
}
