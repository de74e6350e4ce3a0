//! Manifests and charts for a fleet: the mirrors given, as far as its policy names those that have a name, then the network for
//! what the policy allows.
//!
//! Architecture Invariant: folders of the machine come from whoever runs the program; the repository knows them by names alone.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use overlays::{Charts, FetchError, Fleet, Manifests};

use crate::reconcile::planner::Sources;
use fetch::{AllowList, Cache, Chain, FetchOptions, Helm, HelmCharts, Images, Mirror, MirrorFolder, Remote};
use host::memory::Part;

/// Sources made from folders and a policy. The same policy gives the same sources, with what they have cached.
pub struct FetchSources {
    mirrors: Vec<MirrorFolder>,
    private_hosts: Vec<String>,
    pull_secret_namespaces: Vec<String>,
    made: Mutex<Vec<Made>>,
}

#[derive(Clone)]
struct Made {
    named: Vec<String>,
    allow: Vec<String>,
    manifests: Arc<dyn Manifests>,
    charts: Arc<dyn Charts>,
    images: Option<Arc<Images>>,
}

impl FetchSources {
    /// Sources that look first into these folders: those without a name, and those whose names the policy gives.
    pub fn new<M: Into<MirrorFolder>>(mirrors: Vec<M>) -> Self {
        Self {
            mirrors: mirrors.into_iter().map(Into::into).collect(),
            private_hosts: Vec::new(),
            pull_secret_namespaces: Vec::new(),
            made: Mutex::default(),
        }
    }

    /// Lets these hosts have loopback, link-local and private addresses. Whoever runs the program says so and never the
    /// fleet repository: those who write there must not choose what is asked inside of the network.
    #[must_use]
    pub fn with_private_hosts(self, private_hosts: Vec<String>) -> Self {
        Self { private_hosts, ..self }
    }

    /// Lets the pull secrets of these namespaces be used to ask for images. Whoever runs the program says so, too.
    #[must_use]
    pub fn with_pull_secrets_of(self, namespaces: Vec<String>) -> Self {
        Self { pull_secret_namespaces: namespaces, ..self }
    }

    /// Those of these addresses that no mirror has, and whether their hosts may be asked. Nobody is asked.
    pub fn missing(&self, fleet: &Fleet, addresses: impl IntoIterator<Item = String>) -> Vec<(String, bool)> {
        let mirrors = Chain::new(self.folders(&fleet.policy.mirrors));
        let allow = AllowList::new(fleet.policy.fetch_allow.iter().cloned());
        let is_allowed = |address: &str| {
            let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            allow.allows(host, path)
        };
        let missing = |address: String| {
            let is_missing = mirrors.get(&address).is_err();
            is_missing.then(|| (address.clone(), is_allowed(&address)))
        };
        addresses.into_iter().filter_map(missing).collect()
    }

    fn of(&self, fleet: &Fleet, allow: &[String]) -> Made {
        let named = &fleet.policy.mirrors;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = made.iter().find(|made| made.named == *named && made.allow == allow) {
            return made.clone();
        }
        let new = self.make(named.clone(), allow.to_vec());
        // While a push changes what may be asked, some clusters are at what was before.
        made.truncate(1);
        made.insert(0, new.clone());
        new
    }

    /// The folders without a name, then those with these names.
    fn folders(&self, named: &[String]) -> Vec<Box<dyn Manifests>> {
        let unnamed = self.mirrors.iter().filter(|mirror| mirror.name.is_none());
        let mut sources = vec![mirror(unnamed.map(|mirror| mirror.path.clone()))];
        for name in named {
            let found = self.mirrors.iter().filter(|mirror| mirror.name.as_ref() == Some(name));
            let folders: Vec<PathBuf> = found.map(|mirror| mirror.path.clone()).collect();
            sources.push(if folders.is_empty() { unusable(undefined(name)) } else { mirror(folders) });
        }
        sources
    }

    fn make(&self, named: Vec<String>, allow: Vec<String>) -> Made {
        let (mut sources, mut images) = (self.folders(&named), None);
        if !allow.is_empty() {
            let allow = AllowList::new(allow.iter().cloned());
            let options = FetchOptions { allow, private_hosts: self.private_hosts.clone(), ..FetchOptions::default() };
            images = Images::new(options.clone())
                .map(|images| Arc::new(images.with_pull_secrets_of(self.pull_secret_namespaces.clone())))
                .inspect_err(|error| {
                    tracing::warn!(%error, "no registry can be asked for images");
                })
                .ok();
            sources.push(match Remote::new(options) {
                Ok(remote) => Box::new(remote),
                Err(error) => unusable(error.to_string()),
            });
        }
        let manifests: Arc<dyn Manifests> = Arc::new(Cache::new(Chain::new(sources), Part::Manifests.bytes()));
        let charts: Arc<dyn Charts> = Arc::new(HelmCharts::new(Helm::find(), Arc::clone(&manifests)));
        Made { named, allow, manifests, charts, images }
    }
}

fn mirror(folders: impl IntoIterator<Item = PathBuf>) -> Box<dyn Manifests> {
    match Mirror::open(folders) {
        Ok(mirror) => Box::new(mirror),
        Err(error) => unusable(error.to_string()),
    }
}

fn unusable(error: String) -> Box<dyn Manifests> {
    Box::new(Unusable(error))
}

/// That the policy names a mirror which whoever runs the program has not defined.
pub fn undefined(name: &str) -> String {
    format!(
        "stepgate.yaml names the mirror {name}, which is not defined here: give --mirror {name}=DIR (STEPGATE_MIRROR)"
    )
}

/// A source that could not be set up: says so for whatever is asked of it.
struct Unusable(String);

impl Manifests for Unusable {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        Err(FetchError::Failed { uri: uri.to_owned(), message: self.0.clone() })
    }
}

impl Sources for FetchSources {
    fn manifests(&self, fleet: &Fleet, allow: &[String]) -> Arc<dyn Manifests> {
        self.of(fleet, allow).manifests
    }

    fn charts(&self, fleet: &Fleet, allow: &[String]) -> Arc<dyn Charts> {
        self.of(fleet, allow).charts
    }

    fn images(&self, fleet: &Fleet, allow: &[String]) -> Option<Arc<Images>> {
        self.of(fleet, allow).images
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &std::path::Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_named_mirror_is_looked_in_where_the_policy_names_it() {
        let (plain, named) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(plain.path(), "example.org/a.yaml", "plain");
        write(named.path(), "example.org/a.yaml", "named");
        write(named.path(), "example.org/b.yaml", "named");
        let central = MirrorFolder { name: Some("central".to_owned()), path: named.path().to_owned() };
        let sources = FetchSources::new(vec![plain.path().to_owned().into(), central]);
        let get = |mirrors: &[&str], file: &str| {
            let mut fleet = Fleet::default();
            fleet.policy.mirrors = mirrors.iter().map(|name| (*name).to_owned()).collect();
            sources.manifests(&fleet, &[]).get(&format!("https://example.org/{file}"))
        };
        assert_eq!(&*get(&["central"], "a.yaml").unwrap(), b"plain");
        assert_eq!(&*get(&["central"], "b.yaml").unwrap(), b"named");
        assert!(matches!(get(&[], "b.yaml"), Err(FetchError::NotFound { .. })));
        let error = get(&["other", "central"], "b.yaml").unwrap_err().to_string();
        assert!(error.contains("--mirror other=DIR"), "{error}");
    }
}
