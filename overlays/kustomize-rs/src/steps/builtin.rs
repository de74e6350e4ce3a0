//! Transformers and generators that are configured as objects: `apiVersion: builtin`.

use std::sync::Arc;

use yaml::{Mapping, Node};

use crate::error::{BuildError, BuildErrorKind};
use crate::generate::Kind;
use crate::id::Gvk;
use crate::kustomization::Kustomization;
use crate::kustomization::fields::Fields;
use crate::kustomization::spec::{self, Chart, Generator, Image, PatchEntry, ReplacementEntry, chart};
use crate::resource::Resource;
use crate::schema::{Configuration, FieldSpec, merge_specs};
use crate::transform::names::End;
use crate::transform::namespace::{NamespaceTransformer, Subjects};
use crate::transform::value_add::ValueAddTarget;

/// One step of a build, before its files are read.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Namespace(NamespaceTransformer),
    Name(End, String, Arc<Vec<FieldSpec>>),
    Labels(Vec<(String, String)>, Arc<Vec<FieldSpec>>),
    Annotations(Vec<(String, String)>, Arc<Vec<FieldSpec>>),
    Patch(PatchEntry),
    StrategicMerge { paths: Vec<String>, patches: String },
    JsonPatch(PatchEntry),
    Replicas(String, i64, Arc<Vec<FieldSpec>>),
    Images(Vec<Image>, Arc<Vec<FieldSpec>>),
    Replacements(Vec<ReplacementEntry>),
    ValueAdd { value: String, targets: Vec<ValueAddTarget>, file: String },
    Hash,
}

/// A generator, before its files are read.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Data(Kind, Box<Generator>),
    Object(Box<Resource>),
    Chart(Box<Chart>),
}

fn unsupported(resource: &Resource) -> BuildError {
    let gvk = resource.gvk();
    let message = format!(
        "{} `{}` is not a builtin plugin; exec, container and Go plugins are not run",
        gvk.kind,
        resource.name()
    );
    BuildError::new(BuildErrorKind::Unsupported, message).at(&resource.origin.file, resource.node.span)
}

fn is_builtin(resource: &Resource) -> bool {
    resource.node.get("apiVersion").and_then(Node::as_str) == Some("builtin")
}

/// Reads the configuration of a transformer.
pub(crate) fn step(resource: &Resource) -> Result<Vec<Step>, BuildError> {
    if !is_builtin(resource) {
        return Err(unsupported(resource));
    }
    let read = || -> Result<Option<Vec<Step>>, BuildError> {
        let fields = Fields::new(&resource.node, "", false)?;
        if resource.kind() == "PrefixSuffixTransformer" {
            let both = [read_step("PrefixTransformer", &fields)?, read_step("SuffixTransformer", &fields)?];
            return Ok(Some(both.into_iter().flatten().collect()));
        }
        Ok(read_step(&resource.kind(), &fields)?.map(|step| vec![step]))
    };
    match read() {
        Ok(Some(steps)) => Ok(steps),
        Ok(None) => Err(unsupported(resource)),
        Err(error) => Err(error.in_file(&resource.origin.file)),
    }
}

