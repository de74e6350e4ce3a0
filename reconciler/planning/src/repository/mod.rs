//! The repository that describes clusters which run already: from what a management cluster holds
//! to the files that a team would keep.
//!
//! Architecture Invariant: what is proposed is what was declared, read by the same rules as any
//! repository. A cluster that is between two
//! versions, or that cannot be told from another, is refused: no file says the truth of it.

mod credentials;
mod layout;
mod object;
mod release;
mod settled;
mod stripped;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::{Problem, RepoPath};
use overlays::{MemoryFiles, read_fleet};
use serde_json::Value;

use self::object::{CORE, EKSA, EKSA_SYSTEM, Object};

/// What a management cluster holds.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// Its address, for messages.
    pub server: &'a str,
    /// Every object of EKS Anywhere, Cluster API, EKS-D and Flux, and EKS Anywhere's controller.
    pub objects: &'a [Value],
    /// Whether Flux is there.
    pub serves_flux: bool,
}

/// The files of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal {
    /// Texts by path.
    pub files: BTreeMap<RepoPath, String>,
    /// The clusters that they describe.
    pub clusters: Vec<String>,
    /// What is worth knowing before they are used, besides what is wrong with them.
    pub remarks: Vec<String>,
    /// What `check` will say of them.
    pub problems: Vec<Problem>,
}

/// Why no repository is proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong, and where.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl Refusal {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

/// Kinds of which controllers make every object, or that say nothing about one cluster.
const MADE: [&str; 13] = [
    "ClusterResourceSetBinding",
    "ControlPlaneUpgrade",
    "EKSARelease",
    "Bundles",
    "EtcdadmConfig",
    "IPAddress",
    "IPAddressClaim",
    "KubeadmConfig",
    "Machine",
    "MachineDeploymentUpgrade",
    "MachineSet",
    "NodeUpgrade",
    "Secret",
];

/// Owners whose objects are made by controllers.
const MAKERS: [&str; 5] = ["EtcdadmCluster", "KubeadmControlPlane", "Machine", "MachinePool", "MachineSet"];

/// Marks what a topology has made, and the Cluster that has it.
const OF_TOPOLOGY: &str = "topology.cluster.x-k8s.io/owned";

