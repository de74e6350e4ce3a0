//! `helmCharts`: objects made by a chart.

use std::sync::Arc;

use yaml::{Mapping, Node, Rules, decode, emit, parse_with};

use crate::error::{BuildError, BuildErrorKind};
use crate::fs::{FileError, FileSystem, join};
use crate::kustomization::spec::Chart;
use crate::load::{ChartPull, ChartRenderer, ChartTemplate, Loader};
use crate::merge::strategic;
use crate::object::type_mismatch;
use crate::resource::Resource;
use crate::resource::objects;
use crate::schema::Schema;

const HOME: &str = "charts";

/// The files of a chart: in the tree, or pulled.
struct Found {
    pulled: Option<crate::load::SharedFileSystem>,
    directory: String,
    /// The chart's directory as the kustomization sees it.
    written: String,
}

/// Renders a chart to objects.
pub(crate) fn render(chart: &Chart, loader: &Loader<'_>, schema: &Schema) -> Result<Vec<Resource>, BuildError> {
    let Some(renderer) = loader.outside.charts else {
        let message = format!("the chart `{}` is not rendered: charts are off", chart.name);
        return Err(BuildError::new(BuildErrorKind::Unsupported, message)
            .hint("turn them on (--enable-helm), or render the chart to a file and name that in `resources`"));
    };
    if chart.name.is_empty() || chart.name.contains(['/', '\\']) || chart.name.starts_with(['-', '.']) {
        return Err(BuildError::syntax(format!("`{}` is not a valid name of a chart", chart.name)));
    }
    if !chart.config_home.is_empty() {
        return Err(BuildError::new(
            BuildErrorKind::Unsupported,
            "`configHome` is refused: helm would run plugins from it",
        )
        .hint("leave it out; helm gets an empty configuration of its own"));
    }
    let found = find(chart, loader, renderer)?;
    let values = values(chart, loader, &found, schema)?;
    let additional = chart.additional_values_files.iter();
    let template = ChartTemplate {
        files: found.pulled.as_deref().map_or(&*loader.files as &dyn FileSystem, |files| files as &dyn FileSystem),
        directory: found.directory.clone(),
        name: chart.name.clone(),
        release_name: chart.release_name.clone(),
        namespace: chart.namespace.clone(),
        name_template: chart.name_template.clone(),
        values,
        additional_values: additional.map(|path| loader.read(path)).collect::<Result<_, _>>()?,
        api_versions: chart.api_versions.clone(),
        kube_version: chart.kube_version.clone(),
        include_crds: chart.include_crds,
        skip_tests: chart.skip_tests,
        skip_hooks: chart.skip_hooks,
        debug: chart.debug,
        devel: chart.devel,
    };
    let text = renderer.template(&template).map_err(|error| failed(chart, &error.0))?;
    loader.charge(&text)?;
    let place = format!("chart {}", chart.name);
    let mut objects = match objects::read(&text, &place, &loader.limits) {
        Ok(objects) => objects,
        // Helm may print messages before the first document.
        Err(error) => {
            let documents = after_messages(&text).ok_or_else(|| error.clone())?;
            objects::read(documents, &place, &loader.limits).map_err(|_| error)?
        }
    };
    objects.iter().try_for_each(|object| loader.budget.copy(&object.node))?;
    for object in &mut objects {
        object.begin_state();
        object.from_chart = true;
    }
    Ok(objects)
}

fn failed(chart: &Chart, message: &str) -> BuildError {
    BuildError::new(BuildErrorKind::File, format!("the chart `{}`: {message}", chart.name))
}

fn find(chart: &Chart, loader: &Loader<'_>, renderer: &dyn ChartRenderer) -> Result<Found, BuildError> {
    let home = if chart.home.is_empty() { HOME } else { &chart.home };
    let versioned = !chart.version.is_empty() && !chart.repo.is_empty();
    let home = if versioned { format!("{home}/{}-{}", chart.name, chart.version) } else { home.to_owned() };
    let directory = loader.resolve(&home)?;
    let written = format!("{home}/{}", chart.name);
    let own = join(&directory, &chart.name).ok_or_else(|| failed(chart, "its path leads out of the file tree"))?;
    if loader.files.is_dir(&own) {
        return Ok(Found { pulled: None, directory: own, written });
    }
    if chart.repo.is_empty() {
        let message = format!("it is not at `{own}`, and no `repo` is given to pull it from");
        return Err(failed(chart, &message));
    }
    let pull = ChartPull {
        name: chart.name.clone(),
        repo: chart.repo.clone(),
        version: chart.version.clone(),
        devel: chart.devel,
        directory: (!loader.is_remote()).then_some(directory),
    };
    let pulled = renderer.pull(&pull).map_err(|error| failed(chart, &error.0))?;
    Ok(Found { pulled: Some(pulled), directory: String::new(), written })
}

