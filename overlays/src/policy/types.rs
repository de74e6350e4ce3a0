//! The typed form of `stepgate.yaml`.

use std::collections::BTreeMap;
use std::time::Duration;

use kustomize_rs::yaml::Node;
use serde::Serialize;

use super::approvers::ApproverRules;
use super::data::DataPattern;
use super::forge::ForgePolicy;
use super::pattern::matches_pattern;
use crate::RepoPath;

/// Where Stepgate writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deploy {
    /// The branch that Flux watches.
    pub branch: String,
    /// A folder of that branch, for teams that cannot use a second branch; the branch's top level when absent.
    pub path: Option<RepoPath>,
}

/// Who applies what is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Apply {
    /// Flux applies the deploy branch.
    Flux,
    /// Stepgate applies it by server-side apply.
    Direct,
}

/// Who has to agree before a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Approval {
    /// Nobody.
    None,
    /// One approval for the whole plan.
    Rollout,
    /// One approval for each stage.
    Stage,
}

/// What happens when a gate fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// The rollout stops where it is.
    Hold,
    /// The previous tree of the stage is committed back, where that is safe.
    Revert,
}

/// Which Bundles manifest a cluster follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BundleSelection {
    /// The one with the highest number.
    Newest,
    /// The one with this `metadata.name`.
    Name(String),
}

/// The settings of one stage on one cluster, complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StagePolicy {
    /// How long the gate must hold without a break.
    #[serde(serialize_with = "super::duration::serialize")]
    pub soak: Duration,
    /// How long the gate may take before it fails.
    #[serde(serialize_with = "super::duration::serialize")]
    pub timeout: Duration,
    /// Who has to agree first.
    pub approval: Approval,
    /// What a failed gate leads to.
    pub on_failure: OnFailure,
    /// What a merge leads to that comes after the source branch has moved on.
    pub on_stale_merge: OnFailure,
    /// How many times a reverted stage is tried again.
    pub retries: u32,
    /// Whether what people change on a proposed branch becomes what is proposed.
    pub accept_edits: bool,
    /// Whose approval is enough.
    pub approvers: ApproverRules,
}

/// Settings as written at one level; what is absent comes from the next weaker level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageSettings {
    /// See [`StagePolicy::soak`].
    pub soak: Option<Duration>,
    /// See [`StagePolicy::timeout`].
    pub timeout: Option<Duration>,
    /// See [`StagePolicy::approval`].
    pub approval: Option<Approval>,
    /// See [`StagePolicy::on_failure`].
    pub on_failure: Option<OnFailure>,
    /// See [`StagePolicy::on_stale_merge`].
    pub on_stale_merge: Option<OnFailure>,
    /// See [`StagePolicy::retries`].
    pub retries: Option<u32>,
    /// See [`StagePolicy::accept_edits`].
    pub accept_edits: Option<bool>,
    /// See [`StagePolicy::approvers`].
    pub approvers: ApproverRules,
}

impl StageSettings {
    fn over(&self, weaker: &mut StagePolicy) {
        weaker.soak = self.soak.unwrap_or(weaker.soak);
        weaker.timeout = self.timeout.unwrap_or(weaker.timeout);
        weaker.approval = self.approval.unwrap_or(weaker.approval);
        weaker.on_failure = self.on_failure.unwrap_or(weaker.on_failure);
        weaker.on_stale_merge = self.on_stale_merge.unwrap_or(weaker.on_stale_merge);
        weaker.retries = self.retries.unwrap_or(weaker.retries);
        weaker.accept_edits = self.accept_edits.unwrap_or(weaker.accept_edits);
        self.approvers.over(&mut weaker.approvers);
    }
}

/// Which of a month's days with one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Week {
    #[default]
    Every,
    First,
    Second,
    Third,
    Fourth,
    Last,
}

/// A day on which a window opens: `monday`, `last sunday`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowDay {
    /// Which of the month's.
    pub week: Week,
    /// ISO number of the day, Monday = 1 to Sunday = 7.
    pub weekday: u8,
}

