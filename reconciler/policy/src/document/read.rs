//! From the text of `stepgate.yaml` to a [`Policy`], with a place for whatever is wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil::Date;
use yaml::{Entry, Limits, Mapping, Node, Span};

use super::DurationError;
use super::parse_duration;
use super::types::{Apply, BundleSelection, Policy, ProviderSecrets, Signatures};
use crate::document::pattern::paths::PathPattern;
use crate::document::sections::settings::StageSettings;
use crate::document::wave::read::NamedInWave;
use domain::nearest;
use domain::{Problem, ProblemCode, RepoPath};

pub(super) const STAGES: [&str; 16] = [
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
    "addons",
    "control-plane",
    "workers",
    "workers/<group>",
    "templates",
    "verify",
];

/// Reads `stepgate.yaml`. What is wrong is left at its default and told; the problems of the part of one cluster have
/// that cluster as scope, so that the others go on.
pub fn read_policy(path: &RepoPath, bytes: &[u8]) -> (Policy, Vec<Problem>) {
    read_file(path, bytes, |reader, root| reader.policy(root))
}

/// What `read` makes of the one document of a file; its default where there is none.
pub(super) fn read_file<T: Default>(
    path: &RepoPath,
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>, &Node) -> T,
) -> (T, Vec<Problem>) {
    let mut reader = Reader {
        path,
        cluster: None,
        wanted: Vec::new(),
        in_waves: Vec::new(),
        approved_waves: Vec::new(),
        problems: Vec::new(),
    };
    let limits = Limits { bytes: 1 << 20, documents: 2, depth: 32, nodes: 100_000 };
    let parsed = yaml::decode(bytes).and_then(|text| yaml::parse(&text, &limits));
    let value = match parsed {
        Ok(documents) => match documents.as_slice() {
            [] => T::default(),
            [document] => read(&mut reader, &document.root),
            [_, second, ..] => {
                reader.problem(second.root.span, "the policy is one document", None);
                T::default()
            }
        },
        Err(error) => {
            let code = domain::yaml_problem_code(error.kind);
            let problem = Problem::new(code, error.message.clone()).path(path).at(error.line, error.column);
            reader.problems.push(problem.hint("`stepgate init --stdout` prints a stepgate.yaml to start from"));
            T::default()
        }
    };
    (value, reader.problems)
}

