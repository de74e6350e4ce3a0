//! Changes of bytes, with the words that readers of YAML, JSON, addresses and git look for.

use proptest::prelude::*;
use proptest::sample::Index;

/// One change of a text.
#[derive(Debug, Clone)]
enum Edit {
    Insert(Index, String),
    Delete(Index, usize),
    Repeat(Index, usize, usize),
    Replace(Index, u8),
    Splice(Index, Index, usize),
}

const WORDS: [&str; 60] = [
    "- ",
    ": ",
    "? ",
    "&a ",
    "*a ",
    "<<: *a\n",
    "|\n",
    "|2-\n",
    ">\n",
    ">+\n",
    "\"",
    "'",
    "{",
    "}",
    "[",
    "]",
    ",",
    "#",
    " #",
    "\n",
    "\n\n",
    "\r\n",
    "\n---\n",
    "\n...\n",
    "!!binary ",
    "!!str ",
    "!x ",
    "\t",
    " ",
    "  ",
    "\u{85}",
    "\u{FEFF}",
    "😀",
    "\0",
    "\\",
    "\\x41",
    "0x",
    "1e999",
    ".inf",
    "~",
    "null",
    "yes",
    "0777",
    "2001-01-01",
    "$patch: delete\n",
    "$(A)",
    "../",
    "[name=a]",
    "@",
    "://",
    "%2e%2e%2f",
    "?",
    "=",
    "\u{202e}",
    "sha256:",
    "+build-2",
    "-18446744073709551616",
    "tree ",
    "/stepgate approve ",
    "Stepgate-Stage: ",
];

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        (at(), prop::sample::select(WORDS.to_vec())).prop_map(|(at, word)| Edit::Insert(at, word.to_owned())),
        (at(), "\\PC{1,4}").prop_map(|(at, text)| Edit::Insert(at, text)),
        (at(), 1..20_usize).prop_map(|(at, length)| Edit::Delete(at, length)),
        (at(), 1..40_usize, 1..40_usize).prop_map(|(at, length, times)| Edit::Repeat(at, length, times)),
        (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Replace(at, byte)),
        (at(), at(), 1..60_usize).prop_map(|(at, from, length)| Edit::Splice(at, from, length)),
    ]
}

fn apply(text: &mut Vec<u8>, edit: &Edit) {
    let place = |at: &Index, text: &[u8]| at.index(text.len() + 1);
    match edit {
        Edit::Insert(at, word) => {
            let at = place(at, text);
            text.splice(at..at, word.bytes());
        }
        Edit::Delete(at, length) => {
            let at = place(at, text);
            text.drain(at..(at + length).min(text.len()));
        }
        Edit::Repeat(at, length, times) => {
            let at = place(at, text);
            let part = text.get(at..(at + length).min(text.len())).unwrap_or_default().repeat(*times);
            text.splice(at..at, part);
        }
        Edit::Replace(at, byte) => {
            let at = place(at, text);
            if let Some(old) = text.get_mut(at) {
                *old = *byte;
            }
        }
        Edit::Splice(at, from, length) => {
            let (at, from) = (place(at, text), place(from, text));
            let part = text.get(from..(from + length).min(text.len())).unwrap_or_default().to_vec();
            text.splice(at..at, part);
        }
    }
}

/// A seed with some changes.
pub fn mutated(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (prop::sample::select(seeds), prop::collection::vec(edit(), 0..6)).prop_map(|(mut text, edits)| {
        edits.iter().for_each(|edit| apply(&mut text, edit));
        text
    })
}
