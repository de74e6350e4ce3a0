//! Requests to a forge: bounded in time and size, conditional where it was asked before, at rest when the forge says so, and silent about the
//! token.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use overlays::Remembered;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, LINK, LOCATION, RETRY_AFTER,
};
use reqwest::{Client, Method, Response, StatusCode, Url, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::access::read_token;
use super::app::App;
use super::error::ForgeError;
use super::patience::{Patience, TIMEOUT};
use approvals::MetadataSigner;
use host::http_body::{body, chain};
use host::memory::Part;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer, in bytes.
const LARGEST: u64 = 8 << 20;
/// The most pages that are read of one list.
const PAGES: usize = 20;
/// How long a forge is left alone that says "too many" and not for how long, and at most.
const REST: Duration = Duration::from_secs(60);
const LONGEST_REST: Duration = Duration::from_secs(3600);
/// Of what a forge says about a failure, this many characters are told.
const TOLD: usize = 300;

/// One request.
pub(super) struct Call<'a> {
    pub method: Method,
    /// Parts of the path below the forge's address; a slash in one of them is escaped.
    pub path: &'a [&'a str],
    pub query: &'a [(&'a str, &'a str)],
    pub body: Option<Value>,
    /// For errors, after "could not".
    pub action: String,
}

impl<'a> Call<'a> {
    pub fn get(path: &'a [&'a str], action: impl Into<String>) -> Self {
        Self { method: Method::GET, path, query: &[], body: None, action: action.into() }
    }

    pub fn send(method: Method, path: &'a [&'a str], body: Value, action: impl Into<String>) -> Self {
        Self { method, path, query: &[], body: Some(body), action: action.into() }
    }
}

/// An answer with success.
struct Answer {
    bytes: Vec<u8>,
    more: bool,
}

/// Where the token comes from.
pub(super) enum Credential {
    /// From a file.
    Token(PathBuf),
    /// From the forge, to the owner of a key.
    App(App),
}

/// A connection to a forge.
pub(super) struct ForgeHttp {
    client: Mutex<Client>,
    /// The media type that the interface takes, and how long an answer may take.
    accept: &'static str,
    timeout: Duration,
    base: Url,
    credential: Credential,
    answers: Mutex<Remembered<String, Known>>,
    rests_until: Mutex<Option<Instant>>,
    patience: Arc<Patience>,
}

/// What was answered before, and the tag to ask with whether it has changed.
#[derive(Clone)]
struct Known {
    tag: HeaderValue,
    bytes: Vec<u8>,
    more: bool,
}

impl ForgeHttp {
    /// A connection to `base`, where the interface takes `accept` for its answers, for as long as there is patience.
    pub fn new(
        base: Url,
        credential: Credential,
        accept: &'static str,
        patience: Arc<Patience>,
    ) -> Result<Self, String> {
        Self::with_timeout(base, credential, accept, patience, TIMEOUT)
    }

    fn with_timeout(
        base: Url,
        credential: Credential,
        accept: &'static str,
        patience: Arc<Patience>,
        timeout: Duration,
    ) -> Result<Self, String> {
        Ok(Self {
            client: Mutex::new(client(accept, timeout).map_err(|error| error.to_string())?),
            accept,
            timeout,
            base,
            credential,
            answers: Mutex::new(Remembered::new(Part::Answers.bytes())),
            rests_until: Mutex::default(),
            patience,
        })
    }

    /// What an error means for the connections at rest: where an answer did not come they are as dead as the one it was waited for on, and each of them
    /// would be waited for in turn.
    fn noticed(&self, error: reqwest::Error) -> reqwest::Error {
        if error.is_timeout()
            && let Ok(fresh) = client(self.accept, self.timeout)
        {
            *self.client.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        }
        error
    }

