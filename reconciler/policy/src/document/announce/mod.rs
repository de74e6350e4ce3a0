//! `announce` of `stepgate.yaml`: what is told of rollouts and stages, and by which sinks of the operator.
//!
//! Architecture Invariant: the repository names a sink and nothing of it. Where a sink is, and by which
//! secret it is reached, the operator says (`stepgate run --sinks`).

pub(in crate::document) mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use domain::nearest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yaml::Node;

use crate::document::announce::template::AnnouncementTemplate;
use crate::document::pattern::matches_pattern;
use crate::document::read::{Reader, STAGES};
use crate::document::schema::{every_field_is_optional, named_by_stage};
use crate::document::sections::sources::is_mirror_name;
use crate::document::types::Policy;

/// What is told of a rollout, or of one of its stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnnouncementKind {
    /// It is going to begin.
    Upcoming,
    /// Its first commit is made.
    Started,
    /// It waits for people.
    Waiting,
    /// It does not go on by itself.
    Held,
    /// It has ended as it was meant to.
    Done,
    /// What was before has been committed back.
    RolledBack,
}

impl AnnouncementKind {
    /// All of them, in the order in which they happen.
    pub const ALL: [Self; 6] = [Self::Upcoming, Self::Started, Self::Waiting, Self::Held, Self::Done, Self::RolledBack];

    /// The name, as people write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Upcoming => "upcoming",
            Self::Started => "started",
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Done => "done",
            Self::RolledBack => "rolled-back",
        }
    }
}

impl fmt::Display for AnnouncementKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A text is not the name of an announcement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid announcement")]
pub struct UnknownAnnouncement(String);

impl FromStr for AnnouncementKind {
    type Err = UnknownAnnouncement;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| UnknownAnnouncement(text.to_owned()))
    }
}

/// What is told of rollouts, and by which sinks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct AnnouncePolicy {
    /// What people will feel of a stage, in the team's words; Stepgate's own where absent.
    #[schemars(transform = named_by_stage)]
    pub impact: BTreeMap<String, String>,
    /// Who is told what.
    pub routes: Vec<AnnouncementRoute>,
}

/// What one sink tells of some clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct AnnouncementRoute {
    /// Name of a sink. Where it is, the operator of Stepgate says.
    pub to: String,
    /// Cluster names, or patterns with `*`; every cluster where neither these nor environments are named.
    pub clusters: Vec<String>,
    /// Names of environments.
    pub environments: Vec<String>,
    /// What is told of a rollout as a whole; everything when absent.
    pub rollout: BTreeSet<AnnouncementKind>,
    /// What is told of single stages besides; nothing when absent.
    #[schemars(transform = named_by_stage)]
    pub stages: BTreeMap<String, BTreeSet<AnnouncementKind>>,
    /// Texts in the place of Stepgate's own. `{cluster}` and the like stand for what is told.
    #[schemars(with = "BTreeMap<AnnouncementKind, String>")]
    pub templates: BTreeMap<AnnouncementKind, AnnouncementTemplate>,
}

impl AnnouncementRoute {
    /// Whether it tells this: of a stage where one is named, else of the rollout. Waits and holds are told of a
    /// rollout too, since they keep all of it.
    #[must_use]
    pub fn tells(&self, kind: AnnouncementKind, stage: Option<&str>) -> bool {
        let Some(stage) = stage else { return self.rollout.contains(&kind) };
        let group = stage.split_once('/').map(|(family, _)| family);
        let of_stage = self.stages.get(stage).or_else(|| self.stages.get(group?));
        of_stage.is_some_and(|kinds| kinds.contains(&kind))
            || (matches!(kind, AnnouncementKind::Waiting | AnnouncementKind::Held) && self.rollout.contains(&kind))
    }
}

impl Policy {
    /// What is announced of a cluster, and by which sinks.
    pub fn announcement_routes<'a>(&'a self, cluster: &'a str) -> impl Iterator<Item = &'a AnnouncementRoute> {
        let environment = self.environment_of(cluster);
        self.announce.routes.iter().filter(move |route| {
            let is_everybody = route.clusters.is_empty() && route.environments.is_empty();
            is_everybody
                || route.clusters.iter().any(|pattern| matches_pattern(pattern, cluster))
                || environment.is_some_and(|name| route.environments.iter().any(|wanted| wanted == name))
        })
    }

