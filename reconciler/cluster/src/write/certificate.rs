//! A certificate that this program makes itself, where no cert-manager does: kept in a Secret, renewed in time.
//!
//! Cluster API copies `ca.crt` of the Secret into the `ExtensionConfig`, and has to know an authority before what it signed is
//! served. So a new authority is added beside the old one, and signs from the next renewal on, a month later at least.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kube::core::DynamicObject;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use x509_parser::extensions::GeneralName;

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{MUTATING_WEBHOOK_CONFIGURATION, SECRET};

/// The subject of every authority.
const AUTHORITY: &str = "stepgate-extension";

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// An authority's life in days, and what is left of it when the next one is added.
const AUTHORITY_DAYS: (i32, i32) = (3650, 365);

/// A certificate's life in days, and what is left of it when it is renewed.
const CERTIFICATE_DAYS: (i32, i32) = (90, 30);

/// Others that write the Secret at the same time.
const ATTEMPTS: usize = 5;

/// The keys of the Secret.
const AUTHORITIES: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const CHAIN: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The Secret was not read or written.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// It was not made.
    #[error("could not make a certificate: {0}")]
    Made(#[from] rcgen::Error),
    /// The webhook was not told its authority.
    #[error("MutatingWebhookConfiguration {0} was not told the authority of the extension's certificate: {1}")]
    Webhook(String, RequestError),
    /// Somebody else writes the Secret all the time.
    #[error("Secret {0} is written by somebody else: only one of cert-manager and Stepgate can keep it")]
    Contended(String),
}

/// A Secret with a certificate and its authority.
#[derive(Debug)]
pub struct CertificateSecret {
    connection: Connection,
    namespace: String,
    name: String,
    names: Vec<String>,
    webhook: Option<String>,
}

/// What an endpoint is served with, in PEM form.
pub struct ServedCertificate {
    /// `ca.crt`.
    pub authorities: String,
    /// `tls.crt`.
    pub chain: String,
    /// `tls.key`.
    pub key: String,
}

impl CertificateSecret {
    /// The Secret of this name, with a certificate for these DNS names.
    #[must_use]
    pub fn new(connection: Connection, namespace: &str, name: &str, names: &[String]) -> Self {
        let (namespace, name, names) = (namespace.to_owned(), name.to_owned(), names.to_vec());
        Self { connection, namespace, name, names, webhook: None }
    }

    /// The same for a `MutatingWebhookConfiguration` of this name too, which the API server asks with its authority.
    #[must_use]
    pub fn with_webhook(self, webhook: Option<String>) -> Self {
        Self { webhook, ..self }
    }

    /// Tells the API server the authority of what is served, where it does not know it. A webhook that is not there is asked by
    /// nobody.
    ///
    /// # Errors
    /// [`CertificateError::Webhook`].
    pub async fn tell_webhook(&self, served: &ServedCertificate) -> Result<(), CertificateError> {
        let Some(name) = &self.webhook else { return Ok(()) };
        let told = self.write_webhook(name, &STANDARD.encode(&served.authorities)).await;
        told.map_err(|error| CertificateError::Webhook(name.clone(), error))
    }

    async fn write_webhook(&self, name: &str, bundle: &str) -> Result<(), RequestError> {
        let resource = MUTATING_WEBHOOK_CONFIGURATION.resource("v1");
        let Some(found) = self.connection.get(&resource, None, name).await? else { return Ok(()) };
        let mut webhooks = found.data.get("webhooks").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut is_new = false;
        for config in webhooks.iter_mut().filter_map(|webhook| webhook.get_mut("clientConfig")?.as_object_mut()) {
            is_new |= config.insert("caBundle".to_owned(), json!(bundle)).is_none_or(|known| known != bundle);
        }
        if !is_new {
            return Ok(());
        }
        let metadata = json!({"resourceVersion": found.metadata.resource_version});
        let patch = json!({"metadata": metadata, "webhooks": webhooks});
        self.connection.merge(&resource, None, name, &patch, false).await.map(drop)
    }

