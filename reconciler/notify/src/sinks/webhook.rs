//! A webhook: a `CloudEvent`, signed over its bytes.

use std::sync::Arc;

use ring::hmac;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::http::Http;
use crate::delivery::Delivery;
use crate::message::Message;
use crate::settings::{Address, SecretFile};

#[derive(Debug)]
pub(crate) struct Webhook {
    pub(crate) http: Arc<Http>,
    pub(crate) address: Address,
    pub(crate) secret: SecretFile,
}

impl Webhook {
    pub(crate) async fn tell(&self, message: &Message) -> Delivery {
        let ready = self.address.url().and_then(|url| Ok((url, self.secret.read()?)));
        let (url, secret) = match ready {
            Ok(ready) => ready,
            Err(reason) => return Delivery::later(reason),
        };
        let body = event(message).to_string();
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes());
        let tag: String = hmac::sign(&key, body.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let request = self
            .http
            .post(url)
            .header("content-type", "application/cloudevents+json")
            .header("x-signature", format!("sha256={tag}"))
            .header("idempotency-key", message.id())
            .body(body);
        self.http.deliver(request).await
    }
}

/// The structured form of `CloudEvents` 1.0.
fn event(message: &Message) -> Value {
    let told = &message.announcement;
    let scope = if told.stage.is_some() { "stage" } else { "rollout" };
    json!({
        "specversion": "1.0",
        "id": message.id(),
        "source": format!("/stepgate/clusters/{}", told.cluster),
        "type": format!("dev.stepgate.{scope}.{}", told.kind),
        "subject": message.thread(),
        "time": told.at.to_string(),
        "datacontenttype": "application/json",
        "data": {"announcement": told, "title": message.title(), "text": message.whole()},
    })
}
