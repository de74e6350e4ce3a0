//! Which Flux objects of the repository apply this repository.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kustomize_rs::{MemoryFileSystem, Options, build};
use yaml::{Mapping, Node, emit};

use super::super::objects::{FoundObject, field};
use super::tree::folder_of;
use domain::{Problem, ProblemCode, RepoPath, Severity};
use policy::Policy;

/// Kind, namespace and name of a source.
pub(super) type SourceId = (String, String, String);

/// File, home with id, and `spec` of a Kustomization.
pub(super) type FluxKey = (RepoPath, String, String);

/// A Kustomization object of Flux, and where it stands.
#[derive(Clone)]
pub(super) struct FluxKustomization {
    pub namespace: String,
    pub name: String,
    pub node: Arc<Node>,
    /// The file that holds it, or what it is made of.
    pub path: RepoPath,
    pub line: usize,
    /// The folder that it is applied from: that of its file, or of what makes it.
    pub home: String,
    /// Flux Operator makes it for a `FluxInstance`.
    pub is_of_instance: bool,
}

impl FluxKustomization {
    pub fn of(object: &FoundObject) -> Option<Self> {
        let is_applied = is_kustomization(&object.group, &object.kind) && !object.is_local;
        is_applied.then(|| Self {
            namespace: or_default(object.namespace.clone()),
            name: object.name.clone(),
            node: Arc::clone(&object.node),
            path: object.path.clone(),
            line: object.node.span.line().max(1),
            home: object.path.parent().map(|parent| parent.to_string()).unwrap_or_default(),
            is_of_instance: false,
        })
    }

    pub fn id(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Tells it from those of the same name: a repository may hold those of several management clusters, and make several of one file.
    pub fn key(&self) -> FluxKey {
        let spec = self.node.get("spec").map(emit).unwrap_or_default();
        (self.path.clone(), format!("{} {}", self.home, self.id()), spec)
    }

    pub fn source(&self) -> SourceId {
        let text = |name: &str| field(&self.node, &["spec", "sourceRef", name]);
        let namespace = text("namespace").unwrap_or_else(|| self.namespace.clone());
        (text("kind").unwrap_or_else(|| "GitRepository".to_owned()), namespace, text("name").unwrap_or_default())
    }

    pub fn folder(&self) -> String {
        folder_of(&field(&self.node, &["spec", "path"]).unwrap_or_default())
    }
}

pub(super) fn is_kustomization(group: &str, kind: &str) -> bool {
    group == "kustomize.toolkit.fluxcd.io" && kind == "Kustomization"
}

fn or_default(namespace: String) -> String {
    if namespace.is_empty() { "flux-system".to_owned() } else { namespace }
}

/// The sources of this repository, and what is known of others.
pub(super) struct OwnSources {
    /// Sources whose Kustomization applies the file that it stands in, or that a `FluxInstance` makes.
    own: BTreeSet<SourceId>,
    /// Addresses of sources that are defined here.
    addresses: BTreeMap<SourceId, String>,
    own_addresses: BTreeSet<String>,
    expected: String,
    /// `spec.ignore` of sources of this repository.
    pub ignores: Vec<String>,
}

impl OwnSources {
    pub fn read(objects: &[Arc<FoundObject>], synced: &[FluxKustomization], policy: &Policy) -> Self {
        let mut addresses = BTreeMap::new();
        let mut ignores = BTreeMap::new();
        for object in objects.iter().filter(|object| object.group == "source.toolkit.fluxcd.io") {
            let id = (object.kind.clone(), or_default(object.namespace.clone()), object.name.clone());
            addresses.insert(id.clone(), address(&field(&object.node, &["spec", "url"]).unwrap_or_default()));
            ignores.extend(field(&object.node, &["spec", "ignore"]).map(|ignore| (id, ignore)));
        }
        let all = objects.iter().filter_map(|object| FluxKustomization::of(object));
        let applies_itself = |kustomization: &FluxKustomization| {
            let folder = kustomization.folder();
            // The top level is that of any repository.
            let is_top = folder.is_empty() && kustomization.source().2 == policy.flux.source.name;
            is_top || (!folder.is_empty() && kustomization.path.is_below(&folder))
        };
        let mut own: BTreeSet<SourceId> = all.filter(applies_itself).map(|it| it.source()).collect();
        own.extend(synced.iter().map(FluxKustomization::source));
        let own_addresses = own.iter().filter_map(|id| addresses.get(id).cloned()).collect();
        let ignores = ignores.into_iter().filter(|(id, _)| own.contains(id)).map(|(_, ignore)| ignore).collect();
        Self { own, addresses, own_addresses, expected: policy.flux.source.name.clone(), ignores }
    }