    /// The certificate, made or renewed where it is due. Of several processes one makes it, and all serve it.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub async fn keep(&self, now: Timestamp) -> Result<ServedCertificate, CertificateError> {
        let resource = SECRET.resource("v1");
        for _ in 0..ATTEMPTS {
            let found = self.connection.get(&resource, Some(&self.namespace), &self.name).await?;
            let current = found.as_ref().map(contents).unwrap_or_default();
            let Some(renewed) = renewed(&current, &self.names, now)? else {
                let text = |key: &str| current.get(key).cloned().unwrap_or_default();
                return Ok(ServedCertificate { authorities: text(AUTHORITIES), chain: text(CHAIN), key: text(KEY) });
            };
            match self.write(found.as_ref(), &renewed).await {
                // What was written is read again: it may be that of another process.
                Ok(()) | Err(RequestError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(CertificateError::Contended(format!("{}/{}", self.namespace, self.name)))
    }

    async fn write(&self, found: Option<&DynamicObject>, renewed: &BTreeMap<&str, String>) -> Result<(), RequestError> {
        let resource = SECRET.resource("v1");
        let data: BTreeMap<&str, String> = renewed.iter().map(|(key, text)| (*key, STANDARD.encode(text))).collect();
        let namespace = Some(self.namespace.as_str());
        match found {
            None => {
                let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                    "metadata": {"name": self.name, "labels": {"app.kubernetes.io/name": AUTHORITY}}, "data": data});
                self.connection.create(&resource, namespace, &object).await.map(drop)
            }
            Some(found) => {
                let version = &found.metadata.resource_version;
                let patch = json!({"metadata": {"resourceVersion": version}, "data": data});
                self.connection.merge(&resource, namespace, &self.name, &patch, false).await.map(drop)
            }
        }
    }
}

fn contents(secret: &DynamicObject) -> BTreeMap<String, String> {
    let data = secret.data.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
    let text = |value: &Value| String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok();
    data.iter().filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect()
}

/// What has to be written; none while everything is good for a while.
fn renewed(
    current: &BTreeMap<String, String>,
    names: &[String],
    now: Timestamp,
) -> Result<Option<BTreeMap<&'static str, String>>, rcgen::Error> {
    let text = |key: &str| current.get(key).map(String::as_str).unwrap_or_default();
    let authority = first(text(AUTHORITIES)).filter(|authority| authority.ends > now);
    let Some((authority, key)) = authority.zip(KeyPair::from_pem(text(AUTHORITY_KEY)).ok()) else {
        // Nothing to go on with: all of it anew.
        let key = KeyPair::generate()?;
        let authority = of_authority(now)?.self_signed(&key)?.pem();
        return signed(names, &key, now).map(|mut made| {
            made.extend([(AUTHORITIES, authority), (AUTHORITY_KEY, key.serialize_pem())]);
            Some(made)
        });
    };
    let left = |days: i32| now + DAY * days;
    let is_old = authority.ends < left(AUTHORITY_DAYS.1);
    let is_good = first(text(CHAIN)).is_some_and(|served| {
        served.ends > left(CERTIFICATE_DAYS.1) && names.iter().all(|name| served.names.contains(name))
    });
    if is_good && !is_old && KeyPair::from_pem(text(KEY)).is_ok() {
        return Ok(None);
    }
    // By the authority that everybody knows already, though its successor is added now.
    let mut made = signed(names, &key, now)?;
    if is_old {
        let next = KeyPair::generate()?;
        let authorities = format!("{}{}", of_authority(now)?.self_signed(&next)?.pem(), text(AUTHORITIES));
        made.extend([(AUTHORITIES, authorities), (AUTHORITY_KEY, next.serialize_pem())]);
    }
    Ok(Some(made))
}

fn of_authority(now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut authority = valid(CertificateParams::new(Vec::new())?, now, AUTHORITY_DAYS.0);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name = DistinguishedName::new();
    authority.distinguished_name.push(DnType::CommonName, AUTHORITY);
    Ok(authority)
}

