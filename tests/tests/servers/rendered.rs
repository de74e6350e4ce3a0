//! Specifications that kustomize or Flux make: what Stepgate records of a fleet is what kustomize-controller applies for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use kube::api::DeleteParams;
use serde_json::{Map, Value, json};
use tests::servers::manifests::{apply, define, kind, kind_in, list, objects};
use tests::servers::{DEPLOY, FLUX_NAMESPACE, FleetRepository, Flux, GitServer, Programs, isolated};

use super::machines::is_true;
use super::scene::Scene;

const SOURCE: (&str, &str) = ("source.toolkit.fluxcd.io/v1", "GitRepository");
const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");
const CLUSTER: (&str, &str) = ("cluster.x-k8s.io/v1beta1", "Cluster");

/// Fleets of `fixtures/fleets`, with the folders that Flux applies.
const FLEETS: [(&str, &[&str]); 5] = [
    ("flux-substitute", &["./clusters/hub"]),
    ("kustomize-overlay", &["./fleet/overlays/production"]),
    ("kustomize-namespace", &["./clusters/shop"]),
    ("kustomize-component", &["./clusters/shop"]),
    ("kustomize-one-base-two-clusters", &["./regions/eu", "./regions/us"]),
];

/// Where the objects of these fleets are.
const NAMESPACES: [&str; 4] = ["shop", "blog", "eu", "us"];

#[test]
fn what_is_recorded_is_what_flux_applies() {
    let name = "rendered::what_is_recorded_is_what_flux_applies";
    let needed: Vec<&str> =
        ["etcd", "kube-apiserver", "kube-controller-manager"].into_iter().chain(Flux::NEEDED).collect();
    isolated(name, &needed, async |programs| {
        let scene = Scene::start(&programs).await?;
        fields_are_those_of_flux(&programs)?;
        define(&scene.client, &[definition()]).await?;
        let namespaces =
            NAMESPACES.map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        apply(&scene.client, &namespaces).await?;
        for (fleet, folders) in FLEETS {
            compare(&scene, fleet, folders).await.with_context(|| fleet.to_owned())?;
        }
        scene.folder.done();
        Ok(())
    });
}

/// Every field of the Kustomization that this Flux knows has its place among those that Stepgate knows.
fn fields_are_those_of_flux(programs: &Programs) -> anyhow::Result<()> {
    let module = programs.module("kustomize-controller", "github.com/fluxcd/kustomize-controller")?;
    let path = module.join("config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml");
    let definition = objects(&std::fs::read_to_string(path)?)?.pop().context("no definition")?;
    let fields = definition.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties");
    let fields: BTreeSet<&str> =
        fields.and_then(Value::as_object).context("no fields")?.keys().map(String::as_str).collect();
    let known: BTreeSet<&str> = overlays::FLUX_FIELDS.iter().map(|(name, _)| *name).collect();
    ensure!(fields == known, "{:?}", fields.symmetric_difference(&known));
    Ok(())
}

/// Clusters of which every field is kept.
fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusters.cluster.x-k8s.io"},
        "spec": {"group": "cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "Cluster", "listKind": "ClusterList", "plural": "clusters", "singular": "cluster"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    })
}

/// Objects by namespace and name, without what Flux and the server add.
type Clusters = BTreeMap<(String, String), Value>;

