//! eksctl's `ClusterConfig`, read as strictly as eksctl does.

use std::collections::BTreeMap;

use yaml::Node;

use super::ReadCluster;
use super::other::{Facts, spec_of};
use crate::eksctl::{self, ANNOTATION, KEPT, Succession, VersionedName, minor_of, succession};
use crate::fleet::objects::{FoundObject, Objects, field};
use crate::{ClusterKind, Provider, WorkerGroupKind};
use domain::{Problem, Severity};

/// What a managed node group, and what a stack of `CloudFormation` may be called at most.
const MANAGED_NAME: usize = 63;
const STACK_NAME: usize = 128;
/// The first minor for which there is no image of Amazon Linux 2.
const WITHOUT_AMAZON_LINUX_2: u32 = 33;

/// `eksctl.io`: `metadata.version`, node groups managed and not.
pub(super) fn read<'a>(
    object: &'a FoundObject,
    _: &Objects<'a>,
    problems: &mut Vec<Problem>,
) -> Result<ReadCluster<'a>, Box<Problem>> {
    let config = Config { object, root: &object.node };
    let Some(version) = field(&object.node, &["metadata", "version"]) else {
        let problem = config.problem(&["metadata"], "has no metadata.version");
        return Err(Box::new(
            problem.hint("write version: \"1.30\" under metadata; eksctl's default changes with eksctl"),
        ));
    };
    // Whatever is wrong, it is this cluster, and what is recorded of it stays readable between two stages.
    problems.extend(config.misread());
    problems.extend(config.metadata(&version));
    problems.extend(config.groups(minor_of(&version)));
    problems.extend(config.lists());
    problems.extend(config.identities());
    let worker_groups = eksctl::worker_groups(&object.node, &version);
    Ok(spec_of(
        object,
        ClusterKind::Eksctl,
        Provider::Other("eksctl".to_owned()),
        Facts {
            kubernetes_version: version,
            version_path: &["metadata", "version"],
            control_plane_count: None,
            worker_groups,
        },
    ))
}

struct Config<'a> {
    object: &'a FoundObject,
    root: &'a Node,
}