pub(super) struct Reader<'a> {
    path: &'a RepoPath,
    pub(super) cluster: Option<String>,
    /// Groups that rules name: how many of each, where, and in the part of which cluster.
    pub(super) wanted: Vec<(String, u32, Span, Option<String>)>,
    /// Clusters that waves name.
    pub(super) in_waves: Vec<NamedInWave>,
    /// Waves that are approved, and where that is written.
    pub(super) approved_waves: Vec<(usize, Span)>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    pub(super) fn problem(&mut self, span: Span, message: impl Into<String>, hint: Option<String>) {
        let mut problem = Problem::new(ProblemCode::BadPolicy, message).path(self.path).at(span.line(), span.column());
        if let Some(hint) = hint {
            problem = problem.hint(hint);
        }
        if let Some(cluster) = &self.cluster {
            problem = problem.cluster(cluster.clone());
        }
        self.problems.push(problem);
    }

    pub(super) fn unknown(&mut self, entry: &Entry, place: &str, known: &[&str]) {
        let hint = match nearest(&entry.key, known) {
            Some(name) => format!("did you mean {name:?}?"),
            None => format!("known here: {}", known.join(", ")),
        };
        self.problem(entry.key_span, format!("unknown field {:?} in {place}", entry.key), Some(hint));
    }

    pub(super) fn mapping<'n>(&mut self, node: &'n Node, place: &str) -> Option<&'n Mapping> {
        if node.is_null() {
            return None;
        }
        let mapping = node.as_mapping();
        if mapping.is_none() {
            self.problem(node.span, format!("{place} must be a mapping"), None);
        }
        mapping
    }

    pub(super) fn text(&mut self, node: &Node, place: &str) -> Option<String> {
        let text = node.scalar_text().filter(|_| !node.is_null()).map(std::borrow::Cow::into_owned);
        match text {
            Some(text) if !text.is_empty() => Some(text),
            _ => {
                self.problem(node.span, format!("{place} must be a text that is not empty"), None);
                None
            }
        }
    }

    pub(super) fn texts(&mut self, node: &Node, place: &str) -> Vec<String> {
        match node.as_sequence() {
            Some(items) => items.iter().filter_map(|item| self.text(item, place)).collect(),
            None if node.is_null() => Vec::new(),
            None => {
                self.problem(node.span, format!("{place} must be a list"), None);
                Vec::new()
            }
        }
    }

    /// A day. Only the plain form: a time of day would be another promise.
    pub(super) fn day(&mut self, node: &Node, place: &str) -> Option<Date> {
        let text = self.text(node, place)?;
        let date = text.parse().ok().filter(|date: &Date| date.to_string() == text);
        if date.is_none() {
            let message = format!("{place}: {text:?} is not a valid day; write it as 2026-12-31");
            self.problem(node.span, message, None);
        }
        date
    }

    fn path_patterns(&mut self, node: &Node) -> Vec<PathPattern> {
        if !node.is_null() && node.as_sequence().is_none() {
            self.problem(node.span, "ignore must be a list", None);
        }
        let mut patterns = Vec::new();
        for item in node.as_sequence().unwrap_or_default() {
            let Some(text) = self.text(item, "ignore") else { continue };
            match text.parse() {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => self.problem(item.span, format!("ignore: {error}"), None),
            }
        }
        patterns
    }

    pub(super) fn boolean(&mut self, node: &Node, place: &str) -> Option<bool> {
        let value = node.as_bool();
        if value.is_none() {
            self.problem(node.span, format!("{place} must be true or false"), None);
        }
        value
    }

    pub(super) fn number(&mut self, node: &Node, place: &str, minimum: u32, maximum: u32) -> Option<u32> {
        let value = node.as_i64().and_then(|number| u32::try_from(number).ok());
        let value = value.filter(|number| (minimum..=maximum).contains(number));
        if value.is_none() {
            self.problem(node.span, format!("{place} must be a number from {minimum} to {maximum}"), None);
        }
        value
    }

    pub(super) fn duration(&mut self, node: &Node, place: &str) -> Option<Duration> {
        let text = self.text(node, place)?;
        match parse_duration(&text) {
            Ok(duration) => Some(duration),
            Err(error @ DurationError(..)) => {
                self.problem(node.span, format!("{place}: {error}"), None);
                None
            }
        }
    }

    pub(super) fn choice<T: Copy>(&mut self, node: &Node, place: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(node, place)?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let hint = nearest(&text, &names).map(|name| format!("did you mean {name:?}?"));
        self.problem(node.span, format!("{place} must be one of {}, not {text:?}", names.join(", ")), hint);
        None
    }

    pub(super) fn variables(&mut self, node: &Node, place: &str) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::new();
        for entry in self.mapping(node, place).into_iter().flatten() {
            match entry.value.scalar_text() {
                Some(text) if !entry.value.is_null() => {
                    variables.insert(entry.key.to_string(), text.into_owned());
                }
                None | Some(_) => {
                    let message = format!("{place}.{} must be a text, number, true or false", entry.key);
                    self.problem(entry.value.span, message, Some("an empty value is written \"\"".to_owned()));
                }
            }
        }
        variables
    }

    pub(super) fn bundle(&mut self, node: &Node, place: &str) -> Option<BundleSelection> {
        let text = self.text(node, place)?;
        Some(if text == "newest" { BundleSelection::Newest } else { BundleSelection::Name(text) })
    }

    pub(super) fn cilium(&mut self, node: &Node, place: &str) -> Option<Node> {
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

    pub(super) fn deploy(&mut self, node: &Node, policy: &mut Policy) {
        for entry in self.mapping(node, "deploy").into_iter().flatten() {
            match entry.key.as_str() {
                "branch" => {
                    if let Some(branch) = self.text(&entry.value, "deploy.branch") {
                        if !is_branch_name(&branch) {
                            let message = format!("deploy.branch: {branch:?} is not a valid name of a branch");
                            let hint =
                                "write a name such as `deploy`: `git help check-ref-format` has the rules".to_owned();
                            self.problem(entry.value.span, message, Some(hint));
                        }
                        // Kept all the same: nothing may be written anywhere else instead.
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

    pub(super) fn policy(&mut self, root: &Node) -> Policy {
        let mut policy = Policy::default();
        let Some(mapping) = self.mapping(root, "the policy") else { return policy };
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
                    let choices = [
                        ("flux", Apply::Flux),
                        ("direct", Apply::Direct),
                        ("pipeline", Apply::Pipeline),
                        ("eksctl", Apply::Eksctl),
                    ];
                    policy.apply = self.choice(node, "apply", &choices).unwrap_or(policy.apply);
                }
                "signatures" => {
                    let choices =
                        [("off", Signatures::Off), ("warn", Signatures::Warn), ("require", Signatures::Require)];
                    policy.signatures = self.choice(node, "signatures", &choices).unwrap_or(Signatures::Require);
                }
                "deleteData" => policy.delete_data = self.data_patterns(node),
                "waivers" => policy.waivers = self.waivers(node),
                "drift" => policy.drift = self.drift(node),
                "notes" => policy.notes = self.notes(node),
                "injection" => policy.injection = self.injection(node),
                "paused" => policy.paused = self.paused(node, "paused"),
                "bundle" => policy.bundle = self.bundle(node, "bundle"),
                "tanzu" => policy.tanzu = self.tanzu(node).unwrap_or_default(),
                "allowDowngrade" => policy.allow_downgrade = self.boolean(node, "allowDowngrade").unwrap_or(false),
                "chainedUpgrades" => policy.chained_upgrades = self.boolean(node, "chainedUpgrades").unwrap_or(false),
                "allowForcedUpdate" => {
                    policy.allow_forced_update = self.boolean(node, "allowForcedUpdate").unwrap_or(false);
                }
                "allowMinorRollback" => {
                    policy.allow_minor_rollback = self.boolean(node, "allowMinorRollback").unwrap_or(false);
                }
                "restartFargate" => policy.restart_fargate = self.boolean(node, "restartFargate").unwrap_or(false),
                "forceDrain" => policy.force_drain = self.force_drain(node),
                "stages" => policy.stages = self.stages(node),
                "freezes" => policy.freezes = self.freezes(node),
                "waves" => policy.waves = self.waves(node),
                "clusters" => {
                    let environments = std::mem::take(&mut policy.environments);
                    policy.clusters = self.clusters(node, &environments);
                    policy.environments = environments;
                }
                "ignore" => policy.ignore = self.path_patterns(node),
                "mirrors" => policy.mirrors = self.mirrors(node),
                "fetch" => policy.fetch_allow = self.fetch(node),
                "variables" => policy.variables = self.variables(node, "variables"),
                "providerSecrets" => {
                    let choices = [("omit", ProviderSecrets::Omit), ("render", ProviderSecrets::Render)];
                    let choice = self.choice(node, "providerSecrets", &choices);
                    policy.provider_secrets = choice.unwrap_or(policy.provider_secrets);
                }
                "upgraders" => policy.upgraders = self.upgraders(node),
                "cilium" => policy.cilium = self.cilium(node, "cilium"),
                "author" => self.author(node, &mut policy.author),
                "signing" => policy.signing = self.signing(node),
                "flux" => self.flux(node, &mut policy.flux),
                "backup" => self.backup(node, &mut policy.backup),
                "forge" => policy.forge = self.forge(node),
                "groups" => policy.groups = self.named_lists(node, "groups"),
                "people" => policy.people = self.named_lists(node, "people"),
                "updates" => policy.updates = self.updates(node),
                "announce" => {
                    let names: Vec<&str> = policy.environments.keys().map(String::as_str).collect();
                    policy.announce = self.announce(node, &names);
                }
                _ => {
                    if !self.setting(entry, &mut policy.settings) {
                        self.unknown(entry, "the policy", &known(&FLEET, false));
                    }
                }
            }
        }
        self.check_wanted_groups(&policy.groups);
        self.check_named_in_waves(&policy);
        self.check_approved_waves(&policy);
        policy
    }
}

/// Whether git takes this as the name of a branch.
fn is_branch_name(text: &str) -> bool {
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let refused = |sign: char| sign.is_control() || sign == '\u{7f}' || " ~^:?*[\\".contains(sign);
    text.len() <= 244
        && !matches!(text, "HEAD" | "@")
        && !text.starts_with('-')
        && !text.ends_with('.')
        && !text.contains("..")
        && !text.contains("@{")
        && !text.contains(refused)
        && text.split('/').all(part)
}

/// The only `apiVersion` of `stepgate.yaml`; the field may be left out.
pub(super) const API_VERSION: &str = "stepgate.dev/v1alpha1";
pub(super) const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const LEVEL: [&str; 17] = [
    "stages",
    "apply",
    "bundle",
    "tanzu",
    "allowDowngrade",
    "chainedUpgrades",
    "allowForcedUpdate",
    "allowMinorRollback",
    "restartFargate",
    "forceDrain",
    "freezes",
    "variables",
    "cilium",
    "paused",
    "deleteData",
    "waivers",
    "drift",
];
pub(super) const FLEET: [&str; 41] = [
    "apiVersion",
    "kind",
    "deploy",
    "apply",
    "signatures",
    "deleteData",
    "waivers",
    "drift",
    "notes",
    "injection",
    "paused",
    "bundle",
    "tanzu",
    "allowDowngrade",
    "chainedUpgrades",
    "allowForcedUpdate",
    "allowMinorRollback",
    "restartFargate",
    "forceDrain",
    "stages",
    "freezes",
    "waves",
    "environments",
    "clusters",
    "ignore",
    "mirrors",
    "fetch",
    "variables",
    "providerSecrets",
    "upgraders",
    "cilium",
    "author",
    "signing",
    "flux",
    "backup",
    "forge",
    "groups",
    "people",
    "announce",
    "updates",
    "approval",
];

pub(super) fn known(own: &[&'static str], level: bool) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = own.to_vec();
    names.extend(StageSettings::FIELDS.iter().filter(|name| !own.contains(*name)));
    if level {
        names.extend(LEVEL);
    }
    names
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
