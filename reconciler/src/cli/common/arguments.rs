//! What several verbs take: which fleet repository, and how clusters are reached.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use domain::CommitId;

use super::error::CommandError;
use super::output::Format;
use crate::reconcile::clusters::access::{Clusters, KubernetesClusters, NoAccess};
use cluster::kubernetes::{
    BackupPlace, Connection, ConnectionError, ConnectionSource, REQUEST_TIMEOUT, REQUESTS_PER_SECOND,
};
use fetch::MirrorFolder;
use git::{LimitSetting, Pace, Signing};

/// Which fleet repository a verb reads, and where the manifests that bundles name come from.
#[derive(Clone, Debug, Args)]
pub struct FleetArguments {
    /// The fleet repository: a folder (bare or not), `file://`, `https://` or `ssh://`.
    #[arg(long, env = "STEPGATE_REPO", default_value = ".", value_name = "DIR|URL")]
    pub(in crate::cli) repo: String,
    /// The branch that people write.
    #[arg(long, env = "STEPGATE_SOURCE_BRANCH", default_value = "main", value_name = "BRANCH")]
    pub(in crate::cli) source_branch: String,
    /// A folder with what the repository's server asks for: `username` and `password`, or `identity` and `known_hosts`, as Flux' Secrets name
    /// them. Without it git's own configuration, credential helpers and keys count.
    #[arg(long, env = "STEPGATE_GIT_SECRET", value_name = "DIR")]
    pub(in crate::cli) git_secret: Option<PathBuf>,
    /// How long a transfer of the repository may be slower than `--git-pace`, or say nothing new, in seconds. One that gets on may take as long
    /// as it takes.
    #[arg(long, env = "STEPGATE_GIT_PATIENCE", value_name = "SECONDS", default_value_t = Pace::default().patience.as_secs())]
    pub(in crate::cli) git_patience: u64,
    /// How many bytes a second a transfer has to make, on the average of `--git-patience`.
    #[arg(long, env = "STEPGATE_GIT_PACE", value_name = "BYTES", default_value_t = Pace::default().bytes_per_second)]
    pub(in crate::cli) git_pace: u64,
    /// How much of the repository is read. Of one cluster: `entries`, `path-bytes`, `link-bytes`, `object-bytes`, `delta-bytes`, `depth` of
    /// folders, `nodes` of its specifications; of one object: `file-bytes`, `base-bytes`, `folder-bytes`; of histories: `commits`,
    /// `history-bytes`, `branches` that propose something; and what the git program may take: `git-memory`, `git-file-bytes`. Numbers of
    /// bytes may end in Ki, Mi or Gi. May be given several times.
    #[arg(long = "repo-limit", env = "STEPGATE_REPO_LIMITS", value_delimiter = ',', value_name = "NAME=NUMBER")]
    pub(in crate::cli) repo_limits: Vec<LimitSetting>,
    /// A commit of the source branch whose `stepgate.yaml` you answer for: no older policy counts. Whoever pushes is judged by the policy before
    /// the push as well, so a push that changes where commits land, or under whose name, waits until this names it.
    #[arg(long, env = "STEPGATE_TRUST_POLICY", value_name = "COMMIT")]
    pub(in crate::cli) trust_policy: Option<CommitId>,
    /// A folder of manifests, addressed by host and path of their URI. With a name it counts where `stepgate.yaml` has that name under
    /// `mirrors`. May be given several times: the first hit wins.
    #[arg(long = "mirror", env = "STEPGATE_MIRROR", value_delimiter = ':', value_name = "[NAME=]DIR")]
    pub(in crate::cli) mirrors: Vec<MirrorFolder>,
    /// The key that signs commits: the file of an SSH key, or `gpg:` and the id of a GPG key. With it every commit is signed; without it
    /// Stepgate commits nothing where `stepgate.yaml` asks for signatures.
    #[arg(long, env = "STEPGATE_SIGNING_KEY", value_name = "FILE|gpg:ID")]
    pub(in crate::cli) signing_key: Option<Signing>,
    /// A host under `fetch.allow` that may have a loopback, link-local or private address. May be given several times.
    #[arg(long = "private-host", env = "STEPGATE_PRIVATE_HOSTS", value_delimiter = ',', value_name = "HOST")]
    pub(in crate::cli) private_hosts: Vec<String>,
    /// A namespace whose pull secrets may be used to ask registries for images of its pods, where these give them to nobody without a login:
    /// each login for its own host alone. `eksa-system` lets the login of EKS Anywhere's mirror be used. May be given several times.
    #[arg(long = "pull-secrets", env = "STEPGATE_PULL_SECRETS", value_delimiter = ',', value_name = "NAMESPACE")]
    pub(in crate::cli) pull_secrets: Vec<String>,
    /// File with the token for the forge that `stepgate.yaml` names; it is read for each request.
    #[arg(long, env = "STEPGATE_FORGE_TOKEN_FILE", value_name = "FILE")]
    pub(in crate::cli) forge_token_file: Option<PathBuf>,
    /// The id of a GitHub App that is installed on the fleet repository, in the place of a token.
    #[arg(
        long,
        env = "STEPGATE_FORGE_APP_ID",
        requires = "forge_app_key_file",
        conflicts_with = "forge_token_file",
        value_name = "ID"
    )]
    pub(in crate::cli) forge_app_id: Option<String>,
    /// File with that App's private key.
    #[arg(long, env = "STEPGATE_FORGE_APP_KEY_FILE", requires = "forge_app_id", value_name = "FILE")]
    pub(in crate::cli) forge_app_key_file: Option<PathBuf>,
    /// A host that may see the token, besides the fleet repository's. May be given several times.
    #[arg(long = "forge-host", env = "STEPGATE_FORGE_HOSTS", value_delimiter = ',', value_name = "HOST")]
    pub(in crate::cli) forge_hosts: Vec<String>,
}

