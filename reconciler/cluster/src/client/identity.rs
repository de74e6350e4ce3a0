//! Which cluster a server is, and what proves that it is the one that is meant.
//!
//! Architecture Invariant: a process has one management cluster. That a server is the one of this name is named by the operator, recorded in the
//! ledger (the UID of its `kube-system`), or follows from the kubeconfig that Cluster API keeps of it. The server of a workload cluster is the one
//! that its Cluster says: the kubeconfig in its Secret leads there, and trusts no other authority than the cluster's own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::core::DynamicObject;
use rollout::{ClusterIdentity, Identification};

use super::authorities::Authorities;
use super::connection::Connection;
use super::error::RequestError;
use super::kind::{CLUSTER_ENDPOINT, NAMESPACE, SECRET};
use crate::kubernetes::KubernetesCluster;
use crate::read::workload::{Opened, Own};
use crate::{ClusterError, ClusterReference, Freshness, ManagementReference, Manager};

/// The namespace that is made with a cluster and lasts as long.
const KUBE_SYSTEM: &str = "kube-system";

/// Why a server does not count as the cluster's.
#[derive(Debug)]
pub(crate) enum NotProven {
    /// It does not answer, or not to us.
    Unreachable(RequestError),
    /// Something is missing or speaks against it; and what helps.
    Unproven { reason: String, help: String },
}

impl NotProven {
    fn new(reason: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Unproven { reason: reason.into(), help: help.into() }
    }

    /// The error of a connection that could not be made.
    pub(crate) fn of(error: &ClusterError) -> Self {
        match error {
            ClusterError::Request(error) if error.is_unreachable() => Self::Unreachable(error.clone()),
            error => {
                Self::new(error.to_string(), "let Cluster API write the cluster's kubeconfig, or grant what is missing")
            }
        }
    }
}

impl From<RequestError> for NotProven {
    fn from(error: RequestError) -> Self {
        if error.is_unreachable() {
            Self::Unreachable(error)
        } else {
            Self::new(error.to_string(), "grant what is missing")
        }
    }
}

impl From<NotProven> for Identification {
    fn from(not: NotProven) -> Self {
        match not {
            NotProven::Unproven { reason, help } => Self::Unproven { reason, help },
            NotProven::Unreachable(error) => Self::Unproven {
                reason: error.to_string(),
                help: "bring the server back, or correct the address".to_owned(),
            },
        }
    }
}

/// The flag by which the management cluster is named.
const NAMED_BY: &str = "--management-cluster";

/// The help that says how to name the management cluster.
fn name_it(name: &str) -> String {
    format!("if it is {name}, name it: `{NAMED_BY} {name}` (STEPGATE_MANAGEMENT_CLUSTER)")
}

impl Connection {
    /// Which cluster this server is.
    pub(crate) async fn identity(&self) -> Result<ClusterIdentity, RequestError> {
        let found = self.get(&NAMESPACE.resource("v1"), None, KUBE_SYSTEM).await?;
        Ok(ClusterIdentity {
            uid: found.and_then(|namespace| namespace.metadata.uid),
            endpoint: self.server.clone(),
            certificate_authority: self.authorities().digest(),
        })
    }
}

/// The error of an act on a cluster that is not proven to be the one that is meant.
pub(crate) fn not_proven(attempt: &'static str, not: NotProven) -> ClusterError {
    match not {
        NotProven::Unreachable(error) => ClusterError::Request(error),
        NotProven::Unproven { reason, help } => ClusterError::Identity { attempt, reason, help },
    }
}

impl KubernetesCluster {
    /// That this is the cluster that is meant and recorded: before anything is written to it.
    pub(crate) async fn may_be_written(&self, attempt: &'static str) -> Result<(), ClusterError> {
        let own = self.own.connect(&self.management).await;
        let identity = self.identified(own.as_ref(), Freshness::Fresh).await.map_err(|not| not_proven(attempt, not))?;
        let identification = Identification::Proven { identity };
        identification.of(&self.reference.name, self.reference.recorded.as_ref()).map(drop).map_err(|reason| {
            let help = reason.help.clone().unwrap_or_default();
            ClusterError::Identity { attempt, reason: reason.to_string(), help }
        })
    }

