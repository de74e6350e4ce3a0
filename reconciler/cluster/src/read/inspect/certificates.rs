//! When certificates end: those of webhooks' authorities, and of the Secrets that Cluster API keeps of a cluster.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::config::Kubeconfig;
use kube::core::DynamicObject;
use rollout::{Certificate, ObjectReference};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use x509_parser::parse_x509_certificate;

use crate::client::concurrent::concurrently;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{Kind, SECRET};

/// Secrets of a cluster, after its name, and what their certificate is for (`cluster-api/util/secret/consts.go`,
/// `etcdadm-bootstrap-provider`).
const SECRETS: [(&str, &str); 5] = [
    ("ca", "certificate authority of the cluster"),
    ("etcd", "certificate authority of etcd"),
    ("proxy", "certificate authority of the front proxy"),
    ("managed-etcd", "certificate authority of the external etcd"),
    ("apiserver-etcd-client", "client certificate for etcd"),
];

/// The Secret with the kubeconfig of a cluster.
const KUBECONFIG: &str = "kubeconfig";

/// The authorities that webhooks are trusted by.
pub(super) fn of_configurations(configurations: &[(&'static Kind, DynamicObject)]) -> Vec<Certificate> {
    configurations.iter().flat_map(|(kind, object)| of_configuration(kind, object)).collect()
}

/// One for each authority: several webhooks of a configuration have the same, as a rule.
fn of_configuration(kind: &Kind, object: &DynamicObject) -> Vec<Certificate> {
    let mut found: Vec<Certificate> = Vec::new();
    let webhooks = object.data.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    for webhook in webhooks {
        let bundle = webhook.pointer("/clientConfig/caBundle").and_then(Value::as_str).unwrap_or_default();
        let Some(ends) = decoded(bundle).and_then(|pem| last_end(&pem)) else { continue };
        if found.iter().any(|known| known.ends == ends) {
            continue;
        }
        let name = webhook.get("name").and_then(Value::as_str).unwrap_or_default();
        found.push(Certificate {
            object: ObjectReference {
                api_version: format!("{}/v1", kind.group),
                kind: kind.kind.to_owned(),
                namespace: None,
                name: object.metadata.name.clone().unwrap_or_default(),
            },
            field: format!("webhooks[{name}].clientConfig.caBundle"),
            purpose: "certificate authority of the webhook".to_owned(),
            ends,
        });
    }
    found
}

/// Those that Cluster API keeps of a cluster, by namespace and name. A Secret that is not there has none.
pub(super) async fn of_secrets(
    management: &Connection,
    cluster: Option<&(String, String)>,
) -> Result<Vec<Certificate>, RequestError> {
    let Some((namespace, name)) = cluster else { return Ok(Vec::new()) };
    let resource = SECRET.resource("v1");
    let suffixes = SECRETS.iter().map(|(suffix, _)| *suffix).chain([KUBECONFIG]);
    let names: Vec<String> = suffixes.map(|suffix| format!("{name}-{suffix}")).collect();
    let requests = names.iter().map(|name| management.get(&resource, Some(namespace), name)).collect();
    let mut found = Vec::new();
    for (secret, name) in concurrently(requests).await.into_iter().zip(&names) {
        let Some(secret) = secret? else { continue };
        let reference = ObjectReference {
            api_version: "v1".to_owned(),
            kind: SECRET.kind.to_owned(),
            namespace: Some(namespace.clone()),
            name: name.clone(),
        };
        found.extend(of_secret(&reference, &secret));
    }
    Ok(found)
}

/// The certificate in a Secret, by what its name says.
fn of_secret(reference: &ObjectReference, secret: &DynamicObject) -> Option<Certificate> {
    let value = |key: &str| decoded(secret.data.get("data")?.get(key)?.as_str()?);
    let certificate = |field: &str, purpose: &str, ends: Timestamp| Certificate {
        object: reference.clone(),
        field: field.to_owned(),
        purpose: purpose.to_owned(),
        ends,
    };
    if reference.name.ends_with(&format!("-{KUBECONFIG}")) {
        let ends = last_end(&client_certificate(&value("value")?)?)?;
        return Some(certificate("data.value", "client certificate of the kubeconfig", ends));
    }
    let (_, purpose) = SECRETS.iter().find(|(suffix, _)| reference.name.ends_with(&format!("-{suffix}")))?;
    Some(certificate("data[tls.crt]", purpose, last_end(&value("tls.crt")?)?))
}

/// The client certificate of a kubeconfig that has one, in PEM.
fn client_certificate(kubeconfig: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(kubeconfig).ok()?;
    let kubeconfig = Kubeconfig::from_yaml(text).ok()?;
    let certificates = kubeconfig.auth_infos.into_iter().filter_map(|named| named.auth_info);
    certificates.into_iter().find_map(|user| decoded(&user.client_certificate_data?))
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text.trim()).ok().filter(|bytes| !bytes.is_empty())
}

/// When the last of these certificates (PEM) ends: while one of a bundle counts, who shows it is trusted.
fn last_end(pem: &[u8]) -> Option<Timestamp> {
    let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    certificates.filter_map(|certificate| end(&certificate)).max()
}

fn end(certificate: &[u8]) -> Option<Timestamp> {
    let (_, parsed) = parse_x509_certificate(certificate).ok()?;
    Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use serde_json::json;

    use super::*;
    use crate::client::kind::VALIDATING_WEBHOOK_CONFIGURATION;

    /// A certificate of its own that ends at midnight of this day.
    fn certificate(year: i32) -> String {
        let mut parameters = CertificateParams::default();
        parameters.not_after = rcgen::date_time_ymd(year, 6, 1);
        parameters.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    fn encoded(text: &str) -> String {
        STANDARD.encode(text)
    }

    fn object(data: &Value) -> DynamicObject {
        serde_json::from_value(data.clone()).unwrap()
    }

    fn ends(found: &[Certificate]) -> Vec<String> {
        found.iter().map(|known| format!("{} {}", known.field, known.ends)).collect()
    }

    #[test]
    fn the_last_certificate_of_a_bundle_counts_and_each_bundle_once() {
        let both = encoded(&format!("{}{}", certificate(2027), certificate(2026)));
        let hook = |name: &str, bundle: &str| json!({"name": name, "clientConfig": {"caBundle": bundle}});
        let webhooks = [
            hook("a", &both),
            hook("b", &both),
            hook("c", &encoded(&certificate(2030))),
            hook("d", "Cg=="),
            hook("e", "not base64"),
            json!({"name": "f", "clientConfig": {}}),
        ];
        let configuration = object(&json!({"metadata": {"name": "x"}, "webhooks": webhooks}));
        let found = of_configurations(&[(&VALIDATING_WEBHOOK_CONFIGURATION, configuration)]);
        let expected = [
            "webhooks[a].clientConfig.caBundle 2027-06-01T00:00:00Z",
            "webhooks[c].clientConfig.caBundle 2030-06-01T00:00:00Z",
        ];
        assert_eq!(ends(&found), expected);
    }

    #[test]
    fn secrets_are_read_by_their_names_and_only_their_certificates() {
        let secret = |name: &str, data: &Value| {
            let reference = ObjectReference {
                api_version: "v1".to_owned(),
                kind: "Secret".to_owned(),
                namespace: Some("n".to_owned()),
                name: name.to_owned(),
            };
            of_secret(&reference, &object(&json!({"metadata": {"name": name}, "data": data})))
        };
        let held = json!({"tls.crt": encoded(&certificate(2028)), "tls.key": encoded("hunter2")});
        for name in ["prod-ca", "prod-etcd", "prod-proxy", "prod-managed-etcd", "prod-apiserver-etcd-client"] {
            let found = secret(name, &held).unwrap();
            assert_eq!(found.ends.to_string(), "2028-06-01T00:00:00Z", "{name}");
            assert!(!format!("{found:?}").contains("hunter2"));
        }
        let text = format!(
            "apiVersion: v1\nkind: Config\nusers:\n- name: u\n  user: {{client-certificate-data: {}, client-key-data: {}}}\n",
            encoded(&certificate(2029)),
            encoded("hunter2")
        );
        let found = secret("prod-kubeconfig", &json!({"value": encoded(&text)})).unwrap();
        assert_eq!((found.ends.to_string().as_str(), found.field.as_str()), ("2029-06-01T00:00:00Z", "data.value"));
        assert_eq!(secret("prod-ca", &json!({"tls.crt": encoded("nothing")})), None);
        assert_eq!(secret("prod-kubeconfig", &json!({"value": encoded("users: [{name: u, user: {token: t}}]")})), None);
    }
}
