//! Bases that were built, for other builds that find the same files. A base is used again when asking the same about files
//! gives the same answers, so nobody has to tell the cache what has changed.

use super::Build;
use crate::accumulator::Accumulator;
use crate::cache::{Asked, Base, Cache, Witness};
use crate::error::BuildError;
use crate::fs::is_within;
use crate::load::{Files, Loader};

impl Build {
    /// Builds the base at `loader` or takes it from the cache; `build` does the former.
    pub(crate) fn cached_base(
        &mut self,
        loader: &Loader<'_>,
        origin: &str,
        build: impl FnOnce(&mut Self, &Loader<'_>) -> Result<Accumulator, BuildError>,
    ) -> Result<Accumulator, BuildError> {
        let Some(cache) = self.cache_for_bases(loader) else {
            return build(self, loader);
        };
        let state = self.state_of_bases(loader, origin);
        if let Some(base) = cache.base(loader.root(), &state, &loader.limits).filter(|base| self.fits(base, loader)) {
            self.objects_left -= base.objects;
            self.builtin = self.builtin.max(base.builtin);
            self.warnings.extend(base.warnings.iter().cloned());
            loader.budget.take(base.steps, base.growth)?;
            let mut made = base.made.clone();
            made.resources.budget = loader.budget.clone();
            return Ok(made);
        }
        let witness = Witness::new(&*loader.files);
        let watched = Loader { files: Files::Borrowed(&witness), ..loader.clone() };
        let (warnings, objects, (steps, growth)) = (self.warnings.len(), self.objects_left, loader.budget.left());
        let made = build(self, &watched)?;
        if !self.schema_is_set {
            let (steps_left, growth_left) = loader.budget.left();
            let mut kept = made.clone();
            kept.resources.budget = Default::default();
            let base = Base {
                made: kept,
                warnings: self.warnings.get(warnings..).unwrap_or_default().to_vec(),
                builtin: self.builtin,
                objects: objects - self.objects_left,
                steps: steps - steps_left,
                growth: growth - growth_left,
                asked: witness.into_asked(),
            };
            cache.keep_base(loader.root(), &state, &loader.limits, base);
        }
        Ok(made)
    }

    /// Says whether a build in this place would make the same.
    fn fits(&self, base: &Base, loader: &Loader<'_>) -> bool {
        let asked = &base.asked;
        // What a base contains may not contain the base, and what it may still cost depends on the rest of the build:
        // where either could fail, the base is built anew and the error is the usual one.
        let leads_back = |real: &str| loader.chain.iter().any(|visited| is_within(visited, real));
        base.objects <= self.objects_left
            && loader.budget.has(base.steps, base.growth)
            && asked.iter().all(|one| !matches!(one, Asked::Canonical(_, Ok(real)) if leads_back(real)))
            && asked.iter().all(|one| one.is_answered_alike(&*loader.files))
    }

    /// The cache, unless what bases make may depend on more than files: charts, repositories, a schema of another
    /// kustomization.
    fn cache_for_bases<'b>(&self, loader: &Loader<'b>) -> Option<&'b Cache> {
        let outside = loader.outside.charts.is_some() || loader.outside.remotes.is_some();
        if outside || self.schema_is_set { None } else { loader.cache }
    }

    /// What else than files decides what a base makes.
    fn state_of_bases(&self, loader: &Loader<'_>, origin: &str) -> Vec<u8> {
        let origin = if self.tracks_origins { origin } else { "" };
        let flags = (self.tracks_origins, self.builtin, loader.restrictor);
        let levels = (loader.above + loader.chain.len(), loader.depth);
        format!("{flags:?} {levels:?} {origin}").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cache, MemoryFileSystem, Options, Outside, build, build_cached};

    const POD: &[u8] = b"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n";

    fn same_with_a_cache(files: &MemoryFileSystem, root: &str, options: &Options, cache: &Cache) -> String {
        let text = |built: Result<crate::Resources, crate::BuildError>| match built {
            Ok(resources) => resources.to_yaml(),
            Err(error) => format!("error: {error}"),
        };
        let plain = text(build(files, root, options));
        assert_eq!(text(build_cached(files, root, options, Outside::default(), cache)), plain);
        plain
    }

    fn tree(files: &[(&str, &[u8])]) -> MemoryFileSystem {
        files.iter().map(|(path, content)| (*path, content.to_vec())).collect()
    }

    #[test]
    fn a_base_is_built_anew_when_a_file_of_it_changes_appears_or_goes() {
        let cache = Cache::new(1 << 20);
        let start = [
            ("kustomization.yaml", &b"resources: [base]\n"[..]),
            ("base/kustomization.yaml", b"resources: [a.yaml]\n"),
            ("base/a.yaml", POD),
        ];
        let mut files = tree(&start);
        let options = Options::default();
        let first = same_with_a_cache(&files, "", &options, &cache);
        assert_eq!(same_with_a_cache(&files, "", &options, &cache), first);
        files.insert("base/a.yaml", b"apiVersion: v1\nkind: Pod\nmetadata: {name: q}\n".to_vec());
        assert_ne!(same_with_a_cache(&files, "", &options, &cache), first);
        files.insert("base/kustomization.yml", b"resources: [a.yaml]\n".to_vec());
        assert!(same_with_a_cache(&files, "", &options, &cache).starts_with("error"));
        assert!(same_with_a_cache(&tree(&start[..2]), "", &options, &cache).starts_with("error"));
        assert_eq!(same_with_a_cache(&tree(&start), "", &options, &cache), first);
    }

    #[test]
    fn a_base_that_leads_back_to_one_overlay_but_not_to_another_is_refused_there_only() {
        let cache = Cache::new(1 << 20);
        let files = tree(&[
            ("r/kustomization.yaml", b"resources: [../a]\n"),
            ("a/kustomization.yaml", b"resources: [../x]\n"),
            ("x/kustomization.yaml", b"resources: [p.yaml]\n"),
            ("x/p.yaml", POD),
            ("x/y/kustomization.yaml", b"resources: [../../a]\n"),
        ]);
        assert!(!same_with_a_cache(&files, "r", &Options::default(), &cache).starts_with("error"));
        assert!(same_with_a_cache(&files, "x/y", &Options::default(), &cache).contains("leads back"));
    }

    #[test]
    fn a_base_from_the_cache_takes_from_the_limits_what_it_cost() {
        let cache = Cache::new(1 << 20);
        let files = tree(&[
            ("kustomization.yaml", b"resources: [a, b]\n"),
            ("a/kustomization.yaml", b"resources: [p.yaml]\n"),
            ("a/p.yaml", POD),
            ("b/kustomization.yaml", b"nameSuffix: -b\nresources: [../a]\n"),
        ]);
        let refused = |options: &Options| same_with_a_cache(&files, "", options, &cache).starts_with("error");
        assert!(!refused(&Options::default()));
        assert!(!refused(&Options { objects: 2, ..Options::default() }));
        assert!(refused(&Options { objects: 1, ..Options::default() }));
        for steps in (0..400_000).step_by(20_000) {
            refused(&Options { steps, ..Options::default() });
        }
        for growth in (0..2_000).step_by(50) {
            refused(&Options { growth, ..Options::default() });
        }
    }
}
