//! New versions, proposed as changes of the source branch: a bundle with its lock, a Kubernetes minor.
//!
//! Architecture Invariant: what is published is a hint. Hosts that may be asked are named by whoever runs the program; what
//! comes is verified, planned for every cluster, and asked of people as a pull request or a branch. The source branch
//! itself is never written.

mod branch;
mod bundle;
mod downloads;
mod judge;
mod kubernetes;

use std::sync::Arc;

use domain::BranchName;
use fetch::{AllowList, Chain, FetchOptions, Mirror, MirrorFolder, Remote};
use forge::Forge;
use jiff::Timestamp;
use overlays::Manifests;
use policy::{UpdatePolicy, Windows};

use super::planner::{FleetReading, Planner, Sources};
use branch::Standing;

/// Below which branches updates are proposed.
pub const PREFIX: &str = "stepgate-updates/";

/// Where an update stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpdateState {
    /// There is nothing later.
    Current,
    /// It would be proposed: the run is dry.
    Due,
    /// It is proposed.
    Proposed,
    /// Somebody closed what proposed it.
    Declined,
    /// It is not proposed, by rules of the policy or since it is not its time yet.
    PassedOver,
    /// Its signature or its plan forbids it.
    Refused,
    /// Something failed: it is tried again.
    Failed,
}

impl UpdateState {
    /// The state as one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Due => "due",
            Self::Proposed => "proposed",
            Self::Declined => "declined",
            Self::PassedOver => "passed-over",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// What was found of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// What it is: `eksa`, `kubernetes`, `eks`.
    pub kind: &'static str,
    /// The version; none where nothing is later.
    pub version: String,
    /// Where it stands.
    pub state: UpdateState,
    /// Where people see it: a pull request or a branch.
    pub place: Option<String>,
    /// Whether nobody is asked once it is merged; none where no plan was made.
    pub automatic: Option<bool>,
    /// What there is to say.
    pub message: String,
}

impl Update {
    fn new(kind: &'static str, version: impl Into<String>, state: UpdateState, message: impl Into<String>) -> Self {
        Self { kind, version: version.into(), state, place: None, automatic: None, message: message.into() }
    }

    /// The same, whose merge is all that is needed, or not.
    fn automatic(self, automatic: bool) -> Self {
        let is_open = matches!(self.state, UpdateState::Due | UpdateState::Proposed);
        Self { automatic: Some(automatic).filter(|_| is_open), ..self }
    }
}

/// Who proposes updates.
pub struct Updater {
    planner: Planner,
    sources: Arc<dyn Sources>,
    hosts: Vec<String>,
    private_hosts: Vec<String>,
    mirrors: Vec<MirrorFolder>,
    is_dry: bool,
}

/// What one run goes by.
struct Run<'a> {
    updater: &'a Updater,
    reading: &'a FleetReading,
    policy: &'a UpdatePolicy,
    forge: Option<Arc<Forge>>,
    now: Timestamp,
    /// Branches on which something is proposed, and those that stay as they are.
    kept: Vec<BranchName>,
}

impl Updater {
    /// An updater that asks these hosts and nobody else, and looks into these mirrors first.
    #[must_use]
    pub fn new(
        planner: Planner,
        sources: Arc<dyn Sources>,
        mirrors: Vec<MirrorFolder>,
        hosts: Vec<String>,
        private_hosts: Vec<String>,
    ) -> Self {
        Self { planner, sources, hosts, private_hosts, mirrors, is_dry: false }
    }

    /// The same, which proposes nothing and says what it would.
    #[must_use]
    pub fn dry(self, is_dry: bool) -> Self {
        Self { is_dry, ..self }
    }

    /// Looks for new versions and proposes what may be proposed; none where `stepgate.yaml` has no `updates`.
    ///
    /// # Errors
    /// When the fleet cannot be read, or its policy cannot be understood.
    pub async fn run(&self, now: Timestamp) -> anyhow::Result<Option<Vec<Update>>> {
        let reading = self.planner.read()?;
        let Some(policy) = reading.fleet.policy.updates.clone() else { return Ok(None) };
        if let Some(problem) = reading.fleet.errors_of_everybody().next() {
            anyhow::bail!("nothing is proposed before stepgate.yaml and bundles.lock can be read: {problem}");
        }
        let schedule = Windows::from(policy.schedule.clone());
        if !schedule.contains(now) {
            let opens = schedule.next(now).map_or_else(|| "at no time in sight".to_owned(), |at| format!("at {at}"));
            let message = format!("`updates.schedule` is closed; it opens {opens}");
            return Ok(Some(vec![Update::new("all", "", UpdateState::PassedOver, message)]));
        }
        let forge = self.planner.forge(&reading)?;
        self.planner.repository().refresh_below(PREFIX)?;
        let mut run = Run { updater: self, reading: &reading, policy: &policy, forge, now, kept: Vec::new() };
        let (mut updates, is_known) = Box::pin(run.bundle()).await;
        updates.extend(Box::pin(run.kubernetes()).await);
        // Where something failed it is not known what is asked no more.
        let is_known = is_known && updates.iter().all(|update| update.state != UpdateState::Failed);
        if is_known && !self.is_dry {
            for (branch, error) in Box::pin(run.withdraw_others()).await {
                updates.push(Update::new("all", branch.to_string(), UpdateState::Failed, format!("{error:#}")));
            }
        }
        Ok(Some(updates))
    }

    /// Where manifests come from: mirrors without a name and those that the policy names, then the hosts that may be asked.
    fn manifests(&self, reading: &FleetReading) -> anyhow::Result<Arc<dyn Manifests>> {
        let named = &reading.fleet.policy.mirrors;
        let is_meant = |mirror: &&MirrorFolder| mirror.name.as_ref().is_none_or(|name| named.contains(name));
        let folders = self.mirrors.iter().filter(is_meant).map(|mirror| mirror.path.clone());
        let mut sources: Vec<Box<dyn Manifests>> = vec![Box::new(Mirror::open(folders)?)];
        if !self.hosts.is_empty() {
            let (allow, private_hosts) = (AllowList::new(self.hosts.clone()), self.private_hosts.clone());
            sources.push(Box::new(Remote::new(FetchOptions { allow, private_hosts, ..FetchOptions::default() })?));
        }
        Ok(Arc::new(Chain::new(sources)))
    }
}

impl Run<'_> {
    /// What is said of a version that stands like this.
    fn told(kind: &'static str, version: &str, standing: anyhow::Result<Standing>) -> Update {
        let told = |state, message: String, place| Update { place, ..Update::new(kind, version, state, message) };
        match standing {
            Ok(Standing::Open { place, is_new: true }) => {
                told(UpdateState::Proposed, "it is proposed now".to_owned(), Some(place))
            }
            Ok(Standing::Open { place, is_new: false }) => {
                told(UpdateState::Proposed, "it waits for people".to_owned(), Some(place))
            }
            Ok(Standing::Due(branch)) => {
                let message = format!("it would be proposed as {branch}; --yes proposes it");
                told(UpdateState::Due, message, None)
            }
            Ok(Standing::Closed(place)) => {
                let message = "what proposed it was closed or taken back: it is not proposed again".to_owned();
                told(UpdateState::Declined, message, Some(place))
            }
            Ok(Standing::Changed(branch)) => {
                let message = "people have changed its branch, which is left as it is".to_owned();
                told(UpdateState::Proposed, message, Some(branch.to_string()))
            }
            Err(error) => told(UpdateState::Failed, format!("{error:#}"), None),
        }
    }
}
