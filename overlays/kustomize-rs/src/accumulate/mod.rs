//! One kustomization after another: resources, generators, components, transformers, in kustomize's order.

mod bases;
mod configuration_file;
mod plugins;
mod resources;

use std::sync::Arc;

use yaml::{Limits, Rules};

use crate::accumulator::Accumulator;
use crate::error::{BuildError, BuildErrorKind};
use crate::fs::join;
use crate::kustomization::{FILE_NAMES, Kustomization};
use crate::load::Loader;
use crate::resource::{Names, Resource};
use crate::schema::{BuiltinSchema, Configuration, Schema, default_configuration};
use crate::transform::variables;

/// The version of Kubernetes whose schema kustomize has built in.
const BUILTIN_VERSION: &str = "v1.21.2";

/// What a whole build shares.
pub(crate) struct Build {
    pub(crate) schema: Arc<Schema>,
    /// The first custom schema stays.
    pub(crate) schema_is_set: bool,
    /// What the built-in schema was needed for before a custom one came.
    pub(crate) builtin: BuiltinSchema,
    pub(crate) warnings: Vec<String>,
    /// The root asks for `buildMetadata`.
    pub(crate) tracks_origins: bool,
    /// What is tracked is printed: the root asks for `originAnnotations` or `transformerAnnotations`.
    pub(crate) shows_origins: bool,
    /// Namespaces of the kustomization at work and of those above it: a chart takes the nearest.
    pub(crate) chart_namespaces: Vec<String>,
    /// How many more objects may be read.
    pub(crate) objects_left: usize,
}

/// Reads the kustomization of a directory.
pub(crate) fn load(loader: &Loader<'_>) -> Result<Arc<Kustomization>, BuildError> {
    let Some((content, path)) = find(loader)? else {
        let place = if loader.root().is_empty() { "." } else { loader.root() };
        let message = format!("no kustomization file in `{place}`");
        return Err(BuildError::new(BuildErrorKind::File, message).hint(format!("add a {}", FILE_NAMES[0])));
    };
    loader.charge(&content)?;
    let parse = || Kustomization::parse(&content, &path, &loader.limits);
    match loader.cache {
        Some(cache) => cache.kustomization(&path, &content, &loader.limits, parse),
        None => parse().map(Arc::new),
    }
}

/// The content of a file and its path.
type Found = (Arc<[u8]>, String);

/// Finds the one kustomization file of a directory.
pub(crate) fn find(loader: &Loader<'_>) -> Result<Option<Found>, BuildError> {
    let mut found = None;
    for name in FILE_NAMES {
        let path = join(loader.root(), name).unwrap_or_default();
        match loader.files.read(&path) {
            Ok(content) => {
                if found.is_some() {
                    let message = format!("more than one kustomization file in `{}`", loader.root());
                    return Err(BuildError::conflict(message).hint(format!("keep one of {}", FILE_NAMES.join(", "))));
                }
                found = Some((content, path));
            }
            Err(crate::fs::FileError::Missing | crate::fs::FileError::NotAFile) => {}
            Err(error) => {
                let message = format!("`{path}` cannot be read: {error}");
                return Err(BuildError::new(BuildErrorKind::File, message));
            }
        }
    }
    Ok(found)
}

impl Build {
    /// Runs one kustomization on top of `accumulator`; `origin` is its directory as the root sees it.
    pub(crate) fn accumulate(
        &mut self,
        loader: &Loader<'_>,
        kustomization: &Kustomization,
        mut accumulator: Accumulator,
        origin: &str,
    ) -> Result<Accumulator, BuildError> {
        let known = self.chart_namespaces.len();
        if !kustomization.namespace.is_empty() {
            self.chart_namespaces.push(kustomization.namespace.clone());
        }
        let result = self.run(loader, kustomization, &mut accumulator, origin);
        self.chart_namespaces.truncate(known);
        result.map_err(|error| error.in_file(&kustomization.file))?;
        Ok(accumulator)
    }

