//! `TanzuKubernetesRelease` (`run.tanzu.vmware.com`) and `KubernetesRelease` (`kubernetes.vmware.com`).

use yaml::Node;

use super::{Components, DistributionVersion, RECORD_ANEW, RecordError};
use crate::field;

/// A release that a Supervisor offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TanzuRelease {
    /// Its version.
    pub version: DistributionVersion,
    /// What the Supervisor says of it.
    pub standing: Standing,
    /// The images of its nodes.
    pub images: ImageReferences,
    /// What its nodes run, where it says that itself.
    pub components: Components,
}

/// Whether new clusters may be made of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// They may.
    Offered,
    /// They may not: the label or condition that says so.
    Excluded(String),
}

/// How a release names the images of its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageReferences {
    /// It names none.
    None,
    /// One `VirtualMachineImage`, by name (v1alpha1 and v1alpha2).
    MachineImage(String),
    /// `OSImage`s, by name (v1alpha3 and `KubernetesRelease`).
    OsImages(Vec<String>),
}

/// Labels that take a release out of the offer.
const LABELS: [&str; 4] = ["incompatible", "deactivated", "invalid", "deleted"];

/// Conditions that take a release out of the offer where they are `False`.
const CONDITIONS: [&str; 2] = ["Compatible", "Valid"];

impl TanzuRelease {
    /// Reads an object of one of the two kinds.
    ///
    /// # Errors
    /// A version that is not there or not valid, or not the one that its name says.
    pub fn read(object: &Node) -> Result<Self, RecordError> {
        let name = field::name(object).unwrap_or_default();
        let written = object.at(&["spec", "version"]).and_then(field::text).filter(|text| !text.is_empty());
        let version = written.as_deref().unwrap_or(name.as_str());
        let path: &[&'static str] = if written.is_some() { &["spec", "version"] } else { &["metadata", "name"] };
        let version: DistributionVersion = version
            .parse()
            .map_err(|error| RecordError::new(path, format!("release {name:?}: {error}"), RECORD_ANEW))?;
        let is_own = name.parse::<DistributionVersion>().is_ok_and(|named| named == version);
        if !name.is_empty() && !is_own {
            let message = format!("release {name:?} says that it is {version}");
            return Err(RecordError::new(path, message, RECORD_ANEW));
        }
        let components = Components::of_release(object);
        Ok(Self { version, standing: standing(object), images: images(object), components })
    }
}

fn standing(object: &Node) -> Standing {
    let labels = object.at(&["metadata", "labels"]);
    let is_set = |label: &&str| labels.is_some_and(|labels| labels.get(label).is_some());
    if let Some(label) = LABELS.into_iter().find(is_set) {
        return Standing::Excluded(format!("label {label}"));
    }
    let conditions = object.at(&["status", "conditions"]).and_then(Node::as_sequence).unwrap_or_default();
    for condition in conditions {
        let text = |key: &str| condition.get(key).and_then(field::text).unwrap_or_default();
        let kind = text("type");
        if CONDITIONS.contains(&kind.as_str()) && text("status") == "False" {
            let why = Some(text("message")).filter(|message| !message.is_empty()).unwrap_or_else(|| text("reason"));
            return Standing::Excluded(match why.as_str() {
                "" => format!("condition {kind} is False"),
                why => format!("condition {kind} is False: {why}"),
            });
        }
    }
    Standing::Offered
}

fn images(object: &Node) -> ImageReferences {
    if let Some(name) = object.at(&["spec", "nodeImageRef", "name"]).and_then(field::text) {
        return ImageReferences::MachineImage(name);
    }
    let items = object.at(&["spec", "osImages"]).and_then(Node::as_sequence).unwrap_or_default();
    let names: Vec<String> = items.iter().filter_map(|item| item.get("name").and_then(field::text)).collect();
    if names.is_empty() { ImageReferences::None } else { ImageReferences::OsImages(names) }
}
