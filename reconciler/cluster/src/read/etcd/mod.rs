//! The members of an external etcd, asked one by one over its own API: which there are, whether
//! each is healthy, and what it runs.
//!
//! They are asked with the client certificate of the cluster's API server, which etcd's controller
//! keeps in a Secret. Whatever stands in the way makes the answer unknown, never good.

mod storage;

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use kube::core::DynamicObject;
use kube::{Client, Config};
use rollout::{EtcdHealth, EtcdMember, EtcdMembership};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;

use crate::client::connection::Connection;
use crate::client::http;
use crate::client::kind::SECRET;

pub(crate) use storage::{Member, Storage, storage};

/// Where members listen.
const PORT: u16 = 2379;
/// How long a member may take for one answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long after a look without a quorum another is taken: elections pass.
const AFTER_ELECTION: Duration = Duration::from_secs(2);
/// How many looks there are.
const LOOKS: usize = 3;
/// Bytes of an answer at most.
const LONGEST_ANSWER: usize = 1 << 20;
/// Members that are asked; etcd itself advises against more than seven.
const MOST_MEMBERS: usize = 32;

/// Whose members are asked, and where.
pub(crate) struct Asked<'a> {
    /// Namespace of the cluster's objects.
    pub(crate) namespace: &'a str,
    /// The cluster.
    pub(crate) cluster: &'a str,
    /// Addresses of its members, as far as the management cluster knows them: with a port or
    /// without.
    pub(crate) addresses: Vec<String>,
}

/// Why members could not be asked, in one line.
type Unknown = String;

/// What the members say of themselves.
pub(crate) async fn membership(connection: &Connection, asked: &Asked<'_>) -> EtcdMembership {
    match members(connection, asked).await {
        Ok(members) => EtcdMembership::Known { members },
        Err(reason) => EtcdMembership::Unknown { reason },
    }
}

async fn members(connection: &Connection, asked: &Asked<'_>) -> Result<Vec<EtcdMember>, Unknown> {
    if asked.cluster.is_empty() {
        return Err(String::from("the object names no cluster in its label cluster.x-k8s.io/cluster-name"));
    }
    let credentials = Credentials::read(connection, asked).await?;
    let mut last = String::from("no machine of it has an address yet");
    let known: BTreeSet<String> = asked.addresses.iter().filter_map(|address| host(address)).collect();
    for address in &asked.addresses {
        match credentials.list(address).await {
            Ok(listed) => return Ok(credentials.ask(&listed, &known).await),
            Err(problem) => last = format!("{address}: {}", problem.words()),
        }
    }
    Err(last)
}

/// Takes the member at one of these addresses off the list, where it is on it.
///
/// # Errors
/// Why nobody can be asked, or refuses, as members do for some seconds after another has come or gone.
pub(crate) async fn remove(connection: &Connection, asked: &Asked<'_>, addresses: &[String]) -> Result<(), Unknown> {
    let credentials = Credentials::read(connection, asked).await?;
    let wanted: BTreeSet<String> = addresses.iter().filter_map(|address| host(address)).collect();
    let mut refused = Err(String::from("no member of it has an address"));
    // Whoever is removed ends, and answers nobody any more.
    let is_another = |address: &&String| host(address).is_none_or(|host| !wanted.contains(&host));
    for address in asked.addresses.iter().filter(is_another) {
        let listed = match credentials.list(address).await {
            Ok(listed) => listed,
            Err(problem) => {
                refused = Err(format!("{address}: {}", problem.words()));
                continue;
            }
        };
        let is_it = |member: &&Listed| member.hosts().iter().any(|host| wanted.contains(host));
        let Some(member) = listed.iter().find(is_it) else { return Ok(()) };
        let body = serde_json::json!({"ID": member.id}).to_string().into_bytes();
        let request = Request::post(url(address, "/v3/cluster/member/remove")).body(body);
        refused = match credentials.send(request).await {
            Ok(answer) if answer.get("members").is_some() => return Ok(()),
            Ok(answer) => {
                Err(answer.get("message").and_then(Value::as_str).unwrap_or("it does not say why").to_owned())
            }
            Err(problem) => Err(problem.words().to_owned()),
        };
    }
    refused
}

