//! Opening the fleet repository that a verb was pointed at.

use std::sync::Arc;
use std::time::Duration;

use cluster::Cluster;
use domain::{ProblemCode, nearest};
use overlays::Fleet;

use super::error::CommandError;
use super::output;
use crate::cli::terminal::progress::transferring;
use crate::cli::{ClusterArguments, FleetArguments};
use crate::reconcile::cache::sources::FetchSources;
use crate::reconcile::planner::{ClusterView, FleetReading, PlanError, Planner};
use forge::{ForgeAccess, ForgeCredential};
use git::{GitError, GitSettings, LastSeen, Limits, ListedSnapshot, Pace, Repository, RepositoryLocation};

/// How many clusters an error names, at most.
const SPELLED_OUT: usize = 10;

/// The repository, and the source branch as it is now.
pub struct Opened {
    /// Reads plans of it.
    pub planner: Planner,
    /// Both branches.
    pub reading: FleetReading,
}

impl Opened {
    /// The source commit.
    pub fn source(&self) -> &ListedSnapshot {
        &self.reading.source.files
    }

    /// What the source commit says.
    pub fn fleet(&self) -> &Fleet {
        &self.reading.fleet
    }

    /// Tells, on standard error, the errors that stop no cluster: reports about clusters do not hold them.
    pub fn remark(&self) {
        for problem in self.fleet().errors_of_nobody() {
            output::note(&format!("error: {problem}"));
        }
        let (branch, head) = (&self.reading.layout.branch, self.reading.deploy_head());
        let tracked = self.planner.repository().tracked(branch).into_iter().next();
        if let (Some(head), Some(LastSeen { commit, by })) = (head, tracked)
            && *head != commit
        {
            let used = crate::reconcile::clusters::missing::used_repository(&by);
            output::note(&format!("warning: this is a clone, whose branch {branch} is not at {by}: {used}"));
        }
    }

    /// The clusters that a verb is about: the one named, or all, those whose files cannot be read included.
    ///
    /// # Errors
    /// When the one named is not there; the hint names those that are.
    pub fn clusters(&self, name: Option<&str>) -> Result<Vec<String>, CommandError> {
        let known = self.fleet().clusters.iter().map(|cluster| cluster.name.clone());
        let unreadable = self.fleet().unreadable_clusters().into_iter().map(str::to_owned);
        let names: Vec<String> = known.chain(unreadable).collect();
        match name {
            None if names.is_empty() => Err(self.no_cluster()),
            None => Ok(names),
            Some(name) if names.iter().any(|known| known == name) => Ok(vec![name.to_owned()]),
            Some(name) => {
                let error =
                    CommandError::new(format!("there is no cluster {name} on branch {}", self.planner.source_branch()));
                Err(error.hint(those_there_are(name, &names)).hint("`stepgate check` says what was left out, and why"))
            }
        }
    }

    /// What is said where no cluster is found, with what was looked for.
    fn no_cluster(&self) -> CommandError {
        let branch = self.planner.source_branch();
        let problem = self.fleet().problems.iter().find(|problem| problem.code == ProblemCode::NoCluster);
        match problem {
            Some(problem) => {
                let error = CommandError::new(format!("branch {branch}: {}", problem.message));
                problem.hint.iter().fold(error, |error, hint| error.hint(hint.clone()))
            }
            None => match self.fleet().problems.iter().find(|problem| problem.is_error()) {
                Some(problem) => CommandError::new(format!("no cluster of branch {branch} can be read: {problem}")),
                None => CommandError::new(format!("there is no cluster on branch {branch}")),
            },
        }
    }

    /// The view of one cluster.
    ///
    /// # Errors
    /// As [`Planner::view`].
    pub fn view(&self, name: &str) -> Result<ClusterView, PlanError> {
        self.planner.view(&self.reading, name)
    }

    /// The views of several clusters, in their order.
    pub fn views(&self, names: &[String]) -> Vec<Result<ClusterView, PlanError>> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.planner.views(&self.reading, &names)
    }

    /// The cluster of a view, as the controller would reach it: who writes there proves first that it is this one.
    ///
    /// # Errors
    /// When there are no credentials for an API server.
    pub fn cluster(&self, view: &ClusterView, access: &ClusterArguments) -> Result<Arc<dyn Cluster>, CommandError> {
        let connection = access.connect()??;
        let clusters = access.clusters(Ok(connection), access.place())?;
        Ok(clusters.referred(&view.cluster, &self.planner.reference(&self.reading, &view.cluster)))
    }
}

/// Which clusters there are instead of the one named.
fn those_there_are(name: &str, names: &[String]) -> String {
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    match known.get(..SPELLED_OUT) {
        Some(first) if known.len() > SPELLED_OUT => match nearest(name, &known) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => format!("clusters are: {}, and {} more", first.join(", "), known.len() - SPELLED_OUT),
        },
        _ if known.is_empty() => "the branch describes no cluster: they are found by kind, in any folder".to_owned(),
        _ => {
            let nearest = nearest(name, &known).map(|nearest| format!("did you mean {nearest}? ")).unwrap_or_default();
            format!("{nearest}clusters are: {}", known.join(", "))
        }
    }
}