async fn compare(scene: &Scene, fleet: &str, folders: &[&str]) -> anyhow::Result<()> {
    let repository = FleetRepository::create(&scene.file(fleet))?;
    let git = GitServer::start(repository.served().0).await?;
    let url = git.url(repository.served().1);
    let before = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/fleets").join(fleet).join("before");
    let mut files = BTreeMap::new();
    read(&before, &before, &mut files)?;
    for text in files.values_mut() {
        *text = text.replace("https://git.example.com/platform/fleet", &url);
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let head = repository.push("What runs", &files)?;

    let metadata = json!({"name": "flux-system", "namespace": FLUX_NAMESPACE});
    let source = json!({"apiVersion": SOURCE.0, "kind": SOURCE.1, "metadata": metadata,
        "spec": {"interval": "1h", "url": url, "ref": {"branch": "main"}}});
    let named = |(number, folder): (usize, &&str)| {
        let name = if number == 0 { "flux-system".to_owned() } else { format!("more-{number}") };
        json!({"apiVersion": KUSTOMIZATION.0, "kind": KUSTOMIZATION.1,
            "metadata": {"name": name, "namespace": FLUX_NAMESPACE},
            "spec": {"interval": "1h", "path": folder, "prune": false, "sourceRef": {"kind": SOURCE.1, "name": "flux-system"}}})
    };
    let roots: Vec<Value> = std::iter::once(source).chain(folders.iter().enumerate().map(named)).collect();
    apply(&scene.client, &roots).await?;
    let revision = json!(format!("main@sha1:{head}"));
    let settled = async || {
        let found = list(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
        let is_applied = |it: &kube::api::DynamicObject| {
            it.data.pointer("/status/lastAppliedRevision") == Some(&revision) && is_true(it, "Ready")
        };
        Ok((found.len() >= folders.len() && found.iter().all(is_applied)).then_some(()))
    };
    if let Err(error) = scene.until("Flux applies the source branch", settled).await {
        let found = list(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
        let said: Vec<String> = found.iter().map(|it| it.data["status"]["conditions"].to_string()).collect();
        return Err(error.context(said.join("\n")));
    }
    let applied = applied(scene).await?;
    ensure!(!applied.is_empty(), "Flux applies no cluster");

    // The clusters of these fleets have no servers of their own.
    let output =
        scene.stepgate(&["adopt", "--as-declared", "--yes"]).env("STEPGATE_REPO", repository.bare()).output()?;
    ensure!(output.status.success(), "stepgate adopt: {}", String::from_utf8_lossy(&output.stderr));
    let recorded = recorded(&repository)?;
    ensure!(recorded == applied, "on branch {DEPLOY}: {recorded:#?}\napplied: {applied:#?}");

    for kustomization in list(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await? {
        let api = kind_in(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
        api.delete(&kustomization.metadata.name.unwrap_or_default(), &DeleteParams::default()).await?;
    }
    for (namespace, name) in applied.keys() {
        kind_in(&scene.client, CLUSTER, namespace).await?.delete(name, &DeleteParams::default()).await?;
    }
    let gone = async || Ok(list(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?.is_empty().then_some(()));
    scene.until("the Kustomizations are gone", gone).await
}

fn read(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path: PathBuf = entry?.path();
        if path.is_dir() {
            read(root, &path, files)?;
        } else {
            files.insert(path.strip_prefix(root)?.display().to_string(), std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

async fn applied(scene: &Scene) -> anyhow::Result<Clusters> {
    let mut found = Clusters::new();
    for namespace in NAMESPACES {
        for cluster in list(&scene.client, CLUSTER, namespace).await? {
            let mut object = serde_json::to_value(&cluster)?;
            object["apiVersion"] = json!(CLUSTER.0);
            object["kind"] = json!(CLUSTER.1);
            found.extend(compared(&object));
        }
    }
    Ok(found)
}

fn recorded(repository: &FleetRepository) -> anyhow::Result<Clusters> {
    let mut found = Clusters::new();
    for path in repository.deployed_files("clusters")? {
        if path.contains("/cluster/") {
            let objects = objects(&repository.deployed(&path)?)?;
            found.extend(objects.iter().filter(|object| kind(object) == CLUSTER.1).filter_map(compared));
        }
    }
    Ok(found)
}

/// What people or kustomize say of an object.
fn compared(object: &Value) -> Option<((String, String), Value)> {
    let metadata = object.get("metadata")?;
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let own = |field: &str| -> Map<String, Value> {
        let pairs = metadata.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
        pairs.into_iter().filter(|(key, _)| !key.contains("toolkit.fluxcd.io")).collect()
    };
    let said = json!({"labels": own("labels"), "annotations": own("annotations"), "spec": object.get("spec")});
    Some(((text("namespace"), text("name")), said))
}
