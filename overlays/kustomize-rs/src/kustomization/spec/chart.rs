//! Entries of `helmCharts`, and `helmGlobals`.

use yaml::{Mapping, Span, Value};

use crate::error::BuildError;
use crate::kustomization::fields::Fields;

/// One entry of `helmCharts`, with what `helmGlobals` says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chart {
    pub(crate) home: String,
    pub(crate) config_home: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) repo: String,
    pub(crate) release_name: String,
    pub(crate) namespace: String,
    pub(crate) name_template: String,
    pub(crate) values_file: String,
    pub(crate) additional_values_files: Vec<String>,
    pub(crate) values_inline: Option<Mapping>,
    pub(crate) values_merge: String,
    pub(crate) api_versions: Vec<String>,
    pub(crate) kube_version: String,
    pub(crate) include_crds: bool,
    pub(crate) skip_tests: bool,
    pub(crate) skip_hooks: bool,
    pub(crate) debug: bool,
    pub(crate) devel: bool,
    pub(crate) span: Span,
}

/// Reads one entry of `helmCharts`.
pub(crate) fn chart(fields: &Fields<'_>) -> Result<Chart, BuildError> {
    Ok(Chart {
        name: fields.text("name")?,
        version: fields.text("version")?,
        repo: fields.text("repo")?,
        release_name: fields.text("releaseName")?,
        namespace: fields.text("namespace")?,
        name_template: fields.text("nameTemplate")?,
        values_file: fields.text("valuesFile")?,
        additional_values_files: fields.texts("additionalValuesFiles")?,
        values_inline: inline(fields, "valuesInline")?,
        values_merge: fields.text("valuesMerge")?,
        api_versions: fields.texts("apiVersions")?,
        kube_version: fields.text("kubeVersion")?,
        include_crds: fields.flag("includeCRDs")?,
        skip_tests: fields.flag("skipTests")?,
        skip_hooks: fields.flag("skipHooks")?,
        debug: fields.flag("debug")?,
        devel: fields.flag("devel")?,
        span: fields.span(),
        ..Chart::default()
    })
}

/// Reads one entry of `helmChartInflationGenerator`, the deprecated form.
pub(crate) fn old_chart(fields: &Fields<'_>) -> Result<Chart, BuildError> {
    for unused in ["chartRepoName", "helmBin", "releaseNamespace"] {
        fields.text(unused)?;
    }
    fields.texts("extraArgs")?;
    Ok(Chart {
        home: fields.text("chartHome")?,
        config_home: fields.text("helmHome")?,
        name: fields.text("chartName")?,
        version: fields.text("chartVersion")?,
        repo: fields.text("chartRepoUrl")?,
        release_name: fields.text("releaseName")?,
        values_file: fields.text("values")?,
        values_inline: inline(fields, "valuesLocal")?,
        values_merge: fields.text("valuesMerge")?,
        span: fields.span(),
        ..Chart::default()
    })
}

fn inline(fields: &Fields<'_>, name: &'static str) -> Result<Option<Mapping>, BuildError> {
    match fields.get(name).map(|node| &node.value) {
        None => Ok(None),
        Some(Value::Mapping(mapping)) => Ok(Some(mapping.clone()).filter(|mapping| !mapping.is_empty())),
        Some(_) => Err(BuildError::syntax(format!("`{name}` must be a map"))),
    }
}

/// The home and configuration that all charts of a kustomization share.
pub(crate) fn globals(fields: &Fields<'_>) -> Result<(String, String), BuildError> {
    Ok((fields.text("chartHome")?, fields.text("configHome")?))
}
