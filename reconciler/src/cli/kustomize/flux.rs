//! `stepgate kustomize build --flux`: what Flux's kustomize-controller applies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use kustomize_rs::flux::{self, Kustomization, Missing, SourceKind, Sources, SubstituteStrategy};
use kustomize_rs::{FileSystem as _, Resources};
use yaml::{Limits, Node};

use super::tree::Tree;
use crate::cli::CommandError;
use crate::cli::common::output;

/// How Flux builds.
#[derive(Debug, Args)]
pub struct FluxArguments {
    /// Build what Flux's kustomize-controller applies: objects in the order of the input, a kustomization.yaml made where
    /// there is none, `${…}` replaced as `spec.postBuild` of the Flux Kustomization says. Nothing is decrypted.
    #[arg(long, conflicts_with_all = ["reorder", "load_restrictor", "enable_managedby_label", "enable_helm", "enable_remote"])]
    pub flux: bool,
    /// The file of the Flux Kustomization to build. Without DIR, its `spec.path` in the tree around the file.
    #[arg(long, requires = "flux", value_name = "FILE")]
    kustomization_file: Option<PathBuf>,
    /// A value for `${NAME}`, as in `spec.postBuild.substitute`. May be given several times.
    #[arg(long, requires = "flux", value_name = "NAME=VALUE")]
    substitute: Vec<String>,
    /// A file of the ConfigMaps and Secrets that `spec.postBuild.substituteFrom` names. May be given several times.
    #[arg(long, requires = "flux", value_name = "FILE")]
    substitute_from: Vec<PathBuf>,
    /// Refuse a variable without value and default, as the controller's feature gate `StrictPostBuildSubstitutions`
    /// does. Off, nothing is put in its place.
    #[arg(long, requires = "flux")]
    strict_substitute: bool,
}

/// Builds `directory`, or the path of the Kustomization where none is given.
pub fn build(
    arguments: &FluxArguments,
    directory: Option<&Path>,
    root: Option<&Path>,
    options: kustomize_rs::Options,
    unlimited: bool,
) -> Result<Resources, CommandError> {
    let given = arguments.kustomization_file.as_deref();
    let mut object = given.map(kustomization).transpose()?.unwrap_or_default();
    let around = match (directory, given.map(Path::parent)) {
        (Some(directory), _) => directory,
        (None, Some(Some(folder))) if !folder.as_os_str().is_empty() => folder,
        (None, _) => Path::new("."),
    };
    let mut tree = Tree::open(around, root)?;
    if directory.is_some() || given.is_none() {
        object.path = std::mem::take(&mut tree.target);
    }
    if unlimited {
        tree.files = tree.files.with_largest_file(u64::MAX);
    }
    for pair in &arguments.substitute {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            let error = CommandError::new(format!("--substitute `{pair}` is not a valid NAME=VALUE"));
            error.hint("write --substitute region=eu")
        })?;
        object.post_build.get_or_insert_default().substitute.insert(name.to_owned(), value.to_owned());
    }
    let mut sources = Sources::default();
    for file in &arguments.substitute_from {
        read_sources(file, &object.namespace, &mut sources)?;
    }
    if tree.files.read(".sourceignore").is_ok() {
        output::note(".sourceignore is not read here: Flux leaves out of the source what it names");
    }
    if arguments.strict_substitute && !substitutes(&object) {
        output::note(
            "--strict-substitute checks nothing: Flux replaces variables where spec.postBuild gives at least one, \
             or substituteStrategy is Always",
        );
    }
    let missing = if arguments.strict_substitute { Missing::IsAnError } else { Missing::IsEmpty };
    let options = flux::Options { build: options, missing, sources };
    flux::build(&tree.files, &object, &options).map_err(|error| {
        let is_unknown = error.message.contains("spec.postBuild.substituteFrom");
        let error = tree.error(error);
        if is_unknown { error.hint("give the file that holds it: --substitute-from FILE") } else { error }
    })
}

fn substitutes(object: &Kustomization) -> bool {
    object.post_build.as_ref().is_some_and(|post_build| {
        let has_values = !post_build.substitute.is_empty() || !post_build.substitute_from.is_empty();
        has_values || post_build.substitute_strategy == SubstituteStrategy::Always
    })
}