    /// That the Kustomizations of this server are those of the cluster that is meant: before they are paused or go on. A cluster that does not answer
    /// may be held, so nothing is asked of its own server where the one that manages it is proven.
    pub(crate) async fn may_be_paused(&self, attempt: &'static str) -> Result<(), ClusterError> {
        let is_known = match &self.reference.management {
            ManagementReference::By(manager) => manager.is_known || self.named.is_some(),
            ManagementReference::Itself { .. } => true,
            // Whoever names the cluster of this connection answers for it.
            ManagementReference::Undeclared => self.named.is_some() && matches!(self.own, Own::Workload { .. }),
        };
        if is_known {
            return self.prove_management_of_it().await.map_err(|not| not_proven(attempt, not));
        }
        // Whoever knows that this is the server that manages it need not wait for the cluster itself.
        let manager = match &self.reference.management {
            ManagementReference::By(manager) => &manager.name,
            ManagementReference::Itself { .. } | ManagementReference::Undeclared => &self.reference.name,
        };
        self.may_be_written(attempt).await.map_err(|error| match error {
            ClusterError::Identity { attempt, reason, help } if !help.contains(NAMED_BY) => {
                let help = format!("{help}; {}", name_it(manager));
                ClusterError::Identity { attempt, reason, help }
            }
            error => error,
        })
    }

    /// Which cluster is read, where it is proven to be the one that is meant.
    pub(crate) async fn identified(
        &self,
        own: Result<&Opened, &ClusterError>,
        freshness: Freshness,
    ) -> Result<ClusterIdentity, NotProven> {
        let reference = &self.reference;
        let own = own.map_err(|error| match (NotProven::of(error), &reference.management) {
            (NotProven::Unproven { reason, .. }, ManagementReference::Undeclared) => {
                NotProven::Unproven { reason, help: name_it(&reference.name) }
            }
            (not, _) => not,
        })?;
        match (&self.own, &reference.management) {
            (Own::Management, ManagementReference::By(manager)) => Err(NotProven::new(
                format!(
                    "{} is named as the management cluster, and its specification says that {} manages it",
                    reference.name, manager.name
                ),
                "correct either of them",
            )),
            (Own::Management, ManagementReference::Itself { is_presumed }) => {
                self.prove_management(&reference.as_manager(*is_presumed)).await
            }
            (Own::Management, ManagementReference::Undeclared) => {
                self.prove_management(&reference.as_manager(false)).await
            }
            (Own::Workload { .. }, management) => {
                if let ManagementReference::By(manager) = management
                    && freshness != Freshness::Again
                {
                    self.prove_manager(manager).await?;
                }
                if freshness != Freshness::Again || own.is_new {
                    self.prove_workload(&own.connection).await?;
                }
                Ok(own.connection.identity().await?)
            }
        }
    }

    /// That the server that manages this cluster is the one that its specification names: before anything is written there.
    pub(crate) async fn prove_management_of_it(&self) -> Result<(), NotProven> {
        match &self.reference.management {
            ManagementReference::By(manager) => self.prove_manager(manager).await,
            ManagementReference::Itself { is_presumed } => {
                self.prove_manager(&self.reference.as_manager(*is_presumed)).await
            }
            ManagementReference::Undeclared => Ok(()),
        }
    }

    /// That this process is connected to the cluster that manages another one. It must not be another one than is recorded of it either.
    async fn prove_manager(&self, manager: &Manager) -> Result<(), NotProven> {
        if !manager.is_known && self.named.is_none() {
            return Ok(());
        }
        let identity = self.prove_management(manager).await?;
        Identification::Proven { identity }
            .of(&manager.name, manager.recorded.as_ref())
            .map(drop)
            .map_err(|reason| NotProven::new(reason.to_string(), reason.help.unwrap_or_default()))
    }

