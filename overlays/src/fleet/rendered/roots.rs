//! What is rendered: Kustomizations of Flux on this repository, else the kustomizations that no other one names.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kustomize_rs::BuildErrorKind;
use kustomize_rs::flux::Kustomization;
use yaml::Node;

use super::super::objects::FoundObject;
use super::build::{self, KnownBuilds};
use super::closure::{Closure, Kustomizations};
use super::flux_object::{made_kustomization, object_of};
use super::root::{Failure, Root, RootResult};
use super::sources::{FluxKustomization, OwnSources};
use super::tree::Tree;
use super::values::{Candidate, resolve};
use domain::{ProblemCode, RepoPath};

/// Fields of `spec` that change what is applied.
const CHANGING: [&str; 10] = [
    "targetNamespace",
    "namePrefix",
    "nameSuffix",
    "patches",
    "images",
    "components",
    "commonMetadata",
    "postBuild",
    "buildMetadata",
    "ignoreMissingComponents",
];

/// Kustomizations that something else makes, by file and id.
type Held = BTreeMap<(RepoPath, String), FluxKustomization>;

/// Everything that roots are found with.
pub(super) struct Search<'a> {
    pub tree: &'a Tree<'a>,
    pub kustomizations: &'a Kustomizations<'a>,
    pub own: &'a OwnSources,
    pub known: &'a KnownBuilds,
    /// Files with objects that are looked for.
    pub wanted: &'a BTreeSet<RepoPath>,
    pub candidates: Vec<Candidate>,
    /// Steps that builds of one reading may still take together.
    pub steps: Cell<u64>,
}

/// Steps of all builds of one reading: some seconds.
pub(super) const STEPS: u64 = 600_000_000;

