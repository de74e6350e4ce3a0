//! From the text of `stepgate.yaml` to a [`Policy`], with a place for whatever is wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use kustomize_rs::yaml::{self, Entry, Limits, Mapping, Node, Span};

use super::types::{
    Apply, Approval, Author, BundleSelection, ClusterPolicy, EnvironmentPolicy, FluxPolicy, OnFailure, Policy,
    ProviderSecrets, Signing, SigningFormat, StageSettings, Wave, Window,
};
use super::{DurationError, parse_duration};
use crate::nearest::nearest;
use crate::{Problem, ProblemCode, RepoPath};

const STAGES: [&str; 14] = [
    "preflight",
    "backup",
    "bundle",
    "cert-manager",
    "capi",
    "eks-a",
    "cilium-preflight",
    "cilium",
    "flux",
    "etcd",
    "control-plane",
    "workers",
    "workers/<group>",
    "verify",
];

/// Reads `stepgate.yaml`. What is wrong is left at its default and told; the problems of the part of one cluster have
/// that cluster as scope, so that the others go on.
pub fn read_policy(path: &RepoPath, bytes: &[u8]) -> (Policy, Vec<Problem>) {
    let mut reader = Reader { path, cluster: None, problems: Vec::new() };
    let limits = Limits { bytes: 1 << 20, documents: 2, depth: 32, nodes: 100_000 };
    let parsed = yaml::decode(bytes).and_then(|text| yaml::parse(&text, &limits));
    let policy = match parsed {
        Ok(documents) => match documents.as_slice() {
            [] => Policy::default(),
            [document] => reader.policy(&document.root),
            [_, second, ..] => {
                reader.problem(second.root.span, "stepgate.yaml must hold one document", None);
                Policy::default()
            }
        },
        Err(error) => {
            let code = crate::yaml_problem::code(error.kind);
            let problem = Problem::new(code, error.message.clone()).path(path).at(error.line, error.column);
            reader.problems.push(problem.hint("stepgate init prints a stepgate.yaml to start from"));
            Policy::default()
        }
    };
    (policy, reader.problems)
}

