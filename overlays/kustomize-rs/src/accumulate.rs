//! One kustomization after another: resources, generators, components, transformers, in kustomize's order.

use std::sync::Arc;

use crate::budget::Budget;
use crate::builtin::{self, Source, Step};
use crate::configuration_file;
use crate::error::{BuildError, BuildErrorKind};
use crate::fs::join;
use crate::generate::{self, Kind, chart};
use crate::kustomization::{FILE_NAMES, Kustomization};
use crate::loader::Loader;
use crate::objects;
use crate::provenance::{self, Configured};
use crate::remote::names_a_repository;
use crate::resource::{Origin, Resource};
use crate::resources::Resources;
use crate::schema::{Configuration, Schema, default_configuration};
use crate::steps::{self, Context};
use crate::transform::variables::{self, Variables};
use crate::yaml::write_folded_texts;

/// What has come together so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Accumulator {
    pub(crate) resources: Resources,
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) variables: Variables,
}

impl Accumulator {
    /// Nothing yet, with the budget of the build.
    pub(crate) fn new(budget: &Budget) -> Self {
        let resources = Resources { budget: budget.clone(), ..Resources::default() };
        Self { resources, ..Self::default() }
    }
}

/// What a whole build shares.
pub(crate) struct Build {
    pub(crate) schema: Arc<Schema>,
    /// The first custom schema stays.
    pub(crate) schema_is_set: bool,
    /// The built-in schema was needed before a custom one came.
    pub(crate) builtin_in_use: bool,
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
            self.directory(loader, path, accumulator, origin, true)?;
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

