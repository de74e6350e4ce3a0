//! Keys and scalars of one line.

use crate::node::{Node, Span, Style, Value};

/// Letters, digits and the marks that stand in names without meaning anything to YAML.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/')
}

/// A node that was written in this style.
pub(super) fn styled(value: Value, span: Span, style: Style) -> Node {
    let mut node = Node::with_span(value, span);
    node.set_style(style);
    node
}

/// The key of a line `key:` or `key: value`, and where what follows the colon begins.
pub(super) fn split_key(text: &str) -> Option<(&str, usize)> {
    let bytes = text.as_bytes();
    if !bytes.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_') {
        return None;
    }
    let length = bytes.iter().position(|byte| !is_word(*byte))?;
    if bytes.get(length) != Some(&b':') || !matches!(bytes.get(length + 1), None | Some(b' ')) {
        return None;
    }
    Some((text.get(..length)?, length + 1))
}

/// Whether a plain scalar may begin so.
pub(super) fn is_plain_start(text: &str) -> bool {
    match text.as_bytes() {
        // Options of a command line, but no mark of a document.
        [b'-', b'-', next, ..] => !matches!(next, b' ' | b'-'),
        [b'-', next, ..] => !matches!(next, b' ' | b'-'),
        [b':', next, ..] => *next != b' ',
        [first, ..] => {
            *first >= 0x80
                || first.is_ascii_alphanumeric()
                || matches!(first, b'<' | b'=' | b'/' | b'.' | b'_' | b'+' | b'~' | b'(' | b'$' | b'^')
        }
        [] => false,
    }
}

/// Whether the text is one plain scalar to its end: no key, no comment.
pub(super) fn is_plain(text: &str) -> bool {
    if text.starts_with('#')
        || text.ends_with(':')
        || text == "..."
        || text.starts_with("---")
        || text.starts_with("- ")
    {
        return false;
    }
    let bytes = text.as_bytes();
    // Most values are one word.
    !bytes.contains(&b' ') || !bytes.windows(2).any(|pair| matches!(pair, b": " | b" #"))
}

/// The text without a remark behind it. Texts that begin with a quote or bracket may hold `#` themselves.
pub(super) fn without_remark(text: &str) -> &str {
    match text.find(" #") {
        Some(at) => text.get(..at).unwrap_or_default().trim_end_matches(' '),
        None => text,
    }
}
