//! Which release a cluster asks for, and whether it is recorded.

use std::sync::Arc;

use bundles::tanzu::{DistributionVersion, Refusal, Request, VersionHint, resolve as resolve_request};
use yaml::Node;

use super::records::Records;
use super::{render, written};
use crate::fleet::objects::{FoundObject, field};
use crate::{ClusterKind, ClusterSpec};
use domain::{Problem, ProblemCode, Severity};
use policy::Policy;

const RELEASE: &[&str] = &["spec", "topology", "controlPlane", "tkr", "reference", "name"];
const FULL: &[&str] = &["spec", "distribution", "fullVersion"];
const HINT: &[&str] = &["spec", "distribution", "version"];

/// Where a cluster names its release.
pub(super) fn written_at(object: &FoundObject) -> &'static [&'static str] {
    let is_there = |path: &&&[&str]| field(&object.node, path).is_some();
    [RELEASE, FULL, HINT].iter().find(is_there).copied().unwrap_or(&["spec"])
}

/// The whole version that a cluster names; none where it names none, or none that is understood.
pub(super) fn requested_version(cluster: &Node) -> Option<DistributionVersion> {
    request_of(cluster).ok().flatten().as_ref().and_then(Request::whole)
}

/// What a cluster asks for; `None` where it names nothing.
pub(super) fn requested(object: &FoundObject) -> Result<Option<Request>, Box<Problem>> {
    request_of(&object.node).map_err(|(path, message)| {
        let problem = object.problem(path, &object.name, format!("cluster {:?}: {message}", object.name));
        Box::new(problem.hint("write one and the same release in every field; an empty `version` is no hint"))
    })
}

fn request_of(cluster: &Node) -> Result<Option<Request>, (&'static [&'static str], String)> {
    let text = |path: &[&str]| field(cluster, path).unwrap_or_default();
    let (release, full, hint) = (text(RELEASE), text(FULL), text(HINT));
    let at = if full.is_empty() { HINT } else { FULL };
    let distribution = Request::of_distribution(&hint, &full).map_err(|error| (at, error.to_string()))?;
    if let Some(Request::Both(hint, full)) = &distribution
        && !full.begins_with(hint)
    {
        return Err((FULL, Refusal::Disagree { hint: hint.clone(), full: full.clone() }.to_string()));
    }
    if release.is_empty() {
        return Ok(distribution);
    }
    let name: VersionHint = release.parse().map_err(|error| (RELEASE, format!("{error}")))?;
    let whole = distribution.as_ref().and_then(Request::whole);
    if let Some(other) = whole.filter(|other| !other.begins_with(&name)) {
        return Err((FULL, format!("spec.distribution names {other}, and the control plane {release}")));
    }
    Ok(Some(Request::Name(name)))
}

