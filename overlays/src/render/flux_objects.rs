//! Flux Kustomizations, one for each directory of a cluster.
//!
//! They have neither `dependsOn` nor `wait`: what depends on what is the order of stages, and health is what gates look at. With `wait` Flux
//! would finish waiting for what cannot become healthy (up to `timeout`) before it applies the commit that repairs it, and with `dependsOn` each
//! Kustomization would come to a new revision half a minute (`--requeue-dependency`) after the one before it.

use yaml::{Mapping, Node, Value, emit};

use super::{ComponentName, RenderError, RenderRequest, RenderedComponent};
use crate::object::ObjectSummary;
use crate::{FluxSettings, RenderedTree};
use domain::RepoPath;
use policy::{FluxDecryption, format_duration};

const NAME: ComponentName = ComponentName::FluxObjects;

/// The name of the Flux Kustomization of a directory of a cluster.
pub fn kustomization_name(cluster: &str, component: ComponentName) -> String {
    format!("{cluster}-{}", component.directory())
}

/// The file of that Kustomization, below `flux/<cluster>/`.
pub fn kustomization_file(component: ComponentName) -> String {
    format!("{}.yaml", component.directory())
}

pub(super) fn render(request: &RenderRequest<'_>) -> Result<RenderedComponent, RenderError> {
    let mut tree = RenderedTree::new();
    let mut objects = Vec::new();
    let addons = super::tanzu::addon_names(&super::tanzu::render(request, ComponentName::Addons)?.tree);
    for addon in &addons {
        let node = kustomization(request, ComponentName::Addons, Some(addon));
        objects.extend(ObjectSummary::of(&node));
        let path = RepoPath::new(format!("{}-{addon}.yaml", ComponentName::Addons.directory()));
        tree.insert(path.map_err(|error| RenderError::Other(error.to_string()))?, emit(&node).into_bytes());
    }
    for component in ComponentName::ALL {
        // The preflight lives for one stage and goes with the files; its Kustomization stays, over an empty folder it
        // would fail, so it exists only while the folder does.
        let wanted = match component {
            ComponentName::FluxObjects | ComponentName::Addons => false,
            ComponentName::CiliumPreflight => {
                super::applies(request, component).is_ok() && super::cilium::needs_preflight(request)
            }
            _ => super::applies(request, component).is_ok(),
        };
        if !wanted {
            continue;
        }
        let node = kustomization(request, component, None);
        objects.extend(ObjectSummary::of(&node));
        let path = RepoPath::new(kustomization_file(component));
        tree.insert(path.map_err(|error| RenderError::Other(error.to_string()))?, emit(&node).into_bytes());
    }
    Ok(RenderedComponent {
        name: NAME,
        version: None,
        tree,
        objects,
        notes: Vec::new(),
        removed_versions: Vec::new(),
        hops: Vec::new(),
        missing_hops: Vec::new(),
    })
}

fn map(entries: &[(&str, Node)]) -> Node {
    Node::from(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect::<Mapping>())
}

/// The Kustomization of a directory, or of an add-on in it.
fn kustomization(request: &RenderRequest<'_>, component: ComponentName, addon: Option<&str>) -> Node {
    let (policy, cluster) = (&request.fleet.policy, request.cluster);
    let prefix = policy.deploy.path.as_ref().map(|path| format!("{path}/")).unwrap_or_default();
    // Losing a file must never delete a cluster or its bundle.
    // What an image ships no longer is left in the cluster.
    let prune = !matches!(component, ComponentName::Cluster | ComponentName::Bundle | ComponentName::Addons);
    // What runs in a workload cluster goes there by the kubeconfig that Cluster API keeps in the management cluster.
    let remote = component == ComponentName::Addons
        || !cluster.is_management() && matches!(component, ComponentName::Cilium | ComponentName::CiliumPreflight);
    let own = if cluster.namespace.is_empty() { "default" } else { &cluster.namespace };
    let flux_namespace = policy.flux.namespace.as_str();
    let settings = request.fleet.flux_settings.get(&cluster.name).filter(|_| component == ComponentName::Cluster);
    let namespace = match settings.filter(|settings| settings.names_objects(policy.flux.decryption.is_some())) {
        Some(settings) => settings.namespace.as_str(),
        None if component == ComponentName::Addons => own,
        None if remote => "eksa-system",
        None => flux_namespace,
    };
    let mut source = vec![
        ("kind", Node::from(policy.flux.source.kind.as_str())),
        ("name", Node::from(policy.flux.source.name.as_str())),
    ];
    if namespace != flux_namespace {
        source.push(("namespace", Node::from(flux_namespace)));
    }
    let below = addon.map(|addon| format!("/{addon}")).unwrap_or_default();
    let name = addon.map_or_else(
        || kustomization_name(&cluster.name, component),
        |addon| crate::tanzu::kustomization_name(&cluster.name, addon),
    );
    let mut spec = vec![
        ("interval", Node::from(format_duration(policy.flux.interval))),
        ("path", Node::from(format!("./{prefix}clusters/{}/{}{below}", cluster.name, component.directory()))),
        ("prune", Node::new(Value::Bool(prune))),
        // Without it Flux waits for the whole interval after a failure that passes, such as a webhook that restarts.
        ("retryInterval", Node::from("1m")),
        ("sourceRef", map(&source)),
        ("timeout", Node::from("10m")),
    ];
    if component == ComponentName::Cluster {
        carry(&mut spec, settings, policy.flux.decryption.as_ref());
    }
    if remote {
        let secret = format!("{}-kubeconfig", cluster.name);
        spec.push(("kubeConfig", map(&[("secretRef", map(&[("name", Node::from(secret))]))])));
    }
    map(&[
        ("apiVersion", Node::from("kustomize.toolkit.fluxcd.io/v1")),
        ("kind", Node::from("Kustomization")),
        (
            "metadata",
            map(&[
                ("name", Node::from(name)),
                ("namespace", Node::from(namespace)),
                ("labels", map(&[("stepgate.dev/cluster", Node::from(cluster.name.as_str()))])),
            ]),
        ),
        ("spec", map(&spec)),
    ])
}

/// Adds what the Kustomization that is replaced says of how a specification is applied, and what the policy says of its decryption.
fn carry(spec: &mut Vec<(&'static str, Node)>, settings: Option<&FluxSettings>, decryption: Option<&FluxDecryption>) {
    for (name, value) in settings.iter().flat_map(|settings| &settings.carried) {
        spec.retain(|(known, _)| known != name);
        spec.push((name, value.clone()));
    }
    if let Some(decryption) = decryption {
        let mut entries = vec![("provider", Node::from("sops"))];
        let secret = decryption.secret.as_deref().map(|name| ("secretRef", map(&[("name", Node::from(name))])));
        entries.extend(secret);
        entries.extend(decryption.service_account.as_deref().map(|name| ("serviceAccountName", Node::from(name))));
        spec.retain(|(known, _)| *known != "decryption");
        spec.push(("decryption", map(&entries)));
    }
}
