//! Name references: fields that hold the name of another object follow its changes.

use std::cell::OnceCell;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt as _};

use crate::budget::Budget;
use crate::error::BuildError;
use crate::id::{Gvk, ResourceId};
use crate::object::Object;
use crate::resource::Resource;
use crate::resources::Resources;
use crate::schema::{FieldSpec, NameReference, Schema};
use crate::transform::field::{Create, visit};
use crate::yaml::{Mapping, Node, Text, Value};

/// An object that may be meant by a name, without its tree.
struct Candidate<'r> {
    state: &'r Resource,
    current: Arc<ResourceId>,
}

/// All objects, and which of them had a name.
struct Candidates<'r> {
    all: Vec<Candidate<'r>>,
    /// Names and indices, sorted once somebody asks.
    previous_names: OnceCell<Vec<(&'r str, usize)>>,
}

/// Rewrites all references.
pub(crate) fn fix(resources: &mut Resources, references: &[NameReference], schema: &Schema) -> Result<(), BuildError> {
    let names: Vec<_> = resources.items.iter().map(|resource| resource.id(schema)).collect();
    // What is known about the objects stays as it is while their trees change.
    let mut objects: Vec<_> = resources.items.iter_mut().map(|resource| std::mem::take(&mut resource.node)).collect();
    let result = rewrite(&mut objects, &Candidates::of(&resources.items, names), references, &resources.budget);
    for (resource, object) in resources.items.iter_mut().zip(objects) {
        resource.node = object;
    }
    result
}

