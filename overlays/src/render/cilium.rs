//! Cilium: its chart with the values that EKS Anywhere computes and those of the team.

use bundles::{Component, ImageReference};
use serde_json::{Map, Value, json};
use yaml::{Limits, Node};

use super::images::SectionImages;
use super::output::Directory;
use super::upstream::Upstream;
use super::{
    ComponentName, IntermediateVersion, RenderError, RenderRequest, RenderedComponent, build, hops, network_policies,
    upstream,
};
use crate::note::{Note, NoteKind, Weight};
use crate::object::{containers, object_id, open_list};
use crate::{BundleFile, ChartRequest, ClusterKind};

const SECTION: &str = "cilium";
/// Remembers the value of `upgradeCompatibility` on the directory, as the manifest alone does not tell it and the same
/// target must give the same bytes after it was applied.
const COMPATIBILITY: &str = "stepgate.dev/upgrade-compatibility";

pub(super) fn render(request: &RenderRequest<'_>) -> Result<RenderedComponent, RenderError> {
    rendered(request, ComponentName::Cilium)
}

/// The DaemonSet that pulls the next images on every node; `None` when the deployed agent runs the target's image.
pub(super) fn render_preflight(request: &RenderRequest<'_>) -> Result<Option<RenderedComponent>, RenderError> {
    if needs_preflight(request) { rendered(request, ComponentName::CiliumPreflight).map(Some) } else { Ok(None) }
}

pub(super) fn needs_preflight(request: &RenderRequest<'_>) -> bool {
    let Some(bundle) = request.bundle else { return false };
    let Some(deployed) = deployed_agent(request) else { return false };
    let Ok(section) = upstream::section(request, bundle, SECTION) else { return false };
    let Some(target) = agent_image(section) else { return false };
    match (deployed.digest(), section.artifact("cilium").and_then(|artifact| artifact.digest)) {
        (Some(old), Some(new)) => old != new,
        _ => deployed.tag() != target.tag() || deployed.repository() != target.repository(),
    }
}

fn agent_image(section: &Component) -> Option<ImageReference> {
    section.artifact("cilium")?.uri.parse().ok()
}

/// The image of the deployed DaemonSet `cilium`.
fn deployed_agent(request: &RenderRequest<'_>) -> Option<ImageReference> {
    let objects = super::deployed_objects(request, ComponentName::Cilium);
    let daemon_set =
        objects.iter().find(|node| object_id(node).is_some_and(|id| id.kind == "DaemonSet" && id.name == "cilium"))?;
    let agent = containers(daemon_set)
        .into_iter()
        .find(|container| container.get("name").and_then(Node::as_str) == Some("cilium-agent"))?;
    agent.get("image")?.as_str()?.parse().ok()
}

fn rendered(request: &RenderRequest<'_>, name: ComponentName) -> Result<RenderedComponent, RenderError> {
    let Some(bundle) = request.bundle else { return Err(RenderError::Other("no bundle".to_owned())) };
    let section = upstream::section(request, bundle, SECTION)?;
    let target = section.version.as_ref().map(bundles::Version::as_str).unwrap_or_default();
    let deployed = deployed_agent(request).and_then(|image| image.tag().map(str::to_owned));
    let way = hops::between(request, SECTION, deployed.as_deref(), target);
    let mut before = super::deployed_objects(request, name);
    let mut from = deployed;
    let mut steps = Vec::new();
    for step in &way.steps {
        let (hop, objects) = render_at(request, step, name, from.as_deref(), &before)?;
        before = objects;
        from = hop.version.clone();
        steps.push(IntermediateVersion {
            version: hop.version.unwrap_or_default(),
            bundle: step.bundles.name.clone(),
            tree: hop.tree,
            objects: hop.objects,
            notes: hop.notes,
            removed_versions: hop.removed_versions,
        });
    }
    let (mut component, _) = render_at(request, bundle, name, from.as_deref(), &before)?;
    component.hops = steps;
    component.missing_hops = way.missing;
    Ok(component)
}