/// A time in which stages may begin. Outside of every window of its level a stage waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Days on which it opens; every day when empty.
    pub days: Vec<WindowDay>,
    /// Begin, in minutes since midnight.
    pub from: u16,
    /// End, in minutes since midnight; at or before `from` means on the next day.
    pub to: u16,
    /// Time zone of the IANA database, such as `Europe/Berlin`.
    pub time_zone: String,
}

/// Clusters that go together; a wave begins when the one before is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// Its name.
    pub name: String,
    /// Cluster names, or patterns with `*`.
    pub clusters: Vec<String>,
    /// Names of environments whose clusters belong to it.
    pub environments: Vec<String>,
    /// How many of its clusters may be under way at once.
    pub concurrency: u32,
}

/// Who the commits are by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Author {
    /// Name.
    pub name: String,
    /// Address.
    pub email: String,
}

/// The kind of key that signs commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SigningFormat {
    /// An SSH key, by `ssh-keygen -Y sign`.
    Ssh,
    /// A GPG key, by `gpg`.
    Gpg,
}

/// How commits are signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signing {
    /// The kind of key.
    pub format: SigningFormat,
    /// Path of an SSH key on the machine of Stepgate, or id of a GPG key. Never the key itself.
    pub key: String,
}

/// The Flux source object that watches the deploy branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FluxSource {
    /// Its kind, `GitRepository` unless told.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// How the Flux objects are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FluxPolicy {
    /// Namespace of Flux, its source and its Kustomizations.
    pub namespace: String,
    /// The source that watches the deploy branch.
    pub source: FluxSource,
    /// How often Flux reconciles without an event.
    #[serde(serialize_with = "super::duration::serialize")]
    pub interval: Duration,
}

/// What becomes of Secret objects in provider manifests that hold variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderSecrets {
    /// They are left out of git; somebody else keeps them in the cluster.
    Omit,
    /// They are rendered like everything else. The values then stand in git.
    Render,
}

/// What a group of clusters shares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvironmentPolicy {
    /// Cluster names, or patterns with `*`, that belong to it.
    pub clusters: Vec<String>,
    /// For every stage.
    pub settings: StageSettings,
    /// By stage.
    pub stages: BTreeMap<String, StageSettings>,
    /// Which bundle.
    pub bundle: Option<BundleSelection>,
    /// Whether versions may go down.
    pub allow_downgrade: Option<bool>,
    /// When stages may begin.
    pub windows: Vec<Window>,
    /// Values for `${VAR}` in provider manifests.
    pub variables: BTreeMap<String, String>,
    /// Values merged over those of EKS Anywhere for Cilium's chart.
    pub cilium: Option<Node>,
    /// Whether its rollouts stand still.
    pub paused: Option<bool>,
    /// What may be deleted although it holds data.
    pub delete_data: Vec<DataPattern>,
}

/// What one cluster has of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterPolicy {
    /// The environment it belongs to, when not by pattern.
    pub environment: Option<String>,
    /// The rest is as in an environment; `clusters` stays empty.
    pub own: EnvironmentPolicy,
    /// Worker groups in the order of their upgrade; the rest follows as in the specification.
    pub worker_order: Vec<String>,
}

