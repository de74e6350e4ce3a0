//! The documents: each command block is followed or parsed, and references agree with the program.
//!
//! A fenced block `sh` runs in a fresh repository, block after block in one shell. The comment
//! `<!-- not run: REASON -->` before a block leaves it out; its `stepgate` commands still have to parse.
//! `<!-- setup: TEXT -->` prepares what a reader has by then.

mod follow;
mod parse;
mod reference;

use std::path::{Path, PathBuf};

/// Why a block of commands may be left out.
const REASONS: [&str; 4] = ["needs a cluster", "builds the program", "goes on until it is stopped", "needs a proposal"];

/// A fenced block of a document.
#[derive(Debug)]
struct Block {
    /// `sh`, `yaml`, or nothing.
    language: String,
    /// The line of its first command, from 1.
    line: usize,
    /// The comments right before it.
    comments: Vec<String>,
    /// Its lines.
    text: String,
}

impl Block {
    /// Why it is left out.
    fn not_run(&self) -> Option<&str> {
        self.comment("not run: ")
    }

    fn comment(&self, prefix: &str) -> Option<&str> {
        self.comments.iter().find_map(|comment| comment.strip_prefix(prefix))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(document: &str) -> String {
    std::fs::read_to_string(root().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// The guides and references.
fn guides() -> Vec<String> {
    let folder = std::fs::read_dir(root().join("reconciler/docs")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<String> =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("reconciler/docs/{name}")).collect();
    found.push("README.md".to_owned());
    found.sort();
    found
}

/// The fenced blocks of a text, in order.
fn blocks(text: &str) -> Vec<Block> {
    let (mut found, mut comments, mut open) = (Vec::new(), Vec::new(), None::<Block>);
    for (line, number) in text.lines().zip(1..) {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(block), None) => block.text.extend([line, "\n"]),
            (None, Some(language)) => {
                let (language, comments) = (language.trim().to_owned(), std::mem::take(&mut comments));
                open = Some(Block { language, line: number + 1, comments, text: String::new() });
            }
            (None, None) if line.trim().is_empty() => {}
            (None, None) => match line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
                Some(comment) => comments.push(comment.to_owned()),
                None => comments.clear(),
            },
        }
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

/// The blocks of commands of a document.
fn commands(document: &str) -> Vec<Block> {
    blocks(&read(document)).into_iter().filter(|block| block.language == "sh").collect()
}

#[test]
fn blocks_have_their_language_line_and_comments() {
    let text = "a\n\n<!-- not run: needs a cluster -->\n\n```sh\nb\n```\n<!-- other -->\ntext\n```\nc\n```\n";
    let found = blocks(text);
    assert_eq!((found[0].language.as_str(), found[0].line, found[0].text.as_str()), ("sh", 6, "b\n"));
    assert_eq!(found[0].not_run(), Some("needs a cluster"));
    assert_eq!((found[1].language.as_str(), found[1].not_run(), found[1].comments.len()), ("", None, 0));
}