fn render_at(
    request: &RenderRequest<'_>,
    bundle: &BundleFile,
    name: ComponentName,
    from: Option<&str>,
    before: &[Node],
) -> Result<(RenderedComponent, Vec<Node>), RenderError> {
    let section = upstream::section(request, bundle, SECTION)?;
    let version = section.version.as_ref().map(ToString::to_string).unwrap_or_default();
    let compatibility = compatibility(request, from, &version);
    let manifest = manifest(request, bundle, section, name, compatibility.as_deref())?;
    let mut objects = build::build(request, name, std::slice::from_ref(&manifest))?.objects;
    if name == ComponentName::Cilium {
        objects.extend(network_policies::policies(request));
    }
    let images = SectionImages::of(section);
    let report = super::pin_images(request, ComponentName::Cilium, &mut objects, |_| &images);
    let mut notes = report.notes();
    notes.extend(upstream::unlocked(request, std::slice::from_ref(&manifest)));
    if name == ComponentName::Cilium && request.cluster.kind == ClusterKind::EksAnywhere {
        let message = "EKS Anywhere's controller writes Cilium too and compares images as text; set cniConfig.cilium.skipUpgrade \
                       once Stepgate carries Cilium, or it puts its own manifest back";
        notes.push(Note::new(Weight::Risk, NoteKind::TwoWriters, message));
    }
    let mut directory = Directory::new(name);
    if let Some(value) = compatibility.filter(|_| name == ComponentName::Cilium) {
        directory.annotate(COMPATIBILITY, &value);
    }
    directory.add(&format!("{}.yaml", name.directory()), &objects.iter().collect::<Vec<_>>());
    let component = super::finish(name, Some(version), directory, before, notes)?;
    Ok((component, objects))
}

/// `major.minor` of the version that is left: of the deployed one when the version changes, else what was used to get
/// there, else nothing.
fn compatibility(request: &RenderRequest<'_>, from: Option<&str>, target: &str) -> Option<String> {
    let from = from?;
    if from != target {
        return Some(crate::cluster::minor(from).to_owned());
    }
    let bytes = request.deployed.get("cilium/kustomization.yaml")?;
    let text = yaml::decode(bytes).ok()?;
    let documents = yaml::parse(&text, &Limits::default()).ok()?;
    documents.first()?.root.at(&["metadata", "annotations", COMPATIBILITY])?.as_str().map(str::to_owned)
}

/// The rendered chart, or the manifest of bundles that have no chart.
fn manifest(
    request: &RenderRequest<'_>,
    bundle: &BundleFile,
    section: &Component,
    name: ComponentName,
    compatibility: Option<&str>,
) -> Result<Upstream, RenderError> {
    let Some(chart) = section.artifact("helmChart").filter(|chart| !chart.is_placeholder()) else {
        return upstream::manifest(request, bundle, section, "manifest");
    };
    let values = values(request, section, name, compatibility);
    let chart_request = ChartRequest {
        locked: request.fleet.lock.get(&format!("oci://{}", chart.uri)).map(|digest| digest.to_string()),
        chart: chart.uri.clone(),
        digest: chart.digest.map(|digest| digest.to_string()),
        name: "cilium".to_owned(),
        namespace: "kube-system".to_owned(),
        kubernetes_version: request.cluster.kubernetes_minor().to_owned(),
        values: values.to_string(),
    };
    let template = || -> Result<String, RenderError> {
        let bytes = request.charts.template(&chart_request)?;
        let text = yaml::decode(&bytes).map_err(|error| RenderError::Manifest {
            uri: chart.uri.clone(),
            line: error.line,
            column: error.column,
            message: error.message,
        })?;
        Ok(text.into_owned())
    };
    let text = template()?;
    let again = template()?;
    if text != again {
        return Err(unsteady(&chart.uri, &text, &again));
    }
    Ok(Upstream { uri: chart.uri.clone(), text })
}

/// Names the objects that differ between two renders of one request, and the values that usually make them up.
fn unsteady(chart: &str, one: &str, two: &str) -> RenderError {
    let objects = |text: &str| -> Vec<Node> {
        let documents = yaml::parse(text, &Limits::default()).unwrap_or_default();
        documents.into_iter().flat_map(|document| open_list(document.root)).collect()
    };
    let (one, two) = (objects(one), objects(two));
    let mut differing: Vec<String> =
        one.iter().filter(|node| !two.contains(node)).filter_map(object_id).map(|id| id.to_string()).collect();
    differing.dedup();
    let hint = if differing.iter().any(|object| object.contains("hubble") || object.contains("cilium-ca")) {
        "hubble.tls.auto.method: cronJob, or hubble.enabled: false; by default a certificate authority is made on every run"
    } else {
        "values that make up certificates, passwords or times on every run"
    };
    RenderError::Unsteady { chart: chart.to_owned(), objects: differing.join(", "), hint: hint.to_owned() }
}

