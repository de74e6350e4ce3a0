//! One folder that is applied as a whole, and what became of it.

use std::sync::Arc;

use super::build::Outcome;
use super::closure::Closure;
use super::sources::FluxKustomization;
use super::tree::LoadError;
use domain::{ProblemCode, RepoPath};

/// One folder that is applied as a whole.
pub(super) struct Root {
    /// The Kustomization of Flux that applies it, where one is known.
    pub flux: Option<FluxKustomization>,
    pub folder: String,
    pub closure: Closure,
    pub result: RootResult,
    /// Why it cannot be rendered as a whole, where it is rendered in parts.
    pub as_a_whole: Option<Failure>,
}

/// What became of a root.
pub(super) enum RootResult {
    /// Nothing on the way changes an object: files are applied as they stand.
    Plain,
    /// It holds nothing that is looked for.
    Foreign,
    Built(Arc<Outcome>),
    Failed(Failure),
}

/// Why a root cannot be rendered.
pub(super) struct Failure {
    pub code: ProblemCode,
    pub message: String,
    pub hint: Option<String>,
    pub path: Option<RepoPath>,
    pub line: usize,
    pub column: usize,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        let code = ProblemCode::NotRendered;
        Self { code, message: message.into(), hint: None, path: None, line: 0, column: 0 }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::TooLarge { bytes, most } => Self {
                code: ProblemCode::TooLarge,
                hint: Some("give specifications a folder of their own".to_owned()),
                ..Self::new(format!("its folders have {bytes} bytes, and at most {most} are rendered"))
            },
            LoadError::Unreadable(path, error) => Self { path: Some(path), ..Self::new(error.to_string()) },
        }
    }
}

impl Root {
    /// What people call it.
    pub fn label(&self) -> String {
        match &self.flux {
            Some(flux) => format!("Kustomization {}", flux.id()),
            None if self.folder.is_empty() => "the kustomization at the top level".to_owned(),
            None => format!("the kustomization in {}", self.folder),
        }
    }

    /// The folder that it is applied from.
    pub fn home(&self) -> String {
        self.flux.as_ref().map_or_else(|| self.folder.clone(), |flux| flux.home.clone())
    }

    /// A name for paths.
    pub fn name(&self) -> String {
        match &self.flux {
            Some(flux) => format!("{}.{}", flux.namespace, flux.name).replace(['/', '\\'], "-"),
            None => "kustomize".to_owned(),
        }
    }
}
