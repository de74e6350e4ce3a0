//! The documents of a YAML text, as byte ranges.

use std::ops::Range;

/// One document, without the `---` line before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocumentRange {
    /// Its bytes.
    pub range: Range<usize>,
}

/// Cuts `text` at every line that begins a document (`---` and nothing, or white space, after it). Content on the line
/// of the marker belongs to the document after it. Ranges may be empty or hold comments only.
pub(crate) fn split(text: &str) -> Vec<DocumentRange> {
    let mut documents = Vec::new();
    let mut start = 0;
    let mut position = 0;
    for line in text.split_inclusive('\n') {
        let after = line.strip_prefix("---");
        if let Some(after) = after
            && (after.is_empty() || after.starts_with([' ', '\t', '\r', '\n']))
        {
            documents.push(DocumentRange { range: start..position });
            // `--- # comment` and `--- {…}` keep what is behind the marker.
            start = if after.trim().is_empty() { position + line.len() } else { position + 3 };
        }
        position += line.len();
    }
    documents.push(DocumentRange { range: start..text.len() });
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_markers_only() {
        for (text, expected) in [
            ("a: 1\n", vec!["a: 1\n"]),
            ("a: 1\n---\nb: 2\n", vec!["a: 1\n", "b: 2\n"]),
            ("---\r\na: 1\r\n---\r\nb: 2", vec!["", "a: 1\r\n", "b: 2"]),
            ("a: |\n  ---\n  x\n--- # note\nb: 1\n", vec!["a: |\n  ---\n  x\n", " # note\nb: 1\n"]),
            ("a: 1\n---", vec!["a: 1\n", ""]),
            ("----\n", vec!["----\n"]),
        ] {
            let parts: Vec<&str> = split(text).into_iter().map(|document| &text[document.range]).collect();
            assert_eq!(parts, expected, "{text:?}");
        }
    }
}
