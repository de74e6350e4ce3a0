//! The logins that nodes and pods have for registries, where the operator lets them be read.
//!
//! Architecture Invariant: Secrets are read by their names, in namespaces that the operator has named, and of the two
//! types of pull secrets alone; what they hold is shown by nothing here.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::core::DynamicObject;
use rollout::LoginSource;
use secrecy::SecretString;
use serde_json::Value;

use crate::client::concurrent::concurrently;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{SECRET, SERVICE_ACCOUNT};

/// Secrets that are read for one reading of a cluster.
const MOST: usize = 64;

/// Where EKS Anywhere keeps the login for the mirror of its clusters (`pkg/config/config.go`).
const MIRROR_SECRET: (&str, &str) = ("eksa-system", "registry-credentials");

/// A Secret that may hold a login.
#[derive(Debug, Clone)]
pub struct PullLogin {
    /// `namespace/name`.
    pub secret: String,
    /// What is in it.
    pub content: PullContent,
}

/// What is in a Secret that may hold a login. Its `Debug` form shows nothing of it.
#[derive(Debug, Clone)]
pub enum PullContent {
    /// Of the type `kubernetes.io/dockerconfigjson`.
    DockerConfigJson(SecretString),
    /// Of the older type `kubernetes.io/dockercfg`.
    DockerCfg(SecretString),
    /// One login for one host.
    OfHost {
        /// Host and port.
        host: String,
        /// Who logs in.
        user: SecretString,
        /// The password.
        password: SecretString,
    },
    /// There is no such Secret.
    Absent,
    /// It could not be read, or may not be.
    Unread {
        /// Why.
        reason: String,
        /// What helps.
        remedy: String,
    },
}

/// What each source leads to.
pub type PullLogins = BTreeMap<LoginSource, Vec<PullLogin>>;

/// A Secret by its namespace and name, and what kubelets take it for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    OfPods { namespace: String, name: String },
    OfMirror { host: String },
}

impl Wanted {
    fn place(&self) -> (&str, &str) {
        match self {
            Self::OfPods { namespace, name } => (namespace, name),
            Self::OfMirror { .. } => MIRROR_SECRET,
        }
    }
}

/// Reads the logins of these sources, with Secrets of these namespaces alone.
pub(crate) async fn read(
    management: &Connection,
    own: &Connection,
    sources: &BTreeSet<LoginSource>,
    namespaces: &[String],
) -> PullLogins {
    let mut found = PullLogins::new();
    let mut wanted: Vec<(&LoginSource, Wanted)> = Vec::new();
    let accounts: Vec<(&LoginSource, &String, &String)> = sources
        .iter()
        .filter_map(|source| match source {
            LoginSource::ServiceAccount { namespace, name } => Some((source, namespace, name)),
            LoginSource::Secret { .. } | LoginSource::Mirror { .. } => None,
        })
        .collect();
    let resource = SERVICE_ACCOUNT.resource("v1");
    let requests = accounts.iter().map(|(_, namespace, name)| own.get(&resource, Some(namespace), name)).collect();
    let mut answers = concurrently(requests).await.into_iter();
    for (source, namespace, name) in accounts {
        match answers.next() {
            Some(Ok(account)) => {
                let secrets = account.iter().flat_map(named_by);
                let of = |name: String| (source, Wanted::OfPods { namespace: namespace.clone(), name });
                wanted.extend(secrets.map(of));
            }
            Some(Err(error)) => {
                let remedy = format!("let Stepgate `get` the ServiceAccount {namespace}/{name}");
                found.entry(source.clone()).or_default().push(unread(format!("{namespace}/{name}"), &error, remedy));
            }
            None => {}
        }
    }
    for source in sources {
        match source {
            LoginSource::Secret { namespace, name } => {
                wanted.push((source, Wanted::OfPods { namespace: namespace.clone(), name: name.clone() }));
            }
            LoginSource::Mirror { host } => wanted.push((source, Wanted::OfMirror { host: host.clone() })),
            LoginSource::ServiceAccount { .. } => {}
        }
    }
    let contents = contents(management, own, wanted.iter().map(|(_, wanted)| wanted.clone()).collect(), namespaces);
    let contents = contents.await;
    for (source, wanted) in wanted {
        let (namespace, name) = wanted.place();
        let secret = format!("{namespace}/{name}");
        let content = contents.get(&wanted).cloned().unwrap_or_else(|| PullContent::Unread {
            reason: format!("Secret {secret} is one of more than {MOST}, and was not read"),
            remedy: "look for the image yourself".to_owned(),
        });
        found.entry(source.clone()).or_default().push(PullLogin { secret, content });
    }
    found
}

