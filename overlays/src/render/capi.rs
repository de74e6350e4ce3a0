//! Cluster API: core, bootstrap, control plane, the cluster's own infrastructure provider, etcdadm.

use std::collections::BTreeMap;

use yaml::{Node, Value};

use super::images::SectionImages;
use super::inventory::{self, ProviderName};
use super::output::Directory;
use super::upstream::Upstream;
use super::{ComponentName, RenderError, RenderRequest, RenderedComponent, build, upstream};
use crate::facts;
use crate::note::{Note, NoteKind, Weight};
use crate::object::{ObjectSummary, object_id};
use crate::{BundleFile, document, variables};
use policy::ProviderSecrets;

const NAME: ComponentName = ComponentName::Capi;

/// One provider of the bundle.
struct Provider<'a> {
    /// Name of its file.
    file: &'static str,
    component: &'a bundles::Component,
    manifest: Upstream,
    /// As published, with its variables.
    published: Upstream,
    images: SectionImages,
}

impl Provider<'_> {
    fn name(&self) -> Option<ProviderName> {
        ProviderName::of_section(&self.component.name)
    }
}

pub(super) fn render(request: &RenderRequest<'_>) -> Result<RenderedComponent, RenderError> {
    let Some(bundle) = request.bundle else { return Err(RenderError::Other("no bundle".to_owned())) };
    let mut notes = Vec::new();
    let providers = providers(request, bundle, &mut notes)?;
    let manifests: Vec<Upstream> = providers.iter().map(|provider| provider.manifest.clone()).collect();
    let built = build::build(request, NAME, &manifests)?;
    let (mut objects, origins) = (built.objects, built.origins);
    let of = |node: &Node| object_id(node).and_then(|id| origins.get(&id).copied());
    let none = SectionImages::none();
    let report = super::pin_images(request, NAME, &mut objects, |node| {
        of(node).and_then(|index| providers.get(index)).map_or(&none, |provider| &provider.images)
    });
    notes.extend(report.notes());
    notes.extend(upstream::unlocked(request, &manifests));

    for node in &mut objects {
        let name = of(node).and_then(|index| providers.get(index)).and_then(Provider::name);
        if let Some(name) = name {
            name.label(node);
        }
    }

    let mut directory = Directory::new(NAME);
    let mut recorded = inventory::definition();
    for (index, provider) in providers.iter().enumerate() {
        let own: Vec<&Node> = objects.iter().filter(|node| of(node) == Some(index)).collect();
        directory.add(provider.file, &own);
        let version = provider.component.version.as_ref().map(bundles::Version::as_str).unwrap_or_default();
        recorded.extend(provider.name().and_then(|name| name.inventory(version, &own)));
    }
    directory.add("clusterctl-inventory.yaml", &recorded.iter().collect::<Vec<_>>());
    directory.add("additions.yaml", &objects.iter().filter(|node| of(node).is_none()).collect::<Vec<_>>());

    let deployed = super::deployed_objects(request, NAME);
    let values = request.fleet.policy.variables(&request.cluster.name);
    for provider in &providers {
        notes.extend(contract(request, provider, &objects, &of, &providers));
        notes.extend(facts::flipped_defaults(&provider.published.text, &deployed, &values));
    }
    let core = bundle_version(&providers);
    super::finish(NAME, core, directory, &deployed, notes)
}