fn rewrite(
    objects: &mut [Object],
    candidates: &Candidates<'_>,
    references: &[NameReference],
    budget: &Budget,
) -> Result<(), BuildError> {
    let mut specs: HashMap<Gvk, Vec<(&Gvk, &FieldSpec)>> = HashMap::new();
    for (object, referrer) in objects.iter_mut().zip(&candidates.all) {
        // Which fields hold names is decided by the first kind, their place by the current one.
        let fields = specs.entry(referrer.original_gvk()).or_insert_with_key(|gvk| {
            let fits = |spec: &&FieldSpec| gvk.is_selected(&spec.gvk);
            let of = |reference| NameReference::pairs(reference).filter(move |(_, spec)| fits(spec));
            references.iter().flat_map(of).collect()
        });
        if fields.is_empty() {
            continue;
        }
        expect_group(object, &referrer.state.origin.file)?;
        let namespaces = subject_namespaces(object, &referrer.current.gvk.kind)?;
        let role_reference = role_reference(object);
        for (target, spec) in fields.iter() {
            let scope = Scope {
                candidates,
                referrer,
                target,
                role: spec.path.ends_with("roleRef/name").then_some(role_reference.as_ref()).flatten(),
                namespaces: &namespaces,
                budget,
            };
            visit(object.along(&spec.parts), spec, Create::Never, &mut |node| scope.set(node))
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

impl<'r> Candidates<'r> {
    fn of(resources: &'r [Resource], names: Vec<Arc<ResourceId>>) -> Self {
        let all: Vec<_> = resources.iter().zip(names).map(|(state, current)| Candidate { state, current }).collect();
        Self { all, previous_names: OnceCell::new() }
    }

    fn previous_names(&self) -> &[(&'r str, usize)] {
        self.previous_names.get_or_init(|| {
            let names = |(index, candidate): (usize, &Candidate<'r>)| {
                candidate.state.previous.iter().map(move |previous| (previous.name.as_str(), index))
            };
            let mut names: Vec<_> = self.all.iter().enumerate().flat_map(names).collect();
            names.sort_unstable();
            names.dedup();
            names
        })
    }

    /// The objects that had the name, in their order.
    fn named(&self, name: &str) -> Vec<&Candidate<'r>> {
        let names = self.previous_names();
        let before = names.partition_point(|(known, _)| *known < name);
        let from = names.iter().skip(before);
        from.take_while(|(known, _)| *known == name).filter_map(|(_, index)| self.all.get(*index)).collect()
    }
}

impl Candidate<'_> {
    /// Group, version and kind with the first kind it had.
    fn original_gvk(&self) -> Gvk {
        let kind = self.state.previous.first().map_or(&self.current.gvk.kind, |previous| &previous.kind);
        Gvk { kind: kind.clone(), ..self.current.gvk.clone() }
    }

    /// The namespace it began in.
    fn original_namespace(&self) -> &str {
        match self.state.previous.first() {
            Some(previous) if previous.namespace.is_empty() => "default",
            Some(previous) => &previous.namespace,
            None => self.current.effective_namespace(),
        }
    }

    /// Says whether `selector` fits it as it was at some time.
    fn was_selected(&self, selector: &Gvk) -> bool {
        let any_kind = Gvk { kind: Text::default(), ..selector.clone() };
        let had_kind = |kind: &Text| self.state.previous.iter().any(|previous| previous.kind == *kind);
        let is_kind = if selector.kind.is_empty() { !self.state.previous.is_empty() } else { had_kind(&selector.kind) };
        is_kind && self.current.gvk.is_selected(&any_kind)
    }
}

/// kustomize compares an object that may name others with what it has read of it, and never finds an empty group again.
fn expect_group(object: &Node, file: &str) -> Result<(), BuildError> {
    let odd = object.get("apiVersion").filter(|node| node.scalar_text().is_some_and(|text| text.starts_with('/')));
    odd.map_or(Ok(()), |node| {
        let text = node.scalar_text().unwrap_or_default();
        let error = BuildError::transform(format!("the apiVersion `{text}` has no group before its slash"));
        Err(error.hint("name the group, or leave the slash out").at(file, node.span))
    })
}

/// Namespaces of the service accounts that a role binding names.
fn subject_namespaces(object: &Node, kind: &str) -> Result<Vec<Text>, BuildError> {
    if kind != "RoleBinding" {
        return Ok(Vec::new());
    }
    let mut namespaces = Vec::new();
    for subject in object.get("subjects").and_then(Node::as_sequence).into_iter().flatten() {
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

fn role_reference(object: &Node) -> Option<Gvk> {
    let role = object.get("roleRef")?;
    let text = |key: &str| role.get(key).and_then(Node::scalar_text).map(Text::from);
    Some(Gvk { group: text("apiGroup")?, version: Text::default(), kind: text("kind")? })
}

/// One field of one object, and what it may mean.
struct Scope<'a, 'r> {
    candidates: &'a Candidates<'r>,
    referrer: &'a Candidate<'r>,
    target: &'a Gvk,
    role: Option<&'a Gvk>,
    namespaces: &'a [Text],
    budget: &'a Budget,
}

impl<'r> Scope<'_, 'r> {
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
        let same = |a: &Candidate<'_>, b: &Candidate<'_>| a.current.name == b.current.name;
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
        let reachable = |candidate: &Candidate<'_>| self.reaches(candidate);
        self.budget.spend(namespace.as_ref().map_or(1, |_| self.candidates.all.len()))?;
        // Objects that began in that namespace go before those that are there now.
        let in_original = namespace.as_deref().is_some_and(|namespace| {
            self.candidates
                .all
                .iter()
                .any(|candidate| reachable(candidate) && candidate.original_namespace() == namespace)
        });
        let fits = |candidate: &Candidate<'_>| match &namespace {
            None => true,
            Some(namespace) if in_original => candidate.original_namespace() == namespace,
            Some(namespace) => candidate.current.effective_namespace() == namespace,
        };
        let same = |a: &Candidate<'_>, b: &Candidate<'_>| {
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
    fn reaches(&self, candidate: &Candidate<'_>) -> bool {
        let referrer = &self.referrer.current;
        referrer.cluster_scoped
            || candidate.current.cluster_scoped
            || candidate.current.effective_namespace() == referrer.effective_namespace()
            || self.namespaces.contains(&candidate.current.namespace)
    }

    fn in_sight(&self, candidate: &Candidate<'_>) -> bool {
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
        fits: impl Fn(&Candidate<'_>) -> bool,
        same: impl Fn(&Candidate<'_>, &Candidate<'_>) -> bool,
    ) -> Result<Option<&Candidate<'r>>, BuildError> {
        let mut found = self.candidates.named(old);
        self.budget.spend(found.len())?;
        found.retain(|candidate| {
            self.reaches(candidate)
                && fits(candidate)
                && candidate.was_selected(self.target)
                && self.role.is_none_or(|role| candidate.was_selected(role))
                && self.in_sight(candidate)
        });
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
    fn same_layer(&self, candidate: &Candidate<'_>, allow_empty: bool) -> bool {
        let same = |a: &[Text], b: &[Text]| {
            (allow_empty && (a.is_empty() || b.is_empty()))
                || a.iter().rev().zip(b.iter().rev()).all(|(a, b)| a == b) && (a.is_empty() == b.is_empty())
        };
        let (candidate, referrer) = (candidate.state, self.referrer.state);
        same(&candidate.prefixes, &referrer.prefixes) && same(&candidate.suffixes, &referrer.suffixes)
    }
}