    /// That this process is connected to the cluster of this name. Where another one is recorded, whoever asks compares.
    async fn prove_management(&self, manager: &Manager) -> Result<ClusterIdentity, NotProven> {
        let (name, server) = (&manager.name, self.management.server());
        if let Some(named) = self.named.as_deref().filter(|named| named != name) {
            let reason = format!("{server} is named as cluster {named}, and not as {name}");
            return Err(NotProven::new(
                reason,
                format!("run a process that is connected to {name}, or correct what is said to manage it"),
            ));
        }
        let identity = self.management.identity().await?;
        if self.named.is_some() || manager.recorded.is_some() {
            return Ok(identity);
        }
        let secret = format!("{name}-kubeconfig");
        let found = self.management.get(&SECRET.resource("v1"), Some(&manager.namespace), &secret).await?;
        let Some(found) = found else {
            if manager.is_presumed {
                return Ok(identity);
            }
            let reason = format!(
                "nothing says that {server} is {name}: it is neither named nor recorded in its ledger, and there is no Secret {}/{secret}",
                manager.namespace
            );
            return Err(NotProven::new(reason, name_it(name)));
        };
        let other =
            Own::open(&manager.namespace, &secret, &found).await.map_err(|error| NotProven::of(&error.into()))?;
        if other.authorities().are_among(&self.management.authorities()) {
            return Ok(identity);
        }
        let other = other.with_timeout(self.management.timeout).identity().await?;
        if identity.uid.is_some() && other.is_of_same_cluster(&identity) {
            return Ok(identity);
        }
        let reason =
            format!("Secret {}/{secret} leads to another cluster ({other}) than {identity}", manager.namespace);
        Err(NotProven::new(reason, name_it(name)))
    }

    /// That the server that a kubeconfig leads to is the one of the Cluster.
    async fn prove_workload(&self, own: &Connection) -> Result<(), NotProven> {
        let ClusterReference { name, namespace, .. } = &self.reference;
        let served = self.management.lately_served_versions().await?;
        let object = format!("Cluster {namespace}/{name}");
        let Some(version) = served.version_of(&CLUSTER_ENDPOINT) else {
            let reason = format!(
                "{} serves no {}, which would say where the cluster's server is",
                self.management.server(),
                CLUSTER_ENDPOINT.kind
            );
            return Err(NotProven::new(reason, name_it(name)));
        };
        let resource = CLUSTER_ENDPOINT.resource(version);
        let authority = format!("{name}-ca");
        let secret = SECRET.resource("v1");
        let (cluster, authority) = futures::join!(
            self.management.get(&resource, Some(namespace), name),
            self.management.get(&secret, Some(namespace), &authority),
        );
        let Some(cluster) = cluster? else {
            let reason = format!("{object} is not there, which would say where the cluster's server is");
            return Err(NotProven::new(reason, name_it(name)));
        };
        let Some(endpoint) = endpoint(&cluster) else {
            return Err(NotProven::new(
                format!("{object}: spec.controlPlaneEndpoint is not set"),
                "wait until its infrastructure is ready",
            ));
        };
        if !own.is_at(&endpoint) {
            let reason = format!(
                "Secret {namespace}/{name}-kubeconfig leads to {}, and {object} says {}:{}",
                own.server(),
                endpoint.0,
                endpoint.1
            );
            return Err(NotProven::new(
                reason,
                format!("delete Secret {namespace}/{name}-kubeconfig: Cluster API writes it anew"),
            ));
        }
        // Managed control planes keep their authority to themselves.
        let Some(authority) = authority? else { return Ok(()) };
        match certificates(&authority) {
            Some(known) if own.authorities().are_among(&known) => Ok(()),
            known => {
                let expected = known.and_then(|known| known.digest()).unwrap_or_else(|| "none".to_owned());
                let trusted = own.authorities().digest().unwrap_or_else(|| "anybody".to_owned());
                let reason = format!(
                    "Secret {namespace}/{name}-kubeconfig trusts {trusted}, and Secret {namespace}/{name}-ca holds {expected}"
                );
                Err(NotProven::new(
                    reason,
                    format!("delete Secret {namespace}/{name}-kubeconfig: Cluster API writes it anew"),
                ))
            }
        }
    }
}

/// Host and port of a Cluster's control plane, where they are known.
fn endpoint(cluster: &DynamicObject) -> Option<(String, u16)> {
    let endpoint = cluster.data.pointer("/spec/controlPlaneEndpoint")?;
    let host = endpoint.get("host")?.as_str().filter(|host| !host.is_empty())?;
    let port = endpoint.get("port")?.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)?;
    Some((host.to_owned(), port))
}

/// The certificates in a Secret of an authority.
fn certificates(secret: &DynamicObject) -> Option<Authorities> {
    let text = secret.data.pointer("/data/tls.crt")?.as_str()?;
    Authorities::of_pem(&STANDARD.decode(text).ok()?)
}