fn bundle_version(providers: &[Provider<'_>]) -> Option<String> {
    providers.first().and_then(|provider| provider.component.version.as_ref()).map(ToString::to_string)
}

/// Section and file of each provider, in the order of clusterctl: core, bootstrap, control plane, infrastructure.
fn providers<'a>(
    request: &RenderRequest<'a>,
    bundle: &'a BundleFile,
    notes: &mut Vec<Note>,
) -> Result<Vec<Provider<'a>>, RenderError> {
    let mut sections = vec![
        ("clusterAPI", "core-components.yaml"),
        ("bootstrap", "bootstrap-components.yaml"),
        ("etcdadmBootstrap", "etcdadm-bootstrap-components.yaml"),
        ("controlPlane", "control-plane-components.yaml"),
        ("etcdadmController", "etcdadm-controller-components.yaml"),
    ];
    let mut infrastructure = vec![&request.cluster.provider];
    for other in request.fleet.managed_by(&request.cluster.name) {
        if !infrastructure.contains(&&other.provider) {
            infrastructure.push(&other.provider);
        }
    }
    for provider in infrastructure {
        let Some(section) = provider.bundle_component() else {
            let message =
                format!("no section of the bundle is for provider {provider:?}; its components are left to you");
            notes.push(Note::new(Weight::Note, NoteKind::NotInstallable, message));
            continue;
        };
        sections.push((section, file_of(section)));
    }
    let mut providers = Vec::new();
    for (key, file) in sections {
        let component = match upstream::section(request, bundle, key) {
            Ok(component) => component,
            // Bundles of 2021 know no etcdadm; plain Cluster API fleets need none.
            Err(RenderError::NoSection { .. }) if key.starts_with("etcdadm") => continue,
            Err(error) => return Err(error),
        };
        let published = upstream::manifest(request, bundle, component, "components")?;
        let images = SectionImages::of(component);
        let manifest = substitute(request, key, &published, &images, notes)?;
        providers.push(Provider { file, component, manifest, published, images });
    }
    Ok(providers)
}

fn file_of(section: &str) -> &'static str {
    match section {
        "docker" => "infrastructure-docker-components.yaml",
        "vSphere" => "infrastructure-vsphere-components.yaml",
        "tinkerbell" => "infrastructure-tinkerbell-components.yaml",
        "nutanix" => "infrastructure-nutanix-components.yaml",
        "snow" => "infrastructure-snow-components.yaml",
        "cloudStack" => "infrastructure-cloudstack-components.yaml",
        _ => "infrastructure-components.yaml",
    }
}

/// The manifest with its variables replaced, and without Secrets that are filled from variables unless the team wants
/// them in git.
fn substitute(
    request: &RenderRequest<'_>,
    section: &str,
    published: &Upstream,
    images: &SectionImages,
    notes: &mut Vec<Note>,
) -> Result<Upstream, RenderError> {
    let policy = &request.fleet.policy;
    let mut text = published.text.clone();
    if policy.provider_secrets == ProviderSecrets::Omit {
        text = without_secrets(&published.text, notes);
    }
    let mut values = derived_variables(request, section, images);
    values.extend(policy.variables(&request.cluster.name));
    match variables::substitute(&text, &values) {
        Ok(text) => Ok(Upstream { uri: published.uri.clone(), text }),
        Err(source) => Err(RenderError::Variables { uri: published.uri.clone(), source }),
    }
}

/// Blanks the Secrets that hold variables, line by line, so that places in the rest stay true.
fn without_secrets(text: &str, notes: &mut Vec<Note>) -> String {
    let mut kept = text.to_owned();
    for document in document::split(text).into_iter().rev() {
        let body = text.get(document.range.clone()).unwrap_or_default();
        if !body.lines().any(|line| line.trim_end() == "kind: Secret") || !body.contains("${") {
            continue;
        }
        let names: Vec<String> =
            variables::variables(body).unwrap_or_default().into_iter().map(|variable| variable.name).collect();
        if names.is_empty() {
            continue;
        }
        let field = |key: &str| {
            let line = body.lines().find_map(|line| line.trim().strip_prefix(key).filter(|_| line.starts_with("  ")));
            line.map(|rest| rest.trim().to_owned()).unwrap_or_default()
        };
        let message = format!(
            "left out, as it is filled from {}: keep it in the cluster by other means, or set providerSecrets: render",
            names.join(", ")
        );
        let object = format!("Secret {}/{}", field("namespace:"), field("name:"));
        notes.push(Note::new(Weight::Note, NoteKind::SecretOmitted, message).object(object));
        let blank: String = body.chars().filter(|character| *character == '\n').collect();
        kept.replace_range(document.range, &blank);
    }
    kept
}

