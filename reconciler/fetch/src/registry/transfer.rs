//! What is sent to a registry, and what is checked of what comes.

use bundles::Digest;
use overlays::FetchError;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
use reqwest::{Method, Response, StatusCode, Url};

use super::session::Session;
use crate::http::authority;

impl Session<'_> {
    /// The bytes of this digest and size.
    pub async fn blob(&mut self, digest: &str, size: u64) -> Result<Vec<u8>, FetchError> {
        let wanted: Option<Digest> =
            Some(digest).filter(|digest| digest.starts_with("sha256:")).and_then(|digest| digest.parse().ok());
        let wanted = wanted
            .ok_or_else(|| self.failed(format!("it names the digest {digest:?}, which is not a sha256 digest")))?;
        let bytes = self.get(&format!("blobs/{wanted}"), "application/octet-stream", size).await?;
        let found = Digest::of(&bytes);
        if found != wanted || bytes.len() as u64 != size {
            let length = bytes.len();
            return Err(self.failed(format!(
                "what came has {length} bytes and digest {found}, and its manifest names {size} bytes and {wanted}"
            )));
        }
        Ok(bytes)
    }

    /// Sends bytes that the registry does not have yet.
    pub async fn upload(&mut self, digest: &str, bytes: &[u8]) -> Result<(), FetchError> {
        match self.head(&format!("blobs/{digest}"), "application/octet-stream").await {
            Ok(()) => return Ok(()),
            Err(FetchError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let started = self.call(Method::POST, self.address("blobs/uploads/")?, "", &[]).await?;
        self.expect(&started, StatusCode::ACCEPTED)?;
        let location = started.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let next = location.and_then(|location| started.url().join(location).ok());
        let mut next = next.ok_or_else(|| self.failed("the registry names no address to send to".to_owned()))?;
        next.query_pairs_mut().append_pair("digest", digest);
        let sent = self.call(Method::PUT, next, "application/octet-stream", bytes).await?;
        self.expect(&sent, StatusCode::CREATED)
    }

    /// Puts a manifest under a tag.
    pub async fn put_manifest(&mut self, tag: &str, media_type: &str, bytes: &[u8]) -> Result<(), FetchError> {
        let url = self.address(&format!("manifests/{tag}"))?;
        let put = self.call(Method::PUT, url, media_type, bytes).await?;
        self.expect(&put, StatusCode::CREATED)
    }

    /// Makes one request. When the registry asks for it, it is made once more with a token or a password.
    async fn call(&mut self, method: Method, url: Url, media_type: &str, bytes: &[u8]) -> Result<Response, FetchError> {
        self.check(&url)?;
        let response = self.once(&method, &url, media_type, bytes).await?;
        if response.status() != StatusCode::UNAUTHORIZED || self.shown().is_some() {
            return Ok(response);
        }
        self.show(response.headers()).await?;
        self.once(&method, &url, media_type, bytes).await
    }

    async fn once(&self, method: &Method, url: &Url, media_type: &str, bytes: &[u8]) -> Result<Response, FetchError> {
        let mut request = self.http.client.request(method.clone(), url.clone());
        if !media_type.is_empty() {
            request = request.header(CONTENT_TYPE, media_type).body(bytes.to_vec());
        }
        if let Some(shown) = self.shown().filter(|_| authority(url) == self.host) {
            request = request.header(AUTHORIZATION, shown.clone());
        }
        self.send(request).await
    }

    fn expect(&self, response: &Response, wanted: StatusCode) -> Result<(), FetchError> {
        match response.status() {
            status if status == wanted => Ok(()),
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Err(self.refused("the registry", status)),
            status => Err(self.failed(format!("the registry says {status} to what is sent"))),
        }
    }
}
