//! The fields of a `TanzuKubernetesCluster`, by version of its interface: what the API server would drop or refuse.

use std::fmt;

use yaml::Node;

use crate::fleet::objects::FoundObject;
use domain::{Problem, nearest};

/// A version of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    V1Alpha1,
    V1Alpha2,
    V1Alpha3,
}

impl Version {
    /// The version that an object names.
    pub(super) fn of(object: &FoundObject) -> Option<Self> {
        match object.version.as_str() {
            "v1alpha1" => Some(Self::V1Alpha1),
            "v1alpha2" => Some(Self::V1Alpha2),
            "v1alpha3" => Some(Self::V1Alpha3),
            _ => None,
        }
    }
}

/// What a field holds.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Texts,
    /// Text by name.
    TextByName,
    /// A whole number of zero or more.
    Count,
    /// Networks such as `192.168.0.0/16`.
    Networks,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A duration of Go: `1h30m`, `0s`.
    Duration,
    /// A quantity of bytes: `16Gi`.
    Bytes,
    /// A path from the root.
    Path,
    Fields(&'static [Field]),
    ListOf(&'static [Field]),
}

struct Field {
    key: &'static str,
    shape: Shape,
    first: Version,
    last: Version,
}

const fn field(key: &'static str, shape: Shape) -> Field {
    Field { key, shape, first: Version::V1Alpha1, last: Version::V1Alpha3 }
}

const fn before(key: &'static str, shape: Shape) -> Field {
    Field { key, shape, first: Version::V1Alpha1, last: Version::V1Alpha1 }
}

const fn since(first: Version, key: &'static str, shape: Shape) -> Field {
    Field { key, shape, first, last: Version::V1Alpha3 }
}

const SPEC: &[Field] = &[
    field("distribution", Shape::Fields(&[field("version", Shape::Text), field("fullVersion", Shape::Text)])),
    field("topology", Shape::Fields(TOPOLOGY)),
    field(
        "settings",
        Shape::Fields(&[field("storage", Shape::Fields(STORAGE)), field("network", Shape::Fields(NETWORK))]),
    ),
];

const TOPOLOGY: &[Field] = &[
    field("controlPlane", Shape::Fields(CONTROL_PLANE)),
    before("workers", Shape::Fields(CONTROL_PLANE)),
    since(Version::V1Alpha2, "nodePools", Shape::ListOf(POOL)),
];

const CONTROL_PLANE: &[Field] = &[
    before("count", Shape::Count),
    before("class", Shape::Text),
    field("storageClass", Shape::Text),
    since(Version::V1Alpha2, "replicas", Shape::Count),
    since(Version::V1Alpha2, "vmClass", Shape::Text),
    since(Version::V1Alpha2, "volumes", Shape::ListOf(VOLUME)),
    since(Version::V1Alpha2, "tkr", RELEASE),
    since(Version::V1Alpha2, "nodeDrainTimeout", Shape::Duration),
];

const POOL: &[Field] = &[
    field("name", Shape::Text),
    field("labels", Shape::TextByName),
    field("taints", Shape::ListOf(TAINT)),
    field("replicas", Shape::Count),
    field("vmClass", Shape::Text),
    field("storageClass", Shape::Text),
    field("volumes", Shape::ListOf(VOLUME)),
    field("tkr", RELEASE),
    field("nodeDrainTimeout", Shape::Duration),
    since(Version::V1Alpha3, "failureDomain", Shape::Text),
];

const RELEASE: Shape = Shape::Fields(&[field(
    "reference",
    Shape::Fields(&[
        field("name", Shape::Text),
        field("apiVersion", Shape::Text),
        field("kind", Shape::Text),
        field("namespace", Shape::Text),
        field("uid", Shape::Text),
        field("resourceVersion", Shape::Text),
        field("fieldPath", Shape::Text),
    ]),
)]);

const VOLUME: &[Field] = &[
    field("name", Shape::Text),
    field("mountPath", Shape::Path),
    field("capacity", Shape::Fields(&[field("storage", Shape::Bytes)])),
    field("storageClass", Shape::Text),
];

const TAINT: &[Field] = &[
    field("key", Shape::Text),
    field("value", Shape::Text),
    field("effect", Shape::OneOf(&["NoSchedule", "PreferNoSchedule", "NoExecute"])),
    field("timeAdded", Shape::Text),
];

const STORAGE: &[Field] = &[field("classes", Shape::Texts), field("defaultClass", Shape::Text)];

const NETWORK: &[Field] = &[
    field("cni", Shape::Fields(&[field("name", Shape::OneOf(&["antrea", "calico", "antrea-nsx-routed"]))])),
    field("services", Shape::Fields(&[field("cidrBlocks", Shape::Networks)])),
    field("pods", Shape::Fields(&[field("cidrBlocks", Shape::Networks)])),
    field("serviceDomain", Shape::Text),
    field(
        "proxy",
        Shape::Fields(&[
            field("httpProxy", Shape::Text),
            field("httpsProxy", Shape::Text),
            field("noProxy", Shape::Texts),
        ]),
    ),
    field(
        "trust",
        Shape::Fields(&[field(
            "additionalTrustedCAs",
            Shape::ListOf(&[field("name", Shape::Text), field("data", Shape::Text)]),
        )]),
    ),
];

/// Everything in `spec` that is not understood, each by its field.
pub(super) fn check(object: &FoundObject, version: Version) -> Vec<Problem> {
    let mut reader = Reader { object, version, problems: Vec::new() };
    if let Some(spec) = object.node.get("spec") {
        reader.fields("spec", spec, SPEC);
    }
    reader.problems
}

struct Reader<'a> {
    object: &'a FoundObject,
    version: Version,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn refuse(&mut self, node: &Node, message: impl fmt::Display, hint: impl Into<String>) {
        let place = self.object.place(node.span);
        let message = format!("cluster {:?}: {message}", self.object.name);
        let problem = self.object.problem(&[], &self.object.name, message).at(place.line, place.column);
        self.problems.push(problem.hint(hint));
    }

    fn fields(&mut self, path: &str, node: &Node, known: &'static [Field]) {
        if node.is_null() {
            return;
        }
        let Some(mapping) = node.as_mapping() else {
            return self.refuse(node, format!("{path} is not a mapping"), "write its fields below it");
        };
        let version = self.version;
        for entry in mapping.iter() {
            let (key, path) = (entry.key.as_str(), format!("{path}.{}", entry.key.as_str()));
            let named = known.iter().find(|field| field.key == key);
            match named.filter(|field| field.first <= version && version <= field.last) {
                Some(field) => self.value(&path, &entry.value, field.shape),
                None => {
                    let served: Vec<&str> = known
                        .iter()
                        .filter(|field| field.first <= version && version <= field.last)
                        .map(|field| field.key)
                        .collect();
                    let own = &self.object.version;
                    let hint = match (nearest(key, &served), named) {
                        (_, Some(_)) => {
                            format!("another version of the interface has it; {own} has {}", served.join(", "))
                        }
                        (Some(near), None) => format!("did you mean {near:?}?"),
                        (None, None) => format!("the API server drops it; {own} has {}", served.join(", ")),
                    };
                    let place = self.object.place(entry.key_span);
                    let message = format!("cluster {:?}: {path} is not a field of {own}", self.object.name);
                    let problem = self.object.problem(&[], &self.object.name, message).at(place.line, place.column);
                    self.problems.push(problem.hint(hint));
                }
            }
        }
    }

    fn value(&mut self, path: &str, node: &Node, shape: Shape) {
        if node.is_null() {
            return;
        }
        let written = || yaml::emit(node).trim().chars().take(60).collect::<String>();
        let text = node.as_str();
        let wrong = |what: &str| format!("{path}: {} is not {what}", written());
        match shape {
            Shape::Text if text.is_none() => {
                self.refuse(node, wrong("a text"), "write a text, in quotes where it looks like a number");
            }
            Shape::Count if node.as_i64().and_then(|count| u32::try_from(count).ok()).is_none() => {
                self.refuse(node, wrong("a valid number of machines"), "write a whole number, without quotes");
            }
            Shape::OneOf(known) if !text.is_some_and(|text| known.contains(&text)) => {
                self.refuse(node, wrong("a valid value"), format!("write one of {}", known.join(", ")));
            }
            Shape::Duration if !text.is_some_and(is_duration) => {
                self.refuse(node, wrong("a valid duration"), "write it as 30s, 10m or 1h30m; 0s waits without limit");
            }
            Shape::Bytes if !node.scalar_text().is_some_and(|text| is_quantity(&text)) => {
                self.refuse(node, wrong("a valid size"), "write it as 16Gi");
            }
            Shape::Path if !text.is_some_and(|text| text.starts_with('/')) => {
                self.refuse(node, wrong("a valid path"), "write it from the root, as /var/lib/containerd");
            }
            Shape::Texts => self.each(path, node, |reader, path, item| reader.value(path, item, Shape::Text)),
            Shape::Networks => self.each(path, node, |reader, path, item| {
                if !item.as_str().is_some_and(is_network) {
                    let written = yaml::emit(item).trim().chars().take(60).collect::<String>();
                    reader.refuse(
                        item,
                        format!("{path}: {written} is not a valid network"),
                        "write it as 192.168.0.0/16",
                    );
                }
            }),
            Shape::TextByName => match node.as_mapping() {
                Some(mapping) => {
                    for entry in mapping.iter() {
                        self.value(&format!("{path}.{}", entry.key.as_str()), &entry.value, Shape::Text);
                    }
                }
                None => self.refuse(node, wrong("a mapping"), "write each name and its text below it"),
            },
            Shape::Fields(known) => self.fields(path, node, known),
            Shape::ListOf(known) => self.each(path, node, |reader, path, item| reader.fields(path, item, known)),
            Shape::Text | Shape::Count | Shape::OneOf(_) | Shape::Duration | Shape::Bytes | Shape::Path => {}
        }
    }

    fn each(&mut self, path: &str, node: &Node, read: impl Fn(&mut Self, &str, &Node)) {
        let Some(items) = node.as_sequence() else {
            return self.refuse(node, format!("{path} is not a list"), "begin each of its items with `- `");
        };
        for (index, item) in items.iter().enumerate() {
            read(self, &format!("{path}[{index}]"), item);
        }
    }
}

/// Whether Go reads it as a duration of no negative length.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    if rest == "0" {
        return true;
    }
    while !rest.is_empty() {
        let digits = rest.trim_start_matches(|digit: char| digit.is_ascii_digit() || digit == '.');
        let number = rest.strip_suffix(digits).unwrap_or(rest);
        let units = ["ns", "us", "ms", "s", "m", "h"];
        let Some(unit) = units.into_iter().find(|unit| digits.starts_with(unit)) else { return false };
        if number.parse::<f64>().is_err() {
            return false;
        }
        rest = digits.strip_prefix(unit).unwrap_or_default();
    }
    !text.is_empty()
}

/// Whether Kubernetes reads it as a quantity above zero.
fn is_quantity(text: &str) -> bool {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let is_unit = ["", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].contains(&unit);
    is_unit && digits.parse::<f64>().is_ok_and(|number| number.is_finite() && number > 0.0)
}

fn is_network(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}
