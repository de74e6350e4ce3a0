//! What Flux cannot read of what it has printed itself. kustomize-rs prints all of it well, but Flux would stop there.

use yaml::{Entry, Node, Scalar, Style, Value, resolve_v3};

use crate::error::BuildError;
use crate::resource::Resource;

/// Refuses an object that Flux could not read again.
pub(super) fn check(resource: &Resource) -> Result<(), BuildError> {
    let fail = |message: String, hint: &str| Err(refusal(resource, message, hint));
    // Of what SOPS has encrypted as a whole, Flux reads what it has decrypted.
    if resource.node.get("sops").is_some_and(|sops| sops.as_mapping().is_some()) {
        return Ok(());
    }
    let api_version = resource.node.get("apiVersion").and_then(Node::as_str).unwrap_or_default();
    if api_version.matches('/').count() > 1 {
        let message = format!("Flux cannot read the apiVersion `{api_version}`");
        return fail(message, "it is `version` or `group/version`");
    }
    let items = resource.node.get("items").and_then(Node::as_sequence).unwrap_or_default();
    if items.iter().any(|item| item.as_mapping().is_none()) {
        let message = "Flux takes what has a list `items` for a list of objects, and these are none";
        return fail(message.to_owned(), "give the field another name");
    }
    // kustomize writes annotations anew: keys without quotes, texts of several lines as blocks, where there can be any.
    let metadata = resource.node.get("metadata");
    let annotations = metadata.and_then(|metadata| metadata.get("annotations")).and_then(Node::as_mapping);
    let in_lines = ![metadata, Some(&*resource.node)].into_iter().flatten().any(|node| node.style() == Style::Flow);
    let lost = annotations
        .into_iter()
        .flatten()
        .find(|entry| is_other(&entry.key) || in_lines && entry.value.as_str().is_some_and(begins_with_tab));
    if let Some(entry) = lost {
        return fail(
            format!("Flux cannot read the annotation `{}` again", entry.key),
            "begin with no tab, and use a key that is not a number",
        );
    }
    match find(&resource.node, &|entry| {
        let is_made = entry.key_span.line() == 0;
        let is_quoted = entry.key_span.end() >= entry.key_span.start() + entry.key.len() + 2;
        is_other(&entry.key) && !is_quoted || is_made && entry.value.as_str().is_some_and(begins_with_tab)
    }) {
        Some(entry) => fail(format!("Flux cannot read the field `{}` again", entry.key.escape_debug()), HINT),
        None if holds_control(&resource.node) => {
            let message = "Flux cannot read a text again that holds a control character above U+007E";
            fail(message.to_owned(), "leave it out, or put the text into `binaryData`")
        }
        None => Ok(()),
    }
}

const HINT: &str = "put keys that are not text in quotes, and begin no text of several lines with a tab";

/// Refuses an object that Flux could not read again after a substitution, for which it is printed without its quotes.
pub(super) fn check_substituted(resource: &Resource) -> Result<(), BuildError> {
    let begins = |entry: &Entry| begins_with_tab(&entry.key) || entry.value.as_str().is_some_and(begins_with_tab);
    match find(&resource.node, &begins) {
        Some(entry) => {
            let message =
                format!("Flux cannot read the field `{}` again for its substitution", entry.key.escape_debug());
            Err(refusal(resource, message, HINT))
        }
        None => Ok(()),
    }
}

fn refusal(resource: &Resource, message: String, hint: &str) -> BuildError {
    let error = BuildError::syntax(message).hint(hint);
    let error = error.context(format_args!("{} `{}`", resource.kind(), resource.name()));
    if resource.origin.file.is_empty() { error } else { error.at(&resource.origin.file, resource.node.span) }
}

fn is_other(key: &str) -> bool {
    !matches!(resolve_v3(key), Scalar::Text | Scalar::Merge)
}

fn begins_with_tab(text: &str) -> bool {
    text.starts_with('\t') && text.contains('\n')
}

fn find<'n>(node: &'n Node, fits: &impl Fn(&Entry) -> bool) -> Option<&'n Entry> {
    match &node.value {
        Value::Sequence(items) => items.iter().find_map(|item| find(item, fits)),
        Value::Mapping(mapping) => {
            mapping.iter().find_map(|entry| if fits(entry) { Some(entry) } else { find(&entry.value, fits) })
        }
        _ => None,
    }
}

fn holds_control(node: &Node) -> bool {
    let in_text = |text: &str| {
        text.chars().any(|c| matches!(c, '\u{7F}'..='\u{84}' | '\u{86}'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}'))
    };
    match &node.value {
        Value::Sequence(items) => items.iter().any(holds_control),
        Value::Mapping(mapping) => mapping.iter().any(|entry| in_text(&entry.key) || holds_control(&entry.value)),
        Value::String(text) => in_text(text),
        _ => false,
    }
}