    /// What people will feel of a stage, where the team has said so.
    #[must_use]
    pub fn announced_impact(&self, stage: &str) -> Option<&str> {
        let group = stage.split_once('/').map(|(family, _)| family);
        let impact = &self.announce.impact;
        impact.get(stage).or_else(|| impact.get(group?)).map(String::as_str)
    }
}

const ROUTE: [&str; 6] = ["to", "clusters", "environments", "rollout", "stages", "templates"];

impl Reader<'_> {
    pub(in crate::document) fn announce(&mut self, node: &Node, environments: &[&str]) -> AnnouncePolicy {
        let mut announce = AnnouncePolicy::default();
        for entry in self.mapping(node, "announce").into_iter().flatten() {
            match entry.key.as_str() {
                "impact" => {
                    for field in self.mapping(&entry.value, "announce.impact").into_iter().flatten() {
                        if !is_stage(&field.key) {
                            self.unknown(field, "announce.impact", &STAGES);
                        } else if let Some(text) = self.text(&field.value, "announce.impact") {
                            announce.impact.insert(field.key.to_string(), text);
                        }
                    }
                }
                "routes" => {
                    if entry.value.as_sequence().is_none() && !entry.value.is_null() {
                        self.problem(entry.value.span, "announce.routes must be a list", None);
                    }
                    let items = entry.value.as_sequence().unwrap_or_default();
                    announce.routes = items.iter().filter_map(|item| self.route(item, environments)).collect();
                }
                _ => self.unknown(entry, "announce", &["impact", "routes"]),
            }
        }
        announce
    }

    fn route(&mut self, node: &Node, environments: &[&str]) -> Option<AnnouncementRoute> {
        let place = "announce.routes";
        let mut route = AnnouncementRoute {
            to: String::new(),
            clusters: Vec::new(),
            environments: Vec::new(),
            rollout: AnnouncementKind::ALL.into(),
            stages: BTreeMap::new(),
            templates: BTreeMap::new(),
        };
        for entry in self.mapping(node, place)? {
            let value = &entry.value;
            match entry.key.as_str() {
                "to" => {
                    let text = self.text(value, "announce.routes.to")?;
                    if !is_mirror_name(&text) {
                        let hint = "name a sink, such as ops; its address goes into the operator's folder (--sinks)";
                        let message = format!("announce.routes.to: {text:?} is not a valid name of a sink");
                        self.problem(value.span, message, Some(hint.to_owned()));
                        return None;
                    }
                    route.to = text;
                }
                "clusters" => route.clusters = self.texts(value, "announce.routes.clusters"),
                "environments" => {
                    route.environments = self.texts(value, "announce.routes.environments");
                    for name in &route.environments {
                        if !environments.contains(&name.as_str()) {
                            let hint = nearest(name, environments).map(|name| format!("did you mean {name:?}?"));
                            let message = format!("announce.routes.environments: there is no environment {name:?}");
                            self.problem(value.span, message, hint);
                        }
                    }
                }
                "rollout" => route.rollout = self.kinds(value, "announce.routes.rollout"),
                "stages" => {
                    for field in self.mapping(value, "announce.routes.stages").into_iter().flatten() {
                        if is_stage(&field.key) {
                            let kinds = self.kinds(&field.value, "announce.routes.stages");
                            route.stages.insert(field.key.to_string(), kinds);
                        } else {
                            self.unknown(field, "announce.routes.stages", &STAGES);
                        }
                    }
                }
                "templates" => {
                    for field in self.mapping(value, "announce.routes.templates").into_iter().flatten() {
                        let Ok(kind) = field.key.as_str().parse() else {
                            let known = AnnouncementKind::ALL.map(AnnouncementKind::as_str);
                            self.unknown(field, "announce.routes.templates", &known);
                            continue;
                        };
                        let Some(text) = self.text(&field.value, "announce.routes.templates") else { continue };
                        match text.parse() {
                            Ok(template) => drop(route.templates.insert(kind, template)),
                            Err(error) => {
                                let message = format!("announce.routes.templates.{kind}: {error}");
                                self.problem(field.value.span, message, None);
                            }
                        }
                    }
                }
                _ => self.unknown(entry, place, &ROUTE),
            }
        }
        if route.to.is_empty() {
            let hint = Some("name a sink of the operator: `to: ops`".to_owned());
            self.problem(node.span, "announce.routes: a route has no `to`, so it tells nobody", hint);
            return None;
        }
        Some(route)
    }

    fn kinds(&mut self, node: &Node, place: &str) -> BTreeSet<AnnouncementKind> {
        let mut kinds = BTreeSet::new();
        for text in self.texts(node, place) {
            match text.parse() {
                Ok(kind) => drop(kinds.insert(kind)),
                Err(error) => {
                    let error: UnknownAnnouncement = error;
                    let known = AnnouncementKind::ALL.map(AnnouncementKind::as_str);
                    let hint = match nearest(&text, &known) {
                        Some(name) => format!("did you mean {name:?}?"),
                        None => format!("announcements are: {}", known.join(", ")),
                    };
                    self.problem(node.span, format!("{place}: {error}"), Some(hint));
                }
            }
        }
        kinds
    }
}

