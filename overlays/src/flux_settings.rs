//! How Flux applies a cluster's specification, beside what that is made of.

use std::collections::BTreeMap;

use yaml::Node;

/// What becomes of a field of a Kustomization's `spec` when Stepgate's takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FluxFieldUse {
    /// It is in what is recorded.
    Rendered,
    /// Stepgate's Kustomization has it too.
    Carried,
    /// Stepgate's Kustomization has another value.
    Replaced,
    /// Stages and gates do that.
    Gated,
    /// `check` tells that it does not count any more.
    Dropped,
    /// Nothing of the cluster is recorded or planned while it is set.
    Refused,
}

impl FluxFieldUse {
    /// The word that documents use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rendered => "rendered",
            Self::Carried => "carried over",
            Self::Replaced => "replaced",
            Self::Gated => "left to gates",
            Self::Dropped => "dropped with a warning",
            Self::Refused => "refused",
        }
    }
}

/// Every field of `spec` of a Kustomization of `kustomize.toolkit.fluxcd.io/v1`.
pub const FLUX_FIELDS: [(&str, FluxFieldUse); 27] = [
    ("buildMetadata", FluxFieldUse::Rendered),
    ("commonMetadata", FluxFieldUse::Rendered),
    ("components", FluxFieldUse::Rendered),
    ("decryption", FluxFieldUse::Carried),
    ("deletionPolicy", FluxFieldUse::Replaced),
    ("dependsOn", FluxFieldUse::Gated),
    ("force", FluxFieldUse::Dropped),
    ("healthCheckExprs", FluxFieldUse::Gated),
    ("healthChecks", FluxFieldUse::Gated),
    ("ignore", FluxFieldUse::Carried),
    ("ignoreMissingComponents", FluxFieldUse::Rendered),
    ("images", FluxFieldUse::Rendered),
    ("interval", FluxFieldUse::Replaced),
    ("kubeConfig", FluxFieldUse::Carried),
    ("namePrefix", FluxFieldUse::Rendered),
    ("nameSuffix", FluxFieldUse::Rendered),
    ("patches", FluxFieldUse::Rendered),
    ("path", FluxFieldUse::Replaced),
    ("postBuild", FluxFieldUse::Rendered),
    ("prune", FluxFieldUse::Replaced),
    ("retryInterval", FluxFieldUse::Replaced),
    ("serviceAccountName", FluxFieldUse::Carried),
    ("sourceRef", FluxFieldUse::Replaced),
    ("suspend", FluxFieldUse::Refused),
    ("targetNamespace", FluxFieldUse::Rendered),
    ("timeout", FluxFieldUse::Carried),
    ("wait", FluxFieldUse::Gated),
];

/// What Stepgate's Kustomization of a specification takes over from the one that applies it today.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FluxSettings {
    /// Namespace of that Kustomization: objects that it names are there.
    pub namespace: String,
    /// The fields that are carried over, by name.
    pub carried: BTreeMap<&'static str, Node>,
}

impl FluxSettings {
    /// Of the `spec` of a Kustomization.
    pub fn of(namespace: &str, spec: &Node) -> Self {
        let carried = FLUX_FIELDS.iter().filter(|(_, use_of)| *use_of == FluxFieldUse::Carried);
        let carried = carried.filter_map(|(name, _)| Some((*name, spec.get(name)?.clone())));
        Self { namespace: namespace.to_owned(), carried: carried.collect() }
    }

    /// Whether it names objects in its namespace: a key, unless that `is_elsewhere`, a service account, a kubeconfig.
    pub fn names_objects(&self, key_is_elsewhere: bool) -> bool {
        self.carried.keys().any(|name| match *name {
            "timeout" | "ignore" => false,
            "decryption" => !key_is_elsewhere,
            _ => true,
        })
    }
}
