//! Licence tokens of EKS Anywhere: JSON Web Tokens with the end of their validity. Their signature is verified by EKS Anywhere alone.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use overlays::{ClusterSpec, Fleet};
use yaml::Node;

/// What a cluster's licence token is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Licence {
    Missing,
    Valid,
    /// Not a token, or one without an end.
    Malformed,
    /// With its last day.
    Expired(Date),
    /// Another cluster has it too: EKS Anywhere refuses both.
    Shared(String),
}

/// The licence of a cluster on a day.
pub(crate) fn licence(fleet: &Fleet, cluster: &ClusterSpec, today: Date) -> Licence {
    let Some(token) = token(cluster) else { return Licence::Missing };
    // What SOPS encrypts is not known here.
    if token.starts_with("ENC[") {
        return Licence::Valid;
    }
    let others = fleet.clusters.iter().filter(|other| other.name != cluster.name);
    match end(token) {
        None => Licence::Malformed,
        Some(end) if end < today => Licence::Expired(end),
        Some(_) => match others.into_iter().find(|other| self::token(other) == Some(token)) {
            Some(other) => Licence::Shared(other.name.clone()),
            None => Licence::Valid,
        },
    }
}

fn token(cluster: &ClusterSpec) -> Option<&str> {
    let token = cluster.node.at(&["spec", "licenseToken"]).and_then(Node::as_str).map(str::trim);
    token.filter(|token| !token.is_empty())
}

/// The last day of a token.
fn end(token: &str) -> Option<Date> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let documents = yaml::parse(std::str::from_utf8(&claims).ok()?, &yaml::Limits::default()).ok()?;
    let end: Timestamp = documents.first()?.root.get("endValidity")?.as_str()?.parse().ok()?;
    Some(end.to_zoned(TimeZone::UTC).date())
}
