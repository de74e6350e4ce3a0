//! Which fields an object has, and who owns them: `metadata.managedFields`, as structured-merge-diff keeps it.

mod apply;
mod compare;
mod managers;
mod set;

pub(crate) use self::managers::{Conflicts, Managers, Writer};
use self::set::Element;

/// Whether what is at this path is a list of which each item is a field of its own.
fn is_set(path: &[Element]) -> bool {
    matches!(path, [Element::Field(metadata), Element::Field(finalizers)] if metadata == "metadata" && finalizers == "finalizers")
}

/// Whether what is at this path is a field that the kind names, other than a key of a map.
fn is_named(path: &[Element]) -> bool {
    match path {
        [Element::Field(_)] => true,
        [Element::Field(metadata), Element::Field(_)] => metadata == "metadata",
        _ => false,
    }
}
