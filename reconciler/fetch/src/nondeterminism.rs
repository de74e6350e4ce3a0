//! Why two renders of one chart differ, as far as it can be told.

use std::collections::BTreeSet;
use std::io::Read as _;

use flate2::read::GzDecoder;

/// More than any chart unpacks to.
const MAXIMUM_UNPACKED: u64 = 256 << 20;

/// Says which objects differ between two renders, which templates they come from, and which values decide whether those
/// templates are rendered.
pub(super) fn explain(first: &[u8], second: &[u8], chart: &[u8]) -> String {
    let (first, second) = (String::from_utf8_lossy(first), String::from_utf8_lossy(second));
    let (first, second) = (documents(&first), documents(&second));
    let mut objects = BTreeSet::new();
    let mut sources = BTreeSet::new();
    for (left, right) in first.iter().zip(&second).filter(|(left, right)| left != right) {
        objects.insert(object(left));
        sources.extend([source(left), source(right)].into_iter().flatten().map(str::to_owned));
    }
    if first.len() != second.len() {
        objects.insert("the number of objects".to_owned());
    }
    let mut text = format!("two renders of the same values differ in {}", join(&objects));
    if !sources.is_empty() {
        text.push_str(&format!(", from {}", join(&sources)));
    }
    let values = deciding_values(&sources, chart);
    if values.is_empty() {
        text.push_str(
            "; the chart makes something new in every render (a certificate, a password, a date): give it that value",
        );
    } else {
        text.push_str(&format!(
            "; decided by {}: set one of these values so that the chart makes nothing new by itself",
            values.join(", ")
        ));
    }
    text
}

fn join(items: &BTreeSet<String>) -> String {
    items.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn documents(text: &str) -> Vec<&str> {
    text.split("\n---").collect()
}

/// `Secret kube-system/cilium-ca`, read from the lines of the object.
fn object(document: &str) -> String {
    let field = |key: &str| document.lines().find_map(|line| line.strip_prefix(key)).map_or("", str::trim);
    let (kind, name, namespace) = (field("kind:"), field("  name:"), field("  namespace:"));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// The template that helm says an object comes from.
fn source(document: &str) -> Option<&str> {
    document.lines().find_map(|line| line.strip_prefix("# Source: ")).map(str::trim)
}

/// The values in the condition around every one of the templates: those that are compared with a word first.
fn deciding_values(sources: &BTreeSet<String>, chart: &[u8]) -> Vec<String> {
    let mut common: Option<Vec<(bool, String)>> = None;
    for (path, text) in templates(chart) {
        if !sources.contains(&path) {
            continue;
        }
        let found = values_of_first_condition(&text);
        common = Some(match common {
            None => found,
            Some(before) => {
                before.into_iter().filter(|(_, value)| found.iter().any(|(_, other)| other == value)).collect()
            }
        });
    }
    let mut values = common.unwrap_or_default();
    values.sort();
    values.into_iter().map(|(_, value)| value).collect()
}

/// Path and text of every template in a packed chart; nothing where it cannot be read.
fn templates(chart: &[u8]) -> Vec<(String, String)> {
    let mut archive = tar::Archive::new(GzDecoder::new(chart).take(MAXIMUM_UNPACKED));
    let mut templates = Vec::new();
    for mut entry in archive.entries().into_iter().flatten().flatten() {
        let path = entry.path().ok().map(|path| path.display().to_string()).unwrap_or_default();
        let mut text = String::new();
        if path.contains("/templates/") && entry.read_to_string(&mut text).is_ok() {
            templates.push((path, text));
        }
    }
    templates
}

/// `.Values.…` paths of the condition that a template begins with. The flag is false where a value is compared with a
/// word, so that those sort first.
fn values_of_first_condition(text: &str) -> Vec<(bool, String)> {
    let condition =
        text.trim_start().strip_prefix("{{").and_then(|rest| rest.split_once("}}")).map_or("", |(inner, _)| inner);
    let mut found: Vec<(bool, String)> = Vec::new();
    let mut parts = condition.split(".Values.");
    let mut before = parts.next().unwrap_or_default();
    for part in parts {
        let end = part.find(|it: char| !(it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '-')));
        let value = part.get(..end.unwrap_or(part.len())).unwrap_or_default();
        if !found.iter().any(|(_, known)| known == value) {
            found.push((!is_comparison(before), value.to_owned()));
        }
        before = part;
    }
    found
}

/// Whether what stands before a value compares it: `(eq .Values.a "word")`.
fn is_comparison(text: &str) -> bool {
    let text = text.trim_end();
    text.ends_with("eq") || text.ends_with("ne")
}

#[cfg(test)]
#[path = "nondeterminism_tests.rs"]
mod tests;
