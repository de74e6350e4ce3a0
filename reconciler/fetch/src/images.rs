//! Whether registries have images: asked a few at a time, within bounds, and remembered.
//!
//! What is pinned by its digest and was found counts for a day, everything else for minutes. A registry
//! that gives no answer is left alone for some minutes, so that it holds up nobody.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bundles::Digest;
use tokio::time::Instant;

use super::http::FetchOptions;
use super::registry::{Credential, ImageAnswer, Looked, Place, PullSecret, Registry};

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

/// Logins that are tried for one image.
const MOST_LOGINS: usize = 4;

/// Asks registries for images.
#[derive(Debug)]
pub struct Images {
    registry: Registry,
    pull_secret_namespaces: Vec<String>,
    memory: Mutex<Memory>,
}

/// What a registry says of an image to whom shows the logins of pull secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginAnswer {
    /// None of the secrets has a login for it.
    Lacking,
    /// Its turn has not come yet.
    NotAsked,
    /// With a login.
    With {
        /// The name of the secret that holds it.
        secret: String,
        /// What was said.
        answer: ImageAnswer,
    },
}

/// An image, and the digests of the secrets whose logins are shown: what one login is given, another may not be.
type Key = (String, Vec<Digest>);

#[derive(Clone, Debug)]
struct Answer {
    answer: ImageAnswer,
    /// The name of the secret whose login was shown last.
    secret: Option<String>,
    until: Instant,
}

#[derive(Debug, Default)]
struct Memory {
    answers: BTreeMap<Key, Answer>,
    silent: BTreeMap<String, (String, Instant)>,
}

/// What is asked.
struct Question<'a> {
    image: &'a str,
    secrets: &'a [PullSecret],
}

impl Question<'_> {
    fn key(&self) -> Key {
        (self.image.to_owned(), self.secrets.iter().map(PullSecret::digest).collect())
    }

    /// The logins of the secrets for this place, each with the name of its secret.
    fn logins<'a>(&'a self, place: &'a Place) -> impl Iterator<Item = (&'a str, &'a Credential)> {
        let of = |secret: &'a PullSecret| secret.of_image(place).map(|credential| (secret.name(), credential));
        self.secrets.iter().flat_map(of).take(MOST_LOGINS)
    }
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
        Self { registry, pull_secret_namespaces: Vec::new(), memory: Mutex::default() }
    }

    /// The same, where the logins of pods in these namespaces may be used. Whoever runs the program says so and never the
    /// fleet repository.
    #[must_use]
    pub fn with_pull_secrets_of(self, namespaces: Vec<String>) -> Self {
        Self { pull_secret_namespaces: namespaces, ..self }
    }

    /// The namespaces whose pull secrets may be used.
    #[must_use]
    pub fn pull_secret_namespaces(&self) -> &[String] {
        &self.pull_secret_namespaces
    }

    /// What is known of each image, in this order. After `budget` no more are asked for, and those that are left have no
    /// answer yet: the next call goes on with them. Those under way are waited for, some seconds at most.
    pub async fn ask(&self, images: &[String], budget: Duration) -> Vec<Option<ImageAnswer>> {
        let questions: Vec<Question<'_>> = images.iter().map(|image| Question { image, secrets: &[] }).collect();
        self.answers(&questions, budget).await.into_iter().map(|known| Some(known?.answer)).collect()
    }

    /// The same with the logins of these secrets, and with no other: the first that is not refused counts.
    pub async fn ask_with(&self, images: &[(String, Vec<PullSecret>)], budget: Duration) -> Vec<LoginAnswer> {
        let is_held = |(image, secrets): &(String, Vec<PullSecret>)| {
            Place::parse(image).is_ok_and(|place| Question { image, secrets }.logins(&place).next().is_some())
        };
        let has_login: Vec<bool> = images.iter().map(is_held).collect();
        let asked = images.iter().zip(&has_login).filter(|(_, has_login)| **has_login);
        let questions: Vec<Question<'_>> = asked.map(|((image, secrets), _)| Question { image, secrets }).collect();
        let mut answers = self.answers(&questions, budget).await.into_iter();
        let told = |has_login: bool| match has_login.then(|| answers.next().flatten()) {
            None => LoginAnswer::Lacking,
            Some(None) => LoginAnswer::NotAsked,
            Some(Some(Answer { answer, secret, .. })) => {
                LoginAnswer::With { secret: secret.unwrap_or_default(), answer }
            }
        };
        has_login.into_iter().map(told).collect()
    }

    async fn answers(&self, questions: &[Question<'_>], budget: Duration) -> Vec<Option<Answer>> {
        let begun = Instant::now();
        let due = questions.iter().filter(|question| self.known(question, begun).is_none());
        let queue: Mutex<VecDeque<&Question<'_>>> = Mutex::new(due.collect());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let worker = async || {
            while begun.elapsed() < budget {
                let Some(question) = next() else { return };
                let (answer, host) = self.look(question).await;
                self.keep(question, answer, host);
            }
        };
        tokio::join!(worker(), worker(), worker(), worker());
        questions.iter().map(|question| self.known(question, begun)).collect()
    }

    fn known(&self, question: &Question<'_>, begun: Instant) -> Option<Answer> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.answers.get(&question.key()).filter(|known| known.until > begun).cloned()
    }

    /// What is said of an image with which secret's login, and the host that said nothing at all.
    async fn look(&self, question: &Question<'_>) -> ((ImageAnswer, Option<String>), Option<String>) {
        let place = match Place::parse(question.image) {
            Ok(place) => place,
            Err(reason) => return ((ImageAnswer::Missing { reason }, None), None),
        };
        let silent = {
            let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.silent.get(&place.host).filter(|(_, until)| *until > Instant::now()).cloned()
        };
        if let Some((reason, _)) = silent {
            return ((ImageAnswer::Unknown { reason }, None), None);
        }
        let logins: Vec<Option<(&str, &Credential)>> = match question.secrets {
            [] => vec![None],
            _ => question.logins(&place).map(Some).collect(),
        };
        let mut said = (ImageAnswer::Unknown { reason: String::new() }, None);
        for login in logins {
            let looked = self.look_once(question.image, &place, login.map(|(_, credential)| credential)).await;
            let Looked { answer, is_silent } = looked;
            let is_refused = matches!(answer, ImageAnswer::Refused { .. });
            said = (answer, login.map(|(secret, _)| secret.to_owned()));
            if is_silent {
                return (said, Some(place.host));
            }
            if !is_refused {
                break;
            }
        }
        (said, None)
    }

    async fn look_once(&self, image: &str, place: &Place, login: Option<&Credential>) -> Looked {
        let late = || {
            let reason = format!("{}: no answer within {} s", place.host, PATIENCE.as_secs());
            Looked { answer: ImageAnswer::Unknown { reason }, is_silent: true }
        };
        let looking = async {
            match login {
                None => self.registry.look(image, place).await,
                Some(login) => self.registry.look_as(image, place, login).await,
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| late())
    }

    fn keep(&self, question: &Question<'_>, (answer, secret): (ImageAnswer, Option<String>), silent: Option<String>) {
        let now = Instant::now();
        let lasts = match &answer {
            // Content that is named by its digest does not change; that it is still there is asked about once a day.
            ImageAnswer::Found { .. } if question.image.contains("@sha256:") => Duration::from_secs(24 * 60 * 60),
            ImageAnswer::Found { .. } => OF_TAG,
            ImageAnswer::Missing { .. } | ImageAnswer::Refused { .. } => OF_FAILURE,
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
        memory.answers.insert(question.key(), Answer { answer, secret, until: now + lasts });
    }
}