fn read_step(kind: &str, fields: &Fields<'_>) -> Result<Option<Step>, BuildError> {
    let specs = || fields.objects("fieldSpecs", spec::field_spec).map(Arc::new);
    Ok(Some(match kind {
        "NamespaceTransformer" => {
            let namespace = fields.object("metadata", |metadata| metadata.text("namespace"))?.unwrap_or_default();
            let subjects = match fields.text("setRoleBindingSubjects")?.as_str() {
                "" | "defaultOnly" => Subjects::DefaultOnly,
                "allServiceAccounts" => Subjects::AllServiceAccounts,
                "none" => Subjects::None,
                other => {
                    let message = format!("`setRoleBindingSubjects` is `{other}`");
                    return Err(BuildError::syntax(message).hint("one of defaultOnly, allServiceAccounts, none"));
                }
            };
            let unset_only = fields.flag("unsetOnly")?;
            Step::Namespace(NamespaceTransformer { namespace, fields: specs()?, unset_only, subjects })
        }
        "PrefixTransformer" | "SuffixTransformer" => {
            let (end, name) =
                if kind == "PrefixTransformer" { (End::Prefix, "prefix") } else { (End::Suffix, "suffix") };
            if fields.get("fieldSpecs").is_none() {
                return Err(BuildError::syntax(format!("a {kind} has no `fieldSpecs`")));
            }
            Step::Name(end, fields.text(name)?, specs()?)
        }
        "LabelTransformer" => Step::Labels(fields.map("labels")?, specs()?),
        "AnnotationsTransformer" => Step::Annotations(fields.map("annotations")?, specs()?),
        "PatchTransformer" => Step::Patch(spec::patch_entry(fields)?),
        "PatchStrategicMergeTransformer" => {
            Step::StrategicMerge { paths: fields.texts("paths")?, patches: fields.text("patches")? }
        }
        "PatchJson6902Transformer" => {
            let mut entry = spec::patch_entry(fields)?;
            entry.patch = fields.text("jsonOp")?;
            Step::JsonPatch(entry)
        }
        "ReplicaCountTransformer" => {
            let replica = fields.object("replica", |replica| Ok((replica.text("name")?, replica.number("count")?)))?;
            let (name, count) = replica.unwrap_or_default();
            Step::Replicas(name, count, specs()?)
        }
        "ImageTagTransformer" => {
            Step::Images(vec![fields.object("imageTag", spec::image)?.unwrap_or_default()], specs()?)
        }
        "ReplacementTransformer" => Step::Replacements(fields.objects("replacements", spec::replacement_entry)?),
        "ValueAddTransformer" => Step::ValueAdd {
            value: fields.text("value")?,
            targets: value_add_targets(fields)?,
            file: fields.text("targetFilePath")?,
        },
        "HashTransformer" => Step::Hash,
        _ => return Ok(None),
    }))
}

/// Reads the `targets` of a `ValueAddTransformer`.
pub(crate) fn value_add_targets(fields: &Fields<'_>) -> Result<Vec<ValueAddTarget>, BuildError> {
    fields.objects("targets", |target| {
        let field_path = target.text("fieldPath")?;
        let file_path_position = target.number("filePathPosition")?;
        if field_path.is_empty() {
            return Err(BuildError::syntax("a target has no `fieldPath`"));
        }
        if file_path_position < 0 {
            return Err(BuildError::syntax("`filePathPosition` is negative"));
        }
        let selector = target.object("selector", spec::selector)?.unwrap_or_default();
        Ok(ValueAddTarget { selector, field_path, file_path_position })
    })
}

/// Reads the configuration of a generator.
pub(crate) fn source(resource: &Resource) -> Result<Source, BuildError> {
    if !is_builtin(resource) {
        return Err(unsupported(resource));
    }
    let read = || -> Result<Option<Source>, BuildError> {
        let fields = Fields::new(&resource.node, "", false)?;
        Ok(match resource.kind().as_str() {
            "ConfigMapGenerator" => Some(Source::Data(
                Kind::ConfigMap,
                Box::new(data_generator(&fields, resource, spec::config_map_generator)?),
            )),
            "SecretGenerator" => {
                Some(Source::Data(Kind::Secret, Box::new(data_generator(&fields, resource, spec::secret_generator)?)))
            }
            "HelmChartInflationGenerator" => {
                let mut chart = chart::chart(&fields)?;
                (chart.home, chart.config_home) = chart::globals(&fields)?;
                Some(Source::Chart(Box::new(chart)))
            }
            "IAMPolicyGenerator" => Some(Source::Object(Box::new(iam_policy(&fields)?))),
            _ => None,
        })
    };
    match read() {
        Ok(Some(source)) => Ok(source),
        Ok(None) => Err(unsupported(resource)),
        Err(error) => Err(BuildError::in_file(error, &resource.origin.file)),
    }
}

fn data_generator<'n>(
    fields: &Fields<'n>,
    resource: &Resource,
    read: impl Fn(&Fields<'n>) -> Result<Generator, BuildError>,
) -> Result<Generator, BuildError> {
    let mut generator = read(fields)?;
    // The single `env` is a field of kustomizations only.
    if fields.get("env").is_some() {
        generator.envs.pop();
    }
    if generator.name.is_empty() {
        generator.name = resource.name().into();
    }
    if generator.namespace.is_empty() {
        generator.namespace = resource.namespace().into();
    }
    Ok(generator)
}

