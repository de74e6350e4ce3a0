//! Waves: clusters that go together, how many at once, and how many may fail.

pub(in crate::document) mod read;

use std::time::Duration;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::document::pattern::matches_pattern;
use crate::document::schema::{DurationText, every_field_is_optional};
use crate::document::sections::approvers::ApproverRules;
use crate::document::sections::lease::{Lease, Paused};

/// A number of clusters, or a part of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// So many.
    Count(u32),
    /// So many of a hundred.
    Percent(u32),
}

impl std::fmt::Display for Share {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => write!(formatter, "{count}"),
            Self::Percent(percent) => write!(formatter, "{percent}%"),
        }
    }
}

impl JsonSchema for Share {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^(100|[1-9]?[0-9])%$"}]
        })
    }
}

/// Clusters of a wave that go before the rest of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// The first ones by the order of the wave; zero for none.
    Count(u32),
    /// These.
    Named(Vec<String>),
}

impl JsonSchema for First {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "First".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "array", "items": {"type": "string"}}]
        })
    }
}

/// Which cluster of a wave begins before which, of those that could begin now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(inline, rename_all = "kebab-case")]
pub enum WaveOrder {
    /// As `clusters` of the wave lists them, then by name.
    Listed,
    /// By name.
    #[default]
    Name,
    /// The fewest machines first, then by name.
    Smallest,
}

/// When somebody has to approve a wave as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(inline, rename_all = "kebab-case")]
pub enum WaveApproval {
    /// Never.
    #[default]
    None,
    /// Before its first cluster begins.
    Before,
    /// When it is done, before the next wave begins.
    After,
}

/// A cluster that its wave goes without for a while: it counts as neither done nor failed.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Skip {
    /// The cluster.
    pub cluster: String,
    /// Why, until when, by whom.
    #[schemars(flatten)]
    pub lease: Lease,
}

/// Clusters that go together; a wave begins when the one before is done.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct Wave {
    /// Its name.
    pub name: String,
    /// Cluster names, or patterns with `*`.
    pub clusters: Vec<String>,
    /// Names of environments whose clusters belong to it.
    pub environments: Vec<String>,
    /// How many of its clusters may be under way at once: a number, or per cent of the wave, rounded down, one at least.
    pub concurrency: Share,
    /// Clusters that are verified, and have soaked, before the rest begins: their names, or how many.
    pub first: First,
    /// How many of its clusters may be held, fail or be taken back before no other begins: a number, or per cent, rounded down.
    pub max_failures: Share,
    /// How long all of its clusters have to be healthy after the last of them is verified, before the next wave begins.
    #[schemars(with = "DurationText")]
    pub soak: Duration,
    /// How long it may take from its first commit on, before it stops.
    #[schemars(with = "DurationText")]
    pub deadline: Option<Duration>,
    /// Which of its clusters begins before which.
    pub order: WaveOrder,
    /// Clusters that it goes without for a while.
    pub skip: Vec<Skip>,
    /// Whether its clusters stand still.
    pub paused: Paused,
    /// When somebody has to approve it.
    pub approval: WaveApproval,
    /// Whose approval is enough for that; what is absent comes from the fleet.
    pub approvers: ApproverRules,
}

impl Wave {
    /// A wave without clusters, as it is where nothing is said.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            clusters: Vec::new(),
            environments: Vec::new(),
            concurrency: Share::Count(1),
            first: First::Count(0),
            max_failures: Share::Count(0),
            soak: Duration::ZERO,
            deadline: None,
            order: WaveOrder::default(),
            skip: Vec::new(),
            paused: Paused::No,
            approval: WaveApproval::None,
            approvers: ApproverRules::default(),
        }
    }

    /// Why the wave goes without a cluster at `now`; none where it does not.
    #[must_use]
    pub fn skipped(&self, cluster: &str, now: Timestamp) -> Option<&Lease> {
        let leases = self.skip.iter().filter(|skip| skip.cluster == cluster).map(|skip| &skip.lease);
        leases.filter(|lease| lease.is_on(now)).max_by_key(|lease| lease.until)
    }

    /// Where in `clusters` a cluster stands, by its first entry there; behind all of them where it belongs to the wave by its environment.
    #[must_use]
    pub fn listed(&self, cluster: &str) -> usize {
        let place = self.clusters.iter().position(|pattern| matches_pattern(pattern, cluster));
        place.unwrap_or(self.clusters.len())
    }
}