/// The values, as EKS Anywhere computes them (`pkg/networking/cilium/templater.go`), then `helmValues` of the
/// specification, then those of the team.
fn values(request: &RenderRequest<'_>, section: &Component, name: ComponentName, compatibility: Option<&str>) -> Value {
    let cluster = request.cluster;
    let config = cluster.node.at(&["spec", "clusterNetwork", "cniConfig", "cilium"]);
    let text = |key: &str| config.and_then(|node| node.get(key)).and_then(Node::as_str).filter(|text| !text.is_empty());
    let image = |artifact: &str| {
        let reference = section.artifact(artifact).and_then(|artifact| artifact.uri.parse::<ImageReference>().ok());
        reference.map(|reference| (reference.repository().to_owned(), reference.tag().unwrap_or_default().to_owned()))
    };
    let (repository, tag) = image("cilium").unwrap_or_default();
    let (operator, operator_tag) = image("operator").unwrap_or_default();
    let operator = operator.strip_suffix("-generic").unwrap_or(&operator).to_owned();

    let mut values = match config.and_then(|node| node.get("helmValues")).filter(|node| !node.is_null()) {
        // As EKS Anywhere takes them: they replace its own.
        Some(own) => crate::json::to_json(own),
        None => {
            let direct = text("routingMode") == Some("direct");
            let mut values = json!({
                "cni": {
                    "chainingMode": "portmap",
                    "exclusive": config.and_then(|node| node.get("cniExclusive")).and_then(Node::as_bool).unwrap_or(true),
                },
                "envoy": {"enabled": false},
                "hubble": {"enabled": false},
                "identityAllocationMode": "crd",
                "ipam": {"mode": "kubernetes"},
                "operator": {
                    "prometheus": {"enabled": true},
                    "tolerations": [
                        {"effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
                        {"effect": "NoSchedule", "key": "node.kubernetes.io/not-ready", "operator": "Exists"},
                        {"effect": "NoSchedule", "key": "node.cilium.io/agent-not-ready", "operator": "Exists"},
                    ],
                },
                "prometheus": {"enabled": true},
                "rollOutCiliumPods": true,
            });
            let routing = if direct {
                let mut routing = json!({"autoDirectNodeRoutes": "true", "routingMode": "native"});
                for key in ["ipv4NativeRoutingCIDR", "ipv6NativeRoutingCIDR"] {
                    if let Some(range) = text(key) {
                        merge(&mut routing, &json!({ key: range }));
                    }
                }
                routing
            } else {
                json!({"routingMode": "tunnel", "tunnelProtocol": "geneve"})
            };
            merge(&mut values, &routing);
            for (key, value) in [
                ("policyEnforcementMode", text("policyEnforcementMode")),
                ("egressMasqueradeInterfaces", text("egressMasqueradeInterfaces")),
            ] {
                if let Some(value) = value {
                    merge(&mut values, &json!({ key: value }));
                }
            }
            if cluster.control_plane_count == Some(1)
                && cluster.worker_groups.iter().all(|group| group.replicas == Some(0))
            {
                merge(&mut values, &json!({"operator": {"replicas": 1}}));
            }
            values
        }
    };
    for own in request.fleet.policy.cilium_values(&cluster.name) {
        merge(&mut values, &crate::json::to_json(own));
    }
    // Images are the bundle's in any case; their digests are pinned after the chart is rendered.
    merge(
        &mut values,
        &json!({
            "image": {"repository": repository, "tag": tag, "useDigest": false},
            "operator": {"image": {"repository": operator, "tag": operator_tag, "useDigest": false}},
        }),
    );
    if let Some(version) = compatibility.filter(|_| name == ComponentName::Cilium) {
        merge(&mut values, &json!({"upgradeCompatibility": version}));
    }
    if name == ComponentName::CiliumPreflight {
        merge(
            &mut values,
            &json!({
                "agent": false,
                "operator": {"enabled": false},
                "preflight": {
                    "enabled": true,
                    "image": {"repository": repository, "tag": tag, "useDigest": false},
                    "tolerations": [{"operator": "Exists"}],
                },
            }),
        );
    }
    sorted(values)
}

/// Merges as Helm does: maps by key, everything else replaced.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().collect();
            entries.sort_by(|left, right| left.0.cmp(&right.0));
            Value::Object(entries.into_iter().map(|(key, value)| (key, sorted(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
