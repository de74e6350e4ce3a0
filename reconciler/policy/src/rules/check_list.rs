//! Check lists: what somebody looks at and ticks before a stage is approved.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Means, Person, Roster};
use domain::PlanDigest;

/// A box of a check list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct CheckBox {
    /// Its name, by which it is ticked: lower-case letters, digits and dashes.
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9-]*$"))]
    pub name: String,
    /// What is to be looked at.
    pub says: String,
    /// The group whose members tick it; anybody who may approve where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// That somebody ticked a box for a plan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GivenTick {
    /// The name of the box.
    pub name: String,
    /// Who.
    pub who: Person,
    /// The plan that was looked at; for any other it is void.
    pub plan: PlanDigest,
    /// When, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// How.
    pub means: Means,
}

/// A box with who has ticked it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TickedBox<'a> {
    /// The box.
    pub of: &'a CheckBox,
    /// Who ticked it first, and may; none where nobody did.
    pub by: Option<&'a GivenTick>,
}

impl fmt::Display for TickedBox<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CheckBox { name, says, by } = self.of;
        write!(formatter, "{name}: {says}")?;
        match (self.by, by) {
            (Some(tick), _) => write!(formatter, " ({})", tick.who),
            (None, Some(group)) => write!(formatter, " (by group {group})"),
            (None, None) => Ok(()),
        }
    }
}

/// Each box with who has ticked it for a plan: the group that it names, by every roster that describes it.
#[must_use]
pub fn ticked<'a>(
    boxes: &'a [CheckBox],
    ticks: &'a [GivenTick],
    plan: &PlanDigest,
    roster: &Roster,
) -> Vec<TickedBox<'a>> {
    let ticks_it = |known: &CheckBox, tick: &GivenTick| {
        tick.name == known.name
            && tick.plan == *plan
            && known.by.as_ref().is_none_or(|group| roster.is_member(group, &tick.who))
    };
    let of = |known: &'a CheckBox| TickedBox {
        of: known,
        by: ticks.iter().filter(|tick| ticks_it(known, tick)).min_by_key(|tick| (tick.at.is_none(), tick.at)),
    };
    boxes.iter().map(of).collect()
}