impl Search<'_> {
    /// Every root, in the order in which one makes the Kustomizations of the next.
    pub fn roots(&mut self, objects: &[Arc<FoundObject>], synced: Vec<FluxKustomization>) -> Vec<Root> {
        self.steps.set(STEPS);
        let declared = objects.iter().filter_map(|object| FluxKustomization::of(object));
        let mut waiting: VecDeque<FluxKustomization> =
            synced.into_iter().chain(declared).filter(|flux| self.is_own(flux)).collect();
        let closures: Vec<Closure> = waiting.iter().map(|flux| self.closure(flux)).collect();
        let reached: BTreeSet<&String> = closures.iter().flat_map(|closure| &closure.folders).collect();
        let tops = self.kustomizations.tops();
        let mut roots: Vec<Root> = Vec::new();
        for folder in tops.iter().filter(|folder| !reached.contains(folder)) {
            if !self.kustomizations.is_component(folder) {
                roots.push(self.top(folder));
            }
        }
        loop {
            let of_roots = roots.iter().flat_map(|root| root.closure.folders.iter());
            let known = of_roots.chain(reached.iter().copied()).cloned().collect();
            match self.kustomizations.circular(&known) {
                Some(folder) => roots.push(self.top(&folder)),
                None => break,
            }
        }
        // Kustomizations that something else changes are not applied as they stand in their file.
        let changed = |root: &Root| !root.closure.is_plain;
        let mut made: BTreeSet<RepoPath> = BTreeSet::new();
        for root in roots.iter().filter(|root| changed(root)) {
            made.extend(root.closure.resources.iter().cloned());
        }
        for (flux, closure) in waiting.iter().zip(&closures) {
            if !closure.is_plain || self.changes(flux) {
                made.extend(closure.resources.iter().filter(|path| **path != flux.path).cloned());
            }
        }
        let mut held: Held = BTreeMap::new();
        let listed = self.listed(waiting.make_contiguous(), &closures);
        waiting.retain(|flux| {
            let is_made = made.contains(&flux.path);
            if is_made {
                held.insert((flux.path.clone(), flux.id()), flux.clone());
            }
            !is_made
        });
        for (flux, homes) in listed {
            waiting.retain(|known| known.key() != flux.key());
            waiting.extend(homes.into_iter().map(|home| FluxKustomization { home, ..flux.clone() }));
        }
        for root in &roots {
            self.follow(root, &mut waiting, &mut held);
        }
        let mut seen = BTreeSet::new();
        loop {
            while let Some(flux) = waiting.pop_front() {
                if !self.is_own(&flux) || !seen.insert(flux.key()) {
                    continue;
                }
                for root in self.flux(flux) {
                    self.follow(&root, &mut waiting, &mut held);
                    roots.push(root);
                }
            }
            // What Flux makes of these is not known while what makes them cannot be rendered.
            let failed =
                roots.iter().filter(|root| root.flux.is_some() && matches!(root.result, RootResult::Failed(_)));
            let unknown: BTreeSet<RepoPath> = failed.flat_map(|root| root.closure.resources.iter().cloned()).collect();
            let lost: Vec<(RepoPath, String)> =
                held.iter().filter(|(_, flux)| unknown.contains(&flux.path)).map(|(id, _)| id.clone()).collect();
            for flux in lost.iter().filter_map(|id| held.remove(id)) {
                let (folder, closure) = (flux.folder(), self.closure(&flux));
                let failure = Failure {
                    path: Some(flux.path.clone()),
                    line: flux.line,
                    ..Failure::new("what makes this Kustomization cannot be rendered")
                };
                let result = RootResult::Failed(failure);
                roots.push(Root { flux: Some(flux), folder, closure, result, as_a_whole: None });
            }
            match held.pop_first() {
                Some((_, flux)) => waiting.push_back(flux),
                None => break,
            }
        }
        // What Flux applies is no root by itself, also where that came to light late.
        let of_flux = roots.iter().filter(|root| root.flux.is_some());
        let reached: BTreeSet<String> = of_flux.flat_map(|root| root.closure.folders.iter().cloned()).collect();
        roots.retain(|root| root.flux.is_some() || !reached.contains(&root.folder));
        roots
    }

    fn is_own(&self, flux: &FluxKustomization) -> bool {
        let folder = flux.folder();
        let real = self.tree.link(&folder).and_then(|link| link.real);
        let has_folder = self.tree.is_folder(real.as_deref().unwrap_or(&folder));
        has_folder && self.own.is_own(flux, has_folder)
    }

    fn changes(&self, flux: &FluxKustomization) -> bool {
        CHANGING.iter().any(|field| flux.node.at(&["spec", field]).is_some())
    }

    fn closure(&self, flux: &FluxKustomization) -> Closure {
        let components = flux.node.at(&["spec", "components"]).and_then(Node::as_sequence).unwrap_or_default();
        let components: Vec<String> =
            components.iter().filter_map(|component| component.as_str().map(str::to_owned)).collect();
        self.kustomizations.closure(&flux.folder(), &components)
    }

    /// Kustomizations that others list from elsewhere and change nothing of, with the homes of those.
    fn listed(&self, all: &[FluxKustomization], closures: &[Closure]) -> Vec<(FluxKustomization, BTreeSet<String>)> {
        let lists = |other: &FluxKustomization, closure: &Closure, flux: &FluxKustomization| {
            closure.is_plain
                && !self.changes(other)
                && other.key() != flux.key()
                && closure.resources.contains(&flux.path)
                && !other.folder().is_empty()
                && !flux.path.is_below(&other.folder())
        };
        let homes = |flux: &FluxKustomization| -> BTreeSet<String> {
            let others = all.iter().zip(closures).filter(|(other, closure)| lists(other, closure, flux));
            others.map(|(other, _)| other.home.clone()).collect()
        };
        let listed = all.iter().map(|flux| (flux.clone(), homes(flux)));
        listed.filter(|(_, homes)| !homes.is_empty()).collect()
    }

    /// Takes up the Kustomizations and values that a root makes.
    fn follow(&mut self, root: &Root, waiting: &mut VecDeque<FluxKustomization>, held: &mut Held) {
        let RootResult::Built(outcome) = &root.result else { return };
        let home = root.home();
        for object in &outcome.objects {
            if let Some(flux) = made_kustomization(object) {
                held.remove(&(flux.path.clone(), flux.id()));
                waiting.push_back(FluxKustomization { home: home.clone(), ..flux });
            }
            self.candidates.extend(Candidate::of(&object.node, &home));
        }
    }

    fn top(&self, folder: &str) -> Root {
        let closure = self.kustomizations.closure(folder, &[]);
        // Who applies it is not known, so what is encrypted may be.
        let object = Kustomization { path: folder.to_owned(), decrypts: true, ..Kustomization::default() };
        let result = self.plain_or_built(&object, &closure, folder);
        Root { flux: None, folder: folder.to_owned(), closure, result, as_a_whole: None }
    }

    fn plain_or_built(&self, object: &Kustomization, closure: &Closure, home: &str) -> RootResult {
        match over_link(closure, None) {
            Some(failure) => RootResult::Failed(failure),
            None if closure.is_plain => RootResult::Plain,
            None => self.build(object, closure, home),
        }
    }

    fn flux(&self, flux: FluxKustomization) -> Vec<Root> {
        let mut flux = flux;
        let root = |flux: FluxKustomization, closure, result| {
            let folder = flux.folder();
            Root { flux: Some(flux), folder, closure, result, as_a_whole: None }
        };
        // What a Kustomization applies may hold itself, changed: Flux comes to rest when that changes no more.
        for _ in 0..3 {
            let closure = self.closure(&flux);
            let link = over_link(&closure, Some(&flux));
            if link.is_none() && closure.is_plain && !self.changes(&flux) {
                return vec![root(flux, closure, RootResult::Plain)];
            }
            let object = match object_of(&flux) {
                Ok(object) => object,
                Err(failure) => return vec![root(flux, closure, RootResult::Failed(failure))],
            };
            let is_of_part = link.is_some() && closure.links_are_below(&flux.folder());
            let result = match link {
                Some(failure) if !is_of_part => return vec![root(flux, closure, RootResult::Failed(failure))],
                Some(failure) => RootResult::Failed(failure),
                None => self.build(&object, &closure, &flux.home),
            };
            let mut made = match &result {
                RootResult::Built(outcome) => outcome.objects.iter().filter_map(made_kustomization).collect(),
                _ => Vec::new(),
            };
            made.retain(|made| {
                made.id() == flux.id()
                    && made.path == flux.path
                    && made.node.get("spec") != flux.node.get("spec")
                    && self.is_own(made)
            });
            match (made.pop(), result) {
                (Some(made), _) => flux = FluxKustomization { home: flux.home.clone(), ..made },
                (None, RootResult::Failed(failure)) if !self.changes(&flux) => {
                    return self.parts(&flux, &object, closure, failure);
                }
                (None, result) => return vec![root(flux, closure, result)],
            }
        }
        let closure = self.closure(&flux);
        let failure = Failure::new("it changes itself without an end");
        vec![root(flux, closure, RootResult::Failed(failure))]
    }

    /// A root that changes nothing itself and cannot be rendered, by what it lists: the error is told of what has it.
    fn parts(&self, flux: &FluxKustomization, object: &Kustomization, whole: Closure, failure: Failure) -> Vec<Root> {
        let folder = flux.folder();
        let Some((files, folders)) = self.kustomizations.parts(&folder) else {
            let result = RootResult::Failed(failure);
            return vec![Root { flux: Some(flux.clone()), folder, closure: whole, result, as_a_whole: None }];
        };
        let loose = Closure { resources: files, is_plain: true, ..Closure::default() };
        let (result, as_a_whole) = (RootResult::Plain, Some(failure));
        let mut roots = vec![Root { flux: Some(flux.clone()), folder, closure: loose, result, as_a_whole }];
        for folder in folders {
            let closure = self.kustomizations.closure(&folder, &[]);
            let own = Kustomization { path: folder.clone(), decrypts: object.decrypts, ..Kustomization::default() };
            let result = self.plain_or_built(&own, &closure, &flux.home);
            let changes_flux = closure.resources.contains(&flux.path) && self.kustomizations.patches_objects(&closure);
            roots.push(Root { flux: Some(flux.clone()), folder, closure, result, as_a_whole: None });
            if let (true, Some(Root { result: RootResult::Failed(_), .. })) = (changes_flux, roots.last()) {
                // What it makes of this Kustomization decides about all the others.
                let failure = roots.iter_mut().find_map(|root| root.as_a_whole.take());
                let failure = failure.unwrap_or_else(|| Failure::new("a part of it cannot be rendered"));
                let (folder, result) = (flux.folder(), RootResult::Failed(failure));
                return vec![Root { flux: Some(flux.clone()), folder, closure: whole, result, as_a_whole: None }];
            }
        }
        roots
    }

    fn names_part(&self, path: &RepoPath) -> bool {
        self.tree.text(path).is_some_and(|text| PARTS.iter().any(|group| text.contains(group)))
    }

    fn build(&self, object: &Kustomization, closure: &Closure, home: &str) -> RootResult {
        let mut files = closure.resources.iter().chain(&closure.kustomizations);
        // What is a template before it is rendered was found by nobody, nor what is patched and elsewhere.
        let patches = closure.others.iter().chain(&closure.kustomizations).filter(|_| !closure.missing.is_empty());
        let mut unfound = closure.resources.iter().chain(patches);
        if !files.any(|path| self.wanted.contains(path)) && !unfound.any(|path| self.names_part(path)) {
            return RootResult::Foreign;
        }
        let outside = closure.resources.iter().chain(&closure.others);
        let entries = match self.tree.select(closure.folders.iter().map(String::as_str), outside) {
            Ok(entries) => entries,
            Err(error) => return RootResult::Failed(error.into()),
        };
        if self.steps.get() == 0 {
            let hint = Some("render fewer of them, or give their values to fewer objects".to_owned());
            let message = "all kustomizations together take more work than one reading may";
            return RootResult::Failed(Failure { code: ProblemCode::TooLarge, hint, ..Failure::new(message) });
        }
        let config_maps = resolve(&self.candidates, object, home);
        let built = build::build(self.known, self.tree, &entries, object, &config_maps);
        let cost = built.as_ref().map_or(0, build::cost);
        self.steps.set(self.steps.get().saturating_sub(cost));
        match built {
            Err(error) => RootResult::Failed(error.into()),
            Ok(Ok(outcome)) => RootResult::Built(outcome),
            Ok(Err(error)) => RootResult::Failed(Failure {
                hint: match error.kind {
                    BuildErrorKind::Unsupported => {
                        Some("copy what it needs into the repository: nothing is fetched or run".to_owned())
                    }
                    _ => error.hint.clone(),
                },
                path: error.file.as_deref().and_then(|file| RepoPath::new(file).ok()),
                line: error.line,
                column: error.column,
                ..Failure::new(error.message.clone())
            }),
        }
    }
}

/// Why what is reached over a symbolic link is not rendered: Flux leaves links out of its source, and other tools follow them.
fn over_link(closure: &Closure, flux: Option<&FluxKustomization>) -> Option<Failure> {
    let (link, from) = closure.links.first()?;
    let (path, line) = match (from, flux) {
        (Some(path), _) => (Some(path.clone()), 1),
        (None, Some(flux)) => (Some(flux.path.clone()), flux.line),
        (None, None) => (RepoPath::new(link.as_str()).ok(), 1),
    };
    let hint = Some("name the file or folder itself, or store a copy of it in the place of the link".to_owned());
    let message = format!("it goes over the symbolic link {link}, which Flux leaves out of its source");
    Some(Failure { path, line, hint, ..Failure::new(message) })
}

/// Groups of objects that make up clusters, as they stand in files.
const PARTS: [&str; 5] = [
    "cluster.x-k8s.io/",
    "anywhere.eks.amazonaws.com/",
    "run.tanzu.vmware.com/",
    "eksctl.io/",
    "kustomize.toolkit.fluxcd.io/",
];
