//! `VirtualMachineImage` and `ClusterVirtualMachineImage` (`vmoperator.vmware.com`).

use yaml::{Limits, Node};

use super::{Components, DistributionVersion, ImageAddon, RECORD_ANEW, RecordError};
use crate::field;

/// The property of an image that says which release it is made for.
const DISTRIBUTION: &str = "vmware-system.guest.kubernetes.distribution.image.version";

/// No API server takes an object with more: its own limit of a request.
const LARGEST: usize = 3 << 20;

/// A distribution property has a dozen fields.
const LIMITS: Limits = Limits { bytes: 64 << 10, documents: 1, depth: 16, nodes: 2_000 };

/// An image of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineImage {
    /// `metadata.name`.
    pub name: String,
    /// The name of its item in the content library, where the object says it.
    pub display_name: Option<String>,
    /// The release that it is made for; `None` where no property says it, as in images that are none of Kubernetes.
    pub distribution: Option<DistributionVersion>,
    /// What its nodes run, as the same property says.
    pub components: Components,
    /// The add-ons that it brings, by name.
    pub addons: Vec<ImageAddon>,
}

impl MachineImage {
    /// Reads an object of one of the two kinds: its annotations (v1alpha1), or the properties in its status (later versions).
    ///
    /// # Errors
    /// Properties that are larger than any API server takes, or a distribution that is not valid.
    pub fn read(object: &Node) -> Result<Self, RecordError> {
        let name = field::name(object).unwrap_or_default();
        let annotations = object.at(&["metadata", "annotations"]).and_then(Node::as_mapping);
        let bytes: usize = annotations
            .into_iter()
            .flat_map(yaml::Mapping::iter)
            .filter_map(|entry| entry.value.as_str())
            .map(str::len)
            .sum();
        let properties =
            object.at(&["status", "vmwareSystemProperties"]).and_then(Node::as_sequence).unwrap_or_default();
        let value = |property: &Node| property.get("value").and_then(field::text);
        let bytes = bytes.saturating_add(properties.iter().filter_map(value).map(|value| value.len()).sum());
        if bytes > LARGEST {
            let message =
                format!("image {name:?} has {bytes} bytes of properties, and an API server takes {LARGEST} at most");
            return Err(RecordError::new(&["metadata"], message, RECORD_ANEW));
        }
        let is_distribution =
            |property: &&Node| property.get("key").and_then(Node::as_str).is_some_and(|key| key == DISTRIBUTION);
        let annotated = annotations.and_then(|annotations| annotations.get(DISTRIBUTION)).and_then(field::text);
        let text = annotated.or_else(|| properties.iter().find(is_distribution).and_then(value));
        let distribution = text.map(|text| distribution(&name, &text)).transpose()?;
        let (distribution, components) = distribution.unzip();
        let annotated = annotations.into_iter().flat_map(yaml::Mapping::iter);
        let annotated = annotated.filter_map(|entry| ImageAddon::read(entry.key.as_str(), entry.value.as_str()?));
        let of_status = properties
            .iter()
            .filter_map(|property| ImageAddon::read(property.get("key").and_then(Node::as_str)?, &value(property)?));
        let mut addons: Vec<ImageAddon> = annotated.chain(of_status).collect();
        addons.sort_by(|left, right| left.name.cmp(&right.name));
        addons.dedup_by(|left, right| left.name == right.name);
        let display_name = [["status", "name"], ["status", "imageName"]];
        let display_name = display_name.into_iter().find_map(|path| object.at(&path).and_then(field::text));
        Ok(Self { name, display_name, distribution, components: components.unwrap_or_default(), addons })
    }

    /// Whether `reference` means this image: by the name of the object, or of its item in the content library.
    #[must_use]
    pub fn is_named(&self, reference: &str) -> bool {
        self.name == reference || self.display_name.as_deref() == Some(reference)
    }
}

/// The version in the JSON of a distribution property, and what its nodes run.
fn distribution(image: &str, text: &str) -> Result<(DistributionVersion, Components), RecordError> {
    let error = |why: String| {
        let message = format!("image {image:?}: its property {DISTRIBUTION} {why}");
        RecordError::new(&["metadata"], message, RECORD_ANEW)
    };
    let documents = yaml::parse(text, &LIMITS).map_err(|problem| error(format!("is not valid JSON: {problem}")))?;
    let version = documents.first().and_then(|document| document.root.at(&["distribution", "version"]));
    let version = version.and_then(field::text).ok_or_else(|| error("names no distribution.version".to_owned()))?;
    let version = version.parse().map_err(|problem| error(format!("is not valid: {problem}")))?;
    let components = documents.first().map(|document| Components::of_distribution(&document.root));
    Ok((version, components.unwrap_or_default()))
}