/// The values file, with the inline values merged in as asked.
fn values(chart: &Chart, loader: &Loader<'_>, found: &Found, schema: &Schema) -> Result<Vec<u8>, BuildError> {
    let inline = chart.values_inline.clone().map(|values| {
        let mut values = Node::from(values);
        values.forget_writing();
        values
    });
    let file = || values_file(chart, loader, found);
    let merged = match (inline, chart.values_merge.as_str()) {
        (_, other) if !matches!(other, "" | "merge" | "override" | "replace") => {
            return Err(
                BuildError::syntax(format!("`valuesMerge` is `{other}`")).hint("one of merge, override, replace")
            );
        }
        (None, _) => return Ok(file()?.to_vec()),
        (Some(inline), "replace") => Some(inline),
        (Some(inline), order) => {
            let content = file()?;
            let name = values_file_name(chart, loader, found)?;
            let text = decode(&content).map_err(|error| BuildError::from_yaml(error, &name))?;
            let documents = parse_with(&text, &loader.limits, Rules::Values)
                .map_err(|error| BuildError::from_yaml(error, &name))?;
            // kustomize merges with a document, which `---` is, and a file of comments alone is not.
            if text.lines().all(|line| matches!(line.trim_start().chars().next(), None | Some('#'))) {
                let message = "its values file is empty, and the inline values cannot be merged with it";
                return Err(failed(chart, message).hint("write `{}` into the file, or set `valuesMerge: replace`"));
            }
            let of_file = documents.into_iter().next().map(|document| document.root);
            let merged = match (of_file, order) {
                // A document that is null clears what it is merged into.
                (None, "merge") => None,
                (None, _) => Some(inline),
                (Some(of_file), "merge") => merge_values(inline, of_file, schema)?,
                (Some(of_file), _) => merge_values(of_file, inline, schema)?,
            };
            merged.as_ref().map_or(Ok(()), refuse_unfit).map_err(|error| error.in_file(&name))?;
            merged
        }
    };
    Ok(emit(&merged.unwrap_or_else(|| Mapping::new().into())).into_bytes())
}

fn merge_values(mut below: Node, above: Node, schema: &Schema) -> Result<Option<Node>, BuildError> {
    // kustomize takes the values themselves out of what is merged: a number in the place of a quoted text is one.
    below.forget_quotes();
    strategic::merge(below, above, schema, &mut 0)
}

/// Refuses values that no map can hold. Keys of the first level may be numbers and booleans.
fn refuse_unfit(values: &Node) -> Result<(), BuildError> {
    type_mismatch::refuse_repeated_keys(values)?;
    match values.as_mapping() {
        Some(mapping) => mapping.iter().try_for_each(|entry| type_mismatch::refuse(&entry.value)),
        None => type_mismatch::refuse(values),
    }
}

fn values_file_name(chart: &Chart, loader: &Loader<'_>, found: &Found) -> Result<String, BuildError> {
    match (&found.pulled, chart.values_file.is_empty()) {
        (_, false) => loader.resolve(&chart.values_file),
        (None, true) => loader.resolve(&format!("{}/values.yaml", found.written)),
        (Some(_), true) => Ok(format!("{}/values.yaml", chart.name)),
    }
}

fn values_file(chart: &Chart, loader: &Loader<'_>, found: &Found) -> Result<Arc<[u8]>, BuildError> {
    if !chart.values_file.is_empty() {
        return loader.read(&chart.values_file);
    }
    let Some(files) = &found.pulled else {
        return loader.read(&format!("{}/values.yaml", found.written));
    };
    let content = files
        .read("values.yaml")
        .map_err(|error: FileError| failed(chart, &format!("its values.yaml cannot be read: {error}")))?;
    loader.charge(&content)?;
    Ok(content)
}

fn after_messages(text: &[u8]) -> Option<&[u8]> {
    let at = text.windows(5).position(|window| window == b"\n---\n")?;
    text.get(at + 1..)
}
