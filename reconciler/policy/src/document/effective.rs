//! What holds for a cluster and a stage, of all that is written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use yaml::Node;

use super::types::{Apply, BundleSelection, EnvironmentPolicy, Policy, TanzuPolicy};
use crate::document::pattern::data::DataPattern;
use crate::document::pattern::matches_pattern;
use crate::document::sections::addresses::GivenAddresses;
use crate::document::sections::approvers::ApproverRules;
use crate::document::sections::drift::DriftIgnore;
use crate::document::sections::force_drain::ForceDrain;
use crate::document::sections::lease::Paused;
use crate::document::sections::settings::StageSettings;
use crate::document::sections::waivers::Waiver;
use crate::document::wave::Wave;
use crate::{ApprovalRules, Freeze, MaintenanceWindow, OnFailure, PlanPolicy, StagePolicy, Windows};

/// When the stages of a cluster may begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Openings<'a> {
    /// The windows of every stage that has none of its own; empty means at any time.
    pub every: &'a [MaintenanceWindow],
    /// Stages that have others, by name.
    pub stages: Vec<(&'a str, &'a [MaintenanceWindow])>,
    /// Days on which none begins.
    pub freezes: Vec<Freeze>,
}

/// Where in the order of worker groups those stand that are not named.
const OTHERS: &str = "others";

impl Policy {
    /// The defaults of Stepgate for one stage, before anything the team says.
    pub fn stage_default(stage: &str) -> StagePolicy {
        const MINUTE: u64 = 60;
        let (soak, timeout) = match stage.split(['/', '@']).next().unwrap_or(stage) {
            "preflight" | "bundle" => (0, 10 * MINUTE),
            "backup" => (0, 30 * MINUTE),
            "cilium-preflight" | "cilium" => (MINUTE, 60 * MINUTE),
            "etcd" | "control-plane" | "workers" | "fargate" => (2 * MINUTE, 120 * MINUTE),
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
        StagePolicy {
            approvers: (&approvers).into(),
            windows: Windows::from(self.windows(cluster, stage).to_vec()).frozen(self.freezes(cluster)),
            ..policy
        }
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
            waivers_to_come: Vec::new(),
            drift_ignores: self.drift_ignores(cluster),
            injection: self.injection.clone(),
        }
    }

    /// The settings that are written for `stage` on `cluster`, from weak to strong.
    pub(super) fn settings_of(&self, cluster: &str, stage: &str) -> Vec<&StageSettings> {
        let stage = stage.split('@').next().unwrap_or(stage);
        let group = ["workers", "addons"]
            .into_iter()
            .find(|group| stage.strip_prefix(group).is_some_and(|rest| rest.starts_with('/')));
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

    /// What is said of whether `cluster` stands still, by the fleet, its environment, itself and its wave.
    pub fn pauses(&self, cluster: &str) -> Vec<&Paused> {
        let wave = self.wave_of(cluster).and_then(|wave| self.waves.get(wave)).map(|wave| &wave.paused);
        let levels = self.levels(cluster).map(|level| &level.paused);
        std::iter::once(&self.paused).chain(levels).chain(wave).filter(|paused| **paused != Paused::No).collect()
    }

    /// The pause of `cluster` that lasts longest, where any is on. A pause cannot be lifted by a more specific level: stop the line stops everybody.
    pub fn pause(&self, cluster: &str, now: Timestamp) -> Option<&Paused> {
        self.pauses(cluster).into_iter().filter(|paused| paused.is_on(now)).max_by_key(|paused| paused.ends())
    }

    /// Whether `cluster` stands still.
    pub fn is_paused(&self, cluster: &str, now: Timestamp) -> bool {
        self.pause(cluster, now).is_some()
    }

    /// Whether versions may go down on `cluster`.
    pub fn allows_downgrade(&self, cluster: &str) -> bool {
        self.levels(cluster).rev().find_map(|level| level.allow_downgrade).unwrap_or(self.allow_downgrade)
    }

    /// Whether an upgrade over several minors goes through those in between, on `cluster`.
    pub fn chains_upgrades(&self, cluster: &str) -> bool {
        self.levels(cluster).rev().find_map(|level| level.chained_upgrades).unwrap_or(self.chained_upgrades)
    }

    /// Whether an upgrade of EKS may override what EKS says against it, on `cluster`.
    pub fn allows_forced_update(&self, cluster: &str) -> bool {
        self.levels(cluster).rev().find_map(|level| level.allow_forced_update).unwrap_or(self.allow_forced_update)
    }

    /// Whether the control plane may go back a minor while EKS takes it back, on `cluster`.
    pub fn allows_minor_rollback(&self, cluster: &str) -> bool {
        self.levels(cluster).rev().find_map(|level| level.allow_minor_rollback).unwrap_or(self.allow_minor_rollback)
    }

    /// Free addresses that the team gives for `cluster`.
    pub fn given_addresses(&self, cluster: &str) -> Option<&GivenAddresses> {
        self.clusters.get(cluster).map(|own| &own.addresses).filter(|given| !given.subnets.is_empty())
    }

    /// Whether Stepgate restarts what runs on old nodes of Fargate, on `cluster`.
    pub fn restarts_fargate(&self, cluster: &str) -> bool {
        self.levels(cluster).rev().find_map(|level| level.restart_fargate).unwrap_or(self.restart_fargate)
    }

    /// Pods that may be deleted past their budget on `cluster`, by any level.
    pub fn force_drain(&self, cluster: &str) -> Vec<ForceDrain> {
        self.force_drain.iter().chain(self.levels(cluster).flat_map(|level| &level.force_drain)).cloned().collect()
    }

    /// The bundle that the team chose for `cluster`, if it did.
    pub fn bundle_selection(&self, cluster: &str) -> Option<&BundleSelection> {
        self.levels(cluster).rev().find_map(|level| level.bundle.as_ref()).or(self.bundle.as_ref())
    }

    /// The windows of `stage` on `cluster`, by the most specific level that has any, and there by the stage before the level as a whole; none
    /// means: at any time.
    pub fn windows(&self, cluster: &str, stage: &str) -> &[MaintenanceWindow] {
        let settings = self.settings_of(cluster, stage).into_iter().rev();
        settings.map(|settings| settings.windows.as_slice()).find(|windows| !windows.is_empty()).unwrap_or_default()
    }

    /// When the stages of `cluster` may begin.
    pub fn openings(&self, cluster: &str) -> Openings<'_> {
        let every = self.windows(cluster, "");
        let levels = std::iter::once(&self.stages).chain(self.levels(cluster).map(|level| &level.stages));
        let named: BTreeSet<&str> = levels.flat_map(|stages| stages.keys()).map(String::as_str).collect();
        let own = named.into_iter().map(|stage| (stage, self.windows(cluster, stage)));
        Openings {
            every,
            stages: own.filter(|(_, windows)| *windows != every).collect(),
            freezes: self.freezes(cluster),
        }
    }