/// The repository of these clusters, of all where none is named.
///
/// # Errors
/// Everything that speaks against it.
pub fn propose(live: &Live<'_>, names: &[String]) -> Result<Proposal, Vec<Refusal>> {
    let all: Vec<Object<'_>> = live.objects.iter().filter_map(Object::of).collect();
    let clusters = clusters(live, &all, names)?;
    let mut refusals = same_names(&clusters);
    let mut releases = Vec::new();
    for cluster in &clusters {
        refusals.extend(settled::unsettled(cluster, &all));
        if cluster.group == EKSA {
            match release::release(cluster, &all) {
                Ok(release) => {
                    refusals.extend(release::behind(cluster, &release, &all));
                    releases.push(release);
                }
                Err(refusal) => refusals.push(refusal),
            }
        }
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let members = members(&all, &clusters);
    let mut proposal = layout::layout(live, &all, &clusters, &members, &releases).map_err(|refusal| vec![refusal])?;
    refusals.extend(with_credentials(&members));
    let files: MemoryFiles =
        proposal.files.iter().map(|(path, text)| (path.clone(), Arc::<[u8]>::from(text.as_bytes()))).collect();
    let (errors, others): (Vec<Problem>, Vec<Problem>) =
        read_fleet(&files).problems.into_iter().partition(Problem::is_error);
    refusals.extend(errors.iter().map(|problem| {
        let help = problem.hint.clone().unwrap_or_else(|| "correct the object in the cluster first".to_owned());
        Refusal::new(format!("what would be written cannot be used: {problem}"), help)
    }));
    proposal.problems = others;
    if refusals.is_empty() { Ok(proposal) } else { Err(refusals) }
}

/// The clusters that are described: those of EKS Anywhere, and those of Cluster API that are not
/// made by it.
fn clusters<'a>(live: &Live<'_>, all: &[Object<'a>], names: &[String]) -> Result<Vec<Object<'a>>, Vec<Refusal>> {
    let is_of_eksa = |name: &str| all.iter().any(|known| known.is(EKSA, "Cluster") && known.name == name);
    let is_cluster = |known: &&Object<'_>| {
        known.is(EKSA, "Cluster")
            || known.is(CORE, "Cluster") && !(known.namespace == EKSA_SYSTEM && is_of_eksa(known.name))
    };
    let found: Vec<Object<'a>> = all.iter().filter(is_cluster).copied().collect();
    if found.is_empty() {
        let message = format!("there is no Cluster of EKS Anywhere or Cluster API on {}", live.server);
        let help = "connect to the management cluster that holds their specifications (--kubeconfig, --context)";
        return Err(vec![Refusal::new(message, help)]);
    }
    let known: BTreeSet<&str> = found.iter().map(|cluster| cluster.name).collect();
    let missing: Vec<Refusal> = names
        .iter()
        .filter(|name| !known.contains(name.as_str()))
        .map(|name| {
            let there = known.iter().copied().collect::<Vec<_>>().join(", ");
            Refusal::new(format!("there is no cluster {name} on {}", live.server), format!("clusters are: {there}"))
        })
        .collect();
    if !missing.is_empty() {
        return Err(missing);
    }
    let is_named = |cluster: &Object<'_>| names.is_empty() || names.iter().any(|name| name == cluster.name);
    Ok(found.into_iter().filter(is_named).collect())
}

fn same_names(clusters: &[Object<'_>]) -> Vec<Refusal> {
    let mut by_name: BTreeMap<&str, Vec<&Object<'_>>> = BTreeMap::new();
    for cluster in clusters {
        by_name.entry(cluster.name).or_default().push(cluster);
    }
    let same = by_name.into_iter().filter(|(_, clusters)| clusters.len() > 1);
    let told = same.map(|(name, clusters)| {
        let places: Vec<String> =
            clusters.iter().map(|cluster| format!("{} of {}", cluster.place(), cluster.group)).collect();
        let message =
            format!("{} clusters are called {name}, and names are folders: {}", clusters.len(), places.join(", "));
        Refusal::new(message, "name the other clusters alone, and keep each of these in a repository of its own")
    });
    told.collect()
}

/// What belongs to each cluster, the cluster first, as it was declared. Which that is, the reading
/// of repositories knows.
fn members<'a>(all: &[Object<'a>], clusters: &[Object<'a>]) -> Vec<(Object<'a>, Vec<Member<'a>>)> {
    let controllers = stripped::controllers(all.iter().map(|object| object.value));
    let has_eksa = clusters.iter().any(|cluster| cluster.group == EKSA);
    let is_candidate = |object: &&Object<'_>| {
        let is_specification =
            object.group == EKSA || object.group == CORE || object.group.ends_with(".cluster.x-k8s.io");
        let is_made = MADE.contains(&object.kind)
            || object.kind != "Cluster" && object.label(OF_TOPOLOGY).is_some()
            || object.owner_kinds().any(|kind| MAKERS.contains(&kind));
        // What EKS Anywhere makes of its clusters.
        let is_of_eksa = has_eksa && object.namespace == EKSA_SYSTEM && object.group != EKSA;
        let is_other_cluster =
            object.kind == "Cluster" && !clusters.iter().any(|known| std::ptr::eq(known.value, object.value));
        is_specification && !is_made && !is_of_eksa && !is_other_cluster
    };
    let candidates: Vec<Member<'a>> = all
        .iter()
        .filter(is_candidate)
        .map(|object| {
            let mut declared = stripped::declared(object.value, &controllers, false);
            with_release(object, &mut declared);
            Member { object: *object, declared }
        })
        .collect();
    // A folder for each: none belongs to a cluster by its place.
    let path = |index: usize| RepoPath::new(format!("objects/{index}/object.yaml")).ok();
    let files: MemoryFiles = candidates
        .iter()
        .enumerate()
        .filter_map(|(index, member)| Some((path(index)?, Arc::<[u8]>::from(member.declared.to_string().as_bytes()))))
        .collect();
    let fleet = read_fleet(&files);
    let of = |cluster: &Object<'a>| {
        let specification =
            fleet.clusters.iter().find(|known| known.name == cluster.name && known.namespace == cluster.namespace);
        let paths: BTreeSet<&RepoPath> =
            specification.iter().flat_map(|known| known.files.iter().map(|file| &file.path)).collect();
        let is_own = |member: &Member<'a>| std::ptr::eq(member.object.value, cluster.value);
        let mut members: Vec<Member<'a>> = candidates
            .iter()
            .enumerate()
            .filter(|(index, member)| is_own(member) || path(*index).is_some_and(|path| paths.contains(&path)))
            .map(|(_, member)| member.clone())
            .collect();
        members.sort_by_key(|member| (!is_own(member), member.object.kind, member.object.name));
        (*cluster, members)
    };
    clusters.iter().map(of).collect()
}

/// Which release a cluster follows stands in it, though EKS Anywhere itself writes it where nobody
/// has.
fn with_release(object: &Object<'_>, declared: &mut Value) {
    let spec = declared.get_mut("spec").and_then(Value::as_object_mut);
    let Some(spec) = spec.filter(|_| object.is(EKSA, "Cluster")) else { return };
    for field in ["bundlesRef", "eksaVersion"] {
        let value = object.value.get("spec").and_then(|spec| spec.get(field));
        spec.extend(value.map(|value| (field.to_owned(), value.clone())));
    }
}

/// An object of a cluster, and what was declared of it.
#[derive(Clone, Debug)]
struct Member<'a> {
    object: Object<'a>,
    declared: Value,
}

fn with_credentials(members: &[(Object<'_>, Vec<Member<'_>>)]) -> Vec<Refusal> {
    let mut seen = BTreeSet::new();
    let all = members.iter().flat_map(|(_, members)| members);
    let found = all.filter_map(|member| Some((member.object.place(), credentials::credential(&member.declared)?)));
    let told = found.filter(|(place, _)| seen.insert(place.clone())).map(|(place, field)| {
        let message = format!("{place} holds a credential in {field}, and a repository must hold none");
        Refusal::new(message, "keep it in a Secret that the object refers to, and try again")
    });
    told.collect()
}

#[cfg(test)]
mod tests;
