//! What holds for a cluster and a stage, of all that is written.

use std::collections::BTreeMap;
use std::time::Duration;

use yaml::Node;

use super::approvers::ApproverRules;
use super::data::DataPattern;
use super::pattern::matches_pattern;
use super::settings::StageSettings;
use super::types::{BundleSelection, EnvironmentPolicy, Policy};
use super::waivers::Waiver;
use crate::{MaintenanceWindow, OnFailure, PlanPolicy, StagePolicy};

impl Policy {
    /// The defaults of Stepgate for one stage, before anything the team says.
    pub fn stage_default(stage: &str) -> StagePolicy {
        const MINUTE: u64 = 60;
        let (soak, timeout) = match stage.split(['/', '@']).next().unwrap_or(stage) {
            "preflight" | "bundle" => (0, 10 * MINUTE),
            "backup" => (0, 30 * MINUTE),
            "cilium-preflight" | "cilium" => (MINUTE, 60 * MINUTE),
            "etcd" | "control-plane" | "workers" => (2 * MINUTE, 120 * MINUTE),
            "verify" => (2 * MINUTE, 30 * MINUTE),
            _ => (MINUTE, 30 * MINUTE),
        };
        let on_failure = if stage == "etcd" { OnFailure::Revert } else { OnFailure::Hold };
        let (soak, timeout) = (Duration::from_secs(soak), Duration::from_secs(timeout));
        StagePolicy { soak, timeout, on_failure, ..StagePolicy::default() }
    }

    /// The policy in force for `stage` (as in `control-plane`, `workers/md-0` or `cilium@v1.18.2-0`) on `cluster`.
    pub fn stage_policy(&self, cluster: &str, stage: &str) -> StagePolicy {
        let mut policy = Self::stage_default(stage.split('@').next().unwrap_or(stage));
        let mut approvers = ApproverRules::default();
        for settings in self.settings_of(cluster, stage) {
            settings.over(&mut policy);
            settings.approvers.over(&mut approvers);
        }
        StagePolicy { approvers: (&approvers).into(), windows: self.windows(cluster).to_vec().into(), ..policy }
    }

    /// The policy in force for a plan of `cluster` as a whole.
    pub fn plan_policy(&self, cluster: &str) -> PlanPolicy {
        PlanPolicy {
            allow_downgrade: self.allows_downgrade(cluster),
            preflight: self.stage_policy(cluster, "preflight"),
            backup: self.stage_policy(cluster, "backup"),
            backup_maximum_age: self.backup.max_age,
            verify: self.stage_policy(cluster, "verify"),
            waivers: self.waivers(cluster),
        }
    }

    /// The settings that are written for `stage` on `cluster`, from weak to strong.
    pub(super) fn settings_of(&self, cluster: &str, stage: &str) -> Vec<&StageSettings> {
        let stage = stage.split('@').next().unwrap_or(stage);
        let group = stage.starts_with("workers/").then_some("workers");
        let fleet = (&self.settings, &self.stages);
        let levels = self.levels(cluster).map(|level| (&level.settings, &level.stages));
        std::iter::once(fleet)
            .chain(levels)
            .flat_map(|(own, stages)| {
                std::iter::once(own).chain(group.and_then(|group| stages.get(group))).chain(stages.get(stage))
            })
            .collect()
    }

    /// The name of the environment of `cluster`: the one it names, else the first by name with a fitting pattern.
    pub fn environment_of(&self, cluster: &str) -> Option<&str> {
        if let Some(named) = self.clusters.get(cluster).and_then(|own| own.environment.as_deref()) {
            return Some(named);
        }
        self.environments
            .iter()
            .find(|(_, environment)| environment.clusters.iter().any(|pattern| matches_pattern(pattern, cluster)))
            .map(|(name, _)| name.as_str())
    }

    /// Environment, then cluster: from weak to strong.
    fn levels(&self, cluster: &str) -> impl DoubleEndedIterator<Item = &EnvironmentPolicy> {
        let environment = self.environment_of(cluster).and_then(|name| self.environments.get(name));
        environment.into_iter().chain(self.clusters.get(cluster).map(|own| &own.own))
    }

    /// Whether `cluster` stands still, by the fleet's, its environment's or its own `paused`. A pause cannot be lifted by
    /// a more specific level: stop the line stops everybody.
    pub fn is_paused(&self, cluster: &str) -> bool {
        self.paused || self.levels(cluster).any(|level| level.paused == Some(true))
    }

    /// Whether versions may go down on `cluster`.
    pub fn allows_downgrade(&self, cluster: &str) -> bool {
        self.levels(cluster).rev().find_map(|level| level.allow_downgrade).unwrap_or(self.allow_downgrade)
    }

    /// The bundle that the team chose for `cluster`, if it did.
    pub fn bundle_selection(&self, cluster: &str) -> Option<&BundleSelection> {
        self.levels(cluster).rev().find_map(|level| level.bundle.as_ref()).or(self.bundle.as_ref())
    }

    /// The windows of the most specific level that has any; none means: at any time.
    pub fn windows(&self, cluster: &str) -> &[MaintenanceWindow] {
        self.levels(cluster)
            .rev()
            .map(|level| level.windows.as_slice())
            .find(|windows| !windows.is_empty())
            .unwrap_or(&self.windows)
    }

    /// The variables of `cluster`, all levels merged by name.
    pub fn variables(&self, cluster: &str) -> BTreeMap<String, String> {
        let mut variables = self.variables.clone();
        for level in self.levels(cluster) {
            variables.extend(level.variables.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        variables
    }

    /// What may be deleted of `cluster` although it holds data, by any level.
    pub fn delete_data(&self, cluster: &str) -> Vec<DataPattern> {
        self.delete_data.iter().chain(self.levels(cluster).flat_map(|level| &level.delete_data)).cloned().collect()
    }

    /// What checks find of `cluster` and the team lives with, by any level, expired ones included.
    pub fn waivers(&self, cluster: &str) -> Vec<Waiver> {
        self.waivers.iter().chain(self.levels(cluster).flat_map(|level| &level.waivers)).cloned().collect()
    }

    /// The team's values for Cilium's chart, from weak to strong.
    pub fn cilium_values(&self, cluster: &str) -> Vec<&Node> {
        self.cilium.iter().chain(self.levels(cluster).filter_map(|level| level.cilium.as_ref())).collect()
    }

    /// The worker groups `groups` in the order that the team wants.
    pub fn worker_order<'a>(&self, cluster: &str, groups: &'a [String]) -> Vec<&'a str> {
        let wanted = self.clusters.get(cluster).map(|own| own.worker_order.as_slice()).unwrap_or_default();
        let first = wanted.iter().filter_map(|name| groups.iter().find(|group| *group == name));
        let rest = groups.iter().filter(|group| !wanted.contains(group));
        first.chain(rest).map(String::as_str).collect()
    }

    /// The index of the wave of `cluster` in [`Policy::waves`]; `None` for a cluster that goes after all waves.
    pub fn wave_of(&self, cluster: &str) -> Option<usize> {
        let environment = self.environment_of(cluster);
        self.waves.iter().position(|wave| {
            wave.clusters.iter().any(|pattern| matches_pattern(pattern, cluster))
                || environment.is_some_and(|name| wave.environments.iter().any(|wanted| wanted == name))
        })
    }
}