/// Resolves what clusters ask for against what is recorded, and tells every refusal.
///
/// Where no Supervisor carries a cluster out, it is one of Cluster API from here on.
pub(in crate::fleet) fn resolve(
    clusters: &mut [ClusterSpec],
    records: &Records,
    policy: &Policy,
    problems: &mut Vec<Problem>,
) {
    for cluster in clusters.iter_mut().filter(|cluster| cluster.kind == ClusterKind::Tanzu) {
        let node = Arc::clone(&cluster.node);
        let Ok(Some(request)) = request_of(&node) else { continue };
        let place = cluster.places.kubernetes_version.clone().unwrap_or_else(|| cluster.places.name.clone());
        let name = cluster.name.clone();
        let told = |message: String, hint: String| {
            let message = format!("cluster {name:?}: {message}");
            let problem = Problem::new(ProblemCode::BadCluster, message).path(&place.path);
            problem.at(place.line, place.column).cluster(&name).hint(hint)
        };
        let plane = match version_of(&request, records) {
            Ok(version) => version,
            Err((message, hint)) => {
                problems.push(told(message, hint));
                continue;
            }
        };
        if matches!(request, Request::Hint(_)) && request.whole().is_none() {
            let hint = format!("write fullVersion: {plane} beside it");
            let message = format!(
                "version hint {} means {plane} by what is recorded, and may mean another later",
                request.as_written()
            );
            problems.push(told(message, hint).severity(Severity::Warning));
        }
        if request.whole().is_none() {
            cluster.kubernetes_version = plane.to_string();
        }
        problems.extend(records.problem_of_image(&plane, &node).map(|(message, hint)| told(message, hint)));
        let mut pools = Vec::new();
        let count = cluster.worker_groups.len();
        for group in &mut cluster.worker_groups {
            let own = group.own_kubernetes_version.then(|| group.kubernetes_version.parse::<VersionHint>());
            let pool = match own {
                None => Ok(plane.clone()),
                Some(Ok(own)) => version_of(&Request::Name(own), records),
                Some(Err(error)) => Err((error.to_string(), NAME_HINT.to_owned())),
            };
            match pool {
                Ok(version) if version.order(&plane).is_gt() => {
                    let message =
                        format!("node pool {:?} is at {version}, above the control plane at {plane}", group.name);
                    problems.push(told(message, "raise the control plane, or lower the node pool".to_owned()));
                }
                Ok(version) => {
                    if version != plane {
                        let message = format!(
                            "node pool {:?} stays at {version}, and the control plane is at {plane}: they may differ only while an \
                             update runs",
                            group.name
                        );
                        let hint = format!("name {} in the node pool too", plane.name());
                        problems.push(told(message, hint).severity(Severity::Warning));
                    }
                    // What is written as a whole stays as it is written.
                    if !group.kubernetes_version.contains("-tkg.") {
                        group.kubernetes_version = version.to_string();
                    }
                    pools.push((group.name.clone(), version));
                }
                Err((message, hint)) => problems.push(told(format!("node pool {:?}: {message}", group.name), hint)),
            }
        }
        if pools.len() < count {
            continue;
        }
        if let Err(message) = written::write(cluster, &plane, &pools) {
            let message = format!("release {plane} cannot be written into its file: {message}");
            problems.push(told(message, format!("write {plane} there as plain text, in every part")));
            continue;
        }
        if !render::is_rendered(policy, &name) {
            continue;
        }
        let of_pools = pools.iter().map(|(pool, version)| Ok((pool.clone(), records.material(version, &node)?)));
        match (records.material(&plane, &node), of_pools.collect::<Result<Vec<_>, (String, String)>>()) {
            (Ok(plane), Ok(pools)) => render::render(cluster, &plane, &pools, policy, problems),
            (Err((message, hint)), _) | (_, Err((message, hint))) => problems.push(told(message, hint)),
        }
    }
}

const NAME_HINT: &str = "write the name of a release, as `kubectl get tkr` prints it";

/// The version that is meant; where no release is recorded, the whole version that is written.
fn version_of(request: &Request, records: &Records) -> Result<DistributionVersion, (String, String)> {
    if records.releases.is_empty()
        && let Some(whole) = request.whole()
    {
        return Ok(whole);
    }
    // One that cannot be read may be the newest.
    if let (Some(unread), None) = (records.unread.first(), request.whole()) {
        let message = format!("which release {} means cannot be told: {unread}", request.as_written());
        return Err((message, "repair that file, or name a whole version".to_owned()));
    }
    match resolve_request(request, &records.releases) {
        Ok(release) => Ok(release.version.clone()),
        Err(refusal) => {
            let hint = match &refusal {
                Refusal::Disagree { .. } => "write a full version that the hint begins, or none",
                Refusal::NothingRecorded { .. } => {
                    "name a whole version, or commit what `kubectl get tanzukubernetesreleases -o yaml` prints"
                }
                Refusal::Unknown { .. } => {
                    "name a release that is recorded, or record the releases of the Supervisor anew"
                }
                Refusal::NoneOffered { .. } | Refusal::Ambiguous { .. } => {
                    "name a whole version that the Supervisor offers"
                }
            };
            Err((refusal.to_string(), hint.to_owned()))
        }
    }
}
