//! Charts, rendered by helm, refused when two renders differ.

use std::sync::{Arc, Mutex, PoisonError};

use bundles::Digest;
use overlays::{ChartError, ChartRequest, Charts, Manifests, Remembered};

use super::helm::{Helm, HelmError};
use super::nondeterminism;
use host::memory::Part;

/// By the bytes of the chart and what was asked for.
type Rendered = Remembered<(Digest, ChartRequest), Arc<[u8]>>;

/// Renders charts with the `helm` program.
///
/// A chart and its values that were not seen before are rendered twice. What was rendered is remembered. Without helm every request fails with where it was looked for; nothing else does.
pub struct HelmCharts {
    helm: Result<Helm, HelmError>,
    archives: Arc<dyn Manifests>,
    rendered: Mutex<Rendered>,
}

impl HelmCharts {
    /// Charts whose packed archives `archives` gives at `oci://repository:tag`; `helm` is what [`Helm::find`] gave.
    #[must_use]
    pub fn new(helm: Result<Helm, HelmError>, archives: Arc<dyn Manifests>) -> Self {
        Self { helm, archives, rendered: Mutex::new(Remembered::new(Part::Charts.bytes())) }
    }

    fn render(&self, helm: &Helm, chart: &[u8], request: &ChartRequest) -> Result<Arc<[u8]>, ChartError> {
        let failed = |message: String| ChartError::Failed { chart: request.chart.clone(), message };
        let once = || helm.template(chart, request).map_err(|error| failed(error.to_string()));
        let (first, second) = (once()?, once()?);
        if first != second {
            return Err(failed(nondeterminism::explain(&first, &second, chart)));
        }
        Ok(first.into())
    }
}

impl Charts for HelmCharts {
    fn template(&self, request: &ChartRequest) -> Result<Vec<u8>, ChartError> {
        let helm = self
            .helm
            .as_ref()
            .map_err(|error| ChartError::NoHelm { chart: request.chart.clone(), message: error.to_string() })?;
        let digest = request.digest.as_ref().map(|digest| format!("@{digest}")).unwrap_or_default();
        let chart = self.archives.get(&format!("oci://{}{digest}", request.chart))?;
        let found = Digest::of(&chart);
        if let Some(locked) = request.locked.clone().filter(|locked| *locked != found.to_string()) {
            return Err(ChartError::LockMismatch { chart: request.chart.clone(), locked, found: found.to_string() });
        }
        let key = (found, request.clone());
        let rendered = || self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = rendered().get(&key) {
            return Ok(known.to_vec());
        }
        let bytes = self.render(helm, &chart, request)?;
        let size = bytes.len() + key.1.values.len();
        rendered().insert(key, Arc::clone(&bytes), size);
        Ok(bytes.to_vec())
    }
}

#[cfg(test)]
#[path = "charts_tests.rs"]
mod tests;