/// Whether stages of a plan may have this name.
fn is_stage(name: &str) -> bool {
    STAGES.contains(&name) || name.strip_prefix("workers/").is_some_and(|group| !group.is_empty())
}

#[cfg(test)]
mod tests {
    use domain::RepoPath;

    use super::AnnouncementKind::{self, Done, Held, Started, Upcoming};
    use crate::{Policy, read_policy};

    fn read(text: &str) -> (Policy, Vec<String>) {
        let (policy, problems) = read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        let told =
            |problem: &domain::Problem| format!("{}; {}", problem.message, problem.hint.clone().unwrap_or_default());
        (policy, problems.iter().map(told).collect())
    }

    #[test]
    fn routes_tell_what_they_name_of_the_clusters_they_name() {
        let text = "environments: {prod: {clusters: [p-*]}}\nannounce:\n  impact: {workers: pods move}\n  routes:\n  - {to: everybody}\n  \
                    - {to: ops, environments: [prod], rollout: [held], stages: {control-plane: [started], workers: [done]}}\n  \
                    - {to: team, clusters: [t-*], templates: {held: 'help {cluster}'}}\n";
        let (policy, problems) = read(text);
        assert_eq!(problems, [""; 0]);
        let names = |cluster: &str| {
            policy.announcement_routes(cluster).map(|route| route.to.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!([names("p-1"), names("t-1"), names("x")], ["everybody ops", "everybody team", "everybody"]);
        let tells = |to: &str, kind: AnnouncementKind, stage: Option<&str>| {
            policy.announce.routes.iter().find(|route| route.to == to).unwrap().tells(kind, stage)
        };
        for (to, kind, stage, expected) in [
            ("everybody", Upcoming, None, true),
            ("everybody", Started, Some("capi"), false),
            ("everybody", Held, Some("capi"), true),
            ("ops", Started, None, false),
            ("ops", Started, Some("control-plane"), true),
            ("ops", Done, Some("workers/md-0"), true),
            ("ops", Started, Some("workers/md-0"), false),
        ] {
            assert_eq!(tells(to, kind, stage), expected, "{to} {kind} {stage:?}");
        }
        assert_eq!(policy.announced_impact("workers/md-0"), Some("pods move"));
        assert_eq!(policy.announced_impact("capi"), None);
    }

    #[test]
    fn what_is_not_understood_of_announcements_is_told() {
        for (text, wanted) in [
            ("routes: [{clusters: [a]}]", "a route has no `to`, so it tells nobody"),
            ("routes: [{to: 'https://hooks.example.com/x'}]", "is not a valid name of a sink; name a sink"),
            ("routes: [{to: ops, rollout: [begun]}]", "\"begun\" is not a valid announcement"),
            ("routes: [{to: ops, stages: {controlplane: [held]}}]", "unknown field \"controlplane\""),
            ("routes: [{to: ops, environments: [prod]}]", "there is no environment \"prod\""),
            ("routes: [{to: ops, templates: {held: '{clustr}'}}]", "\"clustr\" is not a valid variable"),
            ("routes: [{to: ops, templates: {hold: x}}]", "unknown field \"hold\""),
            ("routes: [{to: ops, url: x}]", "unknown field \"url\""),
            ("impact: {nodes: x}", "unknown field \"nodes\""),
            ("sinks: []", "unknown field \"sinks\""),
        ] {
            let (_, problems) = read(&format!("announce: {{{text}}}\n"));
            assert!(problems.iter().any(|problem| problem.contains(wanted)), "{text}: {problems:?}");
        }
    }
}