struct Reader<'a> {
    path: &'a RepoPath,
    cluster: Option<String>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, span: Span, message: impl Into<String>, hint: Option<String>) {
        let mut problem = Problem::new(ProblemCode::BadPolicy, message).path(self.path).at(span.line, span.column);
        if let Some(hint) = hint {
            problem = problem.hint(hint);
        }
        if let Some(cluster) = &self.cluster {
            problem = problem.cluster(cluster.clone());
        }
        self.problems.push(problem);
    }

    fn unknown(&mut self, entry: &Entry, place: &str, known: &[&str]) {
        let hint = match nearest(&entry.key, known) {
            Some(name) => format!("did you mean {name:?}?"),
            None => format!("known here: {}", known.join(", ")),
        };
        self.problem(entry.key_span, format!("unknown field {:?} in {place}", entry.key), Some(hint));
    }

    fn mapping<'n>(&mut self, node: &'n Node, place: &str) -> Option<&'n Mapping> {
        if node.is_null() {
            return None;
        }
        let mapping = node.as_mapping();
        if mapping.is_none() {
            self.problem(node.span, format!("{place} must be a mapping"), None);
        }
        mapping
    }

    fn text(&mut self, node: &Node, place: &str) -> Option<String> {
        let text = node.scalar_text().filter(|_| !node.is_null()).map(std::borrow::Cow::into_owned);
        match text {
            Some(text) if !text.is_empty() => Some(text),
            _ => {
                self.problem(node.span, format!("{place} must be a text that is not empty"), None);
                None
            }
        }
    }

    fn texts(&mut self, node: &Node, place: &str) -> Vec<String> {
        match node.as_sequence() {
            Some(items) => items.iter().filter_map(|item| self.text(item, place)).collect(),
            None if node.is_null() => Vec::new(),
            None => {
                self.problem(node.span, format!("{place} must be a list"), None);
                Vec::new()
            }
        }
    }

    fn boolean(&mut self, node: &Node, place: &str) -> Option<bool> {
        let value = node.as_bool();
        if value.is_none() {
            self.problem(node.span, format!("{place} must be true or false"), None);
        }
        value
    }

    fn number(&mut self, node: &Node, place: &str, minimum: u32, maximum: u32) -> Option<u32> {
        let value = node.as_i64().and_then(|number| u32::try_from(number).ok());
        let value = value.filter(|number| (minimum..=maximum).contains(number));
        if value.is_none() {
            self.problem(node.span, format!("{place} must be a number from {minimum} to {maximum}"), None);
        }
        value
    }

    fn duration(&mut self, node: &Node, place: &str) -> Option<Duration> {
        let text = self.text(node, place)?;
        match parse_duration(&text) {
            Ok(duration) => Some(duration),
            Err(error @ DurationError(..)) => {
                self.problem(node.span, format!("{place}: {error}"), None);
                None
            }
        }
    }

    fn choice<T: Copy>(&mut self, node: &Node, place: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(node, place)?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let hint = nearest(&text, &names).map(|name| format!("did you mean {name:?}?"));
        self.problem(node.span, format!("{place} must be one of {}, not {text:?}", names.join(", ")), hint);
        None
    }

    fn variables(&mut self, node: &Node, place: &str) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::new();
        for entry in self.mapping(node, place).into_iter().flatten() {
            match entry.value.scalar_text() {
                Some(text) if !entry.value.is_null() => {
                    variables.insert(entry.key.clone(), text.into_owned());
                }
                None | Some(_) => {
                    let message = format!("{place}.{} must be a text, number, true or false", entry.key);
                    self.problem(entry.value.span, message, Some("an empty value is written \"\"".to_owned()));
                }
            }
        }
        variables
    }

    fn bundle(&mut self, node: &Node, place: &str) -> Option<BundleSelection> {
        let text = self.text(node, place)?;
        Some(if text == "newest" { BundleSelection::Newest } else { BundleSelection::Name(text) })
    }

    fn cilium(&mut self, node: &Node, place: &str) -> Option<Node> {
        let mut values = None;
        for entry in self.mapping(node, place)? {
            match entry.key.as_str() {
                "values" => {
                    values = self.mapping(&entry.value, "cilium.values").map(|_| entry.value.clone());
                }
                _ => self.unknown(entry, place, &["values"]),
            }
        }
        values
    }

    /// One of `soak`, `timeout`, `approval`, `onFailure`, `retries`; `false` when the entry is something else.
    fn setting(&mut self, entry: &Entry, settings: &mut StageSettings) -> bool {
        let (node, key) = (&entry.value, entry.key.as_str());
        match key {
            "soak" => settings.soak = self.duration(node, key),
            "timeout" => settings.timeout = self.duration(node, key),
            "approval" => {
                let choices = [("none", Approval::None), ("rollout", Approval::Rollout), ("stage", Approval::Stage)];
                settings.approval = self.choice(node, key, &choices);
            }
            "onFailure" => {
                settings.on_failure =
                    self.choice(node, key, &[("hold", OnFailure::Hold), ("revert", OnFailure::Revert)]);
            }
            "retries" => settings.retries = self.number(node, key, 0, 100),
            _ => return false,
        }
        true
    }

    fn stages(&mut self, node: &Node) -> BTreeMap<String, StageSettings> {
        let mut stages = BTreeMap::new();
        for entry in self.mapping(node, "stages").into_iter().flatten() {
            let group = entry.key.strip_prefix("workers/").is_some_and(|group| !group.is_empty());
            if !group && !STAGES.contains(&entry.key.as_str()) {
                self.unknown(entry, "stages", &STAGES);
                continue;
            }
            let place = format!("stages.{}", entry.key);
            let mut settings = StageSettings::default();
            for field in self.mapping(&entry.value, &place).into_iter().flatten() {
                if !self.setting(field, &mut settings) {
                    self.unknown(field, &place, &SETTINGS);
                }
            }
            stages.insert(entry.key.clone(), settings);
        }
        stages
    }

    fn windows(&mut self, node: &Node) -> Vec<Window> {
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

    fn time_of_day(&mut self, node: &Node, place: &str) -> Option<u16> {
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

    fn waves(&mut self, node: &Node) -> Vec<Wave> {
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
    fn level(&mut self, entry: &Entry, level: &mut EnvironmentPolicy) -> bool {
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

    fn environments(&mut self, node: &Node) -> BTreeMap<String, EnvironmentPolicy> {
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
            environments.insert(entry.key.clone(), environment);
        }
        environments
    }

    fn clusters(
        &mut self,
        node: &Node,
        environments: &BTreeMap<String, EnvironmentPolicy>,
    ) -> BTreeMap<String, ClusterPolicy> {
        let mut clusters = BTreeMap::new();
        for entry in self.mapping(node, "clusters").into_iter().flatten() {
            self.cluster = Some(entry.key.clone());
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
            clusters.insert(entry.key.clone(), cluster);
            self.cluster = None;
        }
        clusters
    }

    fn deploy(&mut self, node: &Node, policy: &mut Policy) {
        for entry in self.mapping(node, "deploy").into_iter().flatten() {
            match entry.key.as_str() {
                "branch" => {
                    if let Some(branch) = self.text(&entry.value, "deploy.branch") {
                        policy.deploy.branch = branch;
                    }
                }
                "path" => {
                    let Some(text) = self.text(&entry.value, "deploy.path") else { continue };
                    match RepoPath::new(text.trim_end_matches('/')) {
                        Ok(path) => policy.deploy.path = Some(path),
                        Err(error) => self.problem(entry.value.span, format!("deploy.path: {error}"), None),
                    }
                }
                _ => self.unknown(entry, "deploy", &["branch", "path"]),
            }
        }
    }

    fn author(&mut self, node: &Node, author: &mut Author) {
        for entry in self.mapping(node, "author").into_iter().flatten() {
            let field = match entry.key.as_str() {
                "name" => &mut author.name,
                "email" => &mut author.email,
                _ => {
                    self.unknown(entry, "author", &["name", "email"]);
                    continue;
                }
            };
            if let Some(text) = self.text(&entry.value, "author") {
                if text.contains(['<', '>', '\n']) {
                    self.problem(entry.value.span, "author must not hold <, > or line ends", None);
                } else {
                    *field = text;
                }
            }
        }
    }

    fn signing(&mut self, node: &Node) -> Option<Signing> {
        let (mut format, mut key) = (SigningFormat::Ssh, None);
        for entry in self.mapping(node, "signing")? {
            match entry.key.as_str() {
                "format" => {
                    let choices = [("ssh", SigningFormat::Ssh), ("gpg", SigningFormat::Gpg)];
                    format = self.choice(&entry.value, "signing.format", &choices).unwrap_or(format);
                }
                "key" => {
                    key = self.text(&entry.value, "signing.key");
                    if key.as_deref().is_some_and(|key| key.contains("PRIVATE KEY")) {
                        let hint = "name the path of the key on the machine of Stepgate".to_owned();
                        self.problem(entry.value.span, "signing.key must not be a key itself", Some(hint));
                        key = None;
                    }
                }
                _ => self.unknown(entry, "signing", &["format", "key"]),
            }
        }
        if key.is_none() {
            self.problem(node.span, "signing needs a key", None);
        }
        Some(Signing { format, key: key? })
    }

    fn flux(&mut self, node: &Node, flux: &mut FluxPolicy) {
        for entry in self.mapping(node, "flux").into_iter().flatten() {
            match entry.key.as_str() {
                "namespace" => {
                    if let Some(namespace) = self.text(&entry.value, "flux.namespace") {
                        flux.namespace = namespace;
                    }
                }
                "interval" => {
                    if let Some(interval) = self.duration(&entry.value, "flux.interval") {
                        flux.interval = interval;
                    }
                }
                "source" => {
                    for field in self.mapping(&entry.value, "flux.source").into_iter().flatten() {
                        let slot = match field.key.as_str() {
                            "kind" => &mut flux.source.kind,
                            "name" => &mut flux.source.name,
                            _ => {
                                self.unknown(field, "flux.source", &["kind", "name"]);
                                continue;
                            }
                        };
                        if let Some(text) = self.text(&field.value, "flux.source") {
                            *slot = text;
                        }
                    }
                }
                _ => self.unknown(entry, "flux", &["namespace", "source", "interval"]),
            }
        }
    }

    fn fetch(&mut self, node: &Node) -> Vec<String> {
        let mut allow = Vec::new();
        for entry in self.mapping(node, "fetch").into_iter().flatten() {
            match entry.key.as_str() {
                "allow" => {
                    for text in self.texts(&entry.value, "fetch.allow") {
                        if text.contains("://") {
                            let hint = "write host or host/path without https://".to_owned();
                            self.problem(entry.value.span, format!("fetch.allow: {text:?} is an address"), Some(hint));
                        } else {
                            allow.push(text);
                        }
                    }
                }
                _ => self.unknown(entry, "fetch", &["allow"]),
            }
        }
        allow
    }

    fn policy(&mut self, root: &Node) -> Policy {
        let mut policy = Policy::default();
        let Some(mapping) = self.mapping(root, "stepgate.yaml") else { return policy };
        // Environments first: clusters name them, wherever they stand in the file.
        if let Some(node) = mapping.get("environments") {
            policy.environments = self.environments(node);
        }
        for entry in mapping {
            let node = &entry.value;
            match entry.key.as_str() {
                "apiVersion" => {
                    if node.as_str() != Some(API_VERSION) {
                        self.problem(node.span, format!("apiVersion must be {API_VERSION}"), None);
                    }
                }
                "kind" => {
                    if node.as_str() != Some("Policy") {
                        self.problem(node.span, "kind must be Policy", None);
                    }
                }
                "environments" => {}
                "deploy" => self.deploy(node, &mut policy),
                "apply" => {
                    let choices = [("flux", Apply::Flux), ("direct", Apply::Direct)];
                    policy.apply = self.choice(node, "apply", &choices).unwrap_or(policy.apply);
                }
                "paused" => policy.paused = self.boolean(node, "paused").unwrap_or(true),
                "bundle" => policy.bundle = self.bundle(node, "bundle"),
                "allowDowngrade" => policy.allow_downgrade = self.boolean(node, "allowDowngrade").unwrap_or(false),
                "stages" => policy.stages = self.stages(node),
                "windows" => policy.windows = self.windows(node),
                "waves" => policy.waves = self.waves(node),
                "clusters" => {
                    let environments = std::mem::take(&mut policy.environments);
                    policy.clusters = self.clusters(node, &environments);
                    policy.environments = environments;
                }
                "mirrors" => policy.mirrors = self.texts(node, "mirrors"),
                "fetch" => policy.fetch_allow = self.fetch(node),
                "variables" => policy.variables = self.variables(node, "variables"),
                "providerSecrets" => {
                    let choices = [("omit", ProviderSecrets::Omit), ("render", ProviderSecrets::Render)];
                    let choice = self.choice(node, "providerSecrets", &choices);
                    policy.provider_secrets = choice.unwrap_or(policy.provider_secrets);
                }
                "cilium" => policy.cilium = self.cilium(node, "cilium"),
                "author" => self.author(node, &mut policy.author),
                "signing" => policy.signing = self.signing(node),
                "flux" => self.flux(node, &mut policy.flux),
                _ => {
                    if !self.setting(entry, &mut policy.settings) {
                        self.unknown(entry, "stepgate.yaml", &known(&FLEET, false));
                    }
                }
            }
        }
        policy
    }
}

/// The only `apiVersion` of `stepgate.yaml`; the field may be left out.
pub(super) const API_VERSION: &str = "stepgate.dev/v1alpha1";
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const SETTINGS: [&str; 5] = ["soak", "timeout", "approval", "onFailure", "retries"];
const LEVEL: [&str; 7] = ["stages", "bundle", "allowDowngrade", "windows", "variables", "cilium", "paused"];
const FLEET: [&str; 21] = [
    "apiVersion",
    "kind",
    "deploy",
    "apply",
    "paused",
    "bundle",
    "allowDowngrade",
    "stages",
    "windows",
    "waves",
    "environments",
    "clusters",
    "mirrors",
    "fetch",
    "variables",
    "providerSecrets",
    "cilium",
    "author",
    "signing",
    "flux",
    "approval",
];

fn known(own: &[&'static str], level: bool) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = own.to_vec();
    names.extend(SETTINGS.iter().filter(|name| !own.contains(*name)));
    if level {
        names.extend(LEVEL);
    }
    names
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
