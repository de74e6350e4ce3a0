//! Whether nodes can pull what the rollout brings: each image at its digest, for the architecture of each node.
//!
//! A registry that cannot be asked from here, or asks for a login that only nodes have, is no reason to wait: whoever
//! may not reach it could never begin. What a registry says that it has not is one to hold, and so is a login of
//! nodes that it refuses.

use std::collections::{BTreeMap, BTreeSet};

use policy::CheckName;
use serde::{Deserialize, Serialize};

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};
use crate::observation::{ImageReading, ImageState, LoginReading, LoginSource, ObjectReference, UnpulledImage};

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
    /// Where nodes find logins for it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub logins: BTreeSet<LoginSource>,
}

impl PlannedImage {
    /// What registries are asked for: where the nodes pull it from, and its own registry.
    pub fn asked(&self) -> impl Iterator<Item = &String> {
        self.mirror.iter().chain([&self.image])
    }
}

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    let planned = &judged.expectation.images;
    let readings: BTreeMap<&str, &ImageReading> =
        judged.inspection.images.iter().map(|known| (known.image.as_str(), known)).collect();
    let mut unknown: BTreeMap<Unknown, Vec<&str>> = BTreeMap::new();
    let mut later = 0;
    let mut findings = Vec::new();
    for image in planned {
        match told(image, &readings, &judged.inspection.architectures) {
            Told::Fine => {}
            Told::Finding(finding) => findings.push(finding.on(FoundObject::from(&image.object))),
            Told::Unknown(why) => unknown.entry(why).or_default().push(&image.image),
            Told::Later => later += 1,
        }
    }
    if later > 0 {
        let remedy = "wait: registries are asked for a few images in each pass";
        let message = format!("{later} images of the plan have not been asked for yet");
        findings.push(CheckFinding::unknown(message).remedy(remedy));
    }
    findings.extend(unknown.iter().map(|(why, images)| grouped(why, images)));
    let of_plan: BTreeSet<&str> = planned.iter().map(|image| image.image.as_str()).collect();
    findings.extend(judged.inspection.unpulled.iter().map(|known| unpulled(known, &of_plan)));
    findings
}

/// What is said of one image.
enum Told {
    Fine,
    Finding(CheckFinding),
    Unknown(Unknown),
    Later,
}

/// Why nobody can tell, and what helps: told once for all images of one reason.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unknown {
    reason: String,
    remedy: String,
}

impl Unknown {
    fn of(reason: impl Into<String>) -> Self {
        let remedy = "list the registry in fetch.allow of stepgate.yaml and log in where Stepgate runs, or look for it \
                      yourself";
        Self { reason: reason.into(), remedy: remedy.to_owned() }
    }
}

