//! What kustomizations name by URL: repositories by git, files over HTTPS.

use std::sync::Arc;

use kustomize_rs::{OutsideError, RemoteBases, RemoteRepository, SharedFileSystem};
use overlays::Manifests as _;

use fetch::{AllowList, FetchOptions, Https};
use git::GitBases;

/// Fetches without an allow-list: the person who turned it on vouches for the tree.
#[derive(Debug, Default)]
pub struct Remotes {
    git: GitBases,
}

impl RemoteBases for Remotes {
    fn repository(&self, repository: &RemoteRepository) -> Result<SharedFileSystem, OutsideError> {
        self.git.fetch(repository)
    }

    fn file(&self, url: &str) -> Result<Arc<[u8]>, OutsideError> {
        let Some(rest) = url.strip_prefix("https://") else {
            return Err(OutsideError("files are fetched over HTTPS alone; copy it into the repository".to_owned()));
        };
        // Redirects stay on the host, and addresses of the machine's own network are refused.
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let options = FetchOptions { allow: AllowList::new([host]), ..FetchOptions::default() };
        let fetched = Https::new(options).map_err(|error| OutsideError(error.to_string()))?.get(url);
        fetched.map_err(|error| OutsideError(error.to_string()))
    }
}
