//! A repository in which no cluster is found: what was looked for, where, and what comes near to it.

use std::collections::BTreeSet;

use super::Fleet;
use super::makers::Maker;
use super::scan::Found;
use crate::{FileEntry, Files};
use domain::{Problem, ProblemCode};
use policy::Policy;

/// How many near misses are named.
const NAMED: usize = 5;

/// What a file may hold, by its name alone.
fn near(entry: &FileEntry, policy: &Policy) -> Option<String> {
    let ends = [".tmpl", ".tpl", ".j2", ".jinja", ".gotmpl"];
    if ends.iter().any(|end| entry.path.file_name().ends_with(end)) {
        return Some(format!("{} (a template, by its name)", entry.path));
    }
    let is_left = entry.path.is_yaml() && policy.ignore.iter().any(|pattern| pattern.matches(&entry.path));
    is_left.then(|| format!("{} (left out by `ignore`)", entry.path))
}

/// Whether a problem says why the clusters of a file are not there.
fn explains(problem: &Problem) -> bool {
    let is_refused = matches!(problem.code, ProblemCode::NotRendered | ProblemCode::BadCluster | ProblemCode::BadYaml);
    problem.is_error() && is_refused
}

/// What a problem says of a file that may hold a cluster.
fn near_by(problem: &Problem) -> Option<String> {
    let reason = match problem.code {
        ProblemCode::Template => "a template",
        ProblemCode::NotRendered => "it cannot be rendered",
        ProblemCode::Symlink => "a symbolic link",
        ProblemCode::Submodule => "a submodule",
        ProblemCode::Unreadable | ProblemCode::NotText | ProblemCode::TooLarge | ProblemCode::BadYaml => {
            "it cannot be read"
        }
        ProblemCode::NotRead => return Some(format!("{} ({})", problem.path.as_ref()?, problem.message)),
        _ => return None,
    };
    Some(format!("{} ({reason})", problem.path.as_ref()?))
}

/// The error of a fleet without clusters; none where there is one, or where another error says why there is none.
pub(super) fn check(files: &dyn Files, fleet: &Fleet, found: &Found) -> Option<Problem> {
    let is_explained = !fleet.unreadable_clusters().is_empty() || fleet.problems.iter().any(explains);
    if !fleet.clusters.is_empty() || is_explained {
        return None;
    }
    let read = files.paths().iter().filter(|entry| entry.path.is_yaml() || entry.path.is_json()).count();
    let message = format!(
        "no cluster is found: looked for Cluster of anywhere.eks.amazonaws.com and cluster.x-k8s.io, TanzuKubernetesCluster \
         of run.tanzu.vmware.com and ClusterConfig of eksctl.io, by kind, among {read} files of YAML and JSON"
    );
    let by_name = files.paths().iter().filter_map(|entry| near(entry, &fleet.policy)).collect::<Vec<String>>();
    let told = fleet.problems.iter().filter_map(near_by);
    let misses: BTreeSet<String> = found
        .near_misses
        .iter()
        .map(|(path, reason)| format!("{path} ({reason})"))
        .chain(found.makers.iter().filter(|maker| maker.told(files, &[]).is_none()).map(Maker::near_miss))
        .chain(told)
        .chain(by_name)
        .collect();
    let mut named: Vec<String> = misses.iter().take(NAMED).cloned().collect();
    if misses.len() > NAMED {
        named.push(format!("{} more", misses.len() - NAMED));
    }
    let hint = if named.is_empty() {
        "commit the specification of a cluster to this branch, or name the branch that has it (--source-branch)"
            .to_owned()
    } else {
        format!("these come near: {}", named.join(", "))
    };
    Some(Problem::new(ProblemCode::NoCluster, message).hint(hint))
}