    /// The freezes of `cluster`, by any level.
    pub fn freezes(&self, cluster: &str) -> Vec<Freeze> {
        self.freezes.iter().chain(self.levels(cluster).flat_map(|level| &level.freezes)).cloned().collect()
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

    /// What is no drift of `cluster`, by any level.
    pub fn drift_ignores(&self, cluster: &str) -> Vec<DriftIgnore> {
        let levels = self.levels(cluster).map(|level| &level.drift);
        std::iter::once(&self.drift).chain(levels).flat_map(|drift| &drift.ignore).cloned().collect()
    }

    /// The team's values for Cilium's chart, from weak to strong.
    pub fn cilium_values(&self, cluster: &str) -> Vec<&Node> {
        self.cilium.iter().chain(self.levels(cluster).filter_map(|level| level.cilium.as_ref())).collect()
    }

    /// The worker groups `groups` in the order that the team wants. Those that are not named go where `others` stands, by name;
    /// without it they follow, as in the specification.
    pub fn worker_order<'a>(&self, cluster: &str, groups: &'a [String]) -> Vec<&'a str> {
        self.worker_order_by(cluster, groups, |_| None)
    }

    /// As [`Policy::worker_order`], of groups that may be meant by `another` name as well.
    pub fn worker_order_by<'a>(
        &self,
        cluster: &str,
        groups: &'a [String],
        another: impl Fn(&str) -> Option<String>,
    ) -> Vec<&'a str> {
        let wanted = self.clusters.get(cluster).map(|own| own.worker_order.as_slice()).unwrap_or_default();
        let is_meant = |name: &str, by: &str| name == by || another(name).as_deref() == Some(by);
        let named = |by: &str| groups.iter().map(String::as_str).filter(|name| is_meant(name, by)).collect::<Vec<_>>();
        let is_named = |name: &str| wanted.iter().any(|by| is_meant(name, by));
        let mut rest: Vec<&str> = groups.iter().map(String::as_str).filter(|name| !is_named(name)).collect();
        // A group of that name is meant itself.
        let stands_for_others = |by: &str| by == OTHERS && named(OTHERS).is_empty();
        if wanted.iter().any(|by| stands_for_others(by)) {
            rest.sort_unstable();
        }
        let mut order: Vec<&str> = Vec::new();
        for by in wanted {
            let found = if stands_for_others(by) { std::mem::take(&mut rest) } else { named(by) };
            for name in found {
                if !order.contains(&name) {
                    order.push(name);
                }
            }
        }
        order.extend(rest);
        order
    }

    /// Who applies what is committed for `cluster`.
    pub fn apply_of(&self, cluster: &str) -> Apply {
        self.levels(cluster).rev().find_map(|level| level.apply).unwrap_or(self.apply)
    }

    /// How a cluster of Tanzu is carried out: as the innermost level says that says anything of it.
    pub fn tanzu_of(&self, cluster: &str) -> &TanzuPolicy {
        self.levels(cluster).rev().find_map(|level| level.tanzu.as_ref()).unwrap_or(&self.tanzu)
    }

    /// Whose approval is enough for a wave. What a rule says of a stage it does not say of a wave.
    pub fn wave_approvers(&self, wave: &Wave) -> ApprovalRules {
        let mut written = self.settings.approvers.clone();
        wave.approvers.over(&mut written);
        ApprovalRules { code_owners: false, separate: false, check_list: Vec::new(), ..ApprovalRules::from(&written) }
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
