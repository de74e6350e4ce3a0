//! Manifests and charts for a fleet: the mirrors given and those of its policy, then the network for what the policy allows.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use overlays::{Charts, FetchError, Fleet, Manifests};

use super::planner::Sources;
use crate::fetch::{AllowList, Cache, Chain, FetchOptions, Helm, HelmCharts, Mirror, Remote};

/// How much of what was fetched is kept in memory, in bytes.
const REMEMBERED_BYTES: usize = 256 << 20;

/// Sources made from folders and a policy. The same policy gives the same sources, with what they have cached.
pub struct FetchSources {
    mirrors: Vec<PathBuf>,
    private_hosts: Vec<String>,
    made: Mutex<Option<Made>>,
}

#[derive(Clone)]
struct Made {
    mirrors: Vec<PathBuf>,
    allow: Vec<String>,
    manifests: Arc<dyn Manifests>,
    charts: Arc<dyn Charts>,
}

impl FetchSources {
    /// Sources that look into these folders first.
    pub fn new(mirrors: Vec<PathBuf>) -> Self {
        Self { mirrors, private_hosts: Vec::new(), made: Mutex::default() }
    }

    /// Lets these hosts have loopback, link-local and private addresses. Whoever runs the program says so and never the
    /// fleet repository: those who write there must not choose what is asked inside of the network.
    #[must_use]
    pub fn with_private_hosts(self, private_hosts: Vec<String>) -> Self {
        Self { private_hosts, ..self }
    }

    fn of(&self, fleet: &Fleet) -> Made {
        let mirrors: Vec<PathBuf> =
            self.mirrors.iter().cloned().chain(fleet.policy.mirrors.iter().map(PathBuf::from)).collect();
        let allow = fleet.policy.fetch_allow.clone();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = made.as_ref().filter(|made| made.mirrors == mirrors && made.allow == allow) {
            return made.clone();
        }
        let new = make(mirrors, allow, self.private_hosts.clone());
        *made = Some(new.clone());
        new
    }
}

fn make(mirrors: Vec<PathBuf>, allow: Vec<String>, private_hosts: Vec<String>) -> Made {
    let unusable = |error: String| -> Box<dyn Manifests> { Box::new(Unusable(error)) };
    let mut sources: Vec<Box<dyn Manifests>> = vec![match Mirror::open(mirrors.iter().cloned()) {
        Ok(mirror) => Box::new(mirror),
        Err(error) => unusable(error.to_string()),
    }];
    if !allow.is_empty() {
        let allow = AllowList::new(allow.iter().cloned());
        let options = FetchOptions { allow, private_hosts, ..FetchOptions::default() };
        sources.push(match Remote::new(options) {
            Ok(remote) => Box::new(remote),
            Err(error) => unusable(error.to_string()),
        });
    }
    let manifests: Arc<dyn Manifests> = Arc::new(Cache::new(Chain::new(sources), REMEMBERED_BYTES));
    let charts: Arc<dyn Charts> = Arc::new(HelmCharts::new(Helm::find(), Arc::clone(&manifests)));
    Made { mirrors, allow, manifests, charts }
}

/// A source that could not be set up: says so for whatever is asked of it.
struct Unusable(String);

impl Manifests for Unusable {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        Err(FetchError::Failed { uri: uri.to_owned(), message: self.0.clone() })
    }
}

impl Sources for FetchSources {
    fn manifests(&self, fleet: &Fleet) -> Arc<dyn Manifests> {
        self.of(fleet).manifests
    }

    fn charts(&self, fleet: &Fleet) -> Arc<dyn Charts> {
        self.of(fleet).charts
    }
}
