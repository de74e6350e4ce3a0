//! What the renderers of a cluster ask for, found by letting them ask: nothing is fetched.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bundles::Lock;

use super::{ComponentName, RenderRequest, applies, render_component};
use crate::{
    BundleFile, ChartError, ChartRequest, Charts, ClusterSpec, FetchError, Fleet, Manifests, MemoryFiles, RenderedTree,
};

/// The components that are made of what bundles name.
const MADE_OF_MANIFESTS: [ComponentName; 6] = [
    ComponentName::Bundle,
    ComponentName::CertManager,
    ComponentName::Capi,
    ComponentName::EksA,
    ComponentName::Cilium,
    ComponentName::Flux,
];

/// The addresses of manifests and charts (`oci://repository:tag`, with the digest where the bundle has it) that a cluster cannot be
/// rendered without.
pub fn needs(fleet: &Fleet, cluster: &ClusterSpec, bundle: &BundleFile) -> BTreeSet<String> {
    // An empty answer is no content that a lock could name.
    let mut fleet = fleet.clone();
    fleet.lock = Lock::default();
    let asked = Asked::default();
    let deployed = RenderedTree::new();
    let files = MemoryFiles::new();
    let request = RenderRequest {
        fleet: &fleet,
        cluster,
        bundle: Some(bundle),
        deployed: &deployed,
        manifests: &asked,
        charts: &asked,
        files: &files,
    };
    for name in MADE_OF_MANIFESTS {
        if applies(&request, name).is_ok() {
            // What comes of nothing is of no use to anybody.
            let _ = render_component(&request, name);
        }
    }
    asked.0.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Notes what it is asked for, and answers with nothing, so that whoever asks goes on to the next.
#[derive(Default)]
struct Asked(Mutex<BTreeSet<String>>);

impl Asked {
    fn note(&self, address: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(address);
    }
}

impl Manifests for Asked {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        // A provider's metadata only adds to what is told.
        if !uri.ends_with("/metadata.yaml") {
            self.note(uri.to_owned());
        }
        Ok(Arc::from(&b""[..]))
    }
}

impl Charts for Asked {
    fn template(&self, request: &ChartRequest) -> Result<Vec<u8>, ChartError> {
        let digest = request.digest.as_ref().map(|digest| format!("@{digest}")).unwrap_or_default();
        self.note(format!("oci://{}{digest}", request.chart));
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixture;
    use crate::{Files as _, bundle_for, read_fleet};

    #[test]
    fn a_cluster_needs_what_its_own_components_and_providers_are_made_of() {
        let mut files = fixture("demo");
        // The same clusters are there a second time, and what the mirror holds is none of the fleet.
        for entry in files.clone().paths().iter() {
            if ["published", "mirror"].iter().any(|folder| entry.path.is_below(folder)) {
                files.remove(&entry.path);
            } else if entry.path.is_below("clusters") {
                let text = String::from_utf8(files.read(&entry.path).unwrap().to_vec()).unwrap();
                files.insert(entry.path.clone(), text.replace("KUBERNETES_VERSION", "1.33").into_bytes());
            }
        }
        let fleet = read_fleet(&files);
        let needed = |name: &str| {
            let cluster = fleet.cluster(name).unwrap();
            needs(&fleet, cluster, bundle_for(&fleet, cluster).unwrap())
        };
        let has = |needed: &BTreeSet<String>, part: &str| needed.iter().any(|uri| uri.contains(part));
        let management = needed("mgmt");
        for part in [
            "/core-components.yaml",
            "/infrastructure-docker/",
            "/cert-manager.yaml",
            "/eksa-components.yaml",
            "/flux2/",
        ] {
            assert!(has(&management, part), "{part}: {management:?}");
        }
        assert!(!has(&management, "metadata.yaml"), "{management:?}");
        let workload = needed("team-a");
        assert!(workload.is_subset(&management) && has(&workload, "/cilium") && !has(&workload, "/flux2/"));
    }
}