/// What etcd lets Stepgate in with.
struct Credentials {
    authorities: Vec<Vec<u8>>,
    /// Base64 of PEM, as Kubernetes keeps it.
    certificate: String,
    key: SecretString,
}

/// A request that got no answer that can be used.
enum Problem {
    /// Nothing listens there.
    Refused(String),
    /// Anything else.
    Other(String),
}

impl Problem {
    fn words(&self) -> &str {
        match self {
            Self::Refused(words) | Self::Other(words) => words,
        }
    }
}

/// An entry of the list of members (`etcdserverpb.Member`, as its gateway words it).
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Listed {
    #[serde(rename = "ID")]
    id: String,
    name: String,
    #[serde(rename = "peerURLs")]
    peers: Vec<String>,
    #[serde(rename = "clientURLs")]
    clients: Vec<String>,
    is_learner: bool,
}

impl Listed {
    /// Where it listens; one that has not started will listen beside its peers' port.
    fn address(&self) -> Option<String> {
        let client = self.clients.first().and_then(|url| authority(url));
        client.or_else(|| host(self.peers.first()?))
    }

    fn hosts(&self) -> Vec<String> {
        let mut hosts: Vec<String> = self.peers.iter().chain(&self.clients).filter_map(|url| host(url)).collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

/// Host and port of a URL.
fn authority(url: &str) -> Option<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The host of a URL or an address, without brackets.
fn host(url: &str) -> Option<String> {
    let authority = authority(url)?;
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, _)| host)?,
        // More than one colon is an address of IPv6 without a port.
        None if authority.matches(':').count() > 1 => authority.as_str(),
        None => authority.split_once(':').map_or(authority.as_str(), |(host, _)| host),
    };
    Some(host.to_owned())
}

/// The URL of a path at an address with a port or without.
fn url(address: &str, path: &str) -> String {
    let address = authority(address).unwrap_or_default();
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(host, port)| port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')));
    match (has_port, address.contains(':') && !address.starts_with('[')) {
        (true, _) => format!("https://{address}{path}"),
        (false, true) => format!("https://[{address}]:{PORT}{path}"),
        (false, false) => format!("https://{address}:{PORT}{path}"),
    }
}

impl Credentials {
    async fn read(connection: &Connection, asked: &Asked<'_>) -> Result<Self, Unknown> {
        let Asked { namespace, cluster, .. } = asked;
        let client = "apiserver-etcd-client";
        let secret = secret(connection, asked, client).await?.ok_or_else(|| missing(namespace, cluster, client))?;
        let field = |secret: &DynamicObject, purpose: &str, key: &str| -> Result<String, Unknown> {
            let value = secret.data.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
            value.map(str::to_owned).ok_or_else(|| format!("Secret {namespace}/{cluster}-{purpose} has no key {key}"))
        };
        let (certificate, key) = (field(&secret, client, "tls.crt")?, field(&secret, client, "tls.key")?);
        let authority = match self::secret(connection, asked, "etcd").await? {
            Some(secret) => field(&secret, "etcd", "tls.crt")?,
            None => {
                let purpose = "managed-etcd";
                let secret = self::secret(connection, asked, purpose)
                    .await?
                    .ok_or_else(|| missing(namespace, cluster, "etcd"))?;
                field(&secret, purpose, "tls.crt")?
            }
        };
        let not_valid = || format!("Secret {namespace}/{cluster}-etcd: key tls.crt is not a valid certificate");
        let pem = STANDARD.decode(authority).map_err(|_| not_valid())?;
        let authorities: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let authorities: Vec<Vec<u8>> =
            authorities.map_err(|_| not_valid())?.iter().map(|certificate| certificate.to_vec()).collect();
        if authorities.is_empty() {
            return Err(not_valid());
        }
        Ok(Self { authorities, certificate, key: key.into() })
    }