/// The documents of a file.
fn documents(file: &Path) -> Result<Vec<Node>, CommandError> {
    let describe = || format!("cannot read {}", file.display());
    let bytes = std::fs::read(file).map_err(|error| {
        CommandError::from(error).context(describe()).hint("give the path of a file with YAML objects")
    })?;
    let text = yaml::decode(&bytes).map_err(|error| CommandError::from(error).context(describe()))?;
    let documents = yaml::parse(&text, &Limits::default());
    let documents = documents.map_err(|error| CommandError::from(error).context(describe()))?;
    Ok(documents.into_iter().map(|document| document.root).collect())
}

fn text<'n>(node: &'n Node, path: &[&str]) -> &'n str {
    node.at(path).and_then(Node::as_str).unwrap_or_default()
}

/// The one Flux Kustomization of a file.
fn kustomization(file: &Path) -> Result<Kustomization, CommandError> {
    let is_one = |node: &Node| {
        text(node, &["kind"]) == "Kustomization"
            && text(node, &["apiVersion"]).starts_with("kustomize.toolkit.fluxcd.io/")
    };
    let found: Vec<Node> = documents(file)?.into_iter().filter(is_one).collect();
    let [node] = found.as_slice() else {
        let message = format!("{} holds {} Kustomizations of Flux, not one", file.display(), found.len());
        let hint = "give a file with one `kind: Kustomization` of kustomize.toolkit.fluxcd.io/v1";
        return Err(CommandError::new(message).hint(hint));
    };
    Kustomization::from_node(node, &file.display().to_string()).map_err(|mut error| {
        let hint = error.hint.take();
        let error = CommandError::new(error.to_string());
        hint.into_iter().fold(error, CommandError::hint)
    })
}

/// Adds the ConfigMaps and Secrets of a file that are in `namespace`; either may be silent about it.
fn read_sources(file: &Path, namespace: &str, sources: &mut Sources) -> Result<(), CommandError> {
    let mut count = 0;
    for node in documents(file)? {
        let kind = match (text(&node, &["apiVersion"]), text(&node, &["kind"])) {
            ("v1", "ConfigMap") => SourceKind::ConfigMap,
            ("v1", "Secret") => SourceKind::Secret,
            _ => continue,
        };
        count += 1;
        let (name, own) = (text(&node, &["metadata", "name"]), text(&node, &["metadata", "namespace"]));
        if !namespace.is_empty() && !own.is_empty() && namespace != own {
            continue;
        }
        let values =
            values(&node, kind).map_err(|error| error.context(format!("{}: {kind} {name}", file.display())))?;
        sources.insert(kind, name, values);
    }
    if count == 0 {
        let error = CommandError::new(format!("{} holds no ConfigMap and no Secret", file.display()));
        return Err(error.hint("give the file of the objects that spec.postBuild.substituteFrom names"));
    }
    Ok(())
}

/// The values of an object. Errors name keys alone: values may be secret.
fn values(node: &Node, kind: SourceKind) -> Result<BTreeMap<String, String>, CommandError> {
    if flux::is_encrypted(node) {
        let error = CommandError::new("it is encrypted, and nothing is decrypted here");
        return Err(error.hint("give a copy with the values to build with, outside of the repository"));
    }
    let mut values = BTreeMap::new();
    for (field, is_encoded) in [("data", kind == SourceKind::Secret), ("stringData", false)] {
        for entry in node.get(field).and_then(Node::as_mapping).into_iter().flatten() {
            let wrong = |what: &str| {
                let message = format!("line {}: `{field}.{}` is not {what}", entry.key_span.line(), entry.key);
                CommandError::new(message)
            };
            let value = entry.value.as_str().ok_or_else(|| wrong("a text").hint("put the value in quotes"))?;
            let value = if is_encoded {
                let compact: String = value.split_whitespace().collect();
                let decoded = STANDARD.decode(compact).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                decoded.ok_or_else(|| wrong("valid base64 of a text").hint("encode it, or write it into stringData"))?
            } else {
                value.to_owned()
            };
            values.insert(entry.key.to_string(), value);
        }
    }
    Ok(values)
}
