//! Name references: fields that hold the name of another object follow its changes.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt as _};

use crate::budget::Budget;
use crate::error::BuildError;
use crate::id::{Gvk, ResourceId};
use crate::resource::Resource;
use crate::resources::Resources;
use crate::schema::{FieldSpec, NameReference, Schema};
use crate::transform::field::{Create, visit};
use crate::yaml::{Mapping, Node, Text, Value};

/// What is known about an object that may be meant by a name.
struct Candidate {
    current: Arc<ResourceId>,
    original: Arc<ResourceId>,
    previous: Vec<ResourceId>,
    prefixes: Vec<String>,
    suffixes: Vec<String>,
}

/// All objects, and which of them had a name.
struct Candidates {
    all: Vec<Candidate>,
    by_previous_name: HashMap<Text, Vec<usize>>,
}

/// Rewrites all references.
pub(crate) fn fix(resources: &mut Resources, references: &[NameReference], schema: &Schema) -> Result<(), BuildError> {
    let budget = resources.budget.clone();
    let candidates = Candidates::of(&resources.items, schema);
    let mut specs: HashMap<Gvk, Vec<(&Gvk, &FieldSpec)>> = HashMap::new();
    for (index, resource) in resources.items.iter_mut().enumerate() {
        let Some(referrer) = candidates.all.get(index) else {
            continue;
        };
        // Which fields hold names is decided by the first kind, their place by the current one.
        let fields = specs.entry(referrer.original.gvk.clone()).or_insert_with(|| {
            let fits = |spec: &&FieldSpec| referrer.original.gvk.is_selected(&spec.gvk);
            let of = |reference| NameReference::pairs(reference).filter(move |(_, spec)| fits(spec));
            references.iter().flat_map(of).collect()
        });
        if fields.is_empty() {
            continue;
        }
        let namespaces = subject_namespaces(resource)?;
        let role_reference = role_reference(resource);
        for (target, spec) in fields.iter() {
            let scope = Scope {
                candidates: &candidates,
                referrer,
                target,
                role: spec.path.ends_with("roleRef/name").then_some(role_reference.as_ref()).flatten(),
                namespaces: &namespaces,
                budget: &budget,
            };
            visit(resource.node.along(&spec.parts), spec, Create::Never, &mut |node| scope.set(node))
                .map_err(|error| error.context(format_args!("a name in {}", referrer.current)))?;
        }
    }
    Ok(())
}

impl NameReference {
    fn pairs(&self) -> impl Iterator<Item = (&Gvk, &FieldSpec)> {
        self.referrers.iter().map(|spec| (&self.gvk, spec))
    }
}

impl Candidates {
    fn of(resources: &[Resource], schema: &Schema) -> Self {
        let mut by_previous_name: HashMap<Text, Vec<usize>> = HashMap::new();
        let all = resources
            .iter()
            .enumerate()
            .map(|(index, resource)| {
                let previous: Vec<ResourceId> = resource.previous_ids().collect();
                for id in &previous {
                    let list = by_previous_name.entry(id.name.clone()).or_default();
                    if list.last() != Some(&index) {
                        list.push(index);
                    }
                }
                let current = resource.id(schema);
                Candidate {
                    original: previous.first().cloned().map_or_else(|| Arc::clone(&current), Arc::new),
                    current,
                    previous,
                    prefixes: resource.prefixes.clone(),
                    suffixes: resource.suffixes.clone(),
                }
            })
            .collect();
        Self { all, by_previous_name }
    }
}

/// Namespaces of the service accounts that a role binding names.
fn subject_namespaces(resource: &Resource) -> Result<Vec<Text>, BuildError> {
    if resource.kind() != "RoleBinding" {
        return Ok(Vec::new());
    }
    let mut namespaces = Vec::new();
    for subject in resource.node.get("subjects").and_then(Node::as_sequence).into_iter().flatten() {
        let is_account = subject.get("kind").and_then(Node::as_str) == Some("ServiceAccount");
        match subject.get("namespace").map(|node| &node.value) {
            Some(Value::String(namespace)) if is_account => namespaces.push(namespace.clone()),
            Some(_) if is_account => {
                return Err(BuildError::transform("a subject of a RoleBinding has a namespace that is no text"));
            }
            _ => {}
        }
    }
    Ok(namespaces)
}

fn role_reference(resource: &Resource) -> Option<Gvk> {
    let role = resource.node.get("roleRef")?;
    let text = |key: &str| role.get(key).and_then(Node::scalar_text).map(Text::from);
    Some(Gvk { group: text("apiGroup")?, version: Text::default(), kind: text("kind")? })
}

/// One field of one object, and what it may mean.
struct Scope<'a> {
    candidates: &'a Candidates,
    referrer: &'a Candidate,
    target: &'a Gvk,
    role: Option<&'a Gvk>,
    namespaces: &'a [Text],
    budget: &'a Budget,
}

