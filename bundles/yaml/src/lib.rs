//! YAML as kustomize reads and writes it: go-yaml v3 rules on the way in, go-yaml v2 bytes on the way out.
//!
//! [`parse`] returns typed nodes with their place in the source, [`emit`] prints a node:
//!
//! ```
//! let documents = yaml::parse("b: 1.30\na: [x, 'y']\n", &yaml::Limits::default())?;
//! let root = &documents[0].root;
//! assert_eq!(root.get("b").map(|node| node.span.line()), Some(1));
//! assert_eq!(yaml::emit(root), "a:\n- x\n- \"y\"\nb: 1.3\n");
//! # Ok::<(), yaml::YamlError>(())
//! ```
//!
//! Comments, styles and anchors do not survive [`emit`]: the output depends on the values alone. [`Layout`] keeps them.
//! Every text is bounded by [`Limits`].

mod document;
mod emit;
mod error;
pub mod json;
mod layout;
mod limits;
mod node;
mod number;
mod order;
mod parse;
mod plain;
mod remark;
mod replace;
mod resolve;
mod rules;
mod text;
mod timestamp;

pub use document::{Document, decode};
pub use emit::{emit, emit_all, emit_all_into};
pub use error::{YamlError, YamlErrorKind};
pub use layout::{Layout, compose, may_be_block};
pub use limits::Limits;
pub use node::{Entry, Holder, Mapping, Node, Sequence, Span, Style, Value};
pub use number::{float_text, json_float};
pub use order::compare_keys;
pub use parse::{parse, parse_with};
pub use replace::is_other_without_quotes;
pub use resolve::{Scalar, resolve_v3};
pub use rules::Rules;
pub use text::Text;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
