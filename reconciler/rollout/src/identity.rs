//! Which cluster a reading is of.
//!
//! Architecture Invariant: a gate passes on a reading of the cluster that it judges alone. Who reads says which cluster answered and how that is proven; what
//! was recorded of it is in the ledger. What is not proven, or is another cluster, makes the gate wait.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::verdict::Reason;

/// What tells one cluster from another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterIdentity {
    /// UID of the namespace `kube-system`: it is made with the cluster and lasts as long. None where the server has no such namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Address of the API server, `https://host:port`, as it was reached.
    pub endpoint: String,
    /// Digest of the certificate authorities that the server is trusted by, `sha256:…`; none where it needs none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<String>,
}

impl ClusterIdentity {
    /// Whether both are of one cluster: by their UIDs where there is one, since the same server has several addresses and may be given new certificates;
    /// else by everything else.
    #[must_use]
    pub fn is_of_same_cluster(&self, other: &Self) -> bool {
        match (&self.uid, &other.uid) {
            (Some(one), Some(another)) => one == another,
            (None, None) => {
                (&self.endpoint, &self.certificate_authority) == (&other.endpoint, &other.certificate_authority)
            }
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

impl fmt::Display for ClusterIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.uid {
            Some(uid) => write!(formatter, "kube-system {uid} at {}", self.endpoint),
            None => {
                let authority = self.certificate_authority.as_deref().unwrap_or("none");
                write!(formatter, "{}, certificate authority {authority}", self.endpoint)
            }
        }
    }
}

/// What a reading says of which cluster it is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Identification {
    /// It is of the cluster that was asked for.
    Proven {
        /// Which one answered.
        identity: ClusterIdentity,
    },
    /// Nothing proves that.
    Unproven {
        /// What is missing, or speaks against it.
        reason: String,
        /// What helps.
        help: String,
    },
}

impl Default for Identification {
    fn default() -> Self {
        Self::Unproven {
            reason: "the reading does not say which cluster it is of".to_owned(),
            help: "read the cluster anew".to_owned(),
        }
    }
}

impl Identification {
    /// Of a reading that no API server gave: of a recording or a simulation, there is nothing to mistake it for.
    #[must_use]
    pub fn without_server(what: &str) -> Self {
        let identity = ClusterIdentity { uid: None, endpoint: what.to_owned(), certificate_authority: None };
        Self::Proven { identity }
    }

    /// The identity, where it is proven.
    #[must_use]
    pub fn proven(&self) -> Option<&ClusterIdentity> {
        match self {
            Self::Proven { identity } => Some(identity),
            Self::Unproven { .. } => None,
        }
    }

    /// The identity of the cluster that is judged.
    ///
    /// # Errors
    /// Why it cannot be judged by this reading: nothing proves which cluster it is of, or it is another one than the ledger records.
    pub fn of(&self, cluster: &str, recorded: Option<&ClusterIdentity>) -> Result<&ClusterIdentity, Reason> {
        let object = format!("cluster {cluster}");
        let identity = match self {
            Self::Proven { identity } => identity,
            Self::Unproven { reason, help } => {
                let message = format!("which cluster was read is not proven: {reason}");
                return Err(Reason::on(object, message).field("identity").help(help.clone()));
            }
        };
        match recorded.filter(|recorded| !recorded.is_of_same_cluster(identity)) {
            None => Ok(identity),
            Some(recorded) => {
                let message = format!("another cluster answers ({identity}) than its ledger records ({recorded})");
                let help = format!(
                    "correct what leads there; if {cluster} was made anew on purpose: `stepgate adopt {cluster} --replace-identity --yes`"
                );
                Err(Reason::on(object, message).field("identity").help(help))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(uid: Option<&str>, endpoint: &str, authority: Option<&str>) -> ClusterIdentity {
        ClusterIdentity {
            uid: uid.map(str::to_owned),
            endpoint: endpoint.to_owned(),
            certificate_authority: authority.map(str::to_owned),
        }
    }

    #[test]
    fn one_cluster_is_known_by_its_uid_else_by_address_and_authority() {
        let known = identity(Some("u"), "https://a:6443", Some("sha256:1"));
        for (other, same) in [
            (identity(Some("u"), "https://10.0.0.1:443", Some("sha256:2")), true),
            (identity(Some("v"), "https://a:6443", Some("sha256:1")), false),
            (identity(None, "https://a:6443", Some("sha256:1")), false),
        ] {
            assert_eq!((known.is_of_same_cluster(&other), other.is_of_same_cluster(&known)), (same, same), "{other}");
        }
        let known = identity(None, "https://a:6443", Some("sha256:1"));
        for (other, same) in [
            (known.clone(), true),
            (identity(None, "https://b:6443", Some("sha256:1")), false),
            (identity(None, "https://a:6443", Some("sha256:2")), false),
            (identity(None, "https://a:6443", None), false),
        ] {
            assert_eq!(known.is_of_same_cluster(&other), same, "{other}");
        }
    }

    #[test]
    fn another_cluster_of_the_same_name_is_told_with_the_way_out() {
        let cluster = "prod";
        let (before, now) = (identity(Some("u"), "https://a:6443", None), identity(Some("v"), "https://a:6443", None));
        let read = Identification::Proven { identity: now.clone() };
        assert_eq!(read.of(cluster, None), Ok(&now));
        assert_eq!(read.of(cluster, Some(&now)), Ok(&now));
        let reason = read.of(cluster, Some(&before)).unwrap_err();
        let text = reason.to_string();
        assert!(text.contains("kube-system v") && text.contains("kube-system u"), "{text}");
        assert!(reason.help.unwrap().contains("stepgate adopt prod --replace-identity --yes"));
        let reason = Identification::default().of(cluster, None).unwrap_err();
        assert!(reason.to_string().contains("not proven"), "{reason}");
    }
}