/// What is in each of these Secrets.
async fn contents(
    management: &Connection,
    own: &Connection,
    wanted: BTreeSet<Wanted>,
    namespaces: &[String],
) -> BTreeMap<Wanted, PullContent> {
    let (named, others): (Vec<Wanted>, Vec<Wanted>) =
        wanted.into_iter().partition(|wanted| namespaces.iter().any(|namespace| namespace == wanted.place().0));
    let unnamed = |wanted: Wanted| {
        let (namespace, name) = wanted.place();
        let reason = format!("Secret {namespace}/{name} is not read: the namespace is not named by --pull-secrets");
        let remedy = format!(
            "let Stepgate use the pull secrets of {namespace}: --pull-secrets {namespace} (STEPGATE_PULL_SECRETS); or \
             look for the image yourself"
        );
        (wanted, PullContent::Unread { reason, remedy })
    };
    let mut found: BTreeMap<Wanted, PullContent> = others.into_iter().map(unnamed).collect();
    let resource = SECRET.resource("v1");
    let get = |wanted: &Wanted| {
        let (namespace, name) = wanted.place();
        let connection = match wanted {
            Wanted::OfPods { .. } => own,
            Wanted::OfMirror { .. } => management,
        };
        let (resource, namespace, name) = (resource.clone(), namespace.to_owned(), name.to_owned());
        async move { connection.get(&resource, Some(&namespace), &name).await }
    };
    let answers = concurrently(named.iter().take(MOST).map(get).collect()).await;
    for (wanted, answer) in named.into_iter().zip(answers) {
        let (namespace, name) = wanted.place();
        let content = match answer {
            Ok(Some(secret)) => content(&wanted, &secret),
            Ok(None) => PullContent::Absent,
            Err(error) => {
                let remedy =
                    format!("let Stepgate `get` the Secret {name} in {namespace}, or look for the image yourself");
                unread(String::new(), &error, remedy).content
            }
        };
        found.insert(wanted, content);
    }
    found
}

fn unread(secret: String, error: &RequestError, remedy: String) -> PullLogin {
    PullLogin { secret, content: PullContent::Unread { reason: error.to_string(), remedy } }
}

/// The pull secrets that a `ServiceAccount` names.
fn named_by(account: &DynamicObject) -> Vec<String> {
    let named = account.data.get("imagePullSecrets").and_then(Value::as_array).into_iter().flatten();
    named.filter_map(|secret| secret.get("name")?.as_str().map(str::to_owned)).collect()
}

fn content(wanted: &Wanted, secret: &DynamicObject) -> PullContent {
    let value = |key: &str| {
        let bytes = STANDARD.decode(secret.data.get("data")?.get(key)?.as_str()?).ok()?;
        String::from_utf8(bytes).ok().map(SecretString::from)
    };
    let kind = secret.data.get("type").and_then(Value::as_str).unwrap_or_default();
    let read = match (wanted, kind) {
        (Wanted::OfMirror { host }, _) => {
            let both = value("username").zip(value("password"));
            both.map(|(user, password)| PullContent::OfHost { host: host.clone(), user, password })
        }
        (Wanted::OfPods { .. }, "kubernetes.io/dockerconfigjson") => {
            value(".dockerconfigjson").map(PullContent::DockerConfigJson)
        }
        (Wanted::OfPods { .. }, "kubernetes.io/dockercfg") => value(".dockercfg").map(PullContent::DockerCfg),
        (Wanted::OfPods { .. }, _) => None,
    };
    let (namespace, name) = wanted.place();
    read.unwrap_or_else(|| PullContent::Unread {
        reason: format!("Secret {namespace}/{name} is not a valid pull secret: its type is {kind:?}"),
        remedy: match wanted {
            Wanted::OfPods { .. } => "make it anew as a Secret of type kubernetes.io/dockerconfigjson".to_owned(),
            Wanted::OfMirror { .. } => "give it `username` and `password`".to_owned(),
        },
    })
}
