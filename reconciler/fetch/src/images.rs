//! Whether registries have images: asked a few at a time, within bounds, and remembered.
//!
//! What is pinned by its digest and was found counts for a day, everything else for minutes. A registry
//! that gives no answer is left alone for some minutes, so that it holds up nobody.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::http::FetchOptions;
use super::registry::{ImageAnswer, Looked, Place, Registry};

/// For one image, all requests and redirects included.
const PATIENCE: Duration = Duration::from_secs(6);
/// How long an image counts that was found by its tag.
const OF_TAG: Duration = Duration::from_secs(10 * 60);
/// How long it counts that an image was not found, or could not be asked for.
const OF_FAILURE: Duration = Duration::from_secs(60);
/// How long a registry is left alone that gave no answer.
const OF_SILENCE: Duration = Duration::from_secs(5 * 60);
/// Images that are remembered.
const MOST: usize = 4096;

/// Asks registries for images.
#[derive(Debug)]
pub struct Images {
    registry: Registry,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    answers: BTreeMap<String, (ImageAnswer, Instant)>,
    silent: BTreeMap<String, (String, Instant)>,
}

impl Images {
    /// Registries that these options let be asked, with the logins of the Docker configuration of this process.
    ///
    /// # Errors
    /// When TLS cannot be set up, for example without any root certificate on the machine.
    pub fn new(options: FetchOptions) -> Result<Self, reqwest::Error> {
        Ok(Self::of(Registry::new(options)?))
    }

    pub(crate) fn of(registry: Registry) -> Self {
        Self { registry, memory: Mutex::default() }
    }

    /// What is known of each image, in this order. After `budget` no more are asked for, and those that are left have no
    /// answer yet: the next call goes on with them. Those under way are waited for, some seconds at most.
    pub async fn ask(&self, images: &[String], budget: Duration) -> Vec<Option<ImageAnswer>> {
        let begun = Instant::now();
        let due = images.iter().filter(|image| self.known(image, begun).is_none());
        let queue: Mutex<VecDeque<&String>> = Mutex::new(due.collect());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let worker = async || {
            while begun.elapsed() < budget {
                let Some(image) = next() else { return };
                let (answer, host) = self.look(image).await;
                self.keep(image, answer, host);
            }
        };
        tokio::join!(worker(), worker(), worker(), worker());
        images.iter().map(|image| self.known(image, begun)).collect()
    }

    fn known(&self, image: &str, begun: Instant) -> Option<ImageAnswer> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, until) = memory.answers.get(image)?;
        (*until > begun).then(|| answer.clone())
    }

    /// What is said of an image, and the host that said nothing at all.
    async fn look(&self, image: &str) -> (ImageAnswer, Option<String>) {
        let place = match Place::parse(image) {
            Ok(place) => place,
            Err(reason) => return (ImageAnswer::Missing { reason }, None),
        };
        let silent = {
            let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.silent.get(&place.host).filter(|(_, until)| *until > Instant::now()).cloned()
        };
        if let Some((reason, _)) = silent {
            return (ImageAnswer::Unknown { reason }, None);
        }
        let late = || {
            let reason = format!("{}: no answer within {} s", place.host, PATIENCE.as_secs());
            Looked { answer: ImageAnswer::Unknown { reason }, is_silent: true }
        };
        let looked = tokio::time::timeout(PATIENCE, self.registry.look(image, &place)).await;
        let Looked { answer, is_silent } = looked.unwrap_or_else(|_| late());
        (answer, is_silent.then_some(place.host))
    }

    fn keep(&self, image: &str, answer: ImageAnswer, silent: Option<String>) {
        let now = Instant::now();
        let lasts = match &answer {
            // Content that is named by its digest does not change; that it is still there is asked about once a day.
            ImageAnswer::Found { .. } if image.contains("@sha256:") => Duration::from_secs(24 * 60 * 60),
            ImageAnswer::Found { .. } => OF_TAG,
            ImageAnswer::Missing { .. } => OF_FAILURE,
            ImageAnswer::Unknown { .. } if silent.is_some() => OF_SILENCE,
            ImageAnswer::Unknown { .. } => OF_FAILURE,
        };
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(host), ImageAnswer::Unknown { reason }) = (silent, &answer) {
            memory.silent.insert(host, (reason.clone(), now + OF_SILENCE));
        }
        if memory.answers.len() >= MOST {
            memory.answers.clear();
        }
        memory.answers.insert(image.to_owned(), (answer, now + lasts));
    }
}
