//! Manifests that were fetched for a bundle, in front of what a planner has.

use std::collections::BTreeMap;
use std::sync::Arc;

use fetch::Images;
use overlays::{Charts, FetchError, Fleet, Manifests};

use crate::reconcile::planner::Sources;

/// What was fetched, by address.
#[derive(Clone, Default)]
pub(super) struct Downloads(Arc<BTreeMap<String, Arc<[u8]>>>);

impl Downloads {
    pub fn new(contents: BTreeMap<String, Arc<[u8]>>) -> Self {
        Self(Arc::new(contents))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// A planner's sources behind what was fetched.
pub(super) struct WithDownloads {
    pub downloads: Downloads,
    pub sources: Arc<dyn Sources>,
}

struct Behind {
    downloads: Downloads,
    manifests: Arc<dyn Manifests>,
}

impl Manifests for Behind {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        match self.downloads.0.get(uri) {
            Some(bytes) => Ok(Arc::clone(bytes)),
            None => self.manifests.get(uri),
        }
    }
}

impl Sources for WithDownloads {
    fn manifests(&self, fleet: &Fleet, allow: &[String]) -> Arc<dyn Manifests> {
        Arc::new(Behind { downloads: self.downloads.clone(), manifests: self.sources.manifests(fleet, allow) })
    }

    fn charts(&self, fleet: &Fleet, allow: &[String]) -> Arc<dyn Charts> {
        Arc::new(fetch::HelmCharts::new(fetch::Helm::find(), self.manifests(fleet, allow)))
    }

    fn images(&self, fleet: &Fleet, allow: &[String]) -> Option<Arc<Images>> {
        self.sources.images(fleet, allow)
    }
}
