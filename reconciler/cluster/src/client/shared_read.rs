//! Reads that wait for their turn: whoever asks for the same meanwhile is given the same answer.
//!
//! Clusters of one management cluster are read at once, and many of their requests are the same:
//! which versions are served, whether the server is ready, Flux' source. An answer is given to those
//! alone who asked before its request was sent, so that it is no older than one of their own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Request;
use axum::http::header::ACCEPT;
use tokio::sync::watch::{Receiver, Sender, channel};

use super::error::RequestError;

/// What a server has answered.
pub(super) type Answer = Result<Arc<Vec<u8>>, RequestError>;

/// Those who wait for an answer.
type Waiting = Arc<Sender<Option<Answer>>>;

/// The reads of one connection that have not been sent yet.
#[derive(Debug, Default)]
pub(super) struct SharedReads {
    waiting: Mutex<HashMap<Read, Waiting>>,
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

/// A read that waits for its turn. Whoever asks for it first has it sent.
pub(super) struct Turn {
    reads: Arc<SharedReads>,
    read: Read,
    waiting: Waiting,
    has_begun: bool,
}

impl SharedReads {
    /// Waits for the answer to a read, and for its turn where nobody has asked for the same before.
    pub(super) fn ask(self: &Arc<Self>, read: &Read) -> (Receiver<Option<Answer>>, Option<Turn>) {
        match self.waiting().entry(read.clone()) {
            Entry::Occupied(waiting) => (waiting.get().subscribe(), None),
            Entry::Vacant(place) => {
                let (sender, receiver) = channel(None);
                let waiting = Arc::clone(place.insert(Arc::new(sender)));
                let reads = Arc::clone(self);
                (receiver, Some(Turn { reads, read: read.clone(), waiting, has_begun: false }))
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Read, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// The request is sent now: whoever asks from now on asks anew. Says whether anybody still waits
    /// for the answer.
    pub(super) fn begin(&mut self) -> bool {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.reads.waiting().remove(&self.read);
        }
        self.waiting.receiver_count() > 0
    }

    /// Returns when nobody waits for the answer any more.
    pub(super) async fn abandoned(&self) {
        self.waiting.closed().await;
    }

    /// Gives the answer to all who wait for it.
    pub(super) fn end(self, answer: Answer) {
        self.waiting.send_replace(Some(answer));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.begin();
    }
}

/// The answer to a read; none where its turn has ended without one.
pub(super) async fn answer_of(mut receiver: Receiver<Option<Answer>>) -> Option<Answer> {
    receiver.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str, accept: &str) -> Read {
        Read::of(&Request::get(path).header(ACCEPT, accept).body(Vec::new()).unwrap())
    }

    fn answer(text: &str) -> Answer {
        Ok(Arc::new(text.as_bytes().to_vec()))
    }

    async fn text(receiver: Receiver<Option<Answer>>) -> Option<String> {
        let answer = answer_of(receiver).await?.unwrap();
        Some(String::from_utf8_lossy(&answer).into_owned())
    }

    #[tokio::test]
    async fn who_asks_before_the_turn_is_given_its_answer_and_who_asks_later_is_not() {
        let (reads, apis) = (Arc::new(SharedReads::default()), read("/apis", "application/json"));
        let (first, turn) = reads.ask(&apis);
        let (same, none) = reads.ask(&apis);
        assert!(none.is_none());
        let mut turn = turn.unwrap();
        assert!(turn.begin());
        let (later, another) = reads.ask(&apis);
        let another = another.unwrap();
        turn.end(answer("old"));
        assert_eq!([text(first).await, text(same).await], [Some("old".to_owned()), Some("old".to_owned())]);
        // Whoever was first takes no turn of others away.
        let (of_later, none) = reads.ask(&apis);
        assert!(none.is_none());
        another.end(answer("new"));
        assert_eq!([text(later).await, text(of_later).await], [Some("new".to_owned()), Some("new".to_owned())]);
    }

    #[tokio::test]
    async fn a_turn_that_ends_without_an_answer_is_told_and_another_one_begins() {
        let (reads, apis) = (Arc::new(SharedReads::default()), read("/apis", "application/json"));
        let (first, turn) = reads.ask(&apis);
        drop(turn);
        assert_eq!(text(first).await, None);
        let (_second, turn) = reads.ask(&apis);
        assert!(turn.is_some());
    }

    #[test]
    fn what_nobody_waits_for_any_more_need_not_be_sent() {
        let (reads, apis) = (Arc::new(SharedReads::default()), read("/apis", "application/json"));
        let (first, turn) = reads.ask(&apis);
        drop(first);
        assert!(!turn.unwrap().begin());
    }

    #[test]
    fn what_is_read_in_another_form_is_another_read() {
        let reads = Arc::new(SharedReads::default());
        let asked = [
            read("/api/v1/pods", "application/json"),
            read("/api/v1/pods", "application/json;as=PartialObjectMetadataList"),
            read("/api/v1/pods?limit=1", "application/json"),
        ];
        let turns: Vec<_> = asked.iter().map(|read| reads.ask(read)).collect();
        assert!(turns.iter().all(|(_, turn)| turn.is_some()));
    }
}