impl FleetArguments {
    /// Mirror folders.
    pub(crate) fn mirrors(&self) -> &[MirrorFolder] {
        &self.mirrors
    }

    /// Hosts that may have a private address.
    pub(crate) fn private_hosts(&self) -> &[String] {
        &self.private_hosts
    }
}

/// What a verb takes that reports on the clusters of a fleet.
#[derive(Clone, Debug, Args)]
pub struct ReportArguments {
    #[command(flatten)]
    pub(in crate::cli) fleet: FleetArguments,
    /// Only this cluster.
    #[arg(long, value_name = "NAME", add = super::names::clusters())]
    pub(in crate::cli) cluster: Option<String>,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    pub(in crate::cli) output: Format,
}

impl ReportArguments {
    /// Opens the repository and names the clusters to report on.
    ///
    /// # Errors
    /// When a branch cannot be read, or there is no such cluster.
    pub(in crate::cli) fn open(&self) -> Result<(super::fleet::Opened, Vec<String>), CommandError> {
        let opened = super::fleet::open(&self.fleet)?;
        let names = opened.clusters(self.cluster.as_deref())?;
        Ok((opened, names))
    }
}

/// How clusters are reached.
#[derive(Clone, Debug, Args)]
pub struct ClusterArguments {
    /// Kubeconfig of the management cluster; without it `KUBECONFIG`, then `~/.kube/config`.
    #[arg(long, env = "STEPGATE_KUBECONFIG", value_name = "FILE")]
    pub(in crate::cli) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, env = "STEPGATE_CONTEXT", value_name = "NAME")]
    pub(in crate::cli) context: Option<String>,
    /// Use the service account of the pod that this program runs in.
    #[arg(long, env = "STEPGATE_IN_CLUSTER", conflicts_with_all = ["kubeconfig", "context"])]
    pub(in crate::cli) in_cluster: bool,
    /// Which cluster of the fleet that is: the one management cluster of this process. Without it that has to be recorded in the cluster's ledger
    /// (`stepgate adopt`), or to follow from the kubeconfig that Cluster API keeps of it there.
    #[arg(long, env = "STEPGATE_MANAGEMENT_CLUSTER", value_name = "NAME")]
    pub(in crate::cli) management_cluster: Option<String>,
    /// How many requests one API server gets in a second; twice as many may go at once.
    #[arg(long, env = "STEPGATE_REQUESTS_PER_SECOND", value_name = "NUMBER", default_value_t = REQUESTS_PER_SECOND)]
    pub(in crate::cli) requests_per_second: u32,
    /// How long one request may take, in seconds.
    #[arg(long, env = "STEPGATE_REQUEST_TIMEOUT", value_name = "SECONDS", default_value_t = REQUEST_TIMEOUT.as_secs())]
    pub(in crate::cli) request_timeout: u64,
    /// Where Cluster API objects are saved before a rollout.
    #[arg(long, env = "STEPGATE_BACKUPS", default_value = "stepgate-backups", value_name = "DIR")]
    pub(in crate::cli) backups: PathBuf,
    #[command(flatten)]
    pub(in crate::cli) eksctl: super::eksctl::EksctlArguments,
}