impl Scope<'_> {
    fn set(&self, node: &mut Node) -> Result<(), BuildError> {
        match &mut node.value {
            Value::Null => Ok(()),
            Value::Mapping(mapping) => self.set_mapping(mapping),
            Value::Sequence(items) => items.iter_mut().try_for_each(|item| match &mut item.value {
                Value::Null => Ok(()),
                Value::Mapping(mapping) => self.set_mapping(mapping),
                Value::Sequence(_) => Err(BuildError::transform("a list of names holds a list")),
                _ => self.set_scalar(item),
            }),
            _ => self.set_scalar(node),
        }
    }

    fn set_scalar(&self, node: &mut Node) -> Result<(), BuildError> {
        let old = node.scalar_text().unwrap_or_default().into_owned();
        let same = |a: &Candidate, b: &Candidate| a.current.name == b.current.name;
        if let Some(found) = self.select(&old, |_| true, same)?
            && found.current.name != old
        {
            node.replace_plainly(&found.current.name);
        }
        Ok(())
    }

    /// A map with a name takes the namespace of what it means as well.
    fn set_mapping(&self, mapping: &mut Mapping) -> Result<(), BuildError> {
        let Some(name) = mapping.get("name") else {
            return Err(BuildError::transform("expected a map with a `name`")
                .hint("the path of a name reference leads to a name or to a map that has one"));
        };
        let old = name.scalar_text().unwrap_or_default().into_owned();
        let namespace = mapping.get("namespace").and_then(Node::scalar_text).map(std::borrow::Cow::into_owned);
        let reachable = |candidate: &Candidate| self.reaches(candidate);
        self.budget.spend(namespace.as_ref().map_or(1, |_| self.candidates.all.len()))?;
        // Objects that began in that namespace go before those that are there now.
        let in_original = namespace.as_deref().is_some_and(|namespace| {
            self.candidates
                .all
                .iter()
                .any(|candidate| reachable(candidate) && candidate.original.effective_namespace() == namespace)
        });
        let fits = |candidate: &Candidate| match &namespace {
            None => true,
            Some(namespace) if in_original => candidate.original.effective_namespace() == namespace,
            Some(namespace) => candidate.current.effective_namespace() == namespace,
        };
        let same = |a: &Candidate, b: &Candidate| {
            a.current.name == b.current.name && a.current.namespace == b.current.namespace
        };
        let Some(found) = self.select(&old, fits, same)? else {
            return Ok(());
        };
        let (name, namespace) = (&found.current.name, &found.current.namespace);
        if *name == old && namespace.is_empty() {
            return Ok(());
        }
        mapping.insert("name", name.as_str());
        if !namespace.is_empty() {
            mapping.insert("namespace", namespace.as_str());
        }
        Ok(())
    }

    /// Objects of other namespaces cannot be meant, except the service accounts of a role binding.
    fn reaches(&self, candidate: &Candidate) -> bool {
        let referrer = &self.referrer.current;
        referrer.cluster_scoped
            || candidate.current.cluster_scoped
            || candidate.current.effective_namespace() == referrer.effective_namespace()
            || self.namespaces.contains(&candidate.current.namespace)
    }

    fn in_sight(&self, candidate: &Candidate) -> bool {
        let referrer = &self.referrer.current;
        referrer.cluster_scoped
            || candidate.current.cluster_scoped
            || candidate.current.gvk.kind == "ServiceAccount"
            || candidate.current.effective_namespace() == referrer.effective_namespace()
    }

    /// Picks the object that had the name `old`.
    fn select(
        &self,
        old: &str,
        fits: impl Fn(&Candidate) -> bool,
        same: impl Fn(&Candidate, &Candidate) -> bool,
    ) -> Result<Option<&Candidate>, BuildError> {
        let Some(indices) = self.candidates.by_previous_name.get(old) else {
            return Ok(None);
        };
        self.budget.spend(indices.len())?;
        let had_kind = |candidate: &Candidate, gvk: &Gvk| candidate.previous.iter().any(|id| id.gvk.is_selected(gvk));
        let mut found: Vec<&Candidate> = indices
            .iter()
            .filter_map(|index| self.candidates.all.get(*index))
            .filter(|candidate| self.reaches(candidate) && fits(candidate))
            .filter(|candidate| had_kind(candidate, self.target))
            .filter(|candidate| self.role.is_none_or(|role| had_kind(candidate, role)))
            .filter(|candidate| self.in_sight(candidate))
            .collect();
        if let [one] = found.as_slice() {
            return Ok(Some(one));
        }
        found.retain(|candidate| self.same_layer(candidate, true));
        if found.len() > 1 {
            found.retain(|candidate| self.same_layer(candidate, false));
        }
        match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            [first, rest @ ..] if rest.iter().all(|other| same(first, other)) => Ok(Some(first)),
            several => {
                let names: Vec<String> = several.iter().map(|candidate| candidate.current.to_string()).collect();
                Err(BuildError::conflict(format!("the name `{old}` may mean {}", names.join(" or "))))
            }
        }
    }

    /// Says whether prefixes and suffixes were added by the same kustomizations.
    fn same_layer(&self, candidate: &Candidate, allow_empty: bool) -> bool {
        let same = |a: &[String], b: &[String]| {
            (allow_empty && (a.is_empty() || b.is_empty()))
                || a.iter().rev().zip(b.iter().rev()).all(|(a, b)| a == b) && (a.is_empty() == b.is_empty())
        };
        same(&candidate.prefixes, &self.referrer.prefixes) && same(&candidate.suffixes, &self.referrer.suffixes)
    }
}