fn told(image: &PlannedImage, readings: &BTreeMap<&str, &ImageReading>, nodes: &BTreeSet<String>) -> Told {
    let place = image.mirror.as_ref().unwrap_or(&image.image);
    let shown = shown(place);
    let own = readings.get(image.image.as_str()).filter(|_| image.mirror.is_some()).map(|known| &known.state);
    let Some(reading) = readings.get(place.as_str()) else {
        return Told::Unknown(Unknown::of("fetch.allow of stepgate.yaml lets no registry be asked"));
    };
    match &reading.state {
        ImageState::NotAsked => Told::Later,
        ImageState::Unknown { reason } => without_login(&shown, reason, reading.login.as_ref())
            .unwrap_or_else(|| Told::Unknown(Unknown::of(reason.clone()))),
        ImageState::Missing { reason } => match own {
            Some(ImageState::Found { .. }) => {
                let message =
                    format!("the mirror of the nodes has no {shown}: they pull {} instead", self::shown(&image.image));
                let remedy = "copy it into the mirror, or see that nodes reach its own registry";
                Told::Finding(CheckFinding::warn(message).remedy(remedy))
            }
            Some(ImageState::NotAsked) => Told::Later,
            Some(ImageState::Missing { .. } | ImageState::Unknown { .. }) | None => {
                without_login(&shown, reason, reading.login.as_ref()).unwrap_or_else(|| {
                    Told::Finding(CheckFinding::fail(format!("there is no image {shown}: {reason}")))
                })
            }
        },
        ImageState::Found { architectures } => {
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

/// What is said of an image that was not found, where that may be for want of the login that nodes have.
fn without_login(image: &str, reason: &str, login: Option<&LoginReading>) -> Option<Told> {
    Some(match login? {
        LoginReading::Refused { secret } => {
            let message = format!("the registry refuses the login that nodes have for {image}: {reason}");
            Told::Finding(CheckFinding::fail(message).remedy(format!("renew the login in Secret {secret}")))
        }
        LoginReading::Absent { secret } => {
            let message =
                format!("image {image} takes a login, and there is no Secret {secret}, which nodes take it from");
            let remedy = "make that Secret, or see that nodes have a login of their own for the registry";
            Told::Finding(CheckFinding::warn(message).remedy(remedy))
        }
        LoginReading::Unread { reason: unread, remedy } => {
            let reason = format!("without the login that its pods have: {reason}; {unread}");
            Told::Unknown(Unknown { reason, remedy: remedy.clone() })
        }
        LoginReading::Used { .. } | LoginReading::Lacking => return None,
    })
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

fn grouped(why: &Unknown, images: &[&str]) -> CheckFinding {
    let mut named: Vec<String> = images.iter().take(NAMED).map(|image| shown(image)).collect();
    let more = images.len().saturating_sub(NAMED);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    let message = format!("whether there are {} is not known: {}", named.join(", "), why.reason);
    CheckFinding::unreadable(message).remedy(why.remedy.as_str())
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
            logins: BTreeSet::new(),
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
        let states = states.iter().map(|(image, state)| (*image, state.clone(), None)).collect();
        said_of_logins(image, states, nodes)
    }

    fn said_of_logins(
        image: &PlannedImage,
        states: Vec<(&str, ImageState, Option<LoginReading>)>,
        nodes: &[&str],
    ) -> String {
        let reading = |(image, state, login): (&str, ImageState, Option<LoginReading>)| ImageReading {
            image: image.to_owned(),
            state,
            login,
        };
        let readings: Vec<ImageReading> = states.into_iter().map(reading).collect();
        let readings = readings.iter().map(|known| (known.image.as_str(), known)).collect();
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        match told(image, &readings, &nodes) {
            Told::Fine => String::new(),
            Told::Finding(finding) => format!("{}: {}", finding.status, finding.message),
            Told::Unknown(why) => format!("unknown: {}", why.reason),
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
    }

    #[test]
    fn what_became_of_a_login_decides_what_a_missing_image_means() {
        let (image, secret) = ("a.example/x:1", || "n/login".to_owned());
        let of = |state: ImageState, login: LoginReading| {
            said_of_logins(&planned(), vec![(image, state, Some(login))], &["amd64"])
        };
        let unknown = || ImageState::Unknown { reason: "401".to_owned() };
        let unread = LoginReading::Unread { reason: "forbidden".to_owned(), remedy: "grant it".to_owned() };
        for state in [missing(), unknown()] {
            let said = of(state, unread.clone());
            assert!(said.starts_with("unknown: without the login") && said.ends_with("; forbidden"), "{said}");
        }
        let said = of(unknown(), LoginReading::Refused { secret: secret() });
        assert_eq!(said, format!("fail: the registry refuses the login that nodes have for {image}: 401"));
        let said = of(unknown(), LoginReading::Absent { secret: secret() });
        assert!(said.starts_with("warn: ") && said.contains("there is no Secret n/login"), "{said}");
        assert_eq!(of(unknown(), LoginReading::Lacking), "unknown: 401");
        for login in [LoginReading::Lacking, LoginReading::Used { secret: secret() }] {
            assert_eq!(of(missing(), login), format!("fail: there is no image {image}: 404"));
        }
        assert_eq!(of(found(&["amd64"]), LoginReading::Used { secret: secret() }), "");
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
            assert!(grouped(&Unknown::of("silent"), &[image.as_str()]).message.contains(&expected));
        }
    }

    #[test]
    fn images_of_one_reason_are_told_at_once_and_hold_nothing() {
        let finding = grouped(&Unknown::of("silent"), &["a", "b", "c", "d", "e"]);
        assert!(finding.is_advisory && finding.status == CheckStatus::Unknown);
        assert_eq!(finding.message, "whether there are a, b, c, 2 more is not known: silent");
    }
}
