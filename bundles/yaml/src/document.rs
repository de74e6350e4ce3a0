//! The documents of a text, and its encoding.

use std::borrow::Cow;

use crate::error::{YamlError, YamlErrorKind};
use crate::node::{Node, Span};
use crate::text::Text;

/// One document of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its top node; never null.
    pub root: Node,
    /// Keys that were given twice, where the rules let the last one win: only [`Rules::V2`](crate::Rules::V2) does.
    pub duplicates: Vec<(Text, Span)>,
}

/// Returns `bytes` as text without byte order mark. All spans refer to the returned text.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, YamlError> {
    match bytes {
        [0xFF, 0xFE, rest @ ..] => return utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => return utf16(rest, u16::from_be_bytes),
        _ => {}
    }
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
            Err(YamlError::new(YamlErrorKind::Encoding, "the file is not UTF-8", line, column))
        }
    }
}

fn utf16<'a>(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Cow<'a, str>, YamlError> {
    let units = bytes.chunks(2).map(|pair| match pair {
        [first, second] => unit([*first, *second]),
        _ => 0xFFFF,
    });
    char::decode_utf16(units)
        .collect::<Result<String, _>>()
        .map(Cow::Owned)
        .map_err(|_| YamlError::new(YamlErrorKind::Encoding, "the file is not UTF-16", 1, 1))
}