    /// The list of members, as one of them has it.
    async fn list(&self, address: &str) -> Result<Vec<Listed>, Problem> {
        let request = Request::post(url(address, "/v3/cluster/member/list")).body(b"{}".to_vec());
        let answer = self.send(request).await?;
        let told = ["message", "error"].iter().find_map(|key| answer.get(*key)?.as_str());
        if let Some(told) = told {
            return Err(Problem::Other(format!("it does not list members: {told}")));
        }
        let members = answer.get("members").cloned().unwrap_or(Value::Null);
        let listed: Vec<Listed> = serde_json::from_value(members)
            .map_err(|_| Problem::Other(String::from("its answer is not a valid list of members")))?;
        match listed.len() {
            0 => Err(Problem::Other(String::from("its list of members is empty"))),
            1..=MOST_MEMBERS => Ok(listed),
            more => Err(Problem::Other(format!("{more} members, at most {MOST_MEMBERS} are asked"))),
        }
    }

    /// What each of them says. While none has a majority, another look is taken: it may be an
    /// election.
    async fn ask(&self, listed: &[Listed], known: &BTreeSet<String>) -> Vec<EtcdMember> {
        let mut look = 1;
        loop {
            let members = join_all(listed.iter().map(|member| self.ask_one(member, known))).await;
            let said = |member: &EtcdMember| matches!(member.health, EtcdHealth::Unhealthy { .. });
            let is_settled = members.iter().any(|member| member.health == EtcdHealth::Healthy);
            if is_settled || look >= LOOKS || !members.iter().any(said) {
                return members;
            }
            look += 1;
            tokio::time::sleep(AFTER_ELECTION).await;
        }
    }

    /// What one says. The list is the cluster's own word: nobody is asked but at the address of a
    /// machine.
    async fn ask_one(&self, listed: &Listed, known: &BTreeSet<String>) -> EtcdMember {
        let id = listed.id.parse::<u64>().map_or_else(|_| listed.id.clone(), |id| format!("{id:x}"));
        let mut member = EtcdMember {
            id,
            name: listed.name.clone(),
            hosts: listed.hosts(),
            learner: listed.is_learner,
            health: EtcdHealth::Unknown { reason: String::from("no machine has its address, so it is not asked") },
            version: None,
        };
        let is_known = |address: &String| host(address).is_some_and(|host| known.contains(&host));
        let Some(address) = listed.address().filter(is_known) else { return member };
        let get = |path: &str| self.send(Request::get(url(&address, path)).body(Vec::new()));
        member.health = match get("/health").await {
            Ok(answer) => health(&answer),
            Err(Problem::Refused(reason)) => EtcdHealth::Down { reason },
            Err(Problem::Other(reason)) => EtcdHealth::Unknown { reason },
        };
        if !matches!(member.health, EtcdHealth::Down { .. } | EtcdHealth::Unknown { .. }) {
            let answer = get("/version").await.ok();
            let version = answer.as_ref().and_then(|answer| answer.get("etcdserver")?.as_str());
            member.version = version.map(str::to_owned);
        }
        member
    }

    /// The document that a request is answered with, whatever its status.
    async fn send(&self, request: Result<Request<Vec<u8>>, axum::http::Error>) -> Result<Value, Problem> {
        let bytes = self.bytes(request).await?;
        serde_json::from_slice(&bytes).map_err(|_| Problem::Other(String::from("its answer is not valid JSON")))
    }

    /// What a request is answered with.
    async fn bytes(&self, request: Result<Request<Vec<u8>>, axum::http::Error>) -> Result<Vec<u8>, Problem> {
        let other = |error: &dyn std::fmt::Display| Problem::Other(error.to_string());
        let request = request.map_err(|error| other(&error))?;
        let client = self.client(request.uri()).map_err(Problem::Other)?;
        let answer = async {
            let response = client.send(request.map(kube::client::Body::from)).await.map_err(|error| problem(&error))?;
            to_bytes(Body::new(response.into_body()), LONGEST_ANSWER).await.map_err(|error| other(&error))
        };
        let bytes = tokio::time::timeout(PATIENCE, answer)
            .await
            .map_err(|_| Problem::Other(format!("no answer within {} s", PATIENCE.as_secs())))??;
        Ok(bytes.into())
    }

