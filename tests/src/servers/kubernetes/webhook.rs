//! An admission webhook of the tests, behind TLS as the API server wants it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use axum::{Json, Router};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::servers::certificate::Authority;
use crate::servers::tls::TlsListener;

/// What the webhook says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Everything is allowed.
    Allow,
    /// Nothing is.
    Deny,
    /// Nothing at all, for longer than anybody waits.
    Silence,
}

/// A running webhook; it ends when dropped.
pub struct Webhook {
    address: SocketAddr,
    says: Arc<Mutex<Admission>>,
    asked: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Webhook {
    /// What it says to whom it denies something.
    pub const DENIAL: &str = "not today, the auditors are in the house";

    /// Starts it on loopback with a certificate of this authority.
    ///
    /// # Errors
    /// When the certificate cannot be made, or there is no port.
    pub async fn start(authority: &Authority) -> anyhow::Result<Self> {
        let identity = authority.server()?;
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).context("no certificate")?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).context("no key")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let listener = TlsListener::new(listener, config);
        let says = Arc::new(Mutex::new(Admission::Allow));
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (answers, seen) = (Arc::clone(&says), Arc::clone(&asked));
        let router = Router::new().fallback(move |Json(review): Json<Value>| {
            let says = *answers.lock().unwrap_or_else(PoisonError::into_inner);
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(review.clone());
            answer(says, review)
        });
        // It ends with the task.
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, says, asked, task })
    }

    /// From now on it says this.
    pub fn say(&self, admission: Admission) {
        *self.says.lock().unwrap_or_else(PoisonError::into_inner) = admission;
    }

    /// The requests so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}/", self.address)
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(says: Admission, review: Value) -> Json<Value> {
    if says == Admission::Silence {
        std::future::pending::<()>().await;
    }
    let uid = review.get("request").and_then(|request| request.get("uid")).cloned().unwrap_or_default();
    let response = match says {
        Admission::Allow | Admission::Silence => json!({"uid": uid, "allowed": true}),
        Admission::Deny => json!({"uid": uid, "allowed": false, "status": {"message": Webhook::DENIAL}}),
    };
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}
