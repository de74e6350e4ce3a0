//! Pods that may be deleted past their budget while nodes are drained: of which group, after how long, and how many.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yaml::Node;

use crate::document::read::Reader;
use crate::document::schema::DurationText;

/// Pods of a worker group that are deleted although a budget refuses their eviction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct ForceDrain {
    /// The worker group; of eksctl's without version, as in `workerOrder`.
    pub group: String,
    /// How long an eviction is refused before.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    #[schemars(with = "DurationText")]
    pub after: Duration,
    /// How many pods of the group in a rollout at most.
    pub pods: u32,
}

impl ForceDrain {
    /// What is let by both of them, of one group: the later and the fewer.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self { group: self.group.clone(), after: self.after.max(other.after), pods: self.pods.min(other.pods) }
    }
}

const FIELDS: [&str; 3] = ["group", "after", "pods"];

/// The most pods that may be named: whoever needs more has a budget that is to be changed.
const MOST: u32 = 1000;

impl Reader<'_> {
    pub(in crate::document) fn force_drain(&mut self, node: &Node) -> Vec<ForceDrain> {
        if !node.is_null() && node.as_sequence().is_none() {
            self.problem(node.span, "forceDrain must be a list", None);
        }
        let items = node.as_sequence().unwrap_or_default();
        items.iter().filter_map(|item| self.force_drain_entry(item)).collect()
    }

    /// One of them; none where something is missing: nothing is forced without a limit.
    fn force_drain_entry(&mut self, node: &Node) -> Option<ForceDrain> {
        let (mut group, mut after, mut pods) = (None, None, None);
        for entry in self.mapping(node, "forceDrain")? {
            let value = &entry.value;
            match entry.key.as_str() {
                "group" => group = self.text(value, "forceDrain.group"),
                "after" => after = self.duration(value, "forceDrain.after"),
                "pods" => pods = self.number(value, "forceDrain.pods", 1, MOST),
                _ => self.unknown(entry, "forceDrain", &FIELDS),
            }
        }
        for (name, help) in [
            ("group", "name the worker group: `group: ng-shared`"),
            ("after", "say how long an eviction is refused before: `after: 30m`"),
            ("pods", "say how many pods at most: `pods: 2`"),
        ] {
            if node.get(name).is_none() {
                self.problem(node.span, format!("an entry of forceDrain has no {name}"), Some(help.to_owned()));
            }
        }
        Some(ForceDrain { group: group?, after: after?, pods: pods? })
    }
}

#[cfg(test)]
mod tests {
    use domain::RepoPath;

    use super::*;
    use crate::read_policy;

    #[test]
    fn nothing_is_forced_without_group_time_and_limit() {
        let read = |text: &str| {
            let (policy, problems) = read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
            let problems: Vec<String> = problems.iter().map(|problem| problem.message.clone()).collect();
            (policy.force_drain("shop"), problems)
        };
        let entry = |group: &str, minutes: u64, pods: u32| ForceDrain {
            group: group.to_owned(),
            after: Duration::from_secs(60 * minutes),
            pods,
        };
        let (rules, problems) = read(
            "forceDrain: [{group: a, after: 30m, pods: 2}]\nclusters: {shop: {forceDrain: [{group: b, after: 1h, pods: 1}]}}\n",
        );
        assert_eq!((rules, problems.len()), (vec![entry("a", 30, 2), entry("b", 60, 1)], 0));
        for (text, expected) in [
            ("{after: 30m, pods: 2}", "an entry of forceDrain has no group"),
            ("{group: a, pods: 2}", "an entry of forceDrain has no after"),
            ("{group: a, after: 30m}", "an entry of forceDrain has no pods"),
            ("{group: a, after: 30m, pods: 2, node: x}", "unknown field \"node\" in forceDrain"),
        ] {
            let (_, problems) = read(&format!("forceDrain: [{text}]\n"));
            assert!(problems.iter().any(|problem| problem == expected), "{text}: {problems:?}");
        }
        assert_eq!(read("forceDrain: [{group: a, after: 30m, pods: 0}]\n").0, []);
        assert_eq!(entry("a", 30, 2).and(&entry("a", 60, 5)), entry("a", 60, 2));
    }
}
