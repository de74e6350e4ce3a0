//! What is wrong on this machine, and not in the fleet repository: files that are not committed, manifests that are not there, no helm.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use overlays::{bundle_for, uses_bundle};

use super::fleet;
use crate::cli::FleetArguments;
use crate::report::ProblemReport;
use fetch::Helm;

/// How many files or addresses one problem names.
const NAMED: usize = 3;
/// How many files that are not committed are named.
const UNCOMMITTED: usize = 20;

/// The problems, all of them warnings: another machine may have none of them.
pub fn problems(arguments: &FleetArguments, opened: &fleet::Opened) -> Vec<ProblemReport> {
    let mut problems = uncommitted(arguments, opened);
    let needs = needs(opened);
    problems.extend(missing(arguments, opened, &needs));
    let charts = needs.keys().filter(|(_, address)| address.starts_with("oci://")).count();
    if let Some(error) = Helm::find().err().filter(|_| charts > 0) {
        let clusters: BTreeSet<&String> = needs
            .iter()
            .filter(|((_, address), _)| address.starts_with("oci://"))
            .flat_map(|(_, clusters)| clusters)
            .collect();
        problems.push(warning(
            "no-helm",
            None,
            only(clusters.iter().copied()),
            format!("Cilium's chart cannot be rendered on this machine: {error}"),
            "install helm where Stepgate runs, or name it in STEPGATE_HELM",
        ));
    }
    problems
}

fn warning(
    code: &str,
    path: Option<String>,
    cluster: Option<String>,
    message: String,
    hint: impl Into<String>,
) -> ProblemReport {
    ProblemReport {
        severity: "warning".to_owned(),
        code: code.to_owned(),
        cluster,
        path,
        line: None,
        column: None,
        message,
        hint: Some(hint.into()),
    }
}

/// The name, where there is one alone.
fn only<'a>(mut names: impl Iterator<Item = &'a String>) -> Option<String> {
    let first = names.next()?;
    names.next().is_none().then(|| first.clone())
}

/// What is read is the branch: files beside it change nothing.
fn uncommitted(arguments: &FleetArguments, opened: &fleet::Opened) -> Vec<ProblemReport> {
    let skipped: Vec<PathBuf> =
        arguments.mirrors.iter().map(|mirror| mirror.path.clone()).chain([PathBuf::from("stepgate-backups")]).collect();
    let branch = opened.planner.source_branch();
    let Some(tree) = opened.planner.repository().work_tree(branch, &skipped) else { return Vec::new() };
    let commit = opened.source().snapshot().commit().to_string();
    let read = format!("what is read is branch {branch} at {}", commit.get(..10).unwrap_or(&commit));
    let mut problems = Vec::new();
    if let Some(other) = &tree.other_branch {
        let message = format!("{other} is checked out here, and {read}");
        problems.push(warning(
            "other-branch",
            None,
            None,
            message,
            format!("`git switch {branch}`, or name another one by --source-branch"),
        ));
    }
    let hint = "`git add` and `git commit` it; what git is to ignore belongs into .gitignore";
    for path in tree.uncommitted.iter().take(UNCOMMITTED) {
        problems.push(warning(
            "uncommitted",
            Some(path.clone()),
            None,
            format!("it is not committed as it is here: {read}"),
            hint,
        ));
    }
    if let Some(more) = tree.uncommitted.len().checked_sub(UNCOMMITTED).filter(|more| *more > 0) {
        problems.push(warning("uncommitted", None, None, format!("{more} more files are not committed"), hint));
    }
    problems
}

/// By bundle and address: the clusters that need it.
type Needs = BTreeMap<(String, String), BTreeSet<String>>;

fn needs(opened: &fleet::Opened) -> Needs {
    let fleet = opened.fleet();
    let mut needs = Needs::new();
    // Clusters that are alike need the same.
    let mut alike = BTreeMap::new();
    for cluster in fleet.clusters.iter().filter(|cluster| uses_bundle(fleet, cluster)) {
        let Ok(bundle) = bundle_for(fleet, cluster) else { continue };
        let providers: BTreeSet<_> = fleet.managed_by(&cluster.name).map(|other| other.provider.clone()).collect();
        let versions: BTreeSet<_> =
            cluster.worker_groups.iter().map(|group| group.kubernetes_version.clone()).collect();
        let key = (
            (
                bundle.path.to_string(),
                cluster.kind,
                cluster.is_management(),
                cluster.kubernetes_version.clone(),
                versions,
            ),
            (cluster.provider.clone(), providers, cluster.cilium && !cluster.skip_cilium_upgrade),
        );
        let needed = alike.entry(key).or_insert_with(|| overlays::render::needs(fleet, cluster, bundle));
        for address in needed.iter() {
            let key = (bundle.path.to_string(), address.clone());
            needs.entry(key).or_default().insert(cluster.name.clone());
        }
    }
    needs
}

/// Addresses of one bundle that no mirror has, and the clusters that need them.
#[derive(Default)]
struct Missing<'a> {
    addresses: Vec<&'a String>,
    clusters: BTreeSet<&'a String>,
}

/// What bundles name and no mirror has, at most two problems a bundle: what may be fetched when it is needed, and what may not.
fn missing(arguments: &FleetArguments, opened: &fleet::Opened, needs: &Needs) -> Vec<ProblemReport> {
    let sources = fleet::sources(arguments);
    let addresses: BTreeSet<String> = needs.keys().map(|(_, address)| address.clone()).collect();
    let missing: BTreeMap<String, bool> = sources.missing(opened.fleet(), addresses).into_iter().collect();
    let mut bundles: BTreeMap<(&String, bool), Missing<'_>> = BTreeMap::new();
    for ((bundle, address), clusters) in needs {
        let Some(is_allowed) = missing.get(address) else { continue };
        let missing = bundles.entry((bundle, *is_allowed)).or_default();
        missing.addresses.push(address);
        missing.clusters.extend(clusters);
    }
    let problem = |((bundle, is_allowed), missing): ((&String, bool), Missing<'_>)| {
        let Missing { addresses, clusters } = missing;
        let named: Vec<&str> = addresses.iter().take(NAMED).map(|address| address.as_str()).collect();
        let more = addresses.len().checked_sub(NAMED).filter(|more| *more > 0);
        let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
        let whose = if clusters.len() > NAMED {
            format!("{} clusters need", clusters.len())
        } else {
            let names: Vec<&str> = clusters.iter().map(|name| name.as_str()).collect();
            format!("{} need{}", names.join(", "), if clusters.len() == 1 { "s" } else { "" })
        };
        let why = if is_allowed {
            "no mirror has them, and they are fetched when they are needed"
        } else {
            "no mirror has them, and fetch.allow names no host for them"
        };
        let message =
            format!("manifests that {whose} are missing ({}): {why}: {}{more}", addresses.len(), named.join(", "));
        let hint = format!(
            "`stepgate bundle fetch {bundle} --to mirror`, and give that folder with --mirror or STEPGATE_MIRROR"
        );
        let problem = warning("missing-manifests", Some(bundle.clone()), only(clusters.iter().copied()), message, hint);
        ProblemReport { severity: if is_allowed { "note".to_owned() } else { problem.severity }, ..problem }
    };
    bundles.into_iter().map(problem).collect()
}
