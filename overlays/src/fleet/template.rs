//! Files that are templates: they hold variables where a specification needs values, and somebody else makes specifications of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::objects::{FoundObject, field};
use domain::{Problem, ProblemCode, RepoPath, Severity};

/// Fields that say which object it is, and at which version: with a variable in one of them nothing can be planned.
const NEEDED: [&[&str]; 16] = [
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
    &["spec", "distribution", "version"],
    &["spec", "distribution", "fullVersion"],
    &["spec", "topology", "controlPlane", "tkr", "reference", "name"],
];

/// The variable in a text: `${…}` or `{{…}}`.
fn variable(text: &str) -> Option<&str> {
    [("${", "}"), ("{{", "}}")].into_iter().find_map(|(open, close)| {
        let rest = text.get(text.find(open)?..)?;
        rest.get(..rest.find(close)? + close.len())
    })
}

/// What other tools, and people, write in the place of a value: `<name>`, `__NAME__`, `$NAME`, `CLUSTER_NAME`. No name of an
/// object and no version holds any of these characters.
fn placeholder(text: &str) -> Option<&str> {
    let between = [("<", ">"), ("{%", "%}"), ("[[", "]]"), ("$(", ")"), ("__", "__"), ("@", "@")];
    let found = between.into_iter().find_map(|(open, close)| {
        let rest = text.get(text.find(open)?..)?;
        let end = rest.get(open.len()..)?.find(close).filter(|length| *length > 0)?;
        rest.get(..open.len() + end + close.len())
    });
    let is_word = |character: char| character.is_ascii_uppercase() || character.is_ascii_digit() || character == '_';
    let shell = || text.get(text.find('$')?..).filter(|rest| rest.len() > 1);
    let all = || (text.contains('_') && text.chars().all(is_word)).then_some(text);
    found.or_else(shell).or_else(all)
}

/// Whether a text that is no YAML is so since it is a template.
pub(super) fn is_text(text: &str) -> bool {
    text.lines().any(|line| mark(line).is_some())
}

/// The variable or statement of a template in a line.
fn mark(line: &str) -> Option<&str> {
    let statement = || placeholder(line).filter(|found| found.starts_with("{%"));
    variable(line).filter(|found| found.starts_with("{{")).or_else(statement)
}

/// A text that is no YAML before it is rendered.
pub(super) fn of_text(path: &RepoPath, text: &str) -> Problem {
    let found = text.lines().enumerate().find_map(|(line, text)| Some((line, mark(text)?)));
    let (line, mark) = found.unwrap_or((0, "{{"));
    told(path, line + 1, mark)
}

/// Takes away the objects of files in which one has a variable in the place of a value that is needed, and tells each file once.
pub(super) fn leave_out(objects: &mut Vec<Arc<FoundObject>>, problems: &mut Vec<Problem>) {
    let mut files: BTreeMap<RepoPath, Problem> = BTreeMap::new();
    for object in objects.iter() {
        let found = NEEDED.iter().find_map(|path| {
            let text = field(&object.node, path)?;
            let found = variable(&text).or_else(|| placeholder(&text))?;
            Some((object.place_of(path).line, found.to_owned()))
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
    fn placeholders_are_told_from_names_and_versions() {
        for (text, expected) in [
            ("<cluster-name>", Some("<cluster-name>")),
            ("a-__NAME__", Some("__NAME__")),
            ("v$VERSION", Some("$VERSION")),
            ("$(NAME)", Some("$(NAME)")),
            ("@NAME@", Some("@NAME@")),
            ("CLUSTER_NAME", Some("CLUSTER_NAME")),
            ("{% if a %}", Some("{% if a %}")),
            ("my.cluster-1", None),
            ("v1.28.8---vmware.1-fips.1-tkg.2", None),
            ("KubeadmControlPlane", None),
            ("X", None),
        ] {
            assert_eq!(placeholder(text), expected, "{text}");
        }
        assert!(is_text("{% for a in b %}\nkind: X\n") && !is_text("a: <b>\n"));
    }

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
