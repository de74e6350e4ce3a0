//! Requests about one thing to one registry, with what it asks to be shown.

use std::sync::atomic::{AtomicBool, Ordering};

use overlays::FetchError;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;

use super::challenge::Challenge;
use super::credentials::{Credential, Credentials};
use crate::http::{Http, MAXIMUM_REDIRECTS, authority};
use host::http_body::{body, chain};

/// The largest answer of a token server, in bytes.
const MAXIMUM_TOKEN: u64 = 64 << 10;

/// What a token has to be good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Pull,
    Push,
}

impl Access {
    /// The actions of a token's scope.
    fn actions(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "pull,push",
        }
    }

    /// The right that somebody lacks who is refused.
    fn right(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
        }
    }
}

pub(super) struct Session<'a> {
    pub http: &'a Http,
    credentials: &'a Credentials,
    /// What is fetched, for errors.
    uri: &'a str,
    pub host: &'a str,
    repository: &'a str,
    access: Access,
    /// What the registry is shown, once it has asked.
    authorization: Option<HeaderValue>,
    /// Whether a request got no answer.
    is_silent: AtomicBool,
    /// Whether the registry or its token server asked for another login.
    is_refused: AtomicBool,
}

/// Docker's token authentication specification: `token`, or `access_token` as OAuth 2.0 has it.
#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

impl<'a> Session<'a> {
    pub fn new(http: &'a Http, credentials: &'a Credentials, uri: &'a str, host: &'a str, repository: &'a str) -> Self {
        let access = Access::Pull;
        let (is_silent, is_refused) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { http, credentials, uri, host, repository, access, authorization: None, is_silent, is_refused }
    }

