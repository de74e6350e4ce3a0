//! Brings what was said of composed files back to the files in git.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Rendered, encrypted};
use crate::{Fleet, Place, SpecFile};
use domain::{Problem, ProblemCode, RepoPath, Severity};

impl Rendered {
    /// Turns places in composed files into places in git, and tells what clusters are rendered from.
    pub fn settle(mut self, fleet: &mut Fleet) {
        fleet.problems.append(&mut self.problems);
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
        let origins: BTreeSet<&RepoPath> = self.files.values().map(|file| &file.origin).collect();
        for cluster in &mut fleet.clusters {
            let label = self.labels.get(&cluster.places.name.path);
            let twin = cluster
                .places
                .kubernetes_version
                .as_ref()
                .and_then(|place| self.files.get(&place.path)?.said_as_well(place.line, place.column, &origins));
            cluster.places.name = locate(&cluster.places.name);
            for place in [&mut cluster.places.kubernetes_version, &mut cluster.places.bundle_reference] {
                *place = place.as_ref().map(locate);
            }
            if let Some(label) = label {
                let place = cluster.places.kubernetes_version.as_ref().unwrap_or(&cluster.places.name);
                let twin = twin.filter(|twin| (&twin.path, twin.line) != (&place.path, place.line));
                let twin = twin.map(|twin| format!("; {}:{} says it as well", twin.path, twin.line));
                let message = format!(
                    "cluster {:?} is what {label} makes; its Kubernetes version {} stands here{}",
                    cluster.name,
                    cluster.kubernetes_version,
                    twin.unwrap_or_default()
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
            problem.message = self.in_git(&problem.message);
            problem.hint = problem.hint.as_deref().map(|hint| self.in_git(hint));
            let (Some(path), Some(line)) = (&problem.path, problem.line) else { continue };
            if let Some(file) = self.files.get(path) {
                let place = file.locate(line, problem.column.unwrap_or(1));
                *problem = problem.clone().path(&place.path).at(place.line, place.column);
            }
        }
        fleet.problems.extend(told);
    }

    /// A text with the files in git in the place of composed ones.
    fn in_git(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if !text.contains('@') {
            return text;
        }
        for (path, file) in &self.files {
            while let Some(at) = text.find(path.as_str()) {
                let end = at + path.as_str().len();
                let rest = text.get(end..).unwrap_or_default();
                let digits = rest.strip_prefix(':').map(|rest| rest.chars().take_while(char::is_ascii_digit).count());
                let digits = digits.filter(|digits| *digits > 0);
                let line = digits.and_then(|digits| rest.get(1..=digits)?.parse().ok());
                let place = line.map(|line| file.locate(line, 1));
                let written = match &place {
                    Some(place) => format!("{}:{}", place.path, place.line),
                    None => file.origin.to_string(),
                };
                let end = end + place.and(digits).map_or(0, |digits| digits + 1);
                text.replace_range(at..end, &written);
            }
        }
        text
    }
}
