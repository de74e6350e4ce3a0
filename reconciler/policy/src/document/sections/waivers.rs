//! Waivers of `stepgate.yaml`: what a check finds and a team lives with until a day that it names.

use std::fmt;
use std::str::FromStr;

use domain::nearest;
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yaml::Node;

use crate::document::pattern::data::DataPattern;
use crate::document::read::Reader;
use crate::document::schema::every_field_is_optional;

/// A check of a cluster before its rollout. What each looks at stands in `rollout::check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckName {
    /// Nodes are ready, schedulable and without pressure.
    Nodes,
    /// Certificates last longer than the rollout.
    Certificates,
    /// No admission webhook keeps nodes and system pods out.
    Webhooks,
    /// Definitions that change go with what is stored and with every object.
    Definitions,
    /// Nothing is written for API versions that are not served at the end.
    RemovedApis,
    /// No drain of a node that rolls waits for ever.
    Drains,
    /// etcd has room, and raises no alarm.
    Etcd,
    /// Nodes can pull every image.
    Images,
    /// Nodes of a control plane that rolls carry its address as new ones are expected to.
    VirtualAddress,
    /// Nobody has changed past git what the rollout applies anew.
    Drift,
    /// Manifests are signed by whoever published them.
    Signatures,
    /// What releases say has to be read, or done, before them is.
    ReleaseNotes,
    /// New node groups hold the pods of those that they replace.
    Capacity,
    /// Subnets have addresses for the nodes and pods of new node groups.
    Addresses,
    /// EKS itself says nothing against the upgrade.
    EksInsights,
    /// Cluster API has one extension to ask before it upgrades machines in place.
    RuntimeExtensions,
}

impl CheckName {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 16] = [
        Self::Nodes,
        Self::Certificates,
        Self::Webhooks,
        Self::Definitions,
        Self::RemovedApis,
        Self::Drains,
        Self::Etcd,
        Self::Images,
        Self::VirtualAddress,
        Self::Drift,
        Self::Signatures,
        Self::ReleaseNotes,
        Self::Capacity,
        Self::Addresses,
        Self::EksInsights,
        Self::RuntimeExtensions,
    ];

    /// The name, as people write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Certificates => "certificates",
            Self::Webhooks => "webhooks",
            Self::Definitions => "definitions",
            Self::RemovedApis => "removed-apis",
            Self::Drains => "drains",
            Self::Etcd => "etcd",
            Self::Images => "images",
            Self::VirtualAddress => "virtual-address",
            Self::Drift => "drift",
            Self::Signatures => "signatures",
            Self::ReleaseNotes => "release-notes",
            Self::Capacity => "capacity",
            Self::Addresses => "addresses",
            Self::EksInsights => "eks-insights",
            Self::RuntimeExtensions => "runtime-extensions",
        }
    }

    /// Whether what it finds may be lived with: nobody who pushes waives the signatures of what is pushed.
    #[must_use]
    pub fn can_be_waived(self) -> bool {
        self != Self::Signatures
    }
}

impl fmt::Display for CheckName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A text is not the name of a check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a check")]
pub struct UnknownCheck(String);

impl FromStr for CheckName {
    type Err = UnknownCheck;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|check| check.as_str() == text);
        found.ok_or_else(|| UnknownCheck(text.to_owned()))
    }
}

/// What a check finds does not count until the day after `expires`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct Waiver {
    /// The check.
    pub check: CheckName,
    /// The objects that it is about, as `deleteData` names them; everything that the check finds when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub object: Option<DataPattern>,
    /// Why.
    pub reason: String,
    /// Who answers for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The last day on which it counts, in UTC, such as `2026-12-31`.
    #[schemars(with = "String", regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"))]
    pub expires: Date,
}

impl Waiver {
    /// Whether it counts no longer.
    #[must_use]
    pub fn has_expired(&self, today: Date) -> bool {
        today > self.expires
    }

    /// Whether everything that it is about, `wider` is about as well, expired or not.
    #[must_use]
    pub fn is_within(&self, wider: &Self) -> bool {
        self.check == wider.check && (wider.object.is_none() || wider.object == self.object)
    }

    /// Whether it is about what this check finds of an object, expired or not.
    #[must_use]
    pub fn is_about(&self, check: CheckName, kind: &str, namespace: Option<&str>, name: &str) -> bool {
        self.check == check && self.object.as_ref().is_none_or(|object| object.matches(kind, namespace, name))
    }
}

/// `waived until 2026-12-31 by storage team: the node is being repaired`.
impl fmt::Display for Waiver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "waived until {}", self.expires)?;
        if let Some(owner) = &self.owner {
            write!(formatter, " by {owner}")?;
        }
        write!(formatter, ": {}", self.reason)
    }
}

pub(in crate::document) const WAIVER: [&str; 5] = ["check", "object", "reason", "owner", "expires"];