    /// Whether a Kustomization takes its files from this repository; a folder that is there too speaks for it.
    pub fn is_own(&self, kustomization: &FluxKustomization, has_folder: bool) -> bool {
        let id = kustomization.source();
        if self.own.contains(&id) {
            return true;
        }
        match self.addresses.get(&id) {
            Some(address) if !self.own_addresses.is_empty() => self.own_addresses.contains(address),
            Some(_) => id.2 == self.expected || (has_folder && !kustomization.folder().is_empty()),
            // Defined elsewhere, as where Flux was set up without this repository.
            None => id.0 == "GitRepository" && has_folder && (id.2 == self.expected || self.own.is_empty()),
        }
    }
}

/// An address without what does not matter: scheme, user, `.git`.
fn address(url: &str) -> String {
    let url = url.split_once("://").map_or(url, |(_, rest)| rest);
    let url = url.rsplit_once('@').map_or(url, |(_, rest)| rest);
    url.trim_end_matches('/').trim_end_matches(".git").replacen(':', "/", 1).to_lowercase()
}

/// The Kustomizations that Flux Operator makes for the `sync` of each `FluxInstance`, its patches applied.
pub(super) fn of_instances(objects: &[Arc<FoundObject>], problems: &mut Vec<Problem>) -> Vec<FluxKustomization> {
    let is_instance =
        |object: &&Arc<FoundObject>| object.group == "fluxcd.controlplane.io" && object.kind == "FluxInstance";
    let mut found = Vec::new();
    for object in objects.iter().filter(is_instance).filter(|object| object.node.at(&["spec", "sync"]).is_some()) {
        match of_instance(object) {
            Ok(Some(kustomization)) => found.push(kustomization),
            Ok(None) => {}
            Err(reason) => {
                let message = format!("the patches of FluxInstance {:?} cannot be applied: {reason}", object.name);
                let problem = object.problem(&["spec", "kustomize"], "", message).severity(Severity::Error);
                problems.push(Problem { code: ProblemCode::NotRendered, ..problem });
            }
        }
    }
    found
}

fn of_instance(object: &FoundObject) -> Result<Option<FluxKustomization>, String> {
    let namespace = or_default(object.namespace.clone());
    let sync = |name: &str| field(&object.node, &["spec", "sync", name]);
    let name = sync("name").unwrap_or_else(|| namespace.clone());
    let text = |pairs: &[(&str, &str)]| -> Node {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), Node::from(*value)));
        Node::from(pairs.collect::<Mapping>())
    };
    let kind = sync("kind").unwrap_or_else(|| "GitRepository".to_owned());
    let map = |pairs: Vec<(&str, Node)>| {
        Node::from(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Mapping>())
    };
    let made = map(vec![
        ("apiVersion", Node::from("kustomize.toolkit.fluxcd.io/v1")),
        ("kind", Node::from("Kustomization")),
        ("metadata", text(&[("name", name.as_str()), ("namespace", namespace.as_str())])),
        (
            "spec",
            map(vec![
                ("interval", Node::from("10m0s")),
                ("path", Node::from(sync("path").unwrap_or_default().as_str())),
                ("prune", Node::new(yaml::Value::Bool(true))),
                ("sourceRef", text(&[("kind", kind.as_str()), ("name", name.as_str())])),
            ]),
        ),
    ]);
    // The operator's patches are for all of Flux: those without a target cannot be told apart and are of no use to it either.
    let patches = object.node.at(&["spec", "kustomize", "patches"]).and_then(Node::as_sequence).unwrap_or_default();
    let patches: Vec<Node> = patches.iter().filter(|patch| patch.get("target").is_some()).cloned().collect();
    let kustomization = map(vec![("resources", vec![Node::from("sync.yaml")].into()), ("patches", patches.into())]);
    let mut files = MemoryFileSystem::new();
    files.insert("sync.yaml", emit(&made).into_bytes());
    files.insert("kustomization.yaml", emit(&kustomization).into_bytes());
    let options = Options { steps: 5_000_000, growth: 16 << 20, ..Options::default() };
    let built = build(&files, "", &options).map_err(|error| error.message)?;
    let node = built.iter().find(|resource| &*resource.gvk().kind == "Kustomization").map(|it| it.node().clone());
    Ok(node.map(|node| FluxKustomization {
        namespace,
        name,
        node: Arc::new(node),
        path: object.path.clone(),
        line: object.place_of(&["spec", "sync"]).line,
        home: folder_of(&sync("path").unwrap_or_default()),
        is_of_instance: true,
    }))
}

/// Templates of Flux Operator that hold clusters: what they make is not known here.
pub(super) fn unread_templates(objects: &[Arc<FoundObject>]) -> Vec<Problem> {
    let is_template = |object: &&Arc<FoundObject>| {
        object.group == "fluxcd.controlplane.io" && object.kind == "ResourceSet" && {
            let text = emit(&object.node);
            ["cluster.x-k8s.io/", "anywhere.eks.amazonaws.com/", "run.tanzu.vmware.com/"]
                .iter()
                .any(|group| text.contains(group))
        }
    };
    let told = |object: &Arc<FoundObject>| {
        let message = format!("ResourceSet {:?} makes objects of clusters, and is not rendered", object.name);
        let problem = object.problem(&["metadata", "name"], "", message).severity(Severity::Warning);
        Problem { code: ProblemCode::NotRead, ..problem }
            .hint("clusters that it makes are not found; write them as files")
    };
    objects.iter().filter(is_template).map(told).collect()
}
