//! Brings what was said of composed files back to the files in git.

use std::sync::Arc;

use super::{Rendered, encrypted};
use crate::{Fleet, Place, SpecFile};
use domain::{Problem, ProblemCode, RepoPath, Severity};

impl Rendered {
    /// Turns places in composed files into places in git, and tells what clusters are rendered from.
    pub fn settle(self, fleet: &mut Fleet) {
        fleet.problems.extend(self.problems);
        let origin = |path: &RepoPath| self.files.get(path).map_or(path, |file| &file.origin).clone();
        self.applications.tell(fleet, &origin);
        let encrypted = encrypted::check(fleet);
        fleet.problems.extend(encrypted);
        // A patch needs no kind, and what is rendered is no template any more.
        let is_of_patch = |problem: &Problem| {
            let is_void = match problem.severity {
                Severity::Note => problem.code == ProblemCode::Skipped,
                Severity::Warning => problem.code.to_string() == "template",
                Severity::Error => false,
            };
            is_void && problem.path.as_ref().is_some_and(|path| self.consumed.contains(path))
        };
        fleet.problems.retain(|problem| !is_of_patch(problem));
        if self.files.is_empty() {
            return;
        }
        let locate = |place: &Place| match self.files.get(&place.path) {
            Some(file) => file.locate(place.line, place.column),
            None => place.clone(),
        };
        let mut told = Vec::new();
        for cluster in &mut fleet.clusters {
            let label = self.labels.get(&cluster.places.name.path);
            cluster.places.name = locate(&cluster.places.name);
            for place in [&mut cluster.places.kubernetes_version, &mut cluster.places.bundle_reference] {
                *place = place.as_ref().map(locate);
            }
            if let Some(label) = label {
                let place = cluster.places.kubernetes_version.as_ref().unwrap_or(&cluster.places.name);
                let message = format!(
                    "cluster {:?} is what {label} makes; its Kubernetes version {} stands here",
                    cluster.name, cluster.kubernetes_version
                );
                let problem = Problem::new(ProblemCode::Rendered, message).severity(Severity::Note).path(&place.path);
                told.push(problem.at(place.line, place.column).cluster(&cluster.name));
            }
            let mut files: Vec<SpecFile> = Vec::new();
            for file in &cluster.files {
                files.push(SpecFile { path: origin(&file.path), bytes: Arc::clone(&file.bytes) });
            }
            files.sort_by(|left, right| left.path.cmp(&right.path));
            cluster.files = files;
        }
        for problem in &mut fleet.problems {
            let (Some(path), Some(line)) = (&problem.path, problem.line) else { continue };
            if let Some(file) = self.files.get(path) {
                let place = file.locate(line, problem.column.unwrap_or(1));
                *problem = problem.clone().path(&place.path).at(place.line, place.column);
            }
        }
        fleet.problems.extend(told);
    }
}
