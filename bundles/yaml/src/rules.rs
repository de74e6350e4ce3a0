//! The dialects of the reader.

/// Whose reading rules decide what a plain scalar means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rules {
    /// go-yaml v3: `yes` is text. Kubernetes objects are read so.
    #[default]
    V3,
    /// As `V3`, and as kustomize takes it in: an empty value inside of `{}` is the empty text, a quoted `<<` is no key,
    /// and a repeated key is no error yet; the first value counts.
    Manifest,
    /// As `Manifest`, of a chart's values: a key that is a number or a time is not text either.
    Values,
    /// go-yaml v2, which kustomize reads kustomization files with: `yes`, `no`, `on`, `off`, `y`, `n` are booleans, in
    /// keys too, and every scalar key becomes text.
    V2,
    /// As `V2`, of a text that is JSON, which Go's other reader takes: `\/` is a slash.
    Json,
    /// go-yaml v3, but a key may be repeated with an equal value, as published Bundles of 2021 do. Kubernetes takes
    /// the last one; here a repeated key with another value stays an error.
    V3RepeatedKeys,
}

impl Rules {
    /// Whether this is how kustomize takes in what it renders.
    pub(crate) fn is_of_manifests(self) -> bool {
        matches!(self, Self::Manifest | Self::Values)
    }
}