    fn run(
        &mut self,
        loader: &Loader<'_>,
        kustomization: &Kustomization,
        accumulator: &mut Accumulator,
        origin: &str,
    ) -> Result<(), BuildError> {
        self.read_resources(loader, &kustomization.resources, accumulator, origin)?;
        let (configuration, crds) = self.configuration(loader, kustomization)?;
        Configuration::merge_shared(&mut accumulator.configuration, &configuration)?;
        if let Some(crds) = crds {
            Arc::make_mut(&mut accumulator.configuration).merge(&crds)?;
        }
        self.generate(loader, kustomization, accumulator, origin)?;
        for path in &kustomization.components {
            self.directory(loader, path, accumulator, origin, true, &mut Names::default())?;
        }
        self.transform(loader, kustomization, accumulator, origin)?;
        self.validate(loader, kustomization, accumulator, origin)?;
        let Accumulator { resources, variables, .. } = accumulator;
        variables::collect(variables, resources, &kustomization.variables, &self.schema)
    }

    /// The fields of the transformers, and those that `crds` add: what comes first decides, and sorting comes between.
    fn configuration(
        &self,
        loader: &Loader<'_>,
        kustomization: &Kustomization,
    ) -> Result<(Arc<Configuration>, Option<Configuration>), BuildError> {
        let mut configuration = Arc::clone(default_configuration());
        if !kustomization.configurations.is_empty() {
            let mut custom = Configuration::default();
            for path in &kustomization.configurations {
                let content = loader.read(path)?;
                custom.merge(&configuration_file::read(&content, &loader.display(path), &loader.limits)?)?;
            }
            Arc::make_mut(&mut configuration).merge(&custom)?;
        }
        let mut crds: Option<Configuration> = None;
        for path in &kustomization.crds {
            let content = loader.read(path)?;
            let more = configuration_file::read_crds(&content, &loader.display(path), &loader.limits)?;
            crds.get_or_insert_default().merge(&more)?;
        }
        Ok((configuration, crds))
    }

    /// kustomize looks in its own schema for the scope of a kind that is in none of its tables.
    fn look_up_scope(&mut self, object: &Resource) {
        if self.builtin == BuiltinSchema::Unread && !self.schema.knows_scope(&object.node.name().gvk) {
            self.builtin = BuiltinSchema::Postponed;
        }
    }

    /// Takes the schema of a kustomization, unless there is one.
    pub(crate) fn use_schema(&mut self, loader: &Loader<'_>, kustomization: &Kustomization) -> Result<(), BuildError> {
        self.choose_schema(loader, kustomization).map_err(|error| error.in_file(&kustomization.file))
    }

    fn choose_schema(&mut self, loader: &Loader<'_>, kustomization: &Kustomization) -> Result<(), BuildError> {
        let field = |name: &str| kustomization.openapi.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        let (path, version) = (field("path"), field("version"));
        let content = path.map(|path| loader.read(path).map(|content| (path, content))).transpose()?;
        if self.schema_is_set {
            return Ok(());
        }
        match (content, version.map(String::as_str)) {
            (Some(_), Some(_)) => {
                let error = BuildError::syntax("`openapi` has both a path and a version");
                Err(error.hint("keep the path for a schema of your own, or the version for the built-in one"))
            }
            (Some((path, content)), None) => self.read_schema(&content, &loader.display(path), &loader.limits),
            (None, None | Some("")) => Ok(()),
            (None, Some(BUILTIN_VERSION)) => {
                // A version is a choice too: custom schemas of bases no longer count.
                self.schema_is_set = true;
                Ok(())
            }
            (None, Some(other)) => Err(BuildError::syntax(format!("the OpenAPI version `{other}` is not built in"))
                .hint(format!("leave `openapi.version` out: {BUILTIN_VERSION} is built in and taken without it"))),
        }
    }

    fn read_schema(&mut self, content: &[u8], file: &str, limits: &Limits) -> Result<(), BuildError> {
        let text = yaml::decode(content).map_err(|error| BuildError::from_yaml(error, file))?;
        let rules = if text.starts_with('{') { Rules::Json } else { Rules::V3 };
        let documents = yaml::parse_with(&text, limits, rules).map_err(|error| BuildError::from_yaml(error, file))?;
        if let Some(document) = documents.first() {
            let schema = Schema::from_openapi(&document.root, self.builtin).map_err(|error| error.in_file(file))?;
            self.schema = Arc::new(schema);
            self.schema_is_set = true;
        }
        Ok(())
    }
}
