//! Files that are templates: they hold variables where a specification needs values, and somebody else makes specifications of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::objects::{FoundObject, field};
use domain::{Problem, ProblemCode, RepoPath, Severity};

/// Fields that say which object it is, and at which version: with a variable in one of them nothing can be planned.
const NEEDED: [&[&str]; 13] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "version"],
    &["spec", "clusterName"],
    &["spec", "kubernetesVersion"],
    &["spec", "version"],
    &["spec", "replicas"],
    &["spec", "controlPlaneRef", "name"],
    &["spec", "topology", "class"],
    &["spec", "topology", "version"],
    &["spec", "template", "spec", "version"],
];

/// The variable in a text: `${…}` or `{{…}}`.
fn variable(text: &str) -> Option<&str> {
    [("${", "}"), ("{{", "}}")].into_iter().find_map(|(open, close)| {
        let rest = text.get(text.find(open)?..)?;
        rest.get(..rest.find(close)? + close.len())
    })
}

/// Whether a text that is no YAML is so since it is a template.
pub(super) fn is_text(text: &str) -> bool {
    text.lines().any(|line| line.contains("{{") && variable(line).is_some())
}

/// A text that is no YAML before it is rendered.
pub(super) fn of_text(path: &RepoPath, text: &str) -> Problem {
    let line = text.lines().position(|line| line.contains("{{")).unwrap_or(0);
    told(path, line + 1, text.lines().nth(line).and_then(variable).unwrap_or("{{"))
}

/// Takes away the objects of files in which one has a variable in the place of a value that is needed, and tells each file once.
pub(super) fn leave_out(objects: &mut Vec<Arc<FoundObject>>, problems: &mut Vec<Problem>) {
    let mut files: BTreeMap<RepoPath, Problem> = BTreeMap::new();
    for object in objects.iter() {
        let found = NEEDED.iter().find_map(|path| {
            let text = field(&object.node, path)?;
            Some((object.place_of(path).line, variable(&text)?.to_owned()))
        });
        if let Some((line, variable)) = found {
            files.entry(object.path.clone()).or_insert_with(|| told(&object.path, line, &variable));
        }
    }
    objects.retain(|object| !files.contains_key(&object.path));
    problems.extend(files.into_values());
}

fn told(path: &RepoPath, line: usize, variable: &str) -> Problem {
    let message = format!("the file is a template, with {variable} where a value is needed; it is left out");
    let problem = Problem::new(ProblemCode::Template, message).path(path).at(line, 1).severity(Severity::Warning);
    problem.hint("commit what is rendered of it, or list it under `ignore:` in stepgate.yaml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_told_from_other_text() {
        for (text, expected) in [
            ("${NAME}", Some("${NAME}")),
            ("a-${NAME:=x}-b", Some("${NAME:=x}")),
            ("{{ .Values.name }}", Some("{{ .Values.name }}")),
            ("$NAME", None),
            ("${NAME", None),
            ("a: {b: {c: d}}", None),
        ] {
            assert_eq!(variable(text), expected, "{text}");
        }
    }
}
