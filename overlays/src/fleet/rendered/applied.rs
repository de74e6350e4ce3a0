//! What Kustomizations of Flux apply of a repository, and what becomes of that when its clusters are recorded.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use yaml::Node;

use super::root::Root;
use super::sources::{FluxKey, FluxKustomization};
use crate::{FLUX_FIELDS, Fleet, FluxFieldUse, FluxSettings};
use domain::{Problem, ProblemCode, RepoPath, Severity};

/// A Kustomization on this repository.
pub(super) struct Application {
    flux: FluxKustomization,
    folder: String,
    /// The files of objects that it applies, as they are found among all objects.
    found: BTreeSet<RepoPath>,
    /// The files in git that it is made of.
    resources: BTreeSet<RepoPath>,
    is_failed: bool,
}

/// Kustomizations: one that is rendered in parts is one.
#[derive(Default)]
pub(super) struct Applications(BTreeMap<FluxKey, Application>);

impl Applications {
    /// Notes what a root applies.
    pub fn add(&mut self, root: &Root, found: impl IntoIterator<Item = RepoPath>, is_failed: bool) {
        let Some(flux) = &root.flux else { return };
        let new = || Application {
            flux: flux.clone(),
            folder: flux.folder(),
            found: BTreeSet::new(),
            resources: BTreeSet::new(),
            is_failed: false,
        };
        let known = self.0.entry(flux.key()).or_insert_with(new);
        known.found.extend(found);
        known.resources.extend(root.closure.resources.iter().cloned());
        known.is_failed |= is_failed;
    }

    /// Tells what is applied how. `fleet` has its clusters with the paths among all objects; `origin` gives the path in git.
    pub fn tell(&self, fleet: &mut Fleet, origin: &dyn Fn(&RepoPath) -> RepoPath) {
        let mut problems = Vec::new();
        let mut applied: BTreeSet<String> = BTreeSet::new();
        let held = self.held();
        let mut by_depth: Vec<&Application> = self.0.values().collect();
        by_depth.sort_by_key(|application| application.folder.len());
        // Fleets have a Kustomization for each cluster: none of them goes through all clusters.
        let mut of_files: HashMap<RepoPath, Vec<usize>> = HashMap::new();
        let mut own: BTreeSet<RepoPath> = BTreeSet::new();
        if !by_depth.is_empty() {
            for (place, cluster) in fleet.clusters.iter().enumerate() {
                for file in &cluster.files {
                    of_files.entry(file.path.clone()).or_default().push(place);
                    own.insert(origin(&file.path));
                }
            }
        }
        for application in by_depth {
            let found = application.found.iter().filter_map(|path| of_files.get(path)).flatten();
            // In the order of the fleet.
            let found: BTreeSet<usize> = found.copied().collect();
            let found = found.into_iter().filter_map(|place| fleet.clusters.get(place));
            let clusters: Vec<&str> = found.map(|cluster| cluster.name.as_str()).collect();
            if clusters.is_empty() {
                problems.extend(
                    (!application.is_failed && !fleet.clusters.is_empty()).then(|| application.shares_source()),
                );
                continue;
            }
            problems.extend(application.pruning(&clusters));
            problems.extend(application.other_files(&own));
            problems.extend(application.fields(&clusters));
            let holder = held.get(&application.flux.path).filter(|_| !application.is_suspended());
            problems.extend(holder.into_iter().flat_map(|holder| application.suspended(holder, &clusters)));
            problems.extend(application.foreign_namespace(&clusters, fleet));
            if let Some(spec) = application.flux.node.get("spec") {
                let settings = FluxSettings::of(&application.flux.namespace, spec);
                for cluster in &clusters {
                    fleet.flux_settings.insert((*cluster).to_owned(), settings.clone());
                }
            }
            applied.extend(clusters.into_iter().map(str::to_owned));
        }
        if !self.0.is_empty() {
            let unapplied = fleet.clusters.iter().filter(|cluster| !applied.contains(&cluster.name));
            problems.extend(unapplied.map(|cluster| {
                let message = format!(
                    "no Kustomization of Flux in this repository applies cluster {:?}: once it is recorded, Flux does",
                    cluster.name
                );
                let place = &cluster.places.name;
                let problem = Problem::new(ProblemCode::NotApplied, message).path(&place.path);
                let problem = problem.at(place.line, place.column).cluster(&cluster.name);
                problem
                    .severity(Severity::Warning)
                    .hint("where it does not run yet, take it out until it should be made")
            }));
        }
        fleet.problems.extend(problems);
    }
}