/// A planner for the repository, without reading it yet.
///
/// # Errors
/// When the repository cannot be opened, or there is no folder where its secret is said to be.
pub fn planner(arguments: &FleetArguments) -> Result<Planner, CommandError> {
    let location: RepositoryLocation = arguments.repo.parse()?;
    if let Some(secret) = arguments.git_secret.as_ref().filter(|secret| !secret.is_dir()) {
        return Err(CommandError::new(format!("the git secret {} is not a folder", secret.display()))
            .hint("name a folder with `username` and `password`, or `identity` and `known_hosts`, by --git-secret"));
    }
    let limits = arguments.repo_limits.iter().fold(Limits::default(), |limits, set| limits.with(set.limit, set.number));
    let pace = Pace {
        bytes_per_second: arguments.git_pace.max(1),
        patience: Duration::from_secs(arguments.git_patience.max(1)),
    };
    let settings = GitSettings { secret: arguments.git_secret.clone(), limits, pace, ..GitSettings::default() };
    let repository = Repository::open_with(&location, &settings).map_err(explain)?;
    let branch = arguments.source_branch.parse()?;
    let sources = sources(arguments);
    let access = ForgeAccess { credential: credential(arguments), hosts: arguments.forge_hosts.clone() };
    let signing = arguments.signing_key.clone().unwrap_or_default();
    let planner = Planner::new(repository, branch, Arc::new(sources)).with_forge(access).with_signing(signing);
    Ok(planner.trusting(arguments.trust_policy.clone()))
}

/// Where manifests and charts come from.
pub fn sources(arguments: &FleetArguments) -> FetchSources {
    // What an installation leaves empty names none.
    let namespaces = arguments.pull_secrets.iter().filter(|namespace| !namespace.is_empty()).cloned().collect();
    FetchSources::new(arguments.mirrors.clone())
        .with_private_hosts(arguments.private_hosts.clone())
        .with_pull_secrets_of(namespaces)
}

fn credential(arguments: &FleetArguments) -> Option<ForgeCredential> {
    match (&arguments.forge_app_id, &arguments.forge_app_key_file) {
        (Some(id), Some(key_file)) => Some(ForgeCredential::App { id: id.clone(), key_file: key_file.clone() }),
        _ => arguments.forge_token_file.clone().map(ForgeCredential::Token),
    }
}

/// Opens the repository and reads both branches.
///
/// # Errors
/// When a branch cannot be read.
pub fn open(arguments: &FleetArguments) -> Result<Opened, CommandError> {
    let planner = planner(arguments)?;
    let reading = transferring(|| planner.read()).map_err(explain)?;
    Ok(Opened { planner, reading })
}

/// As [`open`], for somebody who wants to know what is wrong with the source branch.
///
/// # Errors
/// As [`open`].
pub fn open_to_check(arguments: &FleetArguments) -> Result<Opened, CommandError> {
    let planner = planner(arguments)?;
    let reading = transferring(|| planner.read_to_check()).map_err(explain)?;
    Ok(Opened { planner, reading })
}

/// A git error with what to do about it.
pub fn explain(error: GitError) -> CommandError {
    let hint = error.hint();
    let error = CommandError::from(error);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Verb {
        #[command(flatten)]
        fleet: FleetArguments,
    }

    #[test]
    fn a_secret_that_is_no_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        Repository::create(folder.path(), &"main".parse().unwrap()).unwrap();
        let repo = folder.path().display().to_string();
        let open = |secret: &str| {
            let verb = Verb::parse_from(["stepgate", "--repo", &repo, "--git-secret", secret]);
            planner(&verb.fleet).map(drop)
        };
        open(&repo).unwrap();
        let error = open("/nowhere/git").unwrap_err();
        assert!(error.to_string().contains("the git secret /nowhere/git is not a folder"), "{error}");
    }

    #[test]
    fn whoever_names_no_cluster_is_told_of_those_there_are() {
        let many: Vec<String> = (0..12).map(|number| format!("cluster-{number:02}")).collect();
        for (name, names, expected) in [
            ("prod", &[][..], "the branch describes no cluster: they are found by kind, in any folder"),
            ("cluster-011", &many[..], "did you mean cluster-01?"),
            ("prod", &many[..2], "clusters are: cluster-00, cluster-01"),
            ("clustr-00", &many[..2], "did you mean cluster-00? clusters are: cluster-00, cluster-01"),
        ] {
            assert_eq!(those_there_are(name, names), expected);
        }
        assert!(those_there_are("prod", &many).ends_with("cluster-09, and 2 more"));
    }
}
