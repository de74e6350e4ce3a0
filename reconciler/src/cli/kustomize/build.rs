//! `stepgate kustomize build`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use kustomize_rs::{LoadRestrictor, Options, Order, Outside, RemoteBases, RemoteRepository, Resources, build_with};

use super::flux::{self, FluxArguments};
use super::{individual, remotes::Remotes, tree::Tree};
use crate::cli::common::output;
use crate::cli::{CommandError, Exit};
use fetch::{ChartInflation, Helm};

/// Arguments of `stepgate kustomize build`: those of kustomize, and the tree that may be read.
#[derive(Debug, Args)]
pub struct BuildArguments {
    /// The directory of a kustomization.yaml. Without it: the working directory.
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The tree that may be read, bases included; no path or symbolic link leads out of it. Without it: the git work
    /// tree around DIR, else the working directory where DIR is below it, else DIR alone.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Order of the output where the kustomization has no `sortOptions`. Deprecated in kustomize.
    #[arg(long, value_enum, value_name = "ORDER")]
    reorder: Option<Reorder>,
    /// Whether a kustomization may name files outside of its own directory (never outside of the tree).
    #[arg(long, value_enum, default_value_t, value_name = "RESTRICTOR")]
    load_restrictor: Restrictor,
    /// Write to this file, or one file for each object into this existing directory.
    #[arg(short, long, value_name = "FILE|DIR")]
    output: Option<PathBuf>,
    /// Label every object `app.kubernetes.io/managed-by`. Deprecated in kustomize.
    #[arg(long)]
    enable_managedby_label: bool,
    /// Lift the limits on size and work: for large trees that are trusted.
    #[arg(long)]
    unlimited: bool,
    /// Render `helmCharts` by the helm program. Off, a kustomization with charts is refused.
    #[arg(long)]
    enable_helm: bool,
    #[command(flatten)]
    helm: HelmArguments,
    /// Fetch bases by git and files over HTTPS where a kustomization names them by URL; DIR may be one too. Off, nothing
    /// is fetched.
    #[arg(long)]
    enable_remote: bool,
    /// Environment of functions. Taken for the sake of scripts: functions are never run.
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    #[command(flatten)]
    flux: FluxArguments,
    #[command(flatten)]
    refused: Refused,
}

/// How charts are rendered.
#[derive(Debug, Args)]
struct HelmArguments {
    /// The helm program. Without it: `STEPGATE_HELM`, else the helm on PATH.
    #[arg(long, value_name = "PROGRAM")]
    helm_command: Option<PathBuf>,
    /// Version of an API that charts are told the cluster has, instead of what the chart's entry says. May be given
    /// several times.
    #[arg(long, value_name = "VERSION")]
    helm_api_versions: Vec<String>,
    /// Kubernetes version that charts are told, instead of what the chart's entry says.
    #[arg(long, value_name = "VERSION")]
    helm_kube_version: Option<String>,
    /// Let helm say more when it fails.
    #[arg(long)]
    helm_debug: bool,
}

/// What kustomize has flags for and this program does not do at all.
#[derive(Debug, Args)]
struct Refused {
    /// Refused: plugins are never run.
    #[arg(long)]
    enable_alpha_plugins: bool,
    /// Refused: programs are never run as functions.
    #[arg(long)]
    enable_exec: bool,
    /// Refused: container functions are never run.
    #[arg(long)]
    network: bool,
    /// Refused: container functions are never run.
    #[arg(long, value_name = "NAME")]
    network_name: Option<String>,
    /// Refused: container functions are never run.
    #[arg(long, value_name = "MOUNT")]
    mount: Vec<String>,
    /// Refused: container functions are never run.
    #[arg(long)]
    as_current_user: bool,
}

impl Refused {
    fn check(&self) -> Result<(), CommandError> {
        let flags = [
            ("--enable-alpha-plugins", self.enable_alpha_plugins, "exec plugins and Go plugins"),
            ("--enable-exec", self.enable_exec, "exec functions"),
            ("--network", self.network, "container functions"),
            ("--network-name", self.network_name.is_some(), "container functions"),
            ("--mount", !self.mount.is_empty(), "container functions"),
            ("--as-current-user", self.as_current_user, "container functions"),
        ];
        match flags.iter().find(|(_, given, _)| *given) {
            None => Ok(()),
            Some((flag, _, what)) => {
                let error = CommandError::new(format!("{flag} is refused: {what} are never run"));
                Err(error
                    .hint("leave the flag out; generators and transformers that are built into kustomize need none"))
            }
        }
    }
}

/// Order of the output.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Reorder {
    /// Namespaces first, webhooks last.
    Legacy,
    /// As they come in.
    None,
}

