//! The webhooks of Pods that only a fake kubelet runs: each Service answers, allows everything, and converts by the name of the version alone.
//!
//! What cert-manager does for real ones is done here as well: the authority of their certificates is put where the API server looks for it.

use std::collections::BTreeSet;
use std::fmt;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{StreamExt as _, pin_mut};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::servers::certificate::Authority;
use crate::servers::tls::TlsListener;

/// The addresses of Services, as the API server of these tests gives them.
const SERVICES: &str = "10.0.0.0/24";

/// The port of every webhook's Service.
const PORT: u16 = 443;

/// Kinds that name webhooks.
const KINDS: [(&str, &str); 3] = [
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
];

/// The answering Services; they fall silent when dropped.
pub struct FakeWebhooks {
    silent: Arc<Mutex<BTreeSet<String>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl FakeWebhooks {
    /// Answers for every Service of the cluster. Only for tests in a network of their own.
    ///
    /// # Errors
    /// When the addresses of Services cannot be made this machine's.
    pub async fn start(client: &Client) -> anyhow::Result<Self> {
        let authority = Authority::new()?;
        let routed = Command::new("ip").args(["route", "add", "local", SERVICES, "dev", "lo"]).output()?;
        ensure!(routed.status.success(), "ip route: {}", String::from_utf8_lossy(&routed.stderr));
        let listener = TcpListener::bind(("0.0.0.0", PORT)).await.context("listening for Services")?;
        let bundle = STANDARD.encode(authority.certificate());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let silent: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let certificates = Arc::new(Certificates { authority, provider: Arc::clone(&provider) });
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(certificates);
        let known = Arc::clone(&silent);
        let router = Router::new().fallback(async move |headers: HeaderMap, Json(review): Json<Value>| {
            let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            let service = host.split(':').next().unwrap_or_default();
            if known.lock().unwrap_or_else(PoisonError::into_inner).contains(service) {
                return StatusCode::SERVICE_UNAVAILABLE.into_response();
            }
            Json(answer(&review)).into_response()
        });
        // It ends with the task.
        let serving = tokio::spawn(async move {
            let _ = axum::serve(TlsListener::new(listener, config), router).await;
        });
        let injecting = KINDS.into_iter().map(|kind| tokio::spawn(inject(client.clone(), kind, bundle.clone())));
        Ok(Self { silent, tasks: injecting.chain([serving]).collect() })
    }

    /// From now on a Service does not answer, or does again.
    pub fn silence(&self, namespace: &str, service: &str, silent: bool) {
        let name = format!("{service}.{namespace}.svc");
        let mut known = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        if silent {
            known.insert(name)
        } else {
            known.remove(&name)
        };
    }
}

impl Drop for FakeWebhooks {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// A certificate for whatever name is asked for.
struct Certificates {
    authority: Authority,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Certificates")
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let identity = self.authority.server_named(hello.server_name()?).ok()?;
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).ok()?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).ok()?;
        CertifiedKey::from_der(vec![certificate], key, &self.provider).ok().map(Arc::new)
    }
}

fn answer(review: &Value) -> Value {
    let request = |field: &str| review.pointer(&format!("/request/{field}")).cloned().unwrap_or_default();
    let response = if review.get("kind") == Some(&json!("ConversionReview")) {
        let version = request("desiredAPIVersion");
        let mut objects = request("objects");
        for object in objects.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            object.insert("apiVersion".to_owned(), version.clone());
        }
        json!({"uid": request("uid"), "convertedObjects": objects, "result": {"status": "Success"}})
    } else {
        json!({"uid": request("uid"), "allowed": true})
    };
    json!({"apiVersion": review.get("apiVersion"), "kind": review.get("kind"), "response": response})
}

/// Names the authority in every object of a kind that calls a Service.
async fn inject(client: Client, (group, kind): (&'static str, &'static str), bundle: String) {
    let api: Api<DynamicObject> =
        Api::all_with(client, &ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind)));
    let objects = watcher(api.clone(), watcher::Config::default()).default_backoff().applied_objects();
    pin_mut!(objects);
    while let Some(object) = objects.next().await {
        let Ok(object) = object else { continue };
        if let Some(patch) = with_authority(&object, &bundle) {
            // One that changed meanwhile is seen again.
            let _ = api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
        }
    }
}

/// What has to change in an object so that all its calls of Services trust the authority; none where nothing has to.
fn with_authority(object: &DynamicObject, bundle: &str) -> Option<Value> {
    let trusted = |config: &mut Value| {
        let calls = config.get("service").is_some_and(|service| !service.is_null());
        let missing = calls && config.get("caBundle") != Some(&json!(bundle));
        if let Some(config) = config.as_object_mut().filter(|_| missing) {
            config.insert("caBundle".to_owned(), json!(bundle));
        }
        missing
    };
    let version = json!({"resourceVersion": object.resource_version()});
    if let Some(webhooks) = object.data.get("webhooks").and_then(Value::as_array) {
        let mut webhooks = webhooks.clone();
        let configs = webhooks.iter_mut().filter_map(|webhook| webhook.get_mut("clientConfig"));
        let changed = configs.map(trusted).filter(|changed| *changed).count();
        return (changed > 0).then(|| json!({"metadata": version, "webhooks": webhooks}));
    }
    let mut config = object.data.pointer("/spec/conversion/webhook/clientConfig")?.clone();
    trusted(&mut config)
        .then(|| json!({"metadata": version, "spec": {"conversion": {"webhook": {"clientConfig": config}}}}))
}