impl Applications {
    /// The files that a suspended Kustomization holds back, each with its id; what they apply is held back too.
    fn held(&self) -> BTreeMap<&RepoPath, String> {
        let mut held: BTreeMap<&RepoPath, String> = BTreeMap::new();
        for application in self.0.values().filter(|application| application.is_suspended()) {
            held.extend(application.resources.iter().map(|path| (path, application.flux.id())));
        }
        loop {
            let mut more: BTreeMap<&RepoPath, String> = BTreeMap::new();
            for application in self.0.values() {
                let Some(holder) = held.get(&application.flux.path) else { continue };
                let new = application.resources.iter().filter(|path| !held.contains_key(path));
                more.extend(new.map(|path| (path, holder.clone())));
            }
            if more.is_empty() {
                return held;
            }
            held.extend(more);
        }
    }
}

/// `a`, or `a and 2 more`.
fn some(names: &[&str]) -> String {
    match names.split_first() {
        None => String::new(),
        Some((first, [])) => (*first).to_owned(),
        Some((first, rest)) => format!("{first} and {} more", rest.len()),
    }
}

impl Application {
    fn problem(&self, code: ProblemCode, field: &[&str], message: String) -> Problem {
        let span = self.flux.node.at(field).map(|node| node.span).filter(|span| span.line() >= self.flux.line);
        let (line, column) = span.map_or((self.flux.line, 1), |span| (span.line(), span.column()));
        Problem::new(code, message).path(&self.flux.path).at(line, column)
    }

    fn field(&self, name: &str) -> Option<&Node> {
        self.flux.node.at(&["spec", name])
    }

    /// As soon as such a one is pointed to the deploy branch, Flux deletes the clusters.
    fn pruning(&self, clusters: &[&str]) -> Option<Problem> {
        if self.field("prune").and_then(Node::as_bool) != Some(true) {
            return None;
        }
        let message = format!(
            "Flux deletes cluster {} when Kustomization {:?} is pointed to the deploy branch, since it prunes",
            some(clusters),
            self.flux.name
        );
        let hint = if self.flux.is_of_instance {
            "let spec.kustomize.patches of the FluxInstance set `prune: false`, and wait until Flux has applied that"
        } else {
            "write `prune: false` here, and wait until Flux has applied that, before anything else of it is changed"
        };
        let problem = self.problem(ProblemCode::FluxPrunes, &["spec", "prune"], message);
        Some(problem.severity(Severity::Warning).hint(hint))
    }

    /// Others on the same source lose it when that is pointed to the deploy branch.
    fn shares_source(&self) -> Problem {
        let folder = if self.folder.is_empty() { "the top level" } else { self.folder.as_str() };
        let message = format!(
            "Kustomization {} applies {folder} of this repository and no cluster; it loses its source where that is pointed to the deploy branch",
            self.flux.id()
        );
        let hint = "give it a second source on this branch first (reconciler/docs/flux-migration.md)";
        self.problem(ProblemCode::SharedSource, &["spec", "sourceRef"], message).severity(Severity::Note).hint(hint)
    }

    /// Files that are applied with clusters and belong to none.
    fn other_files(&self, own: &BTreeSet<RepoPath>) -> Option<Problem> {
        let is_other = |path: &&RepoPath| !own.contains(*path) && !path.file_name().starts_with("gotk-");
        let others: Vec<&str> = self.resources.iter().filter(is_other).map(RepoPath::as_str).collect();
        if others.is_empty() {
            return None;
        }
        let message = format!(
            "Kustomization {} applies files that belong to no cluster too, and they are not recorded: {}",
            self.flux.id(),
            some(&others)
        );
        let hint =
            "apply them by a Kustomization of their own with a second source (reconciler/docs/flux-migration.md)";
        let problem = self.problem(ProblemCode::SharedSource, &["spec", "path"], message);
        Some(problem.severity(Severity::Note).hint(hint))
    }