/// Which files a kustomization may name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Restrictor {
    /// Those in its own directory and below.
    #[default]
    #[value(name = "LoadRestrictionsRootOnly")]
    RootOnly,
    /// All files of the tree.
    #[value(name = "LoadRestrictionsNone")]
    None,
}

/// Builds and writes. Every failure ends with 1, as it does in kustomize.
pub fn run(arguments: &BuildArguments) -> Exit {
    match build_and_write(arguments) {
        Ok(()) => Exit::Success,
        Err(error) => {
            error.report();
            Exit::Differences
        }
    }
}

fn build_and_write(arguments: &BuildArguments) -> Result<(), CommandError> {
    arguments.refused.check()?;
    if arguments.reorder.is_some() {
        let instead = "use the new 'sortOptions' field in kustomization.yaml instead.";
        output::note(&format!("Flag --reorder has been deprecated, {instead}"));
    }
    if arguments.enable_managedby_label {
        let instead = "The flag `enable-managedby-label` has been deprecated. \
            Use the `managedByLabel` option in the `buildMetadata` field instead.";
        output::note(&format!("Flag --enable-managedby-label has been deprecated, {instead}"));
    }
    let resources = built(arguments)?;
    resources.warnings().iter().for_each(|warning| output::note(warning));
    write(&resources, arguments.output.as_deref())
}

fn built(arguments: &BuildArguments) -> Result<Resources, CommandError> {
    let options = options(arguments);
    let given = arguments.directory.as_deref();
    if arguments.flux.flux {
        return flux::build(&arguments.flux, given, arguments.root.as_deref(), options, arguments.unlimited);
    }
    let directory = given.unwrap_or(Path::new("."));
    let remotes = arguments.enable_remote.then(Remotes::default);
    let remotes = remotes.as_ref().map(|remotes| remotes as &dyn RemoteBases);
    let address = directory.to_str().and_then(RemoteRepository::parse);
    if let (Some(address), false) = (address, directory.exists()) {
        let Some(remotes) = remotes else {
            let error = CommandError::new(format!("{} is remote, and nothing is fetched", directory.display()));
            return Err(error.hint("turn remote bases on (--enable-remote)"));
        };
        let files = remotes.repository(&address)?;
        let charts = charts(arguments, None)?;
        let outside = Outside { charts: charts.as_ref().map(|charts| charts as _), remotes: Some(remotes) };
        return Ok(build_with(&*files, &address.path, &options, outside)?);
    }
    let mut tree = Tree::open(directory, arguments.root.as_deref())?;
    if arguments.unlimited {
        tree.files = tree.files.with_largest_file(u64::MAX);
    }
    let charts = charts(arguments, Some(tree.files.root().to_owned()))?;
    let outside = Outside { charts: charts.as_ref().map(|charts| charts as _), remotes };
    build_with(&tree.files, &tree.target, &options, outside).map_err(|error| tree.error(error))
}

fn charts(arguments: &BuildArguments, root: Option<PathBuf>) -> Result<Option<ChartInflation>, CommandError> {
    if !arguments.enable_helm {
        return Ok(None);
    }
    let helm = match &arguments.helm.helm_command {
        Some(program) => Helm::named(program)?,
        None => Helm::find()?,
    };
    let mut charts = ChartInflation::new(helm, root);
    charts.api_versions.clone_from(&arguments.helm.helm_api_versions);
    charts.kube_version.clone_from(&arguments.helm.helm_kube_version);
    charts.debug = arguments.helm.helm_debug;
    Ok(Some(charts))
}

fn options(arguments: &BuildArguments) -> Options {
    let label = std::env::var_os("KUSTOMIZE_ENABLE_MANAGEDBY_LABEL").is_some_and(|value| value == "on");
    let defaults = if arguments.unlimited { Options::unlimited() } else { Options::default() };
    Options {
        order: match arguments.reorder {
            Some(Reorder::None) => Order::None,
            Some(Reorder::Legacy) | None => Order::Legacy,
        },
        load_restrictor: match arguments.load_restrictor {
            Restrictor::RootOnly => LoadRestrictor::RootOnly,
            Restrictor::None => LoadRestrictor::None,
        },
        managed_by_label: arguments.enable_managedby_label || label,
        ..defaults
    }
}

fn write(resources: &Resources, to: Option<&Path>) -> Result<(), CommandError> {
    match to {
        None => output::print_bytes(resources.to_yaml().as_bytes()),
        Some(path) if path.is_dir() => individual::write(resources, path),
        Some(path) => std::fs::write(path, resources.to_yaml())
            .map_err(|error| CommandError::from(error).context(format!("cannot write {}", path.display()))),
    }
}