/// Variables whose values follow from the bundle or the specification; the team's own win.
fn derived_variables(request: &RenderRequest<'_>, section: &str, images: &SectionImages) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    let mut set = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            values.insert(name.to_owned(), value);
        }
    };
    let datacenter = |kind: &str| {
        request
            .cluster
            .files
            .iter()
            .flat_map(|file| crate::objects_of(&file.bytes))
            .find(|node| node.get("kind").and_then(Node::as_str) == Some(kind))
    };
    let field = |node: &Option<Node>, key: &str| {
        let value = node.as_ref()?.at(&["spec", key])?;
        match &value.value {
            Value::Null => None,
            _ => value.scalar_text().map(std::borrow::Cow::into_owned),
        }
    };
    match section {
        "snow" => set("SNOW_CONTROLLER_IMAGE", images.main_reference()),
        "tinkerbell" => set("TINKERBELL_IP", field(&datacenter("TinkerbellDatacenterConfig"), "tinkerbellIP")),
        "nutanix" => {
            let config = datacenter("NutanixDatacenterConfig");
            set("NUTANIX_ENDPOINT", field(&config, "endpoint"));
            set("NUTANIX_PORT", field(&config, "port"));
            set("NUTANIX_INSECURE", field(&config, "insecure"));
        }
        _ => {}
    }
    values
}

fn version<'a>(provider: &'a Provider<'_>) -> &'a str {
    provider.component.version.as_ref().map(bundles::Version::as_str).unwrap_or_default()
}

/// The contract in the `metadata.yaml` of a provider, for its version.
fn declared(request: &RenderRequest<'_>, provider: &Provider<'_>) -> Option<String> {
    let artifact = provider.component.artifact("metadata").filter(|artifact| !artifact.is_placeholder())?;
    let metadata = upstream::fetch(request, &provider.component.name, &artifact.uri).ok()?;
    facts::declared_contract(&metadata.text, version(provider))
}

/// What `metadata.yaml` says about the contract, against the labels of the definitions; and whether core accepts it.
fn contract(
    request: &RenderRequest<'_>,
    provider: &Provider<'_>,
    objects: &[Node],
    of: &impl Fn(&Node) -> Option<usize>,
    providers: &[Provider<'_>],
) -> Vec<Note> {
    let index = providers.iter().position(|other| std::ptr::eq(other, provider));
    let definitions: Vec<_> =
        objects.iter().filter(|node| of(node) == index).filter_map(ObjectSummary::of).filter_map(|it| it.crd).collect();
    let mut labels: Vec<String> =
        definitions.iter().flat_map(|crd| crd.contract_labels.iter().map(|(contract, _)| contract.clone())).collect();
    labels.sort();
    labels.dedup();
    let mut notes = Vec::new();
    let section = provider.component.name.as_str();
    if section == "clusterAPI" {
        return notes;
    }
    let core = providers.iter().find(|other| other.component.name == "clusterAPI");
    let accepted = facts::accepted_contracts(core.and_then(|core| declared(request, core)).as_deref());
    if !definitions.is_empty() && !labels.iter().any(|label| accepted.contains(&label.as_str())) {
        let message = format!(
            "the definitions of {section} are labelled for contract {}, and Cluster API accepts {}",
            if labels.is_empty() { "none".to_owned() } else { labels.join(", ") },
            accepted.join(" and ")
        );
        notes.push(Note::new(Weight::Block, NoteKind::ContractMismatch, message));
    }
    let version = version(provider);
    if let Some(declared) = declared(request, provider)
        && !labels.is_empty()
        && !labels.contains(&declared)
    {
        let message = format!(
            "metadata.yaml of {section} {version} says contract {declared}, but its definitions are labelled {}; Cluster \
             API goes by the label",
            labels.join(", ")
        );
        notes.push(Note::new(Weight::Risk, NoteKind::ContractMismatch, message));
    }
    notes
}
