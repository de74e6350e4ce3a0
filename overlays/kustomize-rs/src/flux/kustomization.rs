//! Flux's `Kustomization` object, as far as a build goes.

use std::collections::BTreeMap;
use std::fmt;

use yaml::Node;

use crate::error::BuildError;
use crate::kustomization::fields::Fields;

/// A `Kustomization` of `kustomize.toolkit.fluxcd.io/v1`: the fields that decide what is built. Empty texts and lists
/// mean that the field is not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kustomization {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `spec.path`: the directory in the source; `..` above the source's root stays at the root.
    pub path: String,
    /// `spec.targetNamespace`.
    pub target_namespace: String,
    /// `spec.namePrefix`.
    pub name_prefix: String,
    /// `spec.nameSuffix`.
    pub name_suffix: String,
    /// `spec.patches`.
    pub patches: Vec<Patch>,
    /// `spec.images`.
    pub images: Vec<Image>,
    /// `spec.components`: directories relative to `path`.
    pub components: Vec<String>,
    /// `spec.ignoreMissingComponents`: components that are not there are left out.
    pub ignore_missing_components: bool,
    /// `spec.buildMetadata`: `originAnnotations`, `transformerAnnotations`.
    pub build_metadata: Vec<String>,
    /// `spec.commonMetadata`.
    pub common_metadata: Option<CommonMetadata>,
    /// `spec.postBuild`; without it nothing is substituted.
    pub post_build: Option<PostBuild>,
    /// There is a `spec.decryption`: the controller decrypts objects, this crate does not.
    pub decrypts: bool,
}

/// Labels and annotations set on every object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommonMetadata {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

/// A patch of either kind, written inline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// A strategic merge patch or a JSON 6902 patch.
    pub patch: String,
    /// Which objects it is for; without it a strategic merge patch names its object itself.
    pub target: Option<Target>,
}

/// Which objects a [`Patch`] is for; empty texts fit every object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// API group, a regular expression like all but the selectors.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Selector over annotations.
    pub annotation_selector: String,
    /// Selector over labels.
    pub label_selector: String,
}

/// Another name, tag or digest for an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// The image without its tag.
    pub name: String,
    /// New name.
    pub new_name: String,
    /// The tag.
    pub new_tag: String,
    /// The digest.
    pub digest: String,
}

/// Substitution of variables in what was built.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PostBuild {
    /// When to substitute at all.
    pub substitute_strategy: SubstituteStrategy,
    /// Values by name; they win over `substitute_from`.
    pub substitute: BTreeMap<String, String>,
    /// Objects with more values; later ones win.
    pub substitute_from: Vec<SubstituteReference>,
}

/// When to substitute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SubstituteStrategy {
    /// Only if there is a variable.
    #[default]
    WithVariables,
    /// Also without any, for the sake of defaults.
    Always,
}

/// Kind of an object with values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// The values are its `data`.
    ConfigMap,
    /// The values are its decoded `data`.
    Secret,
}

impl fmt::Display for SourceKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        })
    }
}

/// Names an object with values, in the namespace of the `Kustomization`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubstituteReference {
    /// ConfigMap or Secret.
    pub kind: SourceKind,
    /// Its name.
    pub name: String,
    /// It need not be there.
    pub optional: bool,
}

/// The API that is understood.
const API_VERSION: &str = "kustomize.toolkit.fluxcd.io/v1";

/// Fields of `spec` that do not change what is built.
const OTHER_FIELDS: [&str; 16] = [
    "decryption",
    "deletionPolicy",
    "dependsOn",
    "force",
    "healthCheckExprs",
    "healthChecks",
    "ignore",
    "interval",
    "kubeConfig",
    "prune",
    "retryInterval",
    "serviceAccountName",
    "sourceRef",
    "suspend",
    "timeout",
    "wait",
];

impl Kustomization {
    /// Reads an object; `file` is where it stands, for errors.
    ///
    /// # Errors
    /// Another kind or version, an unknown field, a value of the wrong type or none of the allowed ones, with its place.
    pub fn from_node(node: &Node, file: &str) -> Result<Self, BuildError> {
        Self::read(node).map_err(|error| error.in_file(file))
    }

