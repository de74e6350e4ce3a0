//! Whether nodes can pull what the rollout brings: each image at its digest, for the architecture of each node.
//!
//! A registry that cannot be asked from here, or asks for a login that only nodes have, is no reason to wait: whoever
//! may not reach it could never begin. What a registry says that it has not is one to hold.

use std::collections::{BTreeMap, BTreeSet};

use policy::CheckName;
use serde::{Deserialize, Serialize};

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};
use crate::observation::{ImageState, ObjectReference, UnpulledImage};

pub(super) const CHECK: Check = Check {
    name: CheckName::Images,
    looks_at: "images of the plan in their registries, for the architecture of every node, and images that no node could pull",
    severity: CheckSeverity::Blocking,
    remedy: "push the image to its registry, or correct the reference",
    judge,
};

/// How many images a finding names.
const NAMED: usize = 3;

/// An image that nodes pull in the course of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedImage {
    /// The image, as the manifest has it.
    pub image: String,
    /// An object of the target tree that names it.
    pub object: ObjectReference,
    /// Where the nodes' mirror has it; none where they have no mirror for its registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<String>,
    /// The architectures that its pods are bound to; empty where they may run on any node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// Whether its pods name Secrets with logins, which are for kubelets alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_pull_secrets: bool,
}

impl PlannedImage {
    /// What registries are asked for: where the nodes pull it from, and its own registry.
    pub fn asked(&self) -> impl Iterator<Item = &String> {
        self.mirror.iter().chain([&self.image])
    }
}

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    let planned = &judged.expectation.images;
    let states: BTreeMap<&str, &ImageState> =
        judged.inspection.images.iter().map(|known| (known.image.as_str(), &known.state)).collect();
    let mut unknown: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut later = 0;
    let mut findings = Vec::new();
    for image in planned {
        match told(image, &states, &judged.inspection.architectures) {
            Told::Fine => {}
            Told::Finding(finding) => findings.push(finding.on(FoundObject::from(&image.object))),
            Told::Unknown(reason) => unknown.entry(reason).or_default().push(&image.image),
            Told::Later => later += 1,
        }
    }
    if later > 0 {
        let remedy = "wait: registries are asked for a few images in each pass";
        let message = format!("{later} images of the plan have not been asked for yet");
        findings.push(CheckFinding::unknown(message).remedy(remedy));
    }
    findings.extend(unknown.iter().map(|(reason, images)| grouped(reason, images)));
    let of_plan: BTreeSet<&str> = planned.iter().map(|image| image.image.as_str()).collect();
    findings.extend(judged.inspection.unpulled.iter().map(|known| unpulled(known, &of_plan)));
    findings
}

/// What is said of one image.
enum Told {
    Fine,
    Finding(CheckFinding),
    Unknown(String),
    Later,
}

fn told(image: &PlannedImage, states: &BTreeMap<&str, &ImageState>, nodes: &BTreeSet<String>) -> Told {
    let place = image.mirror.as_ref().unwrap_or(&image.image);
    let shown = shown(place);
    let own = states.get(image.image.as_str()).filter(|_| image.mirror.is_some());
    match states.get(place.as_str()) {
        None => Told::Unknown("fetch.allow of stepgate.yaml lets no registry be asked".to_owned()),
        Some(ImageState::NotAsked) => Told::Later,
        Some(ImageState::Unknown { reason }) => Told::Unknown(reason.clone()),
        Some(ImageState::Missing { reason }) => match own {
            Some(ImageState::Found { .. }) => {
                let message =
                    format!("the mirror of the nodes has no {shown}: they pull {} instead", self::shown(&image.image));
                let remedy = "copy it into the mirror, or see that nodes reach its own registry";
                Told::Finding(CheckFinding::warn(message).remedy(remedy))
            }
            Some(ImageState::NotAsked) => Told::Later,
            Some(ImageState::Missing { .. } | ImageState::Unknown { .. }) | None if image.has_pull_secrets => {
                Told::Unknown(format!("without the login that their pods name: {reason}"))
            }
            Some(ImageState::Missing { .. } | ImageState::Unknown { .. }) | None => {
                Told::Finding(CheckFinding::fail(format!("there is no image {shown}: {reason}")))
            }
        },
        Some(ImageState::Found { architectures }) => {
            let is_asked = |node: &&String| image.architectures.is_empty() || image.architectures.contains(node);
            let lacking: Vec<&str> = nodes
                .iter()
                .filter(is_asked)
                .filter(|node| !architectures.is_empty() && !architectures.contains(node))
                .map(String::as_str)
                .collect();
            if lacking.is_empty() {
                return Told::Fine;
            }
            let (has, lacking) = (architectures.join(", "), lacking.join(" and "));
            let message = format!("image {shown} is for {has} alone, and there are nodes of {lacking}");
            let remedy = "push it for these nodes, or bind its pods to others (nodeSelector kubernetes.io/arch)";
            Told::Finding(CheckFinding::fail(message).remedy(remedy))
        }
    }
}