    fn client(&self, uri: &axum::http::Uri) -> Result<Client, String> {
        // The path of a server's address would stand before that of each request.
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let server = axum::http::Uri::builder().scheme("https").authority(authority).path_and_query("/");
        let mut config = Config::new(server.build().map_err(|error| error.to_string())?);
        config.root_cert = Some(self.authorities.clone());
        config.connect_timeout = Some(PATIENCE);
        config.read_timeout = Some(PATIENCE);
        config.auth_info.client_certificate_data = Some(self.certificate.clone());
        config.auth_info.client_key_data = Some(self.key.clone());
        http::client(config).map_err(|error| error.to_string())
    }
}

/// One of the cluster's Secrets.
async fn secret(connection: &Connection, asked: &Asked<'_>, purpose: &str) -> Result<Option<DynamicObject>, Unknown> {
    let (resource, name) = (SECRET.resource("v1"), format!("{}-{purpose}", asked.cluster));
    connection.get(&resource, Some(asked.namespace), &name).await.map_err(|error| error.to_string())
}

fn missing(namespace: &str, cluster: &str, purpose: &str) -> Unknown {
    format!("Secret {namespace}/{cluster}-{purpose} is not there; etcd's controller writes it when etcd is initialised")
}

/// What `/health` says: a member that answers speaks for itself.
fn health(answer: &Value) -> EtcdHealth {
    if answer.get("health").and_then(Value::as_str) == Some("true") {
        return EtcdHealth::Healthy;
    }
    let reason = answer.get("reason").and_then(Value::as_str).filter(|reason| !reason.is_empty());
    EtcdHealth::Unhealthy { reason: reason.unwrap_or("it says so").to_owned() }
}

/// Whether nothing listens there, or anything else is in the way.
fn problem(error: &kube::Error) -> Problem {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut words = error.to_string();
    while let Some(known) = cause {
        words = known.to_string();
        if let Some(failed) = known.downcast_ref::<std::io::Error>()
            && failed.kind() == std::io::ErrorKind::ConnectionRefused
        {
            return Problem::Refused(String::from("connection refused"));
        }
        cause = known.source();
    }
    Problem::Other(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_form_are_asked_at_etcds_port() {
        for (address, expected) in [
            ("192.0.2.1", "https://192.0.2.1:2379/health"),
            ("https://192.0.2.1:2379", "https://192.0.2.1:2379/health"),
            ("192.0.2.1:12379", "https://192.0.2.1:12379/health"),
            ("etcd-0.example.org", "https://etcd-0.example.org:2379/health"),
            ("2001:db8::1", "https://[2001:db8::1]:2379/health"),
            ("https://[2001:db8::1]:2379", "https://[2001:db8::1]:2379/health"),
        ] {
            assert_eq!(url(address, "/health"), expected);
        }
        assert_eq!(host("https://[2001:db8::1]:2380").as_deref(), Some("2001:db8::1"));
        assert_eq!(host("https://192.0.2.1:2380").as_deref(), Some("192.0.2.1"));
    }

    #[test]
    fn a_member_is_healthy_by_its_own_word_alone() {
        let of = |text: &str| health(&serde_json::from_str(text).unwrap());
        assert_eq!(of(r#"{"health":"true","reason":""}"#), EtcdHealth::Healthy);
        let unhealthy = |reason: &str| EtcdHealth::Unhealthy { reason: reason.to_owned() };
        assert_eq!(of(r#"{"health":"false","reason":"RAFT NO LEADER"}"#), unhealthy("RAFT NO LEADER"));
        for text in [r#"{"health":true}"#, r#"{}"#, r#"[]"#, r#"{"health":"yes"}"#] {
            assert_eq!(of(text), unhealthy("it says so"), "{text}");
        }
    }
}
