//! What makes, changes and checks objects: generators, transformers and validators.

use std::sync::Arc;

use super::{Accumulator, Build, BuiltinSchema};
use crate::error::BuildError;
use crate::generate::{self, Kind, chart};
use crate::kustomization::Kustomization;
use crate::load::Loader;
use crate::object::round_trip::write_and_read;
use crate::object::type_mismatch;
use crate::resource::objects;
use crate::resource::provenance::{self, Configured};
use crate::resource::{Origin, Resource};
use crate::steps::builtin::{self, Source, Step};
use crate::steps::{self, Context};

impl Build {
    pub(super) fn generate(
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
                let line = resource.node.span.line();
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
                        objects.iter_mut().try_for_each(|object| object.set_origin_annotation(&text))?;
                    }
                    objects.iter().for_each(|object| self.look_up_scope(object));
                    inline.resources.append_all(objects, &self.schema)?;
                }
                // Several lines are not a valid path: the reader's error says what is wrong.
                Err(error) if entry.trim_end().contains('\n') => return Err(error),
                Err(_) => paths.push(entry.clone()),
            }
        }
        self.read_resources(loader, &paths, &mut inline, origin)?;
        // kustomize hands a plugin its configuration as text.
        for object in &mut inline.resources.items {
            type_mismatch::refuse(&object.node).map_err(|error| error.in_file(&object.origin.file))?;
            write_and_read(&mut object.node).map_err(|error| error.in_file(&object.origin.file))?;
        }
        Ok(inline.resources.items)
    }

    pub(super) fn transform(
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
        context.run_all(&prepared, &mut accumulator.resources)?;
        if accumulator.resources.merged_by_schema {
            self.builtin = BuiltinSchema::Read;
        }
        Ok(())
    }

    /// Validators may look, but not change, except that they may label what they have seen.
    pub(super) fn validate(
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