    /// Files first; what is no file is a directory with a kustomization.
    fn read_resources(
        &mut self,
        loader: &Loader<'_>,
        paths: &[String],
        accumulator: &mut Accumulator,
        origin: &str,
    ) -> Result<(), BuildError> {
        for path in paths {
            let is_dir = loader.resolve(path).is_ok_and(|full| loader.files.is_dir(&full));
            if is_dir {
                self.directory(loader, path, accumulator, origin, false)?;
                continue;
            }
            // Files and repositories look alike: what says that it is a repository is not asked for as a file.
            if loader.repository(path).is_some() && names_a_repository(path) {
                self.directory(loader, path, accumulator, origin, false)?;
                continue;
            }
            let content = match loader.read(path) {
                Ok(content) => content,
                Err(_) if loader.repository(path).is_some() => {
                    self.directory(loader, path, accumulator, origin, false)?;
                    continue;
                }
                Err(error) if !loader.is_missing(path) => return Err(error),
                // The message for a missing base is better than that for a missing file.
                Err(error) => return Err(loader.enter(path).err().unwrap_or(error)),
            };
            let file = loader.display(path);
            let read = || objects::read(&content, &file, &loader.limits);
            let read = match loader.cache {
                Some(cache) => cache.objects(&file, &content, &loader.limits, read),
                None => read(),
            };
            let mut objects = match read {
                Ok(objects) => objects,
                // The page of a repository.
                Err(error) if loader.repository(path).is_some() => {
                    self.directory(loader, path, accumulator, origin, false).map_err(|_| error)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.objects_left = self
                .objects_left
                .checked_sub(objects.len())
                .ok_or_else(|| BuildError::new(BuildErrorKind::Limit, "too many objects in one build"))?;
            objects.iter().try_for_each(|object| loader.budget.copy(&object.node))?;
            if self.tracks_origins {
                let text = provenance::path_text(&provenance::join(origin, path));
                objects.iter_mut().for_each(|object| object.add_origin_annotation(&text));
            }
            self.builtin_in_use |= objects.iter().any(|object| !self.schema.knows_scope(&object.gvk()));
            accumulator.resources.append_all(objects, &self.schema)?;
        }
        Ok(())
    }

    fn directory(
        &mut self,
        loader: &Loader<'_>,
        path: &str,
        accumulator: &mut Accumulator,
        origin: &str,
        as_component: bool,
    ) -> Result<(), BuildError> {
        if self.shows_origins && loader.repository(path).is_some() {
            let message = "the origin of objects from a remote base cannot be written yet";
            return Err(BuildError::new(BuildErrorKind::Unsupported, message)
                .hint("leave originAnnotations and transformerAnnotations out of `buildMetadata`"));
        }
        let below = loader.enter(path)?;
        let origin = provenance::join(origin, path);
        if as_component {
            let kustomization = self.enter(&below, path, as_component)?;
            let given = std::mem::take(accumulator);
            *accumulator = self.accumulate(&below, &kustomization, given, &origin)?;
            // All of it is merged into nothing, where fields that overlap can still disagree.
            let done = std::mem::take(&mut accumulator.configuration);
            Configuration::merge_shared(&mut accumulator.configuration, &done)?;
            // What the component did must not have given two objects one name.
            let items = std::mem::take(&mut accumulator.resources.items);
            accumulator.resources.append_all(items, &self.schema)?;
            return Ok(());
        }
        let done = self.cached_base(&below, &origin, |build, below| {
            let kustomization = build.enter(below, path, as_component)?;
            build.accumulate(below, &kustomization, Accumulator::new(&below.budget), &origin)
        })?;
        accumulator.resources.append_all(done.resources.items, &self.schema)?;
        Configuration::merge_shared(&mut accumulator.configuration, &done.configuration)?;
        variables::merge(&mut accumulator.variables, done.variables.into_values())
    }

    /// Reads the kustomization of a base or component.
    fn enter(&mut self, below: &Loader<'_>, path: &str, as_component: bool) -> Result<Arc<Kustomization>, BuildError> {
        let kustomization = load(below)?;
        self.use_schema(below, &kustomization)?;
        self.warnings.extend(kustomization.warnings.iter().cloned());
        if kustomization.is_component != as_component {
            let (found, field) =
                if as_component { ("Kustomization", "components") } else { ("Component", "resources") };
            let message = format!("`{path}` is a {found}, it cannot stand in `{field}`");
            return Err(BuildError::syntax(message));
        }
        Ok(kustomization)
    }

    /// Takes the schema of a kustomization, unless there is one.
    pub(crate) fn use_schema(&mut self, loader: &Loader<'_>, kustomization: &Kustomization) -> Result<(), BuildError> {
        let field = |name: &str| kustomization.openapi.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        if let Some(path) = field("path") {
            let content = loader.read(path)?;
            if self.schema_is_set {
                return Ok(());
            }
            if field("version").is_some() {
                return Err(BuildError::syntax("`openapi` has both a path and a version"));
            }
            let file = loader.display(path);
            let text = crate::yaml::decode(&content).map_err(|error| BuildError::from_yaml(error, &file))?;
            let documents =
                crate::yaml::parse(&text, &loader.limits).map_err(|error| BuildError::from_yaml(error, &file))?;
            if let Some(document) = documents.first() {
                // What kustomize has looked up in its own schema by then stays.
                let base = self.builtin_in_use.then(Schema::builtin);
                let schema = Schema::from_openapi(&document.root, base).map_err(|error| error.in_file(&file))?;
                self.schema = Arc::new(schema);
                self.schema_is_set = true;
            }
            return Ok(());
        }
        match field("version").map(String::as_str) {
            None | Some("") => Ok(()),
            Some("v1.21.2" | "v1.20.4") => {
                // A version is a choice too: custom schemas of bases no longer count.
                self.schema_is_set = true;
                Ok(())
            }
            Some(other) => Err(BuildError::syntax(format!("the OpenAPI version `{other}` is not built in"))
                .hint("built in is v1.21.2")),
        }
    }

    fn generate(
        &mut self,
        loader: &Loader<'_>,
        kustomization: &Kustomization,
        accumulator: &mut Accumulator,
        origin: &str,
    ) -> Result<(), BuildError> {
        let mut sources = Vec::new();
        let file = provenance::join(origin, kustomization.file.rsplit('/').next().unwrap_or_default());
        let lists = [(Kind::ConfigMap, &kustomization.config_maps), (Kind::Secret, &kustomization.secrets)];
        for (kind, generators) in lists {
            for generator in generators {
                let mut generator = generator.clone();
                if let Some(global) = &kustomization.generator_options {
                    generator.options.inherit(global);
                }
                let name = if kind == Kind::ConfigMap { "ConfigMapGenerator" } else { "SecretGenerator" };
                let by = self.tracks_origins.then(|| Configured::builtin(&file, name));
                sources.push((Source::Data(kind, Box::new(generator)), by));
            }
        }
        for chart in &kustomization.charts {
            let mut chart = chart.clone();
            if chart.namespace.is_empty() {
                chart.namespace = self.chart_namespaces.last().cloned().unwrap_or_default();
            }
            let by = self.tracks_origins.then(|| Configured::builtin(&file, "HelmChartInflationGenerator"));
            sources.push((Source::Chart(Box::new(chart)), by));
        }
        for object in self.plugins(loader, &kustomization.generators, &file, origin)? {
            sources.push((builtin::source(&object)?, Configured::object(&object)));
        }
        for (source, by) in sources {
            let mut made = match source {
                Source::Data(kind, generator) => {
                    let load = |path: &str| loader.read(path);
                    let made = generate::generate(kind, &generator, &load);
                    vec![made.map_err(|error| error.at(&kustomization.file, generator.span))?]
                }
                Source::Object(resource) => vec![*resource],
                Source::Chart(chart) => chart::render(&chart, loader, &self.schema)
                    .map_err(|error| error.at(&kustomization.file, chart.span))?,
            };
            for resource in &mut made {
                loader.budget.copy(&resource.node)?;
                let line = resource.node.span.line;
                let annotation = by.as_ref().map(Configured::text);
                resource.origin = Origin { file: Arc::from(kustomization.file.as_str()), line, annotation };
            }
            accumulator.resources.absorb(made, &self.schema)?;
        }
        Ok(())
    }

    /// Plugin configurations: those written inline first, then those of files and directories.
    fn plugins(
        &mut self,
        loader: &Loader<'_>,
        entries: &[String],
        file: &str,
        origin: &str,
    ) -> Result<Vec<Resource>, BuildError> {
        let mut inline = Accumulator::new(&loader.budget);
        let mut paths = Vec::new();
        for entry in entries {
            match objects::read(entry.as_bytes(), file, &loader.limits) {
                Ok(mut objects) => {
                    if self.tracks_origins {
                        let text = provenance::path_text(file);
                        objects.iter_mut().for_each(|object| object.set_origin_annotation(&text));
                    }
                    inline.resources.append_all(objects, &self.schema)?;
                }
                // Several lines are no path: the reader's error says what is wrong.
                Err(error) if entry.trim_end().contains('\n') => return Err(error),
                Err(_) => paths.push(entry.clone()),
            }
        }
        self.read_resources(loader, &paths, &mut inline, origin)?;
        // kustomize hands a plugin its configuration as text.
        inline.resources.items.iter_mut().for_each(|object| write_folded_texts(&mut object.node));
        Ok(inline.resources.items)
    }

    fn transform(
        &mut self,
        loader: &Loader<'_>,
        kustomization: &Kustomization,
        accumulator: &mut Accumulator,
        origin: &str,
    ) -> Result<(), BuildError> {
        let file = provenance::join(origin, kustomization.file.rsplit('/').next().unwrap_or_default());
        let mut all: Vec<(Step, Option<Configured>)> =
            builtin::own_steps(kustomization, &accumulator.configuration, self.tracks_origins)?
                .into_iter()
                .map(|(step, name)| (step, self.tracks_origins.then(|| Configured::builtin(&file, name))))
                .collect();
        for object in self.plugins(loader, &kustomization.transformers, &file, origin)? {
            let by = Configured::object(&object);
            all.extend(builtin::step(&object)?.into_iter().map(|step| (step, by.clone())));
        }
        let schema = Arc::clone(&self.schema);
        let context = Context { loader, schema: &schema, file: &kustomization.file };
        // Files are read before anything changes, as kustomize configures all its plugins first.
        let prepared: Vec<_> =
            all.into_iter().map(|(step, by)| Ok((context.prepare(step)?, by))).collect::<Result<_, BuildError>>()?;
        self.builtin_in_use |= prepared
            .iter()
            .any(|(step, _)| matches!(step, steps::Prepared::Patch(_) | steps::Prepared::StrategicMerge(_)));
        context.run_all(&prepared, &mut accumulator.resources)
    }

    /// Validators may look, but not change, except that they may label what they have seen.
    fn validate(
        &mut self,
        loader: &Loader<'_>,
        kustomization: &Kustomization,
        accumulator: &mut Accumulator,
        origin: &str,
    ) -> Result<(), BuildError> {
        if kustomization.validators.is_empty() {
            return Ok(());
        }
        let file = provenance::join(origin, kustomization.file.rsplit('/').next().unwrap_or_default());
        let schema = Arc::clone(&self.schema);
        let context = Context { loader, schema: &schema, file: &kustomization.file };
        for object in self.plugins(loader, &kustomization.validators, &file, origin)? {
            let before = accumulator.resources.clone();
            for step in builtin::step(&object)? {
                context.run_all(&[(context.prepare(step)?, None)], &mut accumulator.resources)?;
            }
            let after = &accumulator.resources;
            let same = after.len() == before.len()
                && after.items.iter().zip(&before.items).all(|(after, before)| steps::unchanged(after, before));
            if !same {
                let message = format!("the validator `{}` changes the objects", object.name());
                return Err(BuildError::transform(message).at(&object.origin.file, object.node.span));
            }
        }
        Ok(())
    }
}
