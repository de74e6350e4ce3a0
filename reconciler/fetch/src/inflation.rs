//! `helmCharts` of kustomizations, rendered by helm with the arguments that kustomize gives it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use kustomize_rs::{
    ChartPull, ChartRenderer, ChartTemplate, DiskFileSystem, FileError, FileSystem, OutsideError, SharedFileSystem,
};
use tempfile::TempDir;

use super::helm::Helm;

/// More than any chart has; a chart that is larger is not copied.
const MOST_BYTES: usize = 64 << 20;
const DEEPEST: usize = 32;

/// What a pull needs of the environment. Nothing else of it is shown to helm.
const NETWORK: [&str; 8] =
    ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Renders charts for `kustomize_rs::build_with`.
///
/// helm works on a copy of the chart in a home of its own: it reads no file beside the chart, finds no plugin, repository,
/// credential or cluster of the person, and its own links lead nowhere. Charts that are pulled are kept in the tree's
/// `chartHome`, as kustomize keeps them.
#[derive(Debug)]
pub struct ChartInflation {
    helm: Helm,
    root: Option<PathBuf>,
    /// `--helm-api-versions`: instead of those of every chart.
    pub api_versions: Vec<String>,
    /// `--helm-kube-version`: instead of that of every chart.
    pub kube_version: Option<String>,
    /// `--helm-debug`.
    pub debug: bool,
    version: OnceLock<Result<(), String>>,
}

impl ChartInflation {
    /// Renders by `helm`; `root` is the tree that the kustomizations lie in, where it is on disk.
    #[must_use]
    pub fn new(helm: Helm, root: Option<PathBuf>) -> Self {
        Self { helm, root, api_versions: Vec::new(), kube_version: None, debug: false, version: OnceLock::new() }
    }

    /// Only helm 3 and 4 are known.
    fn check_version(&self) -> Result<(), OutsideError> {
        let check = || {
            let home = tempfile::tempdir().map_err(|error| error.to_string())?;
            let mut command = self.helm.command(home.path());
            command.args(["version", "--short"]);
            let text = self.helm.run(command).map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&text);
            let major = text.trim().trim_start_matches('v').split('.').next().unwrap_or_default();
            if matches!(major, "3" | "4") {
                Ok(())
            } else {
                Err(format!("helm 3 or 4 is needed, this is {}", text.trim()))
            }
        };
        self.version.get_or_init(check).clone().map_err(OutsideError)
    }

    /// The folder that a pulled chart is put in: of the tree, or a temporary one.
    fn home_of(&self, chart: &ChartPull) -> Result<(PathBuf, Option<TempDir>), OutsideError> {
        let (Some(root), Some(directory)) = (&self.root, &chart.directory) else {
            let folder = tempfile::tempdir().map_err(failed)?;
            return Ok((folder.path().to_owned(), Some(folder)));
        };
        let path = root.join(directory);
        fs::create_dir_all(&path).map_err(failed)?;
        let real = path.canonicalize().map_err(failed)?;
        if !real.starts_with(root.canonicalize().map_err(failed)?) {
            return Err(OutsideError(format!("the chart home `{directory}` leads out of the file tree")));
        }
        Ok((real, None))
    }
}

fn failed(error: impl std::fmt::Display) -> OutsideError {
    OutsideError(error.to_string())
}

/// A folder that is there as long as its files are needed.
struct Pulled {
    files: DiskFileSystem,
    _folder: Option<TempDir>,
}

impl FileSystem for Pulled {
    fn read(&self, path: &str) -> Result<Arc<[u8]>, FileError> {
        self.files.read(path)
    }

