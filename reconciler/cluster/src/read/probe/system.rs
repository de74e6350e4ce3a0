//! Which admission webhooks refuse requests of the system while nothing answers for them.

use kube::core::DynamicObject;
use rollout::{AdmissionWebhook, ObjectReference, SystemRequest};

use super::endpoints;
use super::hook::{Admission, Backend, Hook, Labels, Operation, Target};
use super::read_namespace;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{Kind, MUTATING_WEBHOOK_CONFIGURATION};
use crate::objects;

/// A request of the system: what it is about, and in which namespace.
struct Request {
    request: SystemRequest,
    api_version: &'static str,
    plural: &'static str,
    namespace: Option<&'static str>,
}

const fn request(
    request: SystemRequest,
    api_version: &'static str,
    plural: &'static str,
    namespace: Option<&'static str>,
) -> Request {
    Request { request, api_version, plural, namespace }
}

const SYSTEM: &str = "kube-system";
const LEASES: &str = "kube-node-lease";

const REQUESTS: [Request; 5] = [
    request(SystemRequest::Node, "v1", "nodes", None),
    request(SystemRequest::CertificateSigningRequest, "certificates.k8s.io/v1", "certificatesigningrequests", None),
    request(SystemRequest::NodeLease, "coordination.k8s.io/v1", "leases", Some(LEASES)),
    request(SystemRequest::SystemPod, "v1", "pods", Some(SYSTEM)),
    request(SystemRequest::SystemLease, "coordination.k8s.io/v1", "leases", Some(SYSTEM)),
];

/// Those of these configurations, each of its kind.
pub(crate) async fn called_for_system(
    connection: &Connection,
    configurations: &[(&Kind, DynamicObject)],
) -> Result<Vec<AdmissionWebhook>, RequestError> {
    let hooks: Vec<(&Kind, &DynamicObject, Hook)> = configurations
        .iter()
        .flat_map(|(kind, object)| {
            let hooks = Hook::of(object, **kind == MUTATING_WEBHOOK_CONFIGURATION);
            hooks.into_iter().map(move |hook| (*kind, object, hook))
        })
        .filter(|(_, _, hook)| hook.fails_closed)
        .collect();
    let selects = hooks.iter().any(|(_, _, hook)| !objects::is_empty_selector(&hook.namespaces));
    let mut labels = [None, None];
    if selects {
        labels = [read_namespace(connection, SYSTEM).await?, read_namespace(connection, LEASES).await?];
    }
    let [system, leases] = &labels;
    let mut found = Vec::new();
    for (kind, configuration, hook) in hooks {
        let of_namespace = |namespace: &str| if namespace == SYSTEM { system.as_ref() } else { leases.as_ref() };
        let is_called = |request: &&Request| is_called(&hook, request, request.namespace.and_then(of_namespace));
        let called_for: Vec<SystemRequest> = REQUESTS.iter().filter(is_called).map(|request| request.request).collect();
        if called_for.is_empty() {
            continue;
        }
        let unserved = match &hook.backend {
            Backend::Service { .. } => endpoints::ready(connection, &hook.backend).await?.err(),
            Backend::Url(_) => None,
        };
        found.push(AdmissionWebhook {
            configuration: ObjectReference {
                api_version: format!("{}/v1", kind.group),
                kind: kind.kind.to_owned(),
                namespace: None,
                name: configuration.metadata.name.clone().unwrap_or_default(),
            },
            name: hook.name.clone(),
            called_for,
            conditional: hook.conditional,
            backend: hook.backend.to_string(),
            unserved,
        });
    }
    Ok(found)
}

/// Whether rules and selectors choose the webhook. Of a namespace that is not there only its name is known.
fn is_called(hook: &Hook, request: &Request, labels: Option<&Labels>) -> bool {
    let named = request.namespace.map(|name| Labels::from([(NAME.to_owned(), name.to_owned())]));
    let none = Labels::new();
    let target = Target { api_version: request.api_version.to_owned(), plural: request.plural.to_owned() };
    [Operation::Create, Operation::Update].into_iter().any(|operation| {
        hook.is_chosen(&Admission {
            target: &target,
            operation,
            namespace: labels.or(named.as_ref()),
            namespaced: request.namespace.is_some(),
            labels: &none,
        })
    })
}

/// The label that every namespace has.
const NAME: &str = "kubernetes.io/metadata.name";
