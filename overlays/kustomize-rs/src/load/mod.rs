//! Where the files of a build come from: its tree, remote bases, charts.

mod loader;
mod outside;
mod remote;

pub use loader::LoadRestrictor;
pub(crate) use loader::{Files, Loader};
pub use outside::{ChartPull, ChartRenderer, ChartTemplate, Outside, OutsideError, RemoteBases, SharedFileSystem};
pub use remote::RemoteRepository;
pub(crate) use remote::names_a_repository;