fn signed(
    names: &[String],
    authority: &KeyPair,
    now: Timestamp,
) -> Result<BTreeMap<&'static str, String>, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut served = valid(CertificateParams::new(names.to_vec())?, now, CERTIFICATE_DAYS.0);
    served.distinguished_name = DistinguishedName::new();
    served.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let issuer = of_authority(now)?;
    let chain = served.signed_by(&key, &Issuer::from_params(&issuer, authority))?.pem();
    Ok(BTreeMap::from([(CHAIN, chain), (KEY, key.serialize_pem())]))
}

/// From yesterday on: clocks differ.
fn valid(mut certificate: CertificateParams, now: Timestamp, days: i32) -> CertificateParams {
    let date = |time: Timestamp| {
        let date = time.to_zoned(TimeZone::UTC).date();
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        rcgen::date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    certificate.not_before = date(now - DAY);
    certificate.not_after = date(now + DAY * days);
    certificate
}

/// What is read of a certificate.
struct Read {
    ends: Timestamp,
    names: Vec<String>,
}

/// The first certificate of a text in PEM form.
fn first(text: &str) -> Option<Read> {
    let certificate = CertificateDer::pem_slice_iter(text.as_bytes()).next()?.ok()?;
    let (_, certificate) = x509_parser::parse_x509_certificate(&certificate).ok()?;
    let ends = Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()?;
    let names = certificate.subject_alternative_name().ok().flatten();
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            <[u8; 4]>::try_from(*bytes).ok().map(|bytes| Ipv4Addr::from(bytes).to_string())
        }
        _ => None,
    };
    let names = names.map(|names| names.value.general_names.iter().filter_map(name).collect());
    Some(Read { ends, names: names.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{ServerName, UnixTime};
    use rustls::{RootCertStore, client::WebPkiServerVerifier, client::danger::ServerCertVerifier as _};

    use super::*;

    const NAME: &str = "stepgate-extension.stepgate-system.svc";

    fn day(number: i32) -> Timestamp {
        "2026-01-01T12:00:00Z".parse::<Timestamp>().unwrap() + DAY * number
    }

    fn renew(secret: &mut BTreeMap<String, String>, number: i32) -> bool {
        let made = renewed(secret, &[NAME.to_owned()], day(number)).unwrap();
        let is_renewed = made.is_some();
        secret.extend(made.into_iter().flatten().map(|(key, text)| (key.to_owned(), text)));
        is_renewed
    }

    /// Whether a client that knows these authorities takes this certificate on a day.
    fn is_trusted(authorities: &str, chain: &str, number: i32) -> bool {
        let certificates = |text: &str| -> Vec<CertificateDer<'static>> {
            CertificateDer::pem_slice_iter(text.as_bytes()).map(Result::unwrap).collect()
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(authorities));
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
        let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(day(number).as_second().unsigned_abs()));
        let name = ServerName::try_from(NAME).unwrap();
        verifier.verify_server_cert(&certificates(chain)[0], &[], &name, &[], time).is_ok()
    }

    #[test]
    fn certificate_is_trusted_before_it_is_served_for_twenty_years() {
        let mut secret = BTreeMap::new();
        assert!(renew(&mut secret, 0) && !renew(&mut secret, 0));
        let mut authorities_added = 0;
        // Who copies the authorities does so a day late.
        let mut known = secret["ca.crt"].clone();
        for number in 0..7300 {
            let before = secret["ca.crt"].clone();
            if renew(&mut secret, number) && secret["ca.crt"] != before {
                authorities_added += 1;
            }
            assert!(is_trusted(&known, &secret["tls.crt"], number), "day {number}");
            known.clone_from(&secret["ca.crt"]);
        }
        assert_eq!(authorities_added, 2);
    }

    #[test]
    fn broken_secret_and_other_names_are_made_anew() {
        let mut secret = BTreeMap::new();
        assert!(renew(&mut secret, 0));
        for key in ["ca.crt", "ca.key", "tls.crt", "tls.key"] {
            let mut broken = secret.clone();
            broken.insert(key.to_owned(), "???".to_owned());
            assert!(renew(&mut broken, 1) && !renew(&mut broken, 1), "{key}");
            assert!(is_trusted(&broken["ca.crt"], &broken["tls.crt"], 1), "{key}");
        }
        let other = [String::from("other.stepgate-system.svc")];
        assert!(renewed(&secret, &other, day(1)).unwrap().is_some());
    }
}