/// `stepgate.yaml`.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Where Stepgate writes.
    pub deploy: Deploy,
    /// Who applies.
    pub apply: Apply,
    /// What may be deleted although it holds data, when it is in git no longer.
    pub delete_data: Vec<DataPattern>,
    /// Whether the whole fleet stands still ("stop the line").
    pub paused: bool,
    /// Which bundle clusters follow that do not say; `None` when absent, which means: `bundlesRef` or `eksaVersion` of
    /// the cluster, else the newest.
    pub bundle: Option<BundleSelection>,
    /// Whether versions may go down.
    pub allow_downgrade: bool,
    /// For every stage of every cluster.
    pub settings: StageSettings,
    /// By stage, for every cluster.
    pub stages: BTreeMap<String, StageSettings>,
    /// When stages may begin.
    pub windows: Vec<Window>,
    /// Order of clusters; a cluster in no wave goes after all of them.
    pub waves: Vec<Wave>,
    /// Groups of clusters by name.
    pub environments: BTreeMap<String, EnvironmentPolicy>,
    /// Single clusters by name.
    pub clusters: BTreeMap<String, ClusterPolicy>,
    /// Folders on Stepgate's machine to look manifests and charts up in, first hit wins.
    pub mirrors: Vec<String>,
    /// Hosts (or `host/path` prefixes) that manifests and charts may be fetched from over HTTPS: registries too, and the hosts
    /// that these send on to for tokens and blobs.
    pub fetch_allow: Vec<String>,
    /// Values for `${VAR}` in provider manifests.
    pub variables: BTreeMap<String, String>,
    /// What becomes of provider Secrets with variables.
    pub provider_secrets: ProviderSecrets,
    /// Values merged over those of EKS Anywhere for Cilium's chart.
    pub cilium: Option<Node>,
    /// Groups of people that rules for approvals name: users of the forge, addresses of commits.
    pub groups: BTreeMap<String, Vec<String>>,
    /// The other names of people: by a user of the forge, the addresses that commits have for them.
    pub people: BTreeMap<String, Vec<String>>,
    /// Who the commits are by.
    pub author: Author,
    /// How commits are signed, if they are.
    pub signing: Option<Signing>,
    /// How the Flux objects are written.
    pub flux: FluxPolicy,
    /// Where pull requests are opened for what is proposed, if they are.
    pub forge: Option<ForgePolicy>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            deploy: Deploy { branch: "deploy".to_owned(), path: None },
            apply: Apply::Flux,
            delete_data: Vec::new(),
            paused: false,
            bundle: None,
            allow_downgrade: false,
            settings: StageSettings::default(),
            stages: BTreeMap::new(),
            windows: Vec::new(),
            waves: Vec::new(),
            environments: BTreeMap::new(),
            clusters: BTreeMap::new(),
            mirrors: Vec::new(),
            fetch_allow: Vec::new(),
            variables: BTreeMap::new(),
            provider_secrets: ProviderSecrets::Omit,
            cilium: None,
            author: Author { name: "Stepgate".to_owned(), email: "stepgate@localhost".to_owned() },
            signing: None,
            flux: FluxPolicy {
                namespace: "flux-system".to_owned(),
                source: FluxSource { kind: "GitRepository".to_owned(), name: "flux-system".to_owned() },
                interval: Duration::from_secs(600),
            },
            forge: None,
            groups: BTreeMap::new(),
            people: BTreeMap::new(),
        }
    }
}

impl Policy {
    /// The defaults of Stepgate for one stage, before anything the team says.
    pub fn stage_default(stage: &str) -> StagePolicy {
        const MINUTE: u64 = 60;
        let (soak, timeout) = match stage.split(['/', '@']).next().unwrap_or(stage) {
            "preflight" | "bundle" => (0, 10 * MINUTE),
            "backup" => (0, 30 * MINUTE),
            "cilium-preflight" | "cilium" => (MINUTE, 60 * MINUTE),
            "etcd" | "control-plane" | "workers" => (2 * MINUTE, 120 * MINUTE),
            "verify" => (2 * MINUTE, 30 * MINUTE),
            _ => (MINUTE, 30 * MINUTE),
        };
        StagePolicy {
            soak: Duration::from_secs(soak),
            timeout: Duration::from_secs(timeout),
            approval: Approval::None,
            on_failure: OnFailure::Hold,
            on_stale_merge: OnFailure::Hold,
            retries: 0,
            accept_edits: false,
            approvers: ApproverRules::default(),
        }
    }

    /// The settings of `stage` (as in `control-plane`, `workers/md-0` or `cilium@v1.18.2-0`) on `cluster`.
    pub fn effective(&self, cluster: &str, stage: &str) -> StagePolicy {
        let stage = stage.split('@').next().unwrap_or(stage);
        let mut policy = Self::stage_default(stage);
        let by_stage = |stages: &BTreeMap<String, StageSettings>, policy: &mut StagePolicy| {
            if stage.starts_with("workers/")
                && let Some(settings) = stages.get("workers")
            {
                settings.over(policy);
            }
            if let Some(settings) = stages.get(stage) {
                settings.over(policy);
            }
        };
        self.settings.over(&mut policy);
        by_stage(&self.stages, &mut policy);
        for level in self.levels(cluster) {
            level.settings.over(&mut policy);
            by_stage(&level.stages, &mut policy);
        }
        policy
    }

