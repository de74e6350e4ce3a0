//! `stepgate install --export`: the manifests of an installation in a management cluster.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use domain::ClusterName;

use super::common::error::CommandError;
use super::common::exit::Exit;
use super::common::output;
use crate::install::{self, CertificateMaker, GuardAccounts, RUNBOOKS, Settings};
use git::{RepositoryLocation, Transport};

/// Arguments of `stepgate install`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Write the manifests; nothing is sent to a cluster.
    #[arg(long, required = true)]
    export: bool,
    /// In which form.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// The folder to write into, which has to be empty or not there; manifests go to standard output without it.
    #[arg(long, value_name = "DIR", required_if_eq_any = [("format", "kustomize"), ("format", "helm")])]
    to: Option<PathBuf>,
    /// The namespace of the installation.
    #[arg(long, default_value = cluster::kubernetes::SYSTEM_NAMESPACE, value_name = "NAME")]
    namespace: String,
    /// The container image.
    #[arg(long, default_value = concat!("stepgate:", env!("CARGO_PKG_VERSION")), value_name = "IMAGE")]
    image: String,
    /// The fleet repository: `https://` or `ssh://`.
    #[arg(long, env = "STEPGATE_REPO", value_name = "URL")]
    repo: Option<String>,
    /// The branch that people write.
    #[arg(long, env = "STEPGATE_SOURCE_BRANCH", default_value = "main", value_name = "BRANCH")]
    source_branch: String,
    /// An image with the `helm` program and a shell, which Cilium's chart is rendered by; without it, the one of --image.
    #[arg(long, value_name = "IMAGE")]
    helm_image: Option<String>,
    /// Which cluster of the fleet it is installed in. Without it that has to be recorded in the cluster's ledger (`stepgate adopt`), or to follow from
    /// the kubeconfig that Cluster API keeps of it there.
    #[arg(long, env = "STEPGATE_MANAGEMENT_CLUSTER", value_name = "NAME")]
    management_cluster: Option<String>,
    /// A namespace whose pull secrets Stepgate uses to ask registries for images of its pods. May be given several times; none is used without
    /// it.
    #[arg(long = "pull-secrets", value_name = "NAMESPACE")]
    pull_secrets: Vec<String>,
    /// Add an admission policy that refuses changes of managed clusters, their control planes, groups and templates, and of the components'
    /// definitions by anybody but Flux, the providers and Stepgate, unless the object carries `stepgate.dev/emergency: REASON`.
    #[arg(long)]
    guard: bool,
    /// Somebody else whom the guard lets pass, as the API server names them: `system:serviceaccount:NAMESPACE:NAME` is a service account. May be
    /// given several times.
    #[arg(long, value_name = "USER", requires = "guard")]
    guard_user: Vec<String>,
    /// A group whom the guard lets pass: `system:serviceaccounts:NAMESPACE` is all service accounts of a namespace. May be given several times.
    #[arg(long, value_name = "GROUP", requires = "guard")]
    guard_group: Vec<String>,
    /// Add what upgrades machines in place: a Runtime Extension for Cluster API, which needs its feature gates `RuntimeSDK` and `InPlaceUpdates`.
    #[arg(long)]
    in_place: bool,
    /// Who makes the certificate of the extension.
    #[arg(long, value_enum, default_value_t, requires = "in_place", value_name = "WHO")]
    in_place_certificate: CertificateMaker,
    /// Add what shows Stepgate to Prometheus' operator and Grafana: a `PodMonitor` with a token, alerts, a dashboard. Metrics are served on port 8080 then.
    #[arg(long)]
    with_monitoring: bool,
    /// Where `reconciler/docs/troubleshooting.md` is published, which has an entry for each alert.
    #[arg(long, default_value = RUNBOOKS, requires = "with_monitoring", value_name = "URL")]
    runbooks: String,
}

/// The forms that an installation comes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One file for `kubectl apply --server-side -f -`.
    #[default]
    Manifests,
    /// A kustomize base.
    Kustomize,
    /// A Helm chart.
    Helm,
}