fn iam_policy(fields: &Fields<'_>) -> Result<Resource, BuildError> {
    let cloud = fields.text("cloud")?;
    if cloud != "gke" {
        return Err(BuildError::syntax(format!("the cloud `{cloud}` of an IAMPolicyGenerator is not gke")));
    }
    let service =
        fields.object("kubernetesService", |service| Ok((service.text("namespace")?, service.text("name")?)))?;
    let account = fields.object("serviceAccount", |account| Ok((account.text("name")?, account.text("projectId")?)))?;
    let ((namespace, name), (account, project)) = (service.unwrap_or_default(), account.unwrap_or_default());
    let email = format!("{account}@{project}.iam.gserviceaccount.com");
    // kustomize writes the object as text, without quotes.
    if email.starts_with('@') {
        let error = BuildError::syntax("an IAMPolicyGenerator needs the `name` of its `serviceAccount`");
        return Err(error);
    }
    let mut annotations = Mapping::new();
    annotations.insert("iam.gke.io/gcp-service-account", email);
    let mut metadata = Mapping::new();
    metadata.insert("annotations", annotations);
    metadata.insert("name", name);
    if !namespace.is_empty() {
        metadata.insert("namespace", namespace);
    }
    let mut object = Mapping::new();
    object.insert("apiVersion", "v1");
    object.insert("kind", "ServiceAccount");
    object.insert("metadata", metadata);
    Ok(Resource::new(object.into()))
}

/// The fields of a kustomization as steps, in their fixed order, with the names of kustomize's plugins. Images are one
/// step, unless each plugin is noted `apart`.
pub(crate) fn own_steps(
    kustomization: &Kustomization,
    configuration: &Configuration,
    apart: bool,
) -> Result<Vec<(Step, &'static str)>, BuildError> {
    let mut steps: Vec<(Step, &'static str)> = Vec::new();
    if !kustomization.patches_strategic_merge.is_empty() {
        let paths = kustomization.patches_strategic_merge.clone();
        steps.push((Step::StrategicMerge { paths, patches: String::new() }, "PatchStrategicMergeTransformer"));
    }
    let patch = |entry: &PatchEntry| (Step::Patch(entry.clone()), "PatchTransformer");
    steps.extend(kustomization.patches.iter().map(patch));
    if !kustomization.namespace.is_empty() {
        let transformer = NamespaceTransformer {
            namespace: kustomization.namespace.clone(),
            fields: configuration.namespace.clone(),
            ..NamespaceTransformer::default()
        };
        steps.push((Step::Namespace(transformer), "NamespaceTransformer"));
    }
    if !kustomization.name_prefix.is_empty() {
        let fields = configuration.name_prefix.clone();
        steps.push((Step::Name(End::Prefix, kustomization.name_prefix.clone(), fields), "PrefixTransformer"));
    }
    if !kustomization.name_suffix.is_empty() {
        let fields = configuration.name_suffix.clone();
        steps.push((Step::Name(End::Suffix, kustomization.name_suffix.clone(), fields), "SuffixTransformer"));
    }
    if !kustomization.labels.is_empty() || !kustomization.common_labels.is_empty() {
        for entry in &kustomization.labels {
            let mut fields = entry.fields.clone();
            merge_specs(&mut fields, &configuration.labels)?;
            if entry.include_selectors {
                merge_specs(&mut fields, &configuration.common_labels)?;
            } else {
                if entry.include_templates {
                    merge_specs(&mut fields, &configuration.template_labels)?;
                }
                let own = FieldSpec::new(Gvk::default(), "metadata/labels", true);
                merge_specs(&mut fields, &[own])?;
            }
            steps.push((Step::Labels(entry.pairs.clone(), fields.into()), "LabelTransformer"));
        }
        let fields = configuration.common_labels.clone();
        steps.push((Step::Labels(kustomization.common_labels.clone(), fields), "LabelTransformer"));
    }
    if !kustomization.common_annotations.is_empty() {
        let fields = configuration.common_annotations.clone();
        steps.push((Step::Annotations(kustomization.common_annotations.clone(), fields), "AnnotationsTransformer"));
    }
    let json = |entry: &PatchEntry| (Step::JsonPatch(entry.clone()), "PatchJson6902Transformer");
    steps.extend(kustomization.patches_json.iter().map(json));
    for (name, count) in &kustomization.replicas {
        let fields = configuration.replicas.clone();
        steps.push((Step::Replicas(name.clone(), *count, fields), "ReplicaCountTransformer"));
    }
    for images in kustomization.images.chunks(if apart { 1 } else { usize::MAX }) {
        steps.push((Step::Images(images.to_vec(), configuration.images.clone()), "ImageTagTransformer"));
    }
    if !kustomization.replacements.is_empty() {
        steps.push((Step::Replacements(kustomization.replacements.clone()), "ReplacementTransformer"));
    }
    Ok(steps)
}