/// The image without a login: no reference has one, and what somebody has written may.
fn shown(image: &str) -> String {
    match image.rsplit_once('@') {
        Some((rest, digest)) if digest.starts_with("sha256:") || digest.starts_with("sha512:") => {
            format!("{}@{digest}", shown(rest))
        }
        Some((_, rest)) => format!("***@{rest}"),
        None => image.to_owned(),
    }
}

fn grouped(reason: &str, images: &[&str]) -> CheckFinding {
    let mut named: Vec<String> = images.iter().take(NAMED).map(|image| shown(image)).collect();
    let more = images.len().saturating_sub(NAMED);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    let message = format!("whether there are {} is not known: {reason}", named.join(", "));
    let remedy =
        "list the registry in fetch.allow of stepgate.yaml and log in where Stepgate runs, or look for it yourself";
    CheckFinding::unreadable(message).remedy(remedy)
}

/// The plan brings it to more nodes where it is one of the plan's.
fn unpulled(known: &UnpulledImage, of_plan: &BTreeSet<&str>) -> CheckFinding {
    let UnpulledImage { object, image, reason, node } = known;
    let place = node.iter().map(|node| format!(" on node {node}")).collect::<String>();
    let image_shown = shown(image);
    let message = format!("image {image_shown} could not be pulled{place}: {reason}");
    let finding = if of_plan.contains(image.as_str()) {
        CheckFinding::fail(format!("{message}; it is an image of the plan"))
    } else {
        CheckFinding::warn(message)
    };
    let describe = match &object.namespace {
        Some(namespace) => format!("kubectl -n {namespace} describe pod {}", object.name),
        None => format!("kubectl describe pod {}", object.name),
    };
    finding.on(FoundObject::from(object)).remedy(describe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CheckStatus;

    fn planned() -> PlannedImage {
        PlannedImage {
            image: "a.example/x:1".to_owned(),
            object: ObjectReference {
                api_version: "apps/v1".to_owned(),
                kind: "Deployment".to_owned(),
                namespace: Some("n".to_owned()),
                name: "d".to_owned(),
            },
            mirror: None,
            architectures: Vec::new(),
            has_pull_secrets: false,
        }
    }

    fn found(architectures: &[&str]) -> ImageState {
        ImageState::Found { architectures: architectures.iter().map(|name| (*name).to_owned()).collect() }
    }

    fn missing() -> ImageState {
        ImageState::Missing { reason: "404".to_owned() }
    }

    /// `fail: …`, `unknown: …`, or nothing.
    fn said(image: &PlannedImage, states: &[(&str, ImageState)], nodes: &[&str]) -> String {
        let states = states.iter().map(|(image, state)| (*image, state)).collect();
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        match told(image, &states, &nodes) {
            Told::Fine => String::new(),
            Told::Finding(finding) => format!("{}: {}", finding.status, finding.message),
            Told::Unknown(reason) => format!("unknown: {reason}"),
            Told::Later => "later".to_owned(),
        }
    }

    #[test]
    fn an_image_has_to_be_there_for_every_node_that_may_run_it() {
        let image = "a.example/x:1";
        let nodes = ["amd64", "arm64"];
        let of = |state: ImageState| said(&planned(), &[(image, state)], &nodes);
        assert_eq!(of(found(&["amd64", "arm64", "s390x"])), "");
        assert_eq!(of(found(&[])), "");
        assert_eq!(of(found(&["amd64"])), "fail: image a.example/x:1 is for amd64 alone, and there are nodes of arm64");
        assert_eq!(of(missing()), "fail: there is no image a.example/x:1: 404");
        assert_eq!(of(ImageState::Unknown { reason: "silent".to_owned() }), "unknown: silent");
        assert_eq!(of(ImageState::NotAsked), "later");
        assert_eq!(said(&planned(), &[], &nodes), "unknown: fetch.allow of stepgate.yaml lets no registry be asked");
        let bound = PlannedImage { architectures: vec!["amd64".to_owned()], ..planned() };
        assert_eq!(said(&bound, &[(image, found(&["amd64"]))], &nodes), "");
        let secret = PlannedImage { has_pull_secrets: true, ..planned() };
        assert!(said(&secret, &[(image, missing())], &nodes).starts_with("unknown: without the login"));
    }

    #[test]
    fn nodes_with_a_mirror_are_asked_about_there() {
        let image = PlannedImage { mirror: Some("m.example/x:1".to_owned()), ..planned() };
        let of = |mirror: ImageState, own: ImageState| {
            said(&image, &[("m.example/x:1", mirror), ("a.example/x:1", own)], &["amd64"])
        };
        assert_eq!(of(found(&["amd64"]), missing()), "");
        assert!(of(missing(), found(&["amd64"])).starts_with("warn: the mirror of the nodes has no m.example/x:1"));
        assert!(of(missing(), missing()).starts_with("fail: there is no image m.example/x:1"));
        let unknown = ImageState::Unknown { reason: "silent".to_owned() };
        assert!(of(missing(), unknown).starts_with("fail: there is no image m.example/x:1"));
        assert_eq!(of(missing(), ImageState::NotAsked), "later");
    }

    #[test]
    fn what_no_node_could_pull_fails_where_the_plan_brings_it() {
        let known = UnpulledImage {
            object: ObjectReference {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                namespace: Some("n".to_owned()),
                name: "p".to_owned(),
            },
            image: "a.example/x:1".to_owned(),
            reason: "ImagePullBackOff".to_owned(),
            node: Some("worker-1".to_owned()),
        };
        let other = unpulled(&known, &BTreeSet::new());
        let expected = "Pod n/p: image a.example/x:1 could not be pulled on node worker-1: ImagePullBackOff";
        assert_eq!((other.status, other.to_string().as_str()), (CheckStatus::Warn, expected));
        assert_eq!(unpulled(&known, &["a.example/x:1"].into()).status, CheckStatus::Fail);
    }

    #[test]
    fn a_login_in_a_reference_is_not_shown() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for (image, expected) in [
            ("https://me:secret@r.example.com/one:v1".to_owned(), "***@r.example.com/one:v1".to_owned()),
            (format!("me:secret@r.example.com/a@{digest}"), format!("***@r.example.com/a@{digest}")),
            (format!("r.example.com/a:v1@{digest}"), format!("r.example.com/a:v1@{digest}")),
        ] {
            assert_eq!(shown(&image), expected);
            assert!(grouped("silent", &[image.as_str()]).message.contains(&expected));
        }
    }

    #[test]
    fn images_of_one_reason_are_told_at_once_and_hold_nothing() {
        let finding = grouped("silent", &["a", "b", "c", "d", "e"]);
        assert!(finding.is_advisory && finding.status == CheckStatus::Unknown);
        assert_eq!(finding.message, "whether there are a, b, c, 2 more is not known: silent");
    }
}
