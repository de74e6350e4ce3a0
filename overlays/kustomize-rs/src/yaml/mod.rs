//! YAML as kustomize reads and writes it: go-yaml v3 rules on the way in, go-yaml v2 bytes on the way out.
//!
//! [`parse`] gives typed nodes with their place in the source, [`emit`] prints a node. Comments, styles and anchors do
//! not survive: the output depends on the values alone.

mod emit;
mod error;
mod layout;
mod limits;
mod node;
mod number;
mod order;
mod parse;
mod plain;
mod remark;
mod resolve;
mod shared;
mod timestamp;
mod written;

pub(crate) use emit::emit_all_into;
pub use emit::{emit, emit_all};
pub use error::{YamlError, YamlErrorKind};
pub use limits::Limits;
pub use node::{Entry, Mapping, Node, Span, Value};
pub use order::compare_keys;
pub use parse::{Document, Rules, decode, parse, parse_with};
pub use shared::{Sequence, Text};

pub(crate) use layout::{Layout, compose};
pub(crate) use node::{Style, is_other_without_quotes};
pub(crate) use number::{float_text, json_float};
pub(crate) use remark::Holder;
pub(crate) use resolve::{Scalar, resolve_v3};
pub(crate) use written::write_and_read;
