//! Defaults of provider variables that change under a running controller.

use std::collections::BTreeMap;

use yaml::Node;

use crate::note::{Note, NoteKind, Weight};
use crate::object::{containers, object_id, objects_of};
use crate::{document, variables};

/// Arguments of containers whose value comes from a variable without a value of the team, and whose default is not what
/// the deployed argument says.
///
/// `published` is the provider's manifest with its variables; `values` are the team's. It needs no old manifest: what is
/// deployed tells the old default.
pub fn flipped_defaults(published: &str, deployed: &[Node], values: &BTreeMap<String, String>) -> Vec<Note> {
    let mut notes = Vec::new();
    let arguments = |node: &Node| {
        containers(node)
            .into_iter()
            .filter_map(|container| container.get("args")?.as_sequence())
            .flatten()
            .cloned()
            .collect::<Vec<_>>()
    };
    // Definitions are most of a manifest and hold no arguments.
    let documents = document::split(published).into_iter().filter_map(|document| published.get(document.range));
    let workloads = documents.filter(|text| text.contains("${") && text.contains("args:"));
    for target in workloads.flat_map(|text| objects_of(text.as_bytes())) {
        let Some(id) = object_id(&target) else { continue };
        let Some(before) = deployed.iter().find(|node| object_id(node).as_ref() == Some(&id)) else { continue };
        let old: BTreeMap<String, String> =
            arguments(before).iter().filter_map(Node::as_str).flat_map(settings).collect();
        for argument in arguments(&target).iter().filter_map(Node::as_str).filter(|text| text.contains("${")) {
            for (key, template) in settings(argument) {
                let Ok(uses) = variables::variables(&template) else { continue };
                let [variable] = uses.as_slice() else { continue };
                if values.contains_key(&variable.name) {
                    continue;
                }
                let Ok(new) = variables::substitute(&template, &BTreeMap::new()) else { continue };
                if let Some(old) = old.get(&key)
                    && *old != new
                {
                    let message = format!(
                        "the default of {} changes from {old} to {new} ({key}); set it under variables in stepgate.yaml to \
                         keep the old behaviour",
                        variable.name
                    );
                    notes.push(Note::new(Weight::Risk, NoteKind::DefaultChanged, message).object(&id));
                }
            }
        }
    }
    notes
}

/// `--flag=value` is one setting; `--feature-gates=A=true,B=${B:=false}` is one for each gate. Commas and equals signs
/// inside `${…}` separate nothing.
fn settings(argument: &str) -> Vec<(String, String)> {
    let Some((flag, value)) = split_once(argument, '=') else { return Vec::new() };
    let parts = split(value, ',');
    let pairs: Option<Vec<(String, String)>> = parts
        .iter()
        .map(|part| split_once(part, '=').map(|(key, value)| (format!("{flag}={key}"), value.to_owned())))
        .collect();
    match pairs {
        Some(pairs) if !pairs.is_empty() => pairs,
        _ => vec![(flag.to_owned(), value.to_owned())],
    }
}

fn split_once(text: &str, separator: char) -> Option<(&str, &str)> {
    let at = positions(text, separator).next()?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for at in positions(text, separator) {
        parts.extend(text.get(start..at));
        start = at + 1;
    }
    parts.extend(text.get(start..));
    parts
}

/// Where `separator` stands outside of `${…}`.
fn positions(text: &str, separator: char) -> impl Iterator<Item = usize> {
    let mut depth = 0usize;
    let mut before = '\0';
    text.char_indices().filter_map(move |(at, character)| {
        match character {
            '{' if before == '$' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = character;
        (depth == 0 && character == separator).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_cut_into_settings() {
        for (argument, expected) in [
            ("--a=1", vec![("--a", "1")]),
            (
                "--feature-gates=A=${A:=x,y=z},B=true",
                vec![("--feature-gates=A", "${A:=x,y=z}"), ("--feature-gates=B", "true")],
            ),
            ("--diagnostics-address=${D:=:8443}", vec![("--diagnostics-address", "${D:=:8443}")]),
            ("--flag", vec![]),
        ] {
            let found = settings(argument);
            let found: Vec<_> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!(found, expected, "{argument}");
        }
    }

    #[test]
    fn only_defaults_that_differ_from_what_runs_are_told() {
        let deployment = |argument: &str| {
            format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d, namespace: n}}\nspec: {{template: {{spec: \
                 {{containers: [{{name: m, args: [\"{argument}\"]}}]}}}}}}\n"
            )
        };
        let published = deployment("--feature-gates=A=${A:=true},B=${B:=false},C=${C:=x}");
        let before = objects_of(deployment("--feature-gates=A=false,B=false").as_bytes());
        let told = |values: &[(&str, &str)]| {
            let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            flipped_defaults(&published, &before, &values).into_iter().map(|note| note.message).collect::<Vec<_>>()
        };
        let messages = told(&[]);
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].starts_with("the default of A changes from false to true (--feature-gates=A)"));
        assert!(told(&[("A", "true")]).is_empty(), "the team decided");
    }
}