    /// Fields that Stepgate's own Kustomization does not have.
    fn fields(&self, clusters: &[&str]) -> Vec<Problem> {
        let mut problems = Vec::new();
        let is_set = |name: &str| {
            let empty = |node: &Node| {
                node.is_null() || node.as_bool() == Some(false) || node.as_sequence().is_some_and(<[Node]>::is_empty)
            };
            self.field(name).is_some_and(|node| !empty(node))
        };
        let set = |wanted: FluxFieldUse| -> Vec<&str> {
            let fields = FLUX_FIELDS.iter().filter(|(name, used)| *used == wanted && is_set(name));
            fields.map(|(name, _)| *name).collect()
        };
        for name in set(FluxFieldUse::Dropped) {
            let message = format!(
                "{name} of Kustomization {} does not count any more once cluster {} is recorded",
                self.flux.id(),
                some(clusters)
            );
            let hint = "what cannot be changed in place is never deleted and made anew under Stepgate";
            let problem = self.problem(ProblemCode::FluxField, &["spec", name], message);
            problems.push(problem.severity(Severity::Warning).hint(hint));
        }
        if self.is_suspended() {
            problems.extend(self.suspended(&self.flux.id(), clusters));
        }
        let gated = set(FluxFieldUse::Gated);
        if !gated.is_empty() {
            let message = format!(
                "{} of Kustomization {} are left to stages and gates once cluster {} is recorded",
                gated.join(", "),
                self.flux.id(),
                some(clusters)
            );
            problems.push(self.problem(ProblemCode::FluxField, &["spec"], message).severity(Severity::Note));
        }
        problems
    }

    fn is_suspended(&self) -> bool {
        self.field("suspend").and_then(Node::as_bool) == Some(true)
    }

    /// What a suspended Kustomization holds back may differ from its files: a record of it would be untrue.
    fn suspended(&self, holder: &str, clusters: &[&str]) -> Vec<Problem> {
        let id = self.flux.id();
        let whose = if id == holder { String::new() } else { format!(", which applies Kustomization {id},") };
        let message = format!(
            "Kustomization {holder}{whose} is suspended, so it is not known whether the clusters are what their files say"
        );
        let hint = "take `suspend` away and wait until Flux has applied it; `stepgate hold` pauses a cluster";
        let problem = self.problem(ProblemCode::FluxField, &["spec", "suspend"], message).hint(hint);
        clusters.iter().map(|cluster| problem.clone().cluster(*cluster)).collect()
    }

    /// A Kustomization in a namespace of its own needs a source that it can reach from there.
    fn foreign_namespace(&self, clusters: &[&str], fleet: &Fleet) -> Vec<Problem> {
        let policy = &fleet.policy.flux;
        let settings = self.field("sourceRef").zip(self.flux.node.get("spec"));
        let settings = settings.map(|(_, spec)| FluxSettings::of(&self.flux.namespace, spec));
        let names = settings.is_some_and(|settings| settings.names_objects(policy.decryption.is_some()));
        if !names || self.flux.namespace == policy.namespace || self.flux.source().1 == policy.namespace {
            return Vec::new();
        }
        let message = format!(
            "Kustomization {} uses objects of its namespace (key, service account or kubeconfig), and the source of the deploy branch is in {}",
            self.flux.id(),
            policy.namespace
        );
        let problem = self.problem(ProblemCode::FluxField, &["spec", "sourceRef"], message);
        let hint = format!(
            "copy them to {}, or set flux.namespace in stepgate.yaml to {}",
            policy.namespace, self.flux.namespace
        );
        let problem = problem.hint(hint);
        clusters.iter().map(|cluster| problem.clone().cluster(*cluster)).collect()
    }
}