impl Reader<'_> {
    pub(in crate::document) fn waivers(&mut self, node: &Node) -> Vec<Waiver> {
        if !node.is_null() && node.as_sequence().is_none() {
            self.problem(node.span, "waivers must be a list", None);
        }
        let items = node.as_sequence().unwrap_or_default();
        items.iter().filter_map(|item| self.waiver(item)).collect()
    }

    /// One of them; none where something is wrong with it, so that it waives nothing.
    fn waiver(&mut self, node: &Node) -> Option<Waiver> {
        let (mut check, mut object, mut reason, mut owner, mut expires) = (None, None, None, None, None);
        let mut is_usable = true;
        let fields = self.mapping(node, "waivers")?;
        for entry in fields {
            let value = &entry.value;
            let is_read = match entry.key.as_str() {
                "check" => {
                    check = self.check(value);
                    check.is_some()
                }
                "object" => {
                    object = self.data_pattern(value, "waivers.object");
                    object.is_some()
                }
                "reason" => {
                    reason = self.text(value, "waivers.reason");
                    reason.is_some()
                }
                "owner" => {
                    owner = self.text(value, "waivers.owner");
                    owner.is_some()
                }
                "expires" => {
                    expires = self.day(value, "waivers.expires");
                    expires.is_some()
                }
                _ => {
                    self.unknown(entry, "waivers", &WAIVER);
                    false
                }
            };
            is_usable &= is_read;
        }
        for (name, help) in [
            ("check", "name the check: `stepgate check --cluster NAME` lists them"),
            ("reason", "say why the finding may stay"),
            ("expires", "say until when it may stay: `expires: 2026-12-31`"),
        ] {
            if fields.get(name).is_none() {
                let message = format!("a waiver has no {name}, so it waives nothing");
                self.problem(node.span, message, Some(help.to_owned()));
            }
        }
        let (check, reason, expires) = (check?, reason?, expires?);
        is_usable.then_some(Waiver { check, object, reason, owner, expires })
    }

    fn check(&mut self, node: &Node) -> Option<CheckName> {
        let text = self.text(node, "waivers.check")?;
        match text.parse::<CheckName>() {
            Ok(check) if check.can_be_waived() => Some(check),
            Ok(check) => {
                let hint = "`signatures: warn` tells what it finds and holds nothing".to_owned();
                self.problem(node.span, format!("waivers.check: {check} cannot be waived"), Some(hint));
                None
            }
            Err(error @ UnknownCheck(_)) => {
                let known = CheckName::ALL.map(CheckName::as_str);
                let hint = match nearest(&text, &known) {
                    Some(name) => format!("did you mean {name:?}?"),
                    None => format!("checks are: {}", known.join(", ")),
                };
                self.problem(node.span, format!("waivers.check: {error}"), Some(hint));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::RepoPath;

    use crate::{Waiver, read_policy};

    fn read(text: &str) -> (Vec<Waiver>, Vec<String>) {
        let (policy, problems) = read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        let told = |problem: &domain::Problem| {
            let hint = problem.hint.clone().unwrap_or_default();
            format!("{}: {}; {hint}", problem.line.unwrap_or(0), problem.message)
        };
        (policy.waivers("mgmt"), problems.iter().map(told).collect())
    }

    #[test]
    fn a_waiver_names_check_objects_reason_owner_and_last_day() {
        let text = "waivers:\n- {check: nodes, object: Node/worker-*, reason: disk is replaced, owner: storage, expires: 2026-12-31}\n\
                    clusters: {mgmt: {waivers: [{check: webhooks, reason: r, expires: 2026-01-01}]}}\n";
        let (waivers, problems) = read(text);
        assert_eq!(problems, [""; 0]);
        assert_eq!(waivers.len(), 2);
        let (node, other) = (("Node", None, "worker-1"), ("Node", None, "control-plane-1"));
        let is_about = |of: (&str, Option<&str>, &str)| waivers[0].is_about(super::CheckName::Nodes, of.0, of.1, of.2);
        assert!(is_about(node) && !is_about(other));
        assert!(waivers[1].is_about(super::CheckName::Webhooks, "Any", Some("a"), "b"));
        assert_eq!(waivers[0].to_string(), "waived until 2026-12-31 by storage: disk is replaced");
        let day = |text: &str| text.parse().unwrap();
        assert!(!waivers[0].has_expired(day("2026-12-31")) && waivers[0].has_expired(day("2027-01-01")));
    }

    #[test]
    fn a_waiver_that_is_not_whole_waives_nothing_and_says_what_is_missing() {
        for (waiver, expected) in [
            ("{check: nodes, expires: 2026-12-31}", "a waiver has no reason"),
            ("{check: nodes, reason: \"\", expires: 2026-12-31}", "waivers.reason must be a text that is not empty"),
            ("{check: nodes, reason: r}", "a waiver has no expires"),
            ("{reason: r, expires: 2026-12-31}", "a waiver has no check"),
            (
                "{check: node, reason: r, expires: 2026-12-31}",
                "\"node\" is not the name of a check; did you mean \"nodes\"?",
            ),
            (
                "{check: nothing-like-it, reason: r, expires: 2026-12-31}",
                "checks are: nodes, certificates, webhooks, definitions, removed-apis, drains, etcd, images, virtual-address, drift, signatures, release-notes, capacity, addresses, eks-insights, runtime-extensions",
            ),
            ("{check: nodes, reason: r, expires: 2026-13-01}", "\"2026-13-01\" is not a valid day"),
            ("{check: nodes, reason: r, expires: tomorrow}", "\"tomorrow\" is not a valid day"),
            ("{check: nodes, reason: r, expires: '2026-12-31T00:00:00'}", "is not a valid day"),
            ("{check: nodes, reason: r, expires: 2026-12-31, objects: Node/a}", "did you mean \"object\"?"),
            (
                "{check: nodes, reason: r, expires: 2026-12-31, object: '*'}",
                "waivers.object: \"*\" is none of Kind/name",
            ),
            ("{check: signatures, reason: r, expires: 2026-12-31}", "signatures cannot be waived"),
            ("nodes", "waivers must be a mapping"),
        ] {
            let (waivers, problems) = read(&format!("waivers:\n- {waiver}\n"));
            assert_eq!(waivers, [], "{waiver}");
            assert!(problems.iter().any(|problem| problem.contains(expected)), "{waiver}: {problems:?}");
            assert!(problems.iter().all(|problem| problem.starts_with("2: ")), "{waiver}: {problems:?}");
        }
        assert!(read("waivers: nodes\n").1[0].contains("waivers must be a list"));
    }
}