    fn client(&self) -> Client {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is there; none for 404.
    pub async fn get<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<Option<T>, ForgeError> {
        match self.request(call, call.query).await {
            Ok(answer) => read(call, &answer.bytes).map(Some),
            Err(ForgeError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Every entry of a list, page by page.
    pub async fn list<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<Vec<T>, ForgeError> {
        let mut entries = Vec::new();
        for page in 1..=PAGES {
            let page = page.to_string();
            let query: Vec<(&str, &str)> = call.query.iter().copied().chain([("page", page.as_str())]).collect();
            let answer = self.request(call, &query).await?;
            entries.extend(read::<Vec<T>>(call, &answer.bytes)?);
            if !answer.more {
                break;
            }
        }
        Ok(entries)
    }

    /// Does something, and reads what came of it.
    pub async fn send<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<T, ForgeError> {
        let answer = self.request(call, call.query).await?;
        read(call, &answer.bytes)
    }

    /// As [`Self::send`], with this in the place of the token.
    pub async fn send_with<T: DeserializeOwned>(&self, call: &Call<'_>, token: &SecretString) -> Result<T, ForgeError> {
        let answer = self.exchange(call, call.query, token).await?;
        read(call, &answer.bytes)
    }

    /// The seal of whoever has this credential, for a repository of this forge.
    pub fn seal(&self, repository: &str) -> Result<MetadataSigner, ForgeError> {
        let secret = match &self.credential {
            Credential::Token(file) => read_token(file)?,
            Credential::App(app) => app.key()?,
        };
        Ok(MetadataSigner::new(&secret, &format!("{} {repository}", self.base)))
    }

    async fn request(&self, call: &Call<'_>, query: &[(&str, &str)]) -> Result<Answer, ForgeError> {
        let token = match &self.credential {
            Credential::Token(file) => read_token(file)?,
            Credential::App(app) => app.token(self).await?,
        };
        let answer = self.exchange(call, query, &token).await;
        if let (Err(ForgeError::Unauthorized { .. }), Credential::App(app)) = (&answer, &self.credential) {
            app.forget();
        }
        answer
    }

    async fn exchange(
        &self,
        call: &Call<'_>,
        query: &[(&str, &str)],
        token: &SecretString,
    ) -> Result<Answer, ForgeError> {
        let asked = Instant::now();
        let answer = self.ask(call, query, token).await;
        self.patience.waited(asked.elapsed());
        answer
    }

    async fn ask(&self, call: &Call<'_>, query: &[(&str, &str)], token: &SecretString) -> Result<Answer, ForgeError> {
        if self.patience.is_spent() {
            let reason = "it has kept this pass waiting too long, so nothing more is asked before the next";
            return Err(ForgeError::Unavailable { action: call.action.clone(), reason: reason.to_owned() });
        }
        if let Some(left) = self.rest() {
            return Err(ForgeError::Limited { action: call.action.clone(), seconds: left.as_secs().max(1) });
        }
        let url = self.url(call, query)?;
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
            .map_err(|_| ForgeError::NoToken(self.base.to_string()))?;
        value.set_sensitive(true);
        let mut request = self.client().request(call.method.clone(), url.clone()).header(AUTHORIZATION, value);
        let known = (call.method == Method::GET).then(|| self.known(url.as_str())).flatten();
        if let Some(known) = &known {
            request = request.header(IF_NONE_MATCH, known.tag.clone());
        }
        if let Some(body) = &call.body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let unavailable = |reason: String| ForgeError::Unavailable { action: call.action.clone(), reason };
        // Of several forges, and of what stands before one, the address tells which it is.
        let unreachable = |error| unavailable(format!("{} cannot be reached: {}", self.origin(), chain(error)));
        let response = request.send().await.map_err(|error| unreachable(self.noticed(error)))?;
        if let (StatusCode::NOT_MODIFIED, Some(known)) = (response.status(), known) {
            return Ok(Answer { bytes: known.bytes, more: known.more });
        }
        if !response.status().is_success() {
            return Err(self.refusal(call, response, token.expose_secret()).await);
        }
        let tag = response.headers().get(ETAG).cloned();
        let more = has_more(response.headers());
        let bytes = body(response, LARGEST).await.map_err(unavailable)?;
        if let Some(tag) = tag.filter(|_| call.method == Method::GET) {
            let size = bytes.len() + 512;
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.insert(url.to_string(), Known { tag, bytes: bytes.clone(), more }, size);
        }
        Ok(Answer { bytes, more })
    }

    /// Its host and port.
    fn origin(&self) -> String {
        self.base.origin().ascii_serialization()
    }

    fn url(&self, call: &Call<'_>, query: &[(&str, &str)]) -> Result<Url, ForgeError> {
        let mut url = self.base.clone();
        let setup = || ForgeError::Setup { url: self.base.to_string(), reason: "it has no path".to_owned() };
        url.path_segments_mut().map_err(|()| setup())?.pop_if_empty().extend(call.path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    fn known(&self, url: &str) -> Option<Known> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).get(&url.to_owned())
    }

    /// How long the forge is still to be left alone.
    fn rest(&self) -> Option<Duration> {
        let until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        until?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    async fn refusal(&self, call: &Call<'_>, response: Response, token: &str) -> ForgeError {
        let (status, headers, action) = (response.status(), response.headers().clone(), call.action.clone());
        if let Some(rest) = asked_rest(status, &headers) {
            let until = Instant::now().checked_add(rest);
            *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
            return ForgeError::Limited { action, seconds: rest.as_secs().max(1) };
        }
        let json = is_json(&headers);
        let bytes = body(response, LARGEST).await.unwrap_or_default();
        let message = if json { said(&bytes, token) } else { String::new() };
        match status {
            StatusCode::UNAUTHORIZED => ForgeError::Unauthorized { action, message },
            // Nobody's permission helps there.
            StatusCode::FORBIDDEN if message.to_ascii_lowercase().contains("archived") => {
                ForgeError::Refused { action, status: status.as_u16(), message }
            }
            StatusCode::FORBIDDEN => ForgeError::Forbidden { action, message },
            StatusCode::NOT_FOUND => ForgeError::NotFound { action },
            status if status.is_server_error() => ForgeError::Unavailable {
                action,
                reason: format!("the forge says {status} {message}").trim().to_owned(),
            },
            status if status.is_redirection() => {
                let to = headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or("elsewhere");
                // What stands after a question mark may be a secret.
                let to = to.split('?').next().unwrap_or_default().chars().take(TOLD).collect();
                ForgeError::Moved { action, to }
            }
            status => ForgeError::Refused { action, status: status.as_u16(), message },
        }
    }
}

/// A client without a connection.
fn client(accept: &'static str, timeout: Duration) -> reqwest::Result<Client> {
    // Another part of the program may have installed it; either way there is one now.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .default_headers(HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]))
        .user_agent(concat!("stepgate/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        // A redirect would take the token somewhere else; that it has moved is told instead.
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT.min(timeout))
        .timeout(timeout)
        .build()
}

fn read<T: DeserializeOwned>(call: &Call<'_>, bytes: &[u8]) -> Result<T, ForgeError> {
    // Calls without an answer worth reading give nothing, not even JSON.
    let bytes = if bytes.is_empty() { b"null" } else { bytes };
    serde_json::from_slice(bytes).map_err(|error| {
        let html = bytes.trim_ascii_start().starts_with(b"<");
        let reason = if html {
            "it is a web page".to_owned()
        } else {
            format!("{:?} at line {}", error.classify(), error.line())
        };
        ForgeError::Unintelligible { action: call.action.clone(), reason }
    })
}

fn has_more(headers: &HeaderMap) -> bool {
    headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok()).any(|value| value.contains("rel=\"next\""))
}

/// For how long the forge wants to be left alone, where that is why it refused.
fn asked_rest(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(retry_after);
    let spent = text("x-ratelimit-remaining") == Some("0");
    let reset = || {
        let at: i64 = text("x-ratelimit-reset").or_else(|| text("ratelimit-reset"))?.parse().ok()?;
        u64::try_from(at.saturating_sub(Timestamp::now().as_second())).ok().map(Duration::from_secs)
    };
    let rest = match status {
        StatusCode::TOO_MANY_REQUESTS => Some(after.or_else(reset).unwrap_or(REST)),
        // GitHub says 403 to too many requests, by one of these headers; without them it is about permission.
        StatusCode::FORBIDDEN if after.is_some() => after,
        StatusCode::FORBIDDEN if spent => Some(reset().unwrap_or(REST)),
        StatusCode::SERVICE_UNAVAILABLE => after,
        _ => None,
    };
    rest.map(|rest| rest.clamp(Duration::from_secs(1), LONGEST_REST))
}

/// Seconds, or a date.
fn retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp();
    u64::try_from(at.as_second().saturating_sub(Timestamp::now().as_second())).ok().map(Duration::from_secs)
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get("content-type").and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains("json"))
}

/// What the forge says of a failure: one line, not too long, never the token.
fn said(bytes: &[u8], token: &str) -> String {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let field = |name: &str| {
        value.get(name).filter(|field| !field.is_null()).map(|field| match field.as_str() {
            Some(text) => text.to_owned(),
            None => field.to_string(),
        })
    };
    let parts: Vec<String> =
        ["message", "error", "error_description", "errors"].iter().filter_map(|name| field(name)).collect();
    let text = parts.join("; ").replace(token, "***");
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TOLD).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Answers each request, the first two together so that they take a connection each. Once it is deaf, connections that there are hear nothing.
    fn answer(stream: TcpStream, is_old: bool, together: &Barrier, is_deaf: &AtomicBool) -> std::io::Result<()> {
        let (lines, mut stream) = (BufReader::new(stream.try_clone()?).lines(), stream);
        for line in lines {
            if !line?.is_empty() {
                continue;
            }
            if is_old && is_deaf.load(Ordering::SeqCst) {
                continue;
            }
            if is_old {
                together.wait();
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\nnull")?;
        }
        Ok(())
    }

    #[test]
    fn after_one_silence_no_other_connection_at_rest_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let (together, is_deaf) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
        let shared = (Arc::clone(&together), Arc::clone(&is_deaf));
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let (together, is_deaf) = shared.clone();
                std::thread::spawn(move || answer(stream.unwrap(), number < 2, &together, &is_deaf));
            }
        });
        let token = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(token.path(), "secret").unwrap();
        let credential = Credential::Token(token.path().to_owned());
        let patience = Arc::new(Patience::default());
        let timeout = Duration::from_millis(500);
        let http = ForgeHttp::with_timeout(base, credential, "application/json", patience, timeout).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ask = || async { http.get::<Value>(&Call::get(&["x"], "read it")).await.map(drop) };
        runtime.block_on(async {
            let both = futures::future::join(ask(), ask()).await;
            assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
            is_deaf.store(true, Ordering::SeqCst);
            assert!(ask().await.is_err(), "what is waited for is not answered");
            assert!(ask().await.is_ok(), "and the next one is asked by a new connection");
        });
    }
}
