//! Environments, clusters, waves and windows of `stepgate.yaml`.

use std::collections::BTreeMap;

use kustomize_rs::yaml::{Entry, Node};

use super::read::{DAYS, Reader, known};
use super::types::{ClusterPolicy, EnvironmentPolicy, Wave, Window};
use crate::nearest::nearest;

impl Reader<'_> {
    pub(super) fn windows(&mut self, node: &Node) -> Vec<Window> {
        let mut windows = Vec::new();
        let Some(items) = node.as_sequence() else {
            if !node.is_null() {
                self.problem(node.span, "windows must be a list", None);
            }
            return windows;
        };
        for item in items {
            let mut window = Window { days: Vec::new(), from: 0, to: 0, time_zone: "UTC".to_owned() };
            for entry in self.mapping(item, "windows").into_iter().flatten() {
                match entry.key.as_str() {
                    "days" => {
                        for day in self.texts(&entry.value, "windows.days") {
                            match DAYS.iter().zip(1u8..).find(|(name, _)| **name == day.to_ascii_lowercase()) {
                                Some((_, number)) => window.days.push(number),
                                None => self.problem(
                                    entry.value.span,
                                    format!("{day:?} is no day"),
                                    Some(format!("days are {}", DAYS.join(", "))),
                                ),
                            }
                        }
                    }
                    "from" => window.from = self.time_of_day(&entry.value, "windows.from").unwrap_or(window.from),
                    "to" => window.to = self.time_of_day(&entry.value, "windows.to").unwrap_or(window.to),
                    "timeZone" => {
                        window.time_zone = self.text(&entry.value, "windows.timeZone").unwrap_or(window.time_zone);
                    }
                    _ => self.unknown(entry, "windows", &["days", "from", "to", "timeZone"]),
                }
            }
            windows.push(window);
        }
        windows
    }

    pub(super) fn time_of_day(&mut self, node: &Node, place: &str) -> Option<u16> {
        let text = self.text(node, place)?;
        let minutes = text.split_once(':').and_then(|(hours, minutes)| {
            let two_digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            (two_digits(hours) && two_digits(minutes)).then_some(())?;
            let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
            (hours < 24 && minutes < 60 || (hours, minutes) == (24, 0)).then_some(hours * 60 + minutes)
        });
        if minutes.is_none() {
            let hint = "quote it, as in \"22:00\"".to_owned();
            self.problem(node.span, format!("{place} must be a time of day such as \"22:00\""), Some(hint));
        }
        minutes
    }

    pub(super) fn waves(&mut self, node: &Node) -> Vec<Wave> {
        let mut waves = Vec::new();
        let Some(items) = node.as_sequence() else {
            if !node.is_null() {
                self.problem(node.span, "waves must be a list", None);
            }
            return waves;
        };
        for (index, item) in items.iter().enumerate() {
            let name = format!("wave-{}", index + 1);
            let mut wave = Wave { name, clusters: Vec::new(), environments: Vec::new(), concurrency: 1 };
            for entry in self.mapping(item, "waves").into_iter().flatten() {
                match entry.key.as_str() {
                    "name" => wave.name = self.text(&entry.value, "waves.name").unwrap_or(wave.name),
                    "clusters" => wave.clusters = self.texts(&entry.value, "waves.clusters"),
                    "environments" => wave.environments = self.texts(&entry.value, "waves.environments"),
                    "concurrency" => {
                        wave.concurrency = self.number(&entry.value, "waves.concurrency", 1, 10_000).unwrap_or(1);
                    }
                    _ => self.unknown(entry, "waves", &["name", "clusters", "environments", "concurrency"]),
                }
            }
            waves.push(wave);
        }
        waves
    }

    /// What environments and clusters share; `false` when the entry is something else.
    pub(super) fn level(&mut self, entry: &Entry, level: &mut EnvironmentPolicy) -> bool {
        let node = &entry.value;
        match entry.key.as_str() {
            "stages" => level.stages = self.stages(node),
            "bundle" => level.bundle = self.bundle(node, "bundle"),
            "allowDowngrade" => level.allow_downgrade = self.boolean(node, "allowDowngrade"),
            "windows" => level.windows = self.windows(node),
            "variables" => level.variables = self.variables(node, "variables"),
            "cilium" => level.cilium = self.cilium(node, "cilium"),
            "paused" => level.paused = self.boolean(node, "paused"),
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
                    "workerOrder" => cluster.worker_order = self.texts(&field.value, "workerOrder"),
                    _ => {
                        if !self.level(field, &mut cluster.own) {
                            self.unknown(field, &place, &known(&["environment", "workerOrder"], true));
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