    fn is_dir(&self, path: &str) -> bool {
        self.files.is_dir(path)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, FileError> {
        self.files.list(path)
    }

    fn canonical(&self, path: &str) -> Result<String, FileError> {
        self.files.canonical(path)
    }
}

impl ChartRenderer for ChartInflation {
    fn pull(&self, chart: &ChartPull) -> Result<SharedFileSystem, OutsideError> {
        self.check_version()?;
        let (into, folder) = self.home_of(chart)?;
        let home = tempfile::tempdir().map_err(failed)?;
        let mut command = self.helm.command(home.path());
        command.envs(NETWORK.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.args(["pull", "--untar", "--untardir"]).arg(&into);
        if chart.repo.starts_with("oci://") {
            command.arg(format!("{}/{}", chart.repo.trim_end_matches('/'), chart.name));
        } else {
            command.args(["--repo", &chart.repo, &chart.name]);
        }
        if !chart.version.is_empty() {
            command.args(["--version", &chart.version]);
        }
        if chart.devel {
            command.arg("--devel");
        }
        self.helm.run(command).map_err(failed)?;
        let files = DiskFileSystem::new(into.join(&chart.name)).map_err(failed)?;
        Ok(Arc::new(Pulled { files, _folder: folder }))
    }

    fn template(&self, chart: &ChartTemplate<'_>) -> Result<Vec<u8>, OutsideError> {
        self.check_version()?;
        // It stands where options may stand too.
        if chart.release_name.starts_with('-') {
            return Err(OutsideError(format!("`{}` is not a valid name of a release", chart.release_name)));
        }
        let home = tempfile::tempdir().map_err(failed)?;
        let folder = home.path().join("chart").join(&chart.name);
        let mut left = MOST_BYTES;
        copy(chart.files, &chart.directory, &folder, 0, &mut left)?;
        let mut command = self.helm.command(home.path());
        command.arg("template");
        command.arg(if chart.release_name.is_empty() { "--generate-name" } else { &chart.release_name });
        command.arg(&folder);
        let mut pair = |flag: &str, value: &str| {
            if !value.is_empty() {
                command.args([flag, value]);
            }
        };
        pair("--namespace", &chart.namespace);
        pair("--name-template", &chart.name_template);
        let additional = chart.additional_values.iter().map(|values| &**values);
        for (number, values) in std::iter::once(chart.values.as_slice()).chain(additional).enumerate() {
            let name = format!("values-{number}.yaml");
            fs::write(home.path().join(&name), values).map_err(failed)?;
            pair("-f", &name);
        }
        let versions = if self.api_versions.is_empty() { &chart.api_versions } else { &self.api_versions };
        versions.iter().for_each(|version| pair("--api-versions", version));
        pair("--kube-version", self.kube_version.as_ref().unwrap_or(&chart.kube_version));
        for (flag, is_on) in [
            ("--include-crds", chart.include_crds),
            ("--skip-tests", chart.skip_tests),
            ("--no-hooks", chart.skip_hooks),
            ("--debug", chart.debug || self.debug),
            ("--devel", chart.devel),
        ] {
            if is_on {
                command.arg(flag);
            }
        }
        self.helm.run(command).map_err(failed)
    }
}

/// Copies the files of a chart to disk, without links.
fn copy(files: &dyn FileSystem, from: &str, to: &Path, depth: usize, left: &mut usize) -> Result<(), OutsideError> {
    if depth > DEEPEST {
        return Err(OutsideError(format!("its folders are nested more than {DEEPEST} deep")));
    }
    let unreadable = |path: &str, error: &FileError| OutsideError(format!("`{path}` cannot be read: {error}"));
    fs::create_dir_all(to).map_err(failed)?;
    for name in files.list(from).map_err(|error| unreadable(from, &error))? {
        let path = if from.is_empty() { name.clone() } else { format!("{from}/{name}") };
        if files.is_dir(&path) {
            copy(files, &path, &to.join(&name), depth + 1, left)?;
            continue;
        }
        let content = files.read(&path).map_err(|error| unreadable(&path, &error))?;
        *left = left
            .checked_sub(content.len())
            .ok_or_else(|| OutsideError(format!("it has more than {MOST_BYTES} bytes")))?;
        fs::write(to.join(&name), content).map_err(failed)?;
    }
    Ok(())
}
