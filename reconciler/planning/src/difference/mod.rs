//! What differs between two sets of objects, by object and field: for `stepgate kustomize diff`, and for what people are asked to approve.

mod compare;
mod objects;
mod redaction;
mod secrets;

pub use compare::{Change, FieldDifference, ObjectDifference, compare};
pub(crate) use objects::objects_in;
pub use objects::{is_manifest, objects};
pub use redaction::{harmless, redacted};
pub use secrets::without_secrets;
