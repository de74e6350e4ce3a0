//! Files, bases and components of a kustomization.

use std::sync::Arc;

use super::{Accumulator, Build, load};
use crate::error::{BuildError, BuildErrorKind};
use crate::kustomization::Kustomization;
use crate::load::{Loader, names_a_repository};
use crate::resource::{Names, objects, provenance};
use crate::schema::Configuration;
use crate::transform::variables;

impl Build {
    /// Files first; what is not a file is a directory with a kustomization.
    pub(super) fn read_resources(
        &mut self,
        loader: &Loader<'_>,
        paths: &[String],
        accumulator: &mut Accumulator,
        origin: &str,
    ) -> Result<(), BuildError> {
        let mut names = Names::default();
        for path in paths {
            let is_dir = loader.resolve(path).is_ok_and(|full| loader.files.is_dir(&full));
            if is_dir {
                self.directory(loader, path, accumulator, origin, false, &mut names)?;
                continue;
            }
            // Files and repositories look alike: what says that it is a repository is not asked for as a file.
            if loader.repository(path).is_some() && names_a_repository(path) {
                self.directory(loader, path, accumulator, origin, false, &mut names)?;
                continue;
            }
            let content = match loader.read(path) {
                Ok(content) => content,
                Err(_) if loader.repository(path).is_some() => {
                    self.directory(loader, path, accumulator, origin, false, &mut names)?;
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
                    self.directory(loader, path, accumulator, origin, false, &mut names).map_err(|_| error)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.objects_left = self
                .objects_left
                .checked_sub(objects.len())
                .ok_or_else(|| BuildError::new(BuildErrorKind::Limit, "too many objects in one build"))?;
            for object in &objects {
                loader.budget.copy(&object.node)?;
                self.look_up_scope(object);
            }
            if self.tracks_origins {
                let text = provenance::path_text(&provenance::join(origin, path));
                objects.iter_mut().try_for_each(|object| object.add_origin_annotation(&text))?;
            }
            accumulator.resources.append(objects, &mut names, &self.schema)?;
        }
        Ok(())
    }

    pub(super) fn directory(
        &mut self,
        loader: &Loader<'_>,
        path: &str,
        accumulator: &mut Accumulator,
        origin: &str,
        as_component: bool,
        names: &mut Names,
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
        let schema = Arc::clone(&self.schema);
        let done = self.cached_base(&below, &origin, |build, below| {
            let kustomization = build.enter(below, path, as_component)?;
            build.accumulate(below, &kustomization, Accumulator::new(&below.budget), &origin)
        })?;
        if !Arc::ptr_eq(&schema, &self.schema) {
            *names = Names::default();
        }
        accumulator.resources.append(done.resources.items, names, &self.schema)?;
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
}