/// Writes the manifests.
///
/// # Errors
/// When a setting cannot be written into a manifest, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let settings = Settings {
        namespace: arguments.namespace.clone(),
        image: image("--image", &arguments.image)?,
        repository: repository(arguments.repo.as_deref())?,
        source_branch: arguments.source_branch.clone(),
        helm_image: image("--helm-image", arguments.helm_image.as_ref().unwrap_or(&arguments.image))?,
        management_cluster: management_cluster(arguments.management_cluster.as_deref())?,
        pull_secrets: arguments.pull_secrets.clone(),
        guard: arguments
            .guard
            .then(|| GuardAccounts { users: arguments.guard_user.clone(), groups: arguments.guard_group.clone() }),
        in_place: arguments.in_place.then_some(arguments.in_place_certificate),
        runbooks: arguments.with_monitoring.then(|| arguments.runbooks.clone()),
    };
    if arguments.helm_image.is_none() {
        output::note(
            "note: helm is taken from the image of Stepgate: name another one by --helm-image where that has none",
        );
    }
    let files = match (arguments.format, &arguments.to) {
        (Form::Manifests, None) => {
            output::print_text(&install::manifests(&settings)?)?;
            return Ok(Exit::Success);
        }
        (Form::Manifests, Some(_)) => vec![("stepgate.yaml".to_owned(), install::manifests(&settings)?)],
        (Form::Kustomize, _) => install::kustomize_base(&settings)?,
        (Form::Helm, _) => install::helm_chart(&settings)?,
    };
    let folder = arguments.to.as_deref().unwrap_or(Path::new("."));
    for (name, text) in &files {
        let path = folder.join(name);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
            std::io::Write::write_all(&mut file, text.as_bytes())
        });
        written.map_err(|error| CommandError::from(error).context(format!("writing {}", path.display())))?;
    }
    output::note(&format!("wrote {} files to {}", files.len(), folder.display()));
    Ok(Exit::Success)
}

/// The repository as the Pod reaches it.
fn repository(named: Option<&str>) -> Result<String, CommandError> {
    let text = named.ok_or_else(|| {
        CommandError::new("which fleet repository is Stepgate to work on?")
            .hint("name it by --repo URL, or STEPGATE_REPO")
    })?;
    let location: RepositoryLocation = text.parse()?;
    let refused = |reason: &str, hint: &str| Err(CommandError::new(format!("{location} {reason}")).hint(hint));
    match &location {
        RepositoryLocation::Local(_) => {
            refused("is a folder of this machine", "name the repository as the Pod reaches it: https:// or ssh://")
        }
        RepositoryLocation::Remote(url) if url.transport() == Transport::File => {
            refused("is a folder of this machine", "name the repository as the Pod reaches it: https:// or ssh://")
        }
        RepositoryLocation::Remote(url) if url.to_string() != text => {
            refused("holds a password", "leave it out: the Secret `stepgate-git` holds `username` and `password`")
        }
        RepositoryLocation::Remote(url) if is_example(url.host()) => {
            refused("is an address for examples, where nobody is", "name your own by --repo URL, or STEPGATE_REPO")
        }
        RepositoryLocation::Remote(_) => Ok(text.to_owned()),
    }
}

/// The name of a cluster; an empty one names none.
fn management_cluster(named: Option<&str>) -> Result<Option<String>, CommandError> {
    let parsed = named.filter(|name| !name.is_empty()).map(str::parse::<ClusterName>).transpose();
    let parsed = parsed.map_err(|error| CommandError::from(error).context("--management-cluster"))?;
    Ok(parsed.map(|name| name.to_string()))
}

/// An image that there can be.
fn image(flag: &str, text: &str) -> Result<String, CommandError> {
    let registry = text.split_once('/').map_or("", |(registry, _)| registry);
    if is_example(registry.split(':').next().unwrap_or_default()) {
        return Err(CommandError::new(format!("{text} is an address for examples, where nobody is"))
            .hint(format!("name the image of your own registry by {flag}")));
    }
    Ok(text.to_owned())
}

/// Whether a host is one of those that are kept for documents (RFC 2606 and 6761).
fn is_example(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    ["example", "invalid", "example.com", "example.net", "example.org"]
        .iter()
        .any(|reserved| host.strip_suffix(reserved).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}