    fn read(node: &Node) -> Result<Self, BuildError> {
        let fields = Fields::new(node, "", true)?;
        expect(&fields, "apiVersion", &[API_VERSION])?;
        expect(&fields, "kind", &["Kustomization"])?;
        fields.get("status");
        let mut result = fields.object("spec", Self::read_spec)?.unwrap_or_default();
        let text = |field| node.at(&["metadata", field]).and_then(Node::as_str).unwrap_or_default().to_owned();
        (result.name, result.namespace) = (text("name"), text("namespace"));
        fields.get("metadata");
        fields.finish()?;
        Ok(result)
    }

    fn read_spec(spec: &Fields<'_>) -> Result<Self, BuildError> {
        for field in OTHER_FIELDS {
            spec.get(field);
        }
        let common_metadata = spec.object("commonMetadata", |metadata| {
            let pairs = |field| Ok::<_, BuildError>(metadata.map(field)?.into_iter().collect());
            Ok(CommonMetadata { labels: pairs("labels")?, annotations: pairs("annotations")? })
        })?;
        let build_metadata = spec.list("buildMetadata", |item, place| {
            one_of(item, place, &["originAnnotations", "transformerAnnotations"]).map(str::to_owned)
        })?;
        Ok(Self {
            path: spec.text("path")?,
            target_namespace: spec.text("targetNamespace")?,
            name_prefix: spec.text("namePrefix")?,
            name_suffix: spec.text("nameSuffix")?,
            patches: spec.objects("patches", patch)?,
            images: spec.objects("images", image)?,
            components: spec.texts("components")?,
            ignore_missing_components: spec.flag("ignoreMissingComponents")?,
            build_metadata,
            common_metadata,
            post_build: spec.object("postBuild", post_build)?,
            decrypts: spec.get("decryption").is_some(),
            ..Self::default()
        })
    }
}

fn wrong(message: String, node: &Node) -> BuildError {
    let mut error = BuildError::syntax(message);
    (error.line, error.column) = (node.span.line(), node.span.column());
    error
}

fn one_of<'n>(node: &'n Node, place: &str, allowed: &[&str]) -> Result<&'n str, BuildError> {
    match node.as_str() {
        Some(text) if allowed.contains(&text) => Ok(text),
        _ => {
            let found = node.scalar_text().unwrap_or_else(|| "a list or a map".into());
            Err(wrong(format!("`{place}` is `{found}`, it should be {}", allowed.join(" or ")), node))
        }
    }
}

fn expect(fields: &Fields<'_>, name: &'static str, allowed: &[&str]) -> Result<(), BuildError> {
    match fields.get(name) {
        Some(node) => one_of(node, name, allowed).map(|_| ()),
        None => Err(BuildError::syntax(format!("`{name}` is missing, it should be {}", allowed.join(" or ")))),
    }
}

fn patch(fields: &Fields<'_>) -> Result<Patch, BuildError> {
    let target = fields.object("target", |target| {
        Ok(Target {
            group: target.text("group")?,
            version: target.text("version")?,
            kind: target.text("kind")?,
            name: target.text("name")?,
            namespace: target.text("namespace")?,
            annotation_selector: target.text("annotationSelector")?,
            label_selector: target.text("labelSelector")?,
        })
    })?;
    Ok(Patch { patch: fields.text("patch")?, target })
}

fn image(fields: &Fields<'_>) -> Result<Image, BuildError> {
    Ok(Image {
        name: fields.text("name")?,
        new_name: fields.text("newName")?,
        new_tag: fields.text("newTag")?,
        digest: fields.text("digest")?,
    })
}

fn post_build(fields: &Fields<'_>) -> Result<PostBuild, BuildError> {
    let strategy = match fields.get("substituteStrategy") {
        None => "WithVariables",
        Some(node) => one_of(node, "spec.postBuild.substituteStrategy", &["WithVariables", "Always"])?,
    };
    Ok(PostBuild {
        substitute_strategy: match strategy {
            "Always" => SubstituteStrategy::Always,
            _ => SubstituteStrategy::WithVariables,
        },
        substitute: fields.map("substitute")?.into_iter().collect(),
        substitute_from: fields.objects("substituteFrom", reference)?,
    })
}

fn reference(fields: &Fields<'_>) -> Result<SubstituteReference, BuildError> {
    expect(fields, "kind", &["ConfigMap", "Secret"])?;
    let kind = if fields.text("kind")? == "Secret" { SourceKind::Secret } else { SourceKind::ConfigMap };
    Ok(SubstituteReference { kind, name: fields.text("name")?, optional: fields.flag("optional")? })
}
