//! Questions to an issuer of identities, whom the operator has named: bounded answers, no redirects, no proxies.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url, redirect};

use host::http_body::{body, chain};

/// The largest answer, in bytes.
const LARGEST: u64 = 256 << 10;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Asks an issuer.
#[derive(Clone, Debug)]
pub struct Issuer {
    client: Client,
}

impl Issuer {
    /// A client that goes by TLS, or to this machine.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new() -> Result<Self, String> {
        // Another part of the program may have installed it; either way there is one now.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .default_headers(HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]))
            .user_agent(concat!("stepgate/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            // A redirect would take the secret somewhere else.
            .redirect(redirect::Policy::none())
            .connect_timeout(TIMEOUT)
            .timeout(TIMEOUT)
            .build()
            .map_err(chain)?;
        Ok(Self { client })
    }

    /// A document.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn get(&self, address: &str) -> Result<Vec<u8>, String> {
        let answer = self.client.get(checked(address)?).send().await;
        read(address, answer.map_err(chain)?).await
    }

    /// The answer to a form, which a client sends that proves who it is by this header, where it has a secret.
    ///
    /// # Errors
    /// Why there is none. No error holds anything of the form.
    pub async fn post(&self, address: &str, form: String, authorization: Option<&str>) -> Result<Vec<u8>, String> {
        let mut request = self.client.post(checked(address)?).body(form);
        request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(authorization) = authorization {
            let mut value = HeaderValue::from_str(authorization).map_err(|error| error.to_string())?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        read(address, request.send().await.map_err(chain)?).await
    }
}

async fn read(address: &str, response: Response) -> Result<Vec<u8>, String> {
    if response.status() != reqwest::StatusCode::OK {
        return Err(format!("{address} answers {}", response.status()));
    }
    body(response, LARGEST).await.map_err(|error| format!("{address}: {error}"))
}

/// An address that goes by TLS, or stays on this machine.
fn checked(address: &str) -> Result<Url, String> {
    let url = Url::parse(address).map_err(|_| format!("{address} is no address"))?;
    let host = url.host_str().unwrap_or_default();
    let is_here = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    let is_clean = url.username().is_empty() && url.password().is_none();
    match url.scheme() {
        "https" if is_clean => Ok(url),
        "http" if is_clean && is_here => Ok(url),
        _ => Err(format!("{address} does not go by TLS")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuers_go_by_tls_or_stay_on_this_machine() {
        for (address, expected) in [
            ("https://id.example.com/realms/ops", true),
            ("http://localhost:8080/", true),
            ("http://127.0.0.1:8080/", true),
            ("http://id.example.com/", false),
            ("http://localhost.example.com/", false),
            ("https://user:secret@id.example.com/", false),
            ("file:///etc/passwd", false),
            ("", false),
        ] {
            assert_eq!(checked(address).is_ok(), expected, "{address}");
        }
    }
}