    /// The same, with tokens for this.
    pub fn asking_for(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// What the registry is shown, once it has asked.
    pub fn shown(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// From now on the registry is shown what it asks for.
    pub async fn show(&mut self, asked: &HeaderMap) -> Result<(), FetchError> {
        self.authorization = Some(self.authorize(asked).await?);
        Ok(())
    }

    /// The address of `path` in the repository.
    pub fn address(&self, path: &str) -> Result<Url, FetchError> {
        let address = format!("{}://{}/v2/{}/{path}", self.http.scheme, self.host, self.repository);
        let url = Url::parse(&address).map_err(|error| self.failed(format!("{address}: {error}")))?;
        if authority(&url) == self.host {
            Ok(url)
        } else {
            Err(self.failed(format!("{:?} is not a valid host", self.host)))
        }
    }

    /// Whether a request got no answer at all.
    pub fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Whether the registry or its token server asked for another login.
    pub fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    /// What lies at `path` of the repository, of at most `maximum` bytes. When the registry asks for it, the request is made
    /// once more with a token or a password.
    pub async fn get(&mut self, path: &str, accept: &'static str, maximum: u64) -> Result<Vec<u8>, FetchError> {
        let response = self.ask(Method::GET, path, accept).await?;
        body(response, maximum).await.map_err(|message| self.failed(message))
    }

    /// Whether something lies at `path` of the repository.
    pub async fn head(&mut self, path: &str, accept: &'static str) -> Result<(), FetchError> {
        self.ask(Method::HEAD, path, accept).await.map(drop)
    }

    /// The answer to a request for what is there.
    async fn ask(&mut self, method: Method, path: &str, accept: &'static str) -> Result<Response, FetchError> {
        let url = self.address(path)?;
        let mut response = self.follow(&method, url.clone(), accept).await?;
        if response.status() == StatusCode::UNAUTHORIZED && self.authorization.is_none() {
            self.show(response.headers()).await?;
            response = self.follow(&method, url, accept).await?;
        }
        match response.status() {
            StatusCode::OK => Ok(response),
            status @ (StatusCode::NOT_FOUND | StatusCode::GONE) => {
                let searched = format!("the registry says {status} of {path}");
                Err(FetchError::NotFound { uri: self.uri.to_owned(), searched })
            }
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Err(self.refused("the registry", status)),
            status => Err(self.failed(format!("the registry says {status}"))),
        }
    }

    /// The answer at the end of the redirects from `url`. What the registry is shown goes to the registry alone.
    async fn follow(&self, method: &Method, mut url: Url, accept: &'static str) -> Result<Response, FetchError> {
        for _ in 0..=MAXIMUM_REDIRECTS {
            self.check(&url)?;
            let mut request = self.http.client.request(method.clone(), url.clone()).header(ACCEPT, accept);
            if let Some(authorization) = self.authorization.as_ref().filter(|_| authority(&url) == self.host) {
                request = request.header(AUTHORIZATION, authorization.clone());
            }
            let response = self.send(request).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let next = location.and_then(|location| url.join(location).ok());
            url = next.ok_or_else(|| self.failed("it redirects to no address".to_owned()))?;
        }
        Err(self.failed(format!("more than {MAXIMUM_REDIRECTS} redirects")))
    }

    /// Whether `url` may be asked: on the registry's host, or on the allow-list.
    pub fn check(&self, url: &Url) -> Result<(), FetchError> {
        if let Some(message) = self.http.refusal(url) {
            return Err(self.failed(message));
        }
        let host = authority(url);
        if host == self.host || self.http.options.allow.allows(&host, url.path()) {
            return Ok(());
        }
        Err(FetchError::SentOn { uri: self.uri.to_owned(), host })
    }

    /// What to show the registry after it has asked.
    async fn authorize(&self, headers: &HeaderMap) -> Result<HeaderValue, FetchError> {
        let challenge = Challenge::of(headers).map_err(|message| self.failed(message))?;
        let credential = self.credentials.of(self.host).map_err(|message| self.failed(message))?;
        match (challenge, credential) {
            (Challenge::Bearer { realm, service, scope }, credential) => {
                self.token(&realm, service, scope, credential).await
            }
            (Challenge::Basic, Some(Credential::Password { name, password })) => {
                let request = self.http.client.get(format!("{}://{}/", self.http.scheme, self.host));
                let request = request.basic_auth(name, Some(password)).build();
                let request = request.map_err(|error| self.failed(chain(error)))?;
                let header = request.headers().get(AUTHORIZATION).cloned();
                header.ok_or_else(|| self.failed("its password cannot be sent".to_owned()))
            }
            (Challenge::Basic, _) => Err(self.refused("the registry", StatusCode::UNAUTHORIZED)),
        }
    }

    /// A token for the repository.
    async fn token(
        &self,
        realm: &str,
        service: Option<String>,
        scope: Option<String>,
        credential: Option<Credential>,
    ) -> Result<HeaderValue, FetchError> {
        let realm = Url::parse(realm).map_err(|error| self.failed(format!("its token server {realm:?}: {error}")))?;
        self.check(&realm)?;
        let own = format!("repository:{}:{}", self.repository, self.access.actions());
        let mut parameters: Vec<(&str, String)> = service.into_iter().map(|service| ("service", service)).collect();
        parameters.extend(scope.filter(|scope| *scope != own).map(|scope| ("scope", scope)));
        parameters.push(("scope", own));
        let query = |parameters: &[(&str, String)]| {
            let mut url = realm.clone();
            url.query_pairs_mut().extend_pairs(parameters);
            url
        };
        let request = match credential {
            None => self.http.client.get(query(&parameters)),
            Some(Credential::Password { name, password }) => {
                self.http.client.get(query(&parameters)).basic_auth(name, Some(password))
            }
            Some(Credential::IdentityToken(token)) => {
                parameters.push(("grant_type", "refresh_token".to_owned()));
                parameters.push(("client_id", "stepgate".to_owned()));
                parameters.push(("refresh_token", token));
                // A form is written as a query is.
                let form = query(&parameters).query().unwrap_or_default().to_owned();
                let post = self.http.client.post(realm.clone());
                post.header("Content-Type", "application/x-www-form-urlencoded").body(form)
            }
        };
        let response = self.send(request).await?;
        if response.status() != StatusCode::OK {
            return Err(self.refused("its token server", response.status()));
        }
        let bytes = body(response, MAXIMUM_TOKEN).await.map_err(|message| self.failed(message))?;
        let answer: Option<TokenAnswer> = serde_json::from_slice(&bytes).ok();
        let token = answer.and_then(|answer| answer.token.or(answer.access_token));
        let header = token.and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
        let mut header = header.ok_or_else(|| self.failed("its token server gave no token".to_owned()))?;
        header.set_sensitive(true);
        Ok(header)
    }

    pub async fn send(&self, request: RequestBuilder) -> Result<Response, FetchError> {
        request.send().await.map_err(|error| {
            self.is_silent.store(true, Ordering::Relaxed);
            self.failed(chain(error))
        })
    }

    pub fn refused(&self, who: &str, status: StatusCode) -> FetchError {
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            self.is_refused.store(true, Ordering::Relaxed);
        }
        let remedy = self.credentials.remedy(self.host, self.access.right());
        self.failed(format!("{who} says {status}; {remedy}"))
    }

    pub fn failed(&self, message: String) -> FetchError {
        FetchError::Failed { uri: self.uri.to_owned(), message }
    }
}
