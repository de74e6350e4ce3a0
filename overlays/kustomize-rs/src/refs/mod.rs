//! Name references: fields that hold the name of another object follow its changes.

mod candidates;

use std::borrow::Cow;

use foldhash::{HashMap, HashMapExt as _};

use crate::budget::Budget;
use crate::error::BuildError;
use crate::id::{Gvk, ResourceId};
use crate::object::Object;
use crate::resource::{Resource, Resources};
use crate::schema::{FieldSpec, NameReference, Schema};
use crate::transform::field::{Create, visit};

use candidates::{Candidate, Candidates};
use yaml::{Mapping, Node, Text, Value};

/// Rewrites all references.
pub(crate) fn fix(resources: &mut Resources, references: &[NameReference], schema: &Schema) -> Result<(), BuildError> {
    let names: Vec<_> = resources.items.iter().map(|resource| resource.id(schema)).collect();
    let mut fields: HashMap<Gvk, Fields<'_>> = HashMap::new();
    // What is known about the objects stays as it is while the trees change of those that may name others.
    let mut referrers: Vec<(usize, Object)> = Vec::new();
    for (index, (resource, current)) in resources.items.iter_mut().zip(&names).enumerate() {
        let gvk = original_gvk(resource, current);
        if !fields.contains_key(&*gvk) {
            fields.insert(gvk.clone().into_owned(), NameReference::fields_of(references, &gvk));
        }
        if fields.get(&*gvk).is_some_and(|fields| !fields.is_empty()) {
            referrers.push((index, std::mem::take(&mut resource.node)));
        }
    }
    if referrers.is_empty() {
        return Ok(());
    }
    let candidates = Candidates::of(&resources.items, names);
    let result = referrers.iter_mut().try_for_each(|(index, object)| {
        let Some(referrer) = candidates.all.get(*index) else {
            return Ok(());
        };
        let gvk = original_gvk(referrer.state, &referrer.current);
        let fields = fields.get(&*gvk).map(Vec::as_slice).unwrap_or_default();
        rewrite(object, referrer, fields, &candidates, &resources.budget)
    });
    for (index, object) in referrers {
        if let Some(resource) = resources.items.get_mut(index) {
            resource.node = object;
        }
    }
    result
}

fn rewrite<'r>(
    object: &mut Object,
    referrer: &Candidate<'r>,
    fields: &[(&Gvk, &FieldSpec)],
    candidates: &Candidates<'r>,
    budget: &Budget,
) -> Result<(), BuildError> {
    expect_group(object, &referrer.state.origin.file)?;
    let namespaces = subject_namespaces(object, &referrer.current.gvk.kind)?;
    let role_reference = role_reference(object);
    for (target, spec) in fields {
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
    Ok(())
}

/// Fields of one kind that hold names, each with the kind of what is named.
type Fields<'f> = Vec<(&'f Gvk, &'f FieldSpec)>;

/// Group, version and kind with the first kind it had: that decides which fields hold names, the current one their place.
fn original_gvk<'r>(resource: &Resource, current: &'r ResourceId) -> Cow<'r, Gvk> {
    match resource.previous.first() {
        Some(previous) if previous.kind != current.gvk.kind => {
            Cow::Owned(Gvk { kind: previous.kind.clone(), ..Gvk::clone(&current.gvk) })
        }
        _ => Cow::Borrowed(&current.gvk),
    }
}

impl NameReference {
    fn fields_of<'f>(references: &'f [Self], gvk: &Gvk) -> Fields<'f> {
        let of = |reference: &'f Self| reference.referrers.iter().map(|spec| (&reference.gvk, spec));
        references.iter().flat_map(of).filter(|(_, spec)| gvk.is_selected(&spec.gvk)).collect()
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
                return Err(BuildError::transform("a subject of a RoleBinding has a namespace that is not text"));
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
        let namespace = mapping.get("namespace").and_then(Node::scalar_text).map(Cow::into_owned);
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