impl Config<'_> {
    fn problem(&self, path: &[&str], message: impl AsRef<str>) -> Problem {
        let name = &self.object.name;
        self.object.problem(path, name, format!("ClusterConfig {name:?} {}", message.as_ref()))
    }

    fn at(&self, node: &Node, message: impl Into<String>) -> Problem {
        let place = self.object.place(node.span);
        let problem = self.object.problem(&[], &self.object.name, message);
        problem.at(place.line, place.column)
    }

    fn misread(&self) -> Vec<Problem> {
        let told = eksctl::misread(self.root).into_iter().map(|found| {
            let place = self.object.place(found.span);
            let problem = self.object.problem(&[], &self.object.name, found.message);
            problem.at(place.line, place.column).hint(found.hint)
        });
        told.collect()
    }

    fn metadata(&self, version: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.object.version != "v1alpha5" {
            let message = format!("is of version {:?}, and eksctl reads eksctl.io/v1alpha5 alone", self.object.version);
            problems.push(self.problem(&["apiVersion"], message).hint("write apiVersion: eksctl.io/v1alpha5"));
        }
        if field(self.root, &["metadata", "region"]).is_none() {
            let problem = self.problem(&["metadata"], "has no metadata.region");
            problems.push(problem.hint("write region: … under metadata; eksctl asks for it"));
        }
        if minor_of(version).is_none() {
            let message = format!("metadata.version {version:?} is not a valid version of EKS");
            problems
                .push(self.problem(&["metadata", "version"], message).hint("write major and minor, as in \"1.33\""));
        }
        let timeout = self.root.at(&["metadata", "rollbackConfig", "timeoutMinutes"]).and_then(Node::as_i64);
        if let Some(minutes) = timeout.filter(|minutes| !(120..=10_080).contains(minutes)) {
            let message = format!("metadata.rollbackConfig.timeoutMinutes {minutes} is not between 120 and 10080");
            problems.push(
                self.problem(&["metadata", "rollbackConfig"], message).hint("eksctl takes two hours to seven days"),
            );
        }
        problems
    }

    fn groups(&self, minor: Option<u32>) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        let mut stems: BTreeMap<String, &str> = BTreeMap::new();
        for (list, kind) in eksctl::GROUP_LISTS {
            let items = self.root.get(list).and_then(Node::as_sequence).unwrap_or_default();
            for item in items {
                let Some(name) = item.get("name").and_then(Node::as_str).filter(|name| !name.is_empty()) else {
                    let problem = self.at(item, format!("a group of {list} has no name"));
                    problems.push(problem.hint("give it one that carries its version, as in ng-shared-1-33"));
                    continue;
                };
                let node = item.get("name").unwrap_or(item);
                if names.contains(&name) {
                    let problem = self.at(node, format!("two node groups are called {name:?}"));
                    problems.push(problem.hint("keep one of the two"));
                    continue;
                }
                names.push(name);
                problems.extend(self.group_name(node, name, kind, minor));
                problems.extend(self.image(item, name, minor));
                if let Some(other) = stems.insert(eksctl::stem(self.root, name), name) {
                    let message = format!("node groups {other:?} and {name:?} replace each other, and both are wanted");
                    let hint = "keep the one that is to stay; Stepgate keeps the other beside it until it is empty";
                    problems.push(self.at(node, message).hint(hint));
                }
            }
        }
        problems.extend(self.annotations(&names));
        problems
    }

    /// What is wrong with the name of a group, or with the one that its version asks for.
    fn group_name(&self, node: &Node, name: &str, kind: WorkerGroupKind, minor: Option<u32>) -> Vec<Problem> {
        let mut problems = Vec::new();
        let is_valid = name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '-');
        if !is_valid {
            let problem = self.at(node, format!("{name:?} is not a valid name for a node group"));
            problems.push(problem.hint("use letters, digits and hyphens, a letter first, as CloudFormation asks for"));
        }
        let succession = succession(self.root, name);
        let wanted = match (&succession, minor) {
            (Succession::Versioned(own), Some(minor)) if own.minor != minor => {
                VersionedName::first(&own.stem, minor).to_string()
            }
            _ => name.to_owned(),
        };
        let stack = format!("eksctl-{}-nodegroup-{wanted}", self.object.name);
        let too_long = match kind {
            WorkerGroupKind::ManagedNodeGroup if wanted.len() > MANAGED_NAME => Some((&wanted, MANAGED_NAME)),
            _ if stack.len() > STACK_NAME => Some((&stack, STACK_NAME)),
            _ => None,
        };
        if let Some((text, limit)) = too_long {
            let message =
                format!("{text:?} of node group {name:?} has {} characters, and may have {limit}", text.len());
            problems.push(self.at(node, message).hint("give the group a shorter name"));
        }
        if succession == Succession::Undecided && eksctl::annotation(self.root, name).is_none() {
            let message = format!(
                "the name of node group {name:?} carries no version, so nothing tells which group is to replace it"
            );
            let minor = minor.unwrap_or(WITHOUT_AMAZON_LINUX_2);
            let next = VersionedName::first(name, minor);
            let hint = format!(
                "call it as in {next}, or write under metadata.annotations `{ANNOTATION}{name}: \"1.{minor}\"` (the version \
                 that it was made at) or `{ANNOTATION}{name}: {KEPT}`"
            );
            problems.push(self.at(node, message).hint(hint));
        }
        problems
    }

    fn image(&self, item: &Node, name: &str, minor: Option<u32>) -> Option<Problem> {
        let family = item.get("amiFamily").filter(|family| family.as_str() == Some("AmazonLinux2"))?;
        minor.filter(|minor| *minor >= WITHOUT_AMAZON_LINUX_2).map(|minor| {
            let message =
                format!("node group {name:?} asks for Amazon Linux 2, of which EKS has no image for 1.{minor}");
            self.at(family, message).hint("write amiFamily: AmazonLinux2023")
        })
    }

    /// Annotations of groups that are not there, or that say nothing that is known.
    fn annotations(&self, names: &[&str]) -> Vec<Problem> {
        let annotations = self.root.at(&["metadata", "annotations"]).and_then(Node::as_mapping);
        let mut problems = Vec::new();
        for entry in annotations.into_iter().flat_map(yaml::Mapping::iter) {
            let Some(group) = entry.key.strip_prefix(ANNOTATION) else { continue };
            if !names.contains(&group) {
                let message = format!("annotation {}: there is no node group {group:?}", entry.key);
                let problem = self.at(&entry.value, message).hint("correct its name, or remove the annotation");
                problems.push(problem.severity(Severity::Warning));
            }
            let value = entry.value.scalar_text().unwrap_or_default();
            if value != KEPT && minor_of(&value).is_none() {
                let message = format!("annotation {}: {value:?} is not a version of EKS and not {KEPT}", entry.key);
                problems.push(self.at(&entry.value, message).hint(format!("write \"1.33\" or {KEPT}")));
            }
        }
        problems
    }

    /// Roles that are mapped with a path, and let nobody in.
    fn identities(&self) -> Vec<Problem> {
        let told = eksctl::roles_with_path(self.root).map(|(node, wanted)| {
            let message =
                "this role is written with its path, which nobody who assumes it has: the mapping lets nobody in";
            let problem = self.at(node, message).hint(format!("write {wanted}"));
            problem.severity(Severity::Warning)
        });
        told.collect()
    }

    /// Add-ons and Fargate profiles that have no name, or the name of another.
    fn lists(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (list, what) in [("addons", "an add-on"), ("fargateProfiles", "a Fargate profile")] {
            let mut names: Vec<&str> = Vec::new();
            for item in self.root.get(list).and_then(Node::as_sequence).unwrap_or_default() {
                match item.get("name").and_then(Node::as_str).filter(|name| !name.is_empty()) {
                    None => problems.push(self.at(item, format!("{what} has no name")).hint("give it its name")),
                    Some(name) if names.contains(&name) => {
                        problems.push(
                            self.at(item, format!("{what} of the name {name:?} stands there twice")).hint("keep one"),
                        );
                    }
                    Some(name) => names.push(name),
                }
            }
        }
        problems
    }
}
