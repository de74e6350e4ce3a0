use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::note::{NoteKind, Weight};
use crate::testing::{fixture, read_file, shared};
use crate::{
    ChartError, ChartRequest, Charts, ClusterSpec, FetchError, Files, Fleet, Manifests, MemoryFiles, bundle_for,
    objects_of, read_fleet,
};
use domain::RepoPath;

/// The mirror of the shared data, substitutes included.
struct Mirror(PathBuf);

impl Manifests for Mirror {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        let path = uri.strip_prefix("https://").unwrap_or(uri);
        let found = [self.0.join(path), self.0.join("substitutes").join(path)].into_iter().find(|path| path.is_file());
        match found {
            Some(path) => Ok(read_file(&path).into()),
            None => Err(FetchError::NotFound { uri: uri.to_owned(), searched: self.0.display().to_string() }),
        }
    }
}

/// Stands for helm: a DaemonSet and a Deployment whose bytes follow from the request.
struct Charter;

impl Charts for Charter {
    fn template(&self, request: &ChartRequest) -> Result<Vec<u8>, ChartError> {
        let values: serde_json::Value = serde_json::from_str(&request.values).unwrap();
        let text = |path: &str| values.pointer(path).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        let image = format!("{}:{}", text("/image/repository"), text("/image/tag"));
        let operator = format!("{}-generic:{}", text("/operator/image/repository"), text("/operator/image/tag"));
        let name = if values.pointer("/preflight/enabled").is_some() { "cilium-pre-flight-check" } else { "cilium" };
        Ok(format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: cilium-config, namespace: kube-system}}\ndata: {{chart: \
             \"{}\", kube: \"{}\", from: \"{}\"}}\n---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: {name}, \
             namespace: kube-system}}\nspec: {{selector: {{}}, template: {{spec: {{containers: [{{name: cilium-agent, image: \
             \"{image}\"}}]}}}}}}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: cilium-operator, namespace: \
             kube-system}}\nspec: {{selector: {{}}, template: {{spec: {{containers: [{{name: cilium-operator, image: \
             \"{operator}\"}}]}}}}}}\n",
            request.chart, request.kubernetes_version, text("/upgradeCompatibility")
        )
        .into_bytes())
    }
}

struct Scene {
    files: MemoryFiles,
    fleet: Fleet,
    mirror: Mirror,
}

/// The fixture fleet with the bundle of a release, its clusters moved to a Kubernetes version of that bundle.
fn scene(release: &str, more: &[(&str, &str)]) -> Option<Scene> {
    let data = shared()?;
    let mut files = fixture("repositories/eks-anywhere");
    files.insert(
        RepoPath::new("bundles/bundles-1.yaml").unwrap(),
        read_file(&data.join("eks-anywhere/bundles").join(release)),
    );
    for (path, text) in more {
        files.insert(RepoPath::new(*path).unwrap(), text.as_bytes().to_vec());
    }
    let fleet = read_fleet(&files);
    assert_eq!(fleet.blocking("management"), Vec::<&domain::Problem>::new());
    Some(Scene { files, fleet, mirror: Mirror(data.join("mirror")) })
}

/// The fleet as the demo writes it: without its mirror, and with a version in the clusters' templates.
fn demo() -> Scene {
    let all = fixture("demo");
    let mut files = MemoryFiles::new();
    for path in all.paths().iter().map(|entry| entry.path.clone()) {
        if !path.is_below("mirror") && !path.is_below("published") {
            let text = String::from_utf8(all.read(&path).unwrap().to_vec()).unwrap();
            files.insert(path, text.replace("KUBERNETES_VERSION", "1.34").into_bytes());
        }
    }
    let fleet = read_fleet(&files);
    Scene { files, fleet, mirror: Mirror(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/demo/mirror")) }
}

impl Scene {
    fn with_provider(mut self, provider: &crate::Provider) -> Self {
        for cluster in &mut self.fleet.clusters {
            cluster.provider = provider.clone();
        }
        self
    }

    fn cluster(&self, name: &str) -> &ClusterSpec {
        self.fleet.cluster(name).unwrap()
    }

    /// One component of a new management cluster.
    fn render_one(&self, name: ComponentName) -> Result<RenderedComponent, RenderError> {
        let cluster = self.cluster("management");
        let request = RenderRequest {
            fleet: &self.fleet,
            cluster,
            bundle: Some(bundle_for(&self.fleet, cluster).unwrap()),
            deployed: &RenderedTree::new(),
            manifests: &self.mirror,
            charts: &Charter,
            files: &self.files,
        };
        Ok(render_component(&request, name)?.unwrap())
    }

    fn render(&self, name: &str, deployed: &RenderedTree) -> RenderedCluster {
        let cluster = self.cluster(name);
        render(&RenderRequest {
            fleet: &self.fleet,
            cluster,
            bundle: Some(bundle_for(&self.fleet, cluster).unwrap()),
            deployed,
            manifests: &self.mirror,
            charts: &Charter,
            files: &self.files,
        })
    }
}

/// The management cluster at 0.25 as committed, and its render at 0.26 over that: rendered once for all tests.
fn bump() -> Option<&'static (RenderedCluster, RenderedTree, RenderedCluster)> {
    static BUMP: std::sync::OnceLock<Option<(RenderedCluster, RenderedTree, RenderedCluster)>> =
        std::sync::OnceLock::new();
    BUMP.get_or_init(|| {
        let flux_in_use = "apiVersion: source.toolkit.fluxcd.io/v1beta2\nkind: GitRepository\nmetadata: {name: old}\n";
        let first = scene("release-0.25.yaml", &[])?.render("management", &RenderedTree::new());
        let deployed = committed(&first);
        let second = scene("release-0.26.yaml", &[("apps/source.yaml", flux_in_use)])?.render("management", &deployed);
        Some((first, deployed, second))
    })
    .as_ref()
}

fn component(rendered: &RenderedCluster, name: ComponentName) -> &RenderedComponent {
    match &rendered.components[&name] {
        Ok(component) => component,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// What the deploy branch holds once every component was committed.
fn committed(rendered: &RenderedCluster) -> RenderedTree {
    let mut tree = RenderedTree::new();
    for (name, result) in &rendered.components {
        if let Ok(component) = result
            && !matches!(name, ComponentName::FluxObjects | ComponentName::CiliumPreflight)
        {
            tree.extend(&component.tree);
        }
    }
    tree
}

fn notes(component: &RenderedComponent) -> Vec<String> {
    component.notes.iter().map(|note| format!("{:?} {:?}: {note}", note.weight, note.kind)).collect()
}

/// One manifest at every address.
struct One(&'static str);

impl Manifests for One {
    fn get(&self, _: &str) -> Result<Arc<[u8]>, FetchError> {
        Ok(self.0.as_bytes().into())
    }
}

mod cilium;
mod eks_a;
mod flux;
pub(super) mod kustomize;
mod overlay;
mod real;
mod upgraders;