impl ClusterArguments {
    /// Connects. No request is made: whether a server answers shows at the first reading.
    pub(in crate::cli) fn open(&self) -> Result<Arc<dyn Clusters>, CommandError> {
        self.clusters(self.connect()?, self.place())
    }

    /// Whether somebody named how a cluster is reached.
    pub(in crate::cli) fn is_explicit(&self) -> bool {
        self.in_cluster || self.kubeconfig.is_some() || self.context.is_some()
    }

    /// Where backups are, as whoever takes none sees it.
    pub(in crate::cli) fn place(&self) -> BackupPlace {
        self.backups.clone().into()
    }

    /// The clusters that are reached through this connection, and where their backups go.
    pub(in crate::cli) fn clusters(
        &self,
        connection: Result<Connection, ConnectionError>,
        backups: BackupPlace,
    ) -> Result<Arc<dyn Clusters>, CommandError> {
        match connection {
            Ok(connection) => {
                let clusters = KubernetesClusters::new(connection, backups);
                // The Deployment of an installation has an empty variable where nobody has named it.
                let named = self.management_cluster.clone().filter(|name| !name.is_empty());
                Ok(Arc::new(clusters.connected_to(named).with_programs(self.eksctl.open()?)))
            }
            Err(error) if self.is_explicit() => Err(error.into()),
            // Plans and reasons that follow from git can be had without any cluster.
            Err(error) => Ok(Arc::new(NoAccess::new(error.to_string()))),
        }
    }

    /// A connection by which strangers' tokens are reviewed, so slowly that nothing else waits for them.
    pub(in crate::cli) fn review(&self) -> Result<Connection, CommandError> {
        let connection = self
            .connect()?
            .map_err(|error| CommandError::from(error).context("people are known by the management cluster"))?;
        Ok(connection.with_requests_per_second(crate::cli::run::endpoints::REVIEW_REQUESTS_PER_SECOND))
    }

    /// A connection to the management cluster, with a limit of its own.
    pub(in crate::cli) fn connect(&self) -> Result<Result<Connection, ConnectionError>, CommandError> {
        let source = if self.in_cluster {
            ConnectionSource::InCluster
        } else {
            ConnectionSource::Kubeconfig { path: self.kubeconfig.clone(), context: self.context.clone() }
        };
        let opened = crate::cli::run::verb::runtime()?.block_on(Connection::open(&source));
        let timeout = Duration::from_secs(self.request_timeout.max(1));
        Ok(opened.map(|connection| connection.with_timeout(timeout).with_requests_per_second(self.requests_per_second)))
    }
}