    /// The name of the environment of `cluster`: the one it names, else the first by name with a fitting pattern.
    pub fn environment_of(&self, cluster: &str) -> Option<&str> {
        if let Some(named) = self.clusters.get(cluster).and_then(|own| own.environment.as_deref()) {
            return Some(named);
        }
        self.environments
            .iter()
            .find(|(_, environment)| environment.clusters.iter().any(|pattern| matches_pattern(pattern, cluster)))
            .map(|(name, _)| name.as_str())
    }

    /// Environment, then cluster: from weak to strong.
    fn levels(&self, cluster: &str) -> impl DoubleEndedIterator<Item = &EnvironmentPolicy> {
        let environment = self.environment_of(cluster).and_then(|name| self.environments.get(name));
        environment.into_iter().chain(self.clusters.get(cluster).map(|own| &own.own))
    }

    /// Whether `cluster` stands still, by the fleet's, its environment's or its own `paused`. A pause cannot be lifted by
    /// a more specific level: stop the line stops everybody.
    pub fn is_paused(&self, cluster: &str) -> bool {
        self.paused || self.levels(cluster).any(|level| level.paused == Some(true))
    }

    /// Whether versions may go down on `cluster`.
    pub fn allows_downgrade(&self, cluster: &str) -> bool {
        self.levels(cluster).rev().find_map(|level| level.allow_downgrade).unwrap_or(self.allow_downgrade)
    }

    /// The bundle that the team chose for `cluster`, if it did.
    pub fn bundle_selection(&self, cluster: &str) -> Option<&BundleSelection> {
        self.levels(cluster).rev().find_map(|level| level.bundle.as_ref()).or(self.bundle.as_ref())
    }

    /// The windows of the most specific level that has any; none means: at any time.
    pub fn windows(&self, cluster: &str) -> &[Window] {
        self.levels(cluster)
            .rev()
            .map(|level| level.windows.as_slice())
            .find(|windows| !windows.is_empty())
            .unwrap_or(&self.windows)
    }

    /// The variables of `cluster`, all levels merged by name.
    pub fn variables(&self, cluster: &str) -> BTreeMap<String, String> {
        let mut variables = self.variables.clone();
        for level in self.levels(cluster) {
            variables.extend(level.variables.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        variables
    }

    /// What may be deleted of `cluster` although it holds data, by any level.
    pub fn delete_data(&self, cluster: &str) -> Vec<DataPattern> {
        self.delete_data.iter().chain(self.levels(cluster).flat_map(|level| &level.delete_data)).cloned().collect()
    }

    /// The team's values for Cilium's chart, from weak to strong.
    pub fn cilium_values(&self, cluster: &str) -> Vec<&Node> {
        self.cilium.iter().chain(self.levels(cluster).filter_map(|level| level.cilium.as_ref())).collect()
    }

    /// The worker groups `groups` in the order that the team wants.
    pub fn worker_order<'a>(&self, cluster: &str, groups: &'a [String]) -> Vec<&'a str> {
        let wanted = self.clusters.get(cluster).map(|own| own.worker_order.as_slice()).unwrap_or_default();
        let first = wanted.iter().filter_map(|name| groups.iter().find(|group| *group == name));
        let rest = groups.iter().filter(|group| !wanted.contains(group));
        first.chain(rest).map(String::as_str).collect()
    }

    /// The index of the wave of `cluster` in [`Policy::waves`]; `None` for a cluster that goes after all waves.
    pub fn wave_of(&self, cluster: &str) -> Option<usize> {
        let environment = self.environment_of(cluster);
        self.waves.iter().position(|wave| {
            wave.clusters.iter().any(|pattern| matches_pattern(pattern, cluster))
                || environment.is_some_and(|name| wave.environments.iter().any(|wanted| wanted == name))
        })
    }
}
