//! Environments and clusters of `stepgate.yaml`.

use std::collections::BTreeMap;

use yaml::{Entry, Node};

use super::read::{Reader, known};
use super::types::{Apply, ClusterPolicy, EnvironmentPolicy};
use domain::nearest;

impl Reader<'_> {
    /// What environments and clusters share; `false` when the entry is something else.
    pub(super) fn level(&mut self, entry: &Entry, level: &mut EnvironmentPolicy) -> bool {
        let node = &entry.value;
        match entry.key.as_str() {
            "stages" => level.stages = self.stages(node),
            "bundle" => level.bundle = self.bundle(node, "bundle"),
            "apply" => {
                let choices = [("pipeline", Apply::Pipeline), ("eksctl", Apply::Eksctl)];
                level.apply = self.choice(node, "apply", &choices);
            }
            "tanzu" => level.tanzu = self.tanzu(node),
            "allowDowngrade" => level.allow_downgrade = self.boolean(node, "allowDowngrade"),
            "chainedUpgrades" => level.chained_upgrades = self.boolean(node, "chainedUpgrades"),
            "allowForcedUpdate" => level.allow_forced_update = self.boolean(node, "allowForcedUpdate"),
            "allowMinorRollback" => level.allow_minor_rollback = self.boolean(node, "allowMinorRollback"),
            "restartFargate" => level.restart_fargate = self.boolean(node, "restartFargate"),
            "forceDrain" => level.force_drain = self.force_drain(node),
            "freezes" => level.freezes = self.freezes(node),
            "variables" => level.variables = self.variables(node, "variables"),
            "cilium" => level.cilium = self.cilium(node, "cilium"),
            "deleteData" => level.delete_data = self.data_patterns(node),
            "waivers" => level.waivers = self.waivers(node),
            "drift" => level.drift = self.drift(node),
            "paused" => level.paused = self.paused(node, "paused"),
            _ => return self.setting(entry, &mut level.settings),
        }
        true
    }

    pub(super) fn environments(&mut self, node: &Node) -> BTreeMap<String, EnvironmentPolicy> {
        let mut environments = BTreeMap::new();
        for entry in self.mapping(node, "environments").into_iter().flatten() {
            let place = format!("environments.{}", entry.key);
            let mut environment = EnvironmentPolicy::default();
            for field in self.mapping(&entry.value, &place).into_iter().flatten() {
                if field.key == "clusters" {
                    environment.clusters = self.texts(&field.value, "clusters");
                } else if !self.level(field, &mut environment) {
                    self.unknown(field, &place, &known(&["clusters"], true));
                }
            }
            environments.insert(entry.key.to_string(), environment);
        }
        environments
    }

    pub(super) fn clusters(
        &mut self,
        node: &Node,
        environments: &BTreeMap<String, EnvironmentPolicy>,
    ) -> BTreeMap<String, ClusterPolicy> {
        let mut clusters = BTreeMap::new();
        for entry in self.mapping(node, "clusters").into_iter().flatten() {
            self.cluster = Some(entry.key.to_string());
            let place = format!("clusters.{}", entry.key);
            let mut cluster = ClusterPolicy::default();
            for field in self.mapping(&entry.value, &place).into_iter().flatten() {
                match field.key.as_str() {
                    "environment" => {
                        cluster.environment = self.text(&field.value, "environment");
                        if let Some(name) = cluster.environment.as_deref()
                            && !environments.contains_key(name)
                        {
                            let names: Vec<&str> = environments.keys().map(String::as_str).collect();
                            let hint = nearest(name, &names).map(|name| format!("did you mean {name:?}?"));
                            let message = format!("environment {name:?} is not under environments");
                            self.problem(field.value.span, message, hint);
                        }
                    }
                    "addresses" => cluster.addresses = self.addresses(&field.value),
                    "workerOrder" => cluster.worker_order = self.texts(&field.value, "workerOrder"),
                    _ => {
                        if !self.level(field, &mut cluster.own) {
                            self.unknown(field, &place, &known(&["environment", "workerOrder", "addresses"], true));
                        }
                    }
                }
            }
            clusters.insert(entry.key.to_string(), cluster);
            self.cluster = None;
        }
        clusters
    }
}
