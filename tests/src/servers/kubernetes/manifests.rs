//! Manifests from the folders of Go modules, applied to an API server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiCapabilities, ApiResource, Scope, pinned_kind};
use kube::{Api, Client, ResourceExt as _};
use kustomize_rs::{DiskFileSystem, Options, build};
use serde_json::Value;
use yaml::{Limits, parse};

use crate::waiting::{PATIENCE, end_of};

/// Objects under way at once.
const CONCURRENT: usize = 8;

/// What `kustomize build` makes of a folder below `root`.
///
/// # Errors
/// When it cannot be built.
pub fn kustomized(root: &Path, folder: &str) -> anyhow::Result<Vec<Value>> {
    let files = DiskFileSystem::new(root)?;
    let built = build(&files, folder, &Options::unlimited())
        .with_context(|| format!("could not build {folder} of {}", root.display()))?;
    built.iter().map(|resource| json(resource.node())).collect()
}

/// The objects of a text of YAML documents.
///
/// # Errors
/// When it is no YAML.
pub fn objects(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents = parse(text, &Limits::default())?;
    let objects: Vec<Value> = documents.iter().map(|document| json(&document.root)).collect::<anyhow::Result<_>>()?;
    Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
}

fn json(node: &yaml::Node) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&yaml::json::to_json(node))?)
}

/// A kind of an object as a text.
#[must_use]
pub fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// Applies objects on the server's side, several at once. Kinds that are not served yet and webhooks that do not answer yet are waited
/// for.
///
/// # Errors
/// When an object is refused, or a kind is not served.
pub async fn apply(client: &Client, objects: &[Value]) -> anyhow::Result<()> {
    apply_as(client, "tests", objects).await
}

/// As [`apply`], in the name of this field manager.
///
/// # Errors
/// As [`apply`].
pub async fn apply_as(client: &Client, manager: &str, objects: &[Value]) -> anyhow::Result<()> {
    // Collected first: a stream that makes its futures as it goes cannot be sent between threads.
    let applied: Vec<_> = objects.iter().map(|object| apply_one(client, manager, object)).collect();
    stream::iter(applied).buffer_unordered(CONCURRENT).try_collect::<Vec<()>>().await.map(drop)
}

async fn apply_one(client: &Client, manager: &str, object: &Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let what = || {
        let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        format!("could not apply {kind} {}", object.name_any())
    };
    let start = Instant::now();
    loop {
        let error = match try_apply(client, manager, &object).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let refused = matches!(&error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 404 && status.code != 409);
        if refused || start.elapsed() > PATIENCE {
            return Err(error).with_context(what);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn try_apply(client: &Client, manager: &str, object: &DynamicObject) -> Result<(), kube::Error> {
    let api = api_of(client, object).await?;
    let parameters = PatchParams::apply(manager).force();
    api.patch(&object.name_any(), &parameters, &Patch::Apply(object)).await.map(drop)
}

/// Where objects of this one's kind and namespace are.
async fn api_of(client: &Client, object: &DynamicObject) -> Result<Api<DynamicObject>, kube::Error> {
    let types = object.types.clone().unwrap_or_default();
    let (resource, scope) = discovered(client, (&types.api_version, &types.kind)).await?;
    Ok(match scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
    })
}

/// The kinds that a server was asked for: all servers serve one kind under one path.
static DISCOVERED: Mutex<BTreeMap<(String, String), (ApiResource, Scope)>> = Mutex::new(BTreeMap::new());

/// The path of a kind. Who waits for an object looks every few milliseconds, and half of it would be asking where to look.
async fn discovered(client: &Client, (api_version, kind): (&str, &str)) -> Result<(ApiResource, Scope), kube::Error> {
    let key = (api_version.to_owned(), kind.to_owned());
    let known = DISCOVERED.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    if let Some(known) = known {
        return Ok(known);
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (resource, ApiCapabilities { scope, .. }) =
        pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await?;
    let found = (resource, scope);
    DISCOVERED.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
    Ok(found)
}

/// The objects of a kind, in one namespace, as they are now.
///
/// # Errors
/// When the kind is not served, or the server does not answer.
pub async fn list(
    client: &Client,
    (api_version, kind): (&str, &str),
    namespace: &str,
) -> anyhow::Result<Vec<DynamicObject>> {
    let api = kind_in(client, (api_version, kind), namespace).await?;
    Ok(api.list(&kube::api::ListParams::default()).await?.items)
}

/// Where objects of a kind in a namespace are.
///
/// # Errors
/// When the kind is not served.
pub async fn kind_in(
    client: &Client,
    (api_version, kind): (&str, &str),
    namespace: &str,
) -> anyhow::Result<Api<DynamicObject>> {
    let (resource, _) = discovered(client, (api_version, kind)).await?;
    Ok(Api::namespaced_with(client.clone(), namespace, &resource))
}

/// Where objects of a kind without namespaces are.
///
/// # Errors
/// When the kind is not served.
pub async fn kind_of_cluster(client: &Client, (api_version, kind): (&str, &str)) -> anyhow::Result<Api<DynamicObject>> {
    let (resource, _) = discovered(client, (api_version, kind)).await?;
    Ok(Api::all_with(client.clone(), &resource))
}

/// Applies the definitions and waits until the server serves their kinds. Without what they tell people: more than half of a definition, which the
/// server reads and writes anew whenever one changes.
///
/// # Errors
/// When one is refused, or not established.
pub async fn define(client: &Client, definitions: &[Value]) -> anyhow::Result<()> {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::runtime::conditions::is_crd_established;
    use kube::runtime::wait::await_condition;

    let mut terse = definitions.to_vec();
    terse.iter_mut().for_each(without_descriptions);
    apply(client, &terse).await?;
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions {
        let name = definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let established = await_condition(api.clone(), name, is_crd_established());
        end_of(&format!("definition {name} is established"), established).await??;
    }
    Ok(())
}

/// Takes the descriptions out of a schema; a property of this name is an object and stays.
fn without_descriptions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| name != "description" || !field.is_string());
            fields.values_mut().for_each(without_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(without_descriptions),
        _ => {}
    }
}

/// Sets one field of an object that is read by path, such as `/spec/replicas`.
///
/// # Errors
/// When there is no such field.
pub fn set(object: &mut Value, path: &str, value: Value) -> anyhow::Result<()> {
    let kind = kind(object).to_owned();
    *object.pointer_mut(path).with_context(|| format!("no field {path} in a {kind}"))? = value;
    Ok(())
}

/// Objects by their kind, in the order in which they came.
#[must_use]
pub fn by_kind(objects: Vec<Value>) -> BTreeMap<String, Vec<Value>> {
    let mut kinds: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for object in objects {
        kinds.entry(kind(&object).to_owned()).or_default().push(object);
    }
    kinds
}
