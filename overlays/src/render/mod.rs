//! From a cluster and its bundle to the trees of files of its components.

mod types;

pub use types::{
    ComponentName, Hop, Note, NoteKind, RemovedVersion, RenderError, RenderRequest, RenderedCluster, RenderedComponent,
    UnknownComponent, Weight,
};
