//! The kinds that a server serves.

/// A kind, and what the server does with its objects beyond keeping them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    /// Such as `cluster.x-k8s.io`; empty for the core group.
    pub group: String,
    /// Such as `v1beta2`.
    pub version: String,
    /// Such as `Machine`.
    pub kind: String,
    /// Such as `machines`.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Where its kind comes from.
    pub origin: Origin,
}

/// Where a kind comes from: its objects are written by other rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Compiled into the server. None of its defaults and none of its validation is imitated.
    BuiltIn {
        /// Whether `metadata.generation` counts the changes of what is asked for.
        counts_generations: bool,
        /// Whether an object may be replaced without `metadata.resourceVersion`.
        replaced_unconditionally: bool,
        /// Whether an object that is not there is created by what would replace it.
        created_by_replacing: bool,
    },
    /// A `CustomResourceDefinition` that keeps whatever is in `spec` and `status`.
    Custom {
        /// Whether `status` is written by its subresource alone.
        status: bool,
    },
}

impl ServedKind {
    /// A kind of the server itself, whose objects live in namespaces.
    #[must_use]
    pub fn built_in(api_version: &str, kind: &str, plural: &str) -> Self {
        let origin =
            Origin::BuiltIn { counts_generations: false, replaced_unconditionally: true, created_by_replacing: false };
        Self::new(api_version, kind, plural, origin)
    }

    /// A kind of a `CustomResourceDefinition` with a status of its own, whose objects live in namespaces.
    #[must_use]
    pub fn custom(api_version: &str, kind: &str, plural: &str) -> Self {
        Self::new(api_version, kind, plural, Origin::Custom { status: true })
    }

    /// The same, whose objects live in no namespace.
    #[must_use]
    pub fn cluster_wide(self) -> Self {
        Self { namespaced: false, ..self }
    }

    /// The same, of this origin.
    #[must_use]
    pub fn of(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    fn new(api_version: &str, kind: &str, plural: &str, origin: Origin) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let [group, version, kind, plural] = [group, version, kind, plural].map(str::to_owned);
        Self { group, version, kind, plural, namespaced: true, origin }
    }

    /// `group/version`, or the version alone in the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// As errors name it: `plural`, or `plural.group`.
    pub(crate) fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    pub(crate) fn counts_generations(&self) -> bool {
        match self.origin {
            Origin::BuiltIn { counts_generations, .. } => counts_generations,
            Origin::Custom { .. } => true,
        }
    }

    pub(crate) fn has_status(&self) -> bool {
        self.origin == Origin::Custom { status: true }
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Custom { .. })
    }

    pub(crate) fn is_created_by_replacing(&self) -> bool {
        matches!(self.origin, Origin::BuiltIn { created_by_replacing: true, .. })
    }

    pub(crate) fn may_be_replaced_unconditionally(&self) -> bool {
        matches!(self.origin, Origin::BuiltIn { replaced_unconditionally: true, .. })
    }
}
