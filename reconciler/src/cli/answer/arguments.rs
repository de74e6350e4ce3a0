//! What every verb is told by which a person answers: of which fleet and cluster, who it is, and whether it is meant.

use clap::Args;

use crate::cli::FleetArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::fleet::{self, Opened};
use crate::reconcile::planner::ClusterView;
use git::{Identity, Repository};

/// The cluster, and who answers.
#[derive(Debug, Args)]
pub struct AnswerArguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    person: PersonArguments,
    /// The cluster.
    #[arg(add = crate::cli::common::names::clusters())]
    cluster: String,
}

/// A cluster of an opened fleet, and who answers; nobody in a dry run.
pub struct Answer {
    /// The fleet.
    pub opened: Opened,
    /// The cluster.
    pub view: ClusterView,
    /// The person.
    pub by: Option<Identity>,
}

impl AnswerArguments {
    /// Hosts that may have a private address.
    pub fn private_hosts(&self) -> &[String] {
        &self.fleet.private_hosts
    }

    /// The cluster's name, as it was given.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Opens the fleet and looks at the cluster.
    ///
    /// # Errors
    /// When the fleet cannot be read, has no such cluster, or it is meant and nobody says who answers.
    pub fn open(&self) -> Result<Answer, CommandError> {
        let opened = fleet::open(&self.fleet)?;
        opened.clusters(Some(&self.cluster))?;
        let by = self.person.identity(opened.planner.repository())?;
        let view = opened.view(&self.cluster)?;
        Ok(Answer { opened, view, by })
    }
}

/// The cluster or the wave, and who answers.
#[derive(Debug, Args)]
pub struct AnsweredArguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    person: PersonArguments,
    /// The cluster.
    #[arg(add = crate::cli::common::names::clusters(), required_unless_present = "wave", conflicts_with = "wave")]
    cluster: Option<String>,
    /// The wave, where `approval` of `waves` asks about it as a whole: whether it may begin, or whether the next one may by what has become of
    /// it. What is said counts for the plans that its clusters have now.
    #[arg(long, value_name = "NAME", add = crate::cli::common::names::waves())]
    wave: Option<String>,
}

/// What is answered.
pub enum Answered {
    /// What is asked of a cluster.
    Cluster(Box<Answer>),
    /// What is asked of a wave.
    Wave(Box<WaveAnswer>),
}

/// A wave of an opened fleet, and who answers; nobody in a dry run.
pub struct WaveAnswer {
    /// The fleet.
    pub opened: Opened,
    /// The wave's name.
    pub wave: String,
    /// The person.
    pub by: Option<Identity>,
}

impl AnsweredArguments {
    /// Opens the fleet and looks at what is answered.
    ///
    /// # Errors
    /// As [`AnswerArguments::open`].
    pub fn open(&self) -> Result<Answered, CommandError> {
        let opened = fleet::open(&self.fleet)?;
        match (&self.cluster, &self.wave) {
            (_, Some(wave)) => {
                let by = self.person.identity(opened.planner.repository())?;
                Ok(Answered::Wave(Box::new(WaveAnswer { opened, wave: wave.clone(), by })))
            }
            (cluster, None) => {
                let cluster = cluster.as_deref().unwrap_or_default();
                opened.clusters(Some(cluster))?;
                let by = self.person.identity(opened.planner.repository())?;
                let view = opened.view(cluster)?;
                Ok(Answered::Cluster(Box::new(Answer { opened, view, by })))
            }
        }
    }
}

/// Who answers a proposal, and whether it is meant.
#[derive(Debug, Args)]
pub struct PersonArguments {
    /// Who answers, `Name <address>`; without it, git's own configuration says who you are.
    #[arg(long = "as", value_name = "PERSON")]
    person: Option<String>,
    /// Do it. Without it, only what would be done is said.
    #[arg(long)]
    yes: bool,
}

impl PersonArguments {
    /// The person; none for a dry run.
    ///
    /// # Errors
    /// When it is meant and nobody says who answers.
    pub fn identity(&self, repository: &Repository) -> Result<Option<Identity>, CommandError> {
        let identity = match &self.person {
            Some(person) => Some(person.parse()?),
            None => repository.identity(),
        };
        match identity {
            None if self.yes => Err(CommandError::new("nobody is named who answers")
                .hint("set user.name and user.email in git's configuration, or use --as 'Name <address>'")),
            identity => Ok(identity.filter(|_| self.yes)),
        }
    }
}
