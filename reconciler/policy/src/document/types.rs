//! The typed form of `stepgate.yaml`.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use yaml::Node;

use super::schema::{
    CiliumText, DurationText, EksctlApplyText, FetchText, FreezeText, ScalarText, every_field_is_optional,
    named_by_stage, of_one_cluster,
};
use crate::Freeze;
use crate::document::announce::AnnouncePolicy;
use crate::document::pattern::data::DataPattern;
use crate::document::pattern::paths::PathPattern;
use crate::document::sections::addresses::GivenAddresses;
use crate::document::sections::drift::DriftPolicy;
use crate::document::sections::force_drain::ForceDrain;
use crate::document::sections::forge::ForgePolicy;
use crate::document::sections::injection::InjectionRule;
use crate::document::sections::lease::Paused;
use crate::document::sections::notes::ReleaseNote;
use crate::document::sections::settings::StageSettings;
use crate::document::sections::updates::UpdatePolicy;
use crate::document::sections::waivers::Waiver;
use crate::document::wave::Wave;
use domain::RepoPath;

/// Where Stepgate writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct Deploy {
    /// The branch that Flux watches.
    pub branch: String,
    /// A folder of that branch, for teams that cannot use a second branch; the branch's top level when absent.
    #[schemars(with = "Option<String>")]
    pub path: Option<RepoPath>,
}

/// Who applies what is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Apply {
    /// Flux applies the deploy branch.
    Flux,
    /// Stepgate applies it by server-side apply.
    Direct,
    /// Somebody's pipeline runs eksctl on it: for clusters of eksctl.
    Pipeline,
    /// Stepgate runs eksctl, what the stage is about and nothing else: for clusters of eksctl.
    Eksctl,
}

/// Who carries out clusters of Tanzu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TanzuMode {
    /// The controllers of a Supervisor.
    #[default]
    Front,
    /// Cluster API, by the objects that Stepgate makes of a `TanzuKubernetesCluster`.
    Render,
}

/// Whose machines the rendered objects are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TanzuInfrastructure {
    /// Cluster API's provider for vSphere, in its supervisor mode.
    #[default]
    Vsphere,
    /// Cluster API's development provider, with machines in memory: for trials.
    InMemory,
}

/// How clusters of Tanzu are carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct TanzuPolicy {
    /// By whom.
    pub mode: TanzuMode,
    /// On which infrastructure, where Stepgate renders them.
    pub infrastructure: TanzuInfrastructure,
    /// Add-ons of an image that others look after: neither applied nor waited for.
    pub unmanaged: Vec<String>,
    /// How long a machine may take to come up where Stepgate renders them, before it is made anew.
    #[serde(serialize_with = "super::duration::serialize")]
    #[schemars(with = "DurationText")]
    pub machine_timeout: Duration,
}

impl Default for TanzuPolicy {
    fn default() -> Self {
        Self {
            mode: TanzuMode::default(),
            infrastructure: TanzuInfrastructure::default(),
            unmanaged: Vec::new(),
            machine_timeout: Duration::from_secs(15 * 60),
        }
    }
}

/// What is asked of the signatures of manifests; the later ones ask for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Signatures {
    /// Nothing.
    Off,
    /// One that is missing or does not fit is told.
    Warn,
    /// One that is missing or does not fit forbids the rollout.
    Require,
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

/// Who the commits are by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct Author {
    /// Name.
    pub name: String,
    /// Address.
    pub email: String,
}

/// The kind of key that signs commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SigningFormat {
    /// An SSH key, by `ssh-keygen -Y sign`.
    Ssh,
    /// A GPG key, by `gpg`.
    Gpg,
}

/// How commits are signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct Signing {
    /// The kind of key. Which key it is, the operator of Stepgate says, never the repository.
    pub format: SigningFormat,
}

/// The Flux source object that watches the deploy branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct FluxSource {
    /// Its kind, `GitRepository` unless told.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// How the Flux objects are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct FluxPolicy {
    /// Namespace of Flux, its source and its Kustomizations.
    pub namespace: String,
    /// The source that watches the deploy branch.
    pub source: FluxSource,
    /// How often Flux reconciles without an event.
    #[serde(serialize_with = "super::duration::serialize")]
    #[schemars(with = "DurationText")]
    pub interval: Duration,
    /// How Flux decrypts what is encrypted in specifications of clusters.
    pub decryption: Option<FluxDecryption>,
}

/// How Flux decrypts with SOPS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct FluxDecryption {
    /// Secret that holds the keys, in the namespace of Flux.
    pub secret: Option<String>,
    /// Service account that may use the keys of a cloud.
    pub service_account: Option<String>,
}

/// Which backups of Cluster API objects count, and how many stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct BackupPolicy {
    /// How old the backup of a rollout may be when the rollout begins.
    #[serde(serialize_with = "super::duration::serialize")]
    #[schemars(with = "DurationText")]
    pub max_age: Duration,
    /// How many of each cluster stay, the newest.
    pub keep: u32,
    /// How old one of those may grow, but for the newest whole one; without it, as old as it likes.
    #[serde(serialize_with = "super::duration::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DurationText")]
    pub keep_for: Option<Duration>,
}

impl Default for BackupPolicy {
    fn default() -> Self {
        Self { max_age: Duration::from_secs(24 * 60 * 60), keep: 5, keep_for: None }
    }
}

/// What becomes of Secret objects in provider manifests that hold variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderSecrets {
    /// They are left out of git; somebody else keeps them in the cluster.
    Omit,
    /// They are rendered like everything else. The values then stand in git.
    Render,
}

/// What a group of clusters shares.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema)]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct EnvironmentPolicy {
    /// Cluster names, or patterns with `*`, that belong to it.
    pub clusters: Vec<String>,
    /// For every stage.
    #[schemars(flatten)]
    pub settings: StageSettings,
    /// By stage.
    #[schemars(transform = named_by_stage)]
    pub stages: BTreeMap<String, StageSettings>,
    /// Which bundle.
    #[schemars(with = "Option<String>")]
    pub bundle: Option<BundleSelection>,
    /// Who applies what is committed: `pipeline` or `eksctl`, for clusters of eksctl among others.
    #[schemars(with = "Option<EksctlApplyText>")]
    pub apply: Option<Apply>,
    /// How clusters of Tanzu are carried out.
    pub tanzu: Option<TanzuPolicy>,
    /// Whether versions may go down.
    pub allow_downgrade: Option<bool>,
    /// Whether an upgrade over several minors goes through those in between, by a rollout each.
    pub chained_upgrades: Option<bool>,
    /// Whether `metadata.forceUpdateVersion` of a cluster of eksctl may override what EKS says.
    pub allow_forced_update: Option<bool>,
    /// Whether the control plane of a cluster of EKS may go back a minor while EKS takes it back.
    pub allow_minor_rollback: Option<bool>,
    /// Whether Stepgate restarts what runs on old nodes of Fargate, one workload after another.
    pub restart_fargate: Option<bool>,
    /// Pods that may be deleted past their budget; levels add up.
    pub force_drain: Vec<ForceDrain>,
    /// Days on which nothing begins; levels add up.
    #[schemars(with = "Vec<FreezeText>")]
    pub freezes: Vec<Freeze>,
    /// Values for `${VAR}` in provider manifests.
    #[schemars(with = "BTreeMap<String, ScalarText>")]
    pub variables: BTreeMap<String, String>,
    /// Values merged over those of EKS Anywhere for Cilium's chart.
    #[schemars(with = "Option<CiliumText>")]
    pub cilium: Option<Node>,
    /// Whether its rollouts stand still, for a while or until that is taken out.
    pub paused: Paused,
    /// What may be deleted although it holds data.
    #[schemars(with = "Vec<String>")]
    pub delete_data: Vec<DataPattern>,
    /// What checks find and the team lives with for a while.
    pub waivers: Vec<Waiver>,
    /// What is no drift.
    pub drift: DriftPolicy,
}

/// What one cluster has of its own.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema)]
#[schemars(rename_all = "camelCase", transform = of_one_cluster)]
pub struct ClusterPolicy {
    /// The environment it belongs to, when not by pattern.
    pub environment: Option<String>,
    /// The rest is as in an environment; `clusters` stays empty.
    #[schemars(flatten)]
    pub own: EnvironmentPolicy,
    /// Worker groups in the order of their upgrade, those of eksctl without their versions too. The rest goes where `others`
    /// stands, by name; without it, it follows as in the specification.
    pub worker_order: Vec<String>,
    /// Free addresses of the subnets of a cluster of EKS, where nobody asks AWS.
    pub addresses: GivenAddresses,
}

/// `stepgate.yaml`.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct Policy {
    /// Where Stepgate writes.
    pub deploy: Deploy,
    /// Who applies.
    pub apply: Apply,
    /// What is asked of the signatures of Bundles and EKS-D releases.
    pub signatures: Signatures,
    /// What may be deleted although it holds data, when it is in git no longer.
    #[schemars(with = "Vec<String>")]
    pub delete_data: Vec<DataPattern>,
    /// What checks find and the team lives with for a while; levels add up.
    pub waivers: Vec<Waiver>,
    /// What is no drift; levels add up.
    pub drift: DriftPolicy,
    /// What the team has to read, or do, before versions, besides what Stepgate knows of them.
    pub notes: Vec<ReleaseNote>,
    /// Sidecars that pods ask for, besides those of Vault, Istio and Linkerd.
    pub injection: Vec<InjectionRule>,
    /// Whether the whole fleet stands still ("stop the line").
    pub paused: Paused,
    /// Which bundle clusters follow that do not say; `None` when absent, which means: `bundlesRef` or `eksaVersion` of
    /// the cluster, else the newest.
    #[schemars(with = "Option<String>")]
    pub bundle: Option<BundleSelection>,
    /// How clusters of Tanzu are carried out.
    pub tanzu: TanzuPolicy,
    /// Whether versions may go down.
    pub allow_downgrade: bool,
    /// Whether an upgrade over several minors of EKS Anywhere or Kubernetes goes through those in between, by a rollout each.
    pub chained_upgrades: bool,
    /// Whether `metadata.forceUpdateVersion` of clusters of eksctl may override what EKS says.
    pub allow_forced_update: bool,
    /// Whether control planes of clusters of EKS may go back a minor while EKS takes them back.
    pub allow_minor_rollback: bool,
    /// Whether Stepgate restarts what runs on old nodes of Fargate, one workload after another.
    pub restart_fargate: bool,
    /// Pods that may be deleted past their budget while nodes are drained; levels add up.
    pub force_drain: Vec<ForceDrain>,
    /// For every stage of every cluster.
    #[schemars(flatten)]
    pub settings: StageSettings,
    /// By stage, for every cluster.
    #[schemars(transform = named_by_stage)]
    pub stages: BTreeMap<String, StageSettings>,
    /// Days on which nothing begins; levels add up.
    #[schemars(with = "Vec<FreezeText>")]
    pub freezes: Vec<Freeze>,
    /// Order of clusters; a cluster in no wave goes after all of them.
    pub waves: Vec<Wave>,
    /// Groups of clusters by name.
    pub environments: BTreeMap<String, EnvironmentPolicy>,
    /// Single clusters by name.
    pub clusters: BTreeMap<String, ClusterPolicy>,
    /// Files and folders that are not read for specifications: templates, examples.
    #[schemars(with = "Vec<String>")]
    pub ignore: Vec<PathPattern>,
    /// Names of mirrors to look manifests and charts up in, first hit wins. Where they are, the operator of Stepgate says.
    pub mirrors: Vec<String>,
    /// Hosts (or `host/path` prefixes) that manifests and charts may be fetched from over HTTPS: registries too, and the hosts
    /// that these send on to for tokens and blobs.
    #[schemars(rename = "fetch", with = "FetchText")]
    pub fetch_allow: Vec<String>,
    /// Values for `${VAR}` in provider manifests.
    #[schemars(with = "BTreeMap<String, ScalarText>")]
    pub variables: BTreeMap<String, String>,
    /// What becomes of provider Secrets with variables.
    pub provider_secrets: ProviderSecrets,
    /// The repository of a registry that `stepgate upgrader build` pushes to, with the release as tag: nodes that are
    /// upgraded in place get the image of their release from there.
    pub upgraders: Option<String>,
    /// Values merged over those of EKS Anywhere for Cilium's chart.
    #[schemars(with = "Option<CiliumText>")]
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
    /// Which backups count, and how many stay.
    pub backup: BackupPolicy,
    /// Where pull requests are opened for what is proposed, if they are.
    pub forge: Option<ForgePolicy>,
    /// What is told of rollouts, and by which sinks.
    pub announce: AnnouncePolicy,
    /// Which new versions are proposed, if any are.
    pub updates: Option<UpdatePolicy>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            deploy: Deploy { branch: "deploy".to_owned(), path: None },
            apply: Apply::Flux,
            signatures: Signatures::Warn,
            delete_data: Vec::new(),
            waivers: Vec::new(),
            drift: DriftPolicy::default(),
            notes: Vec::new(),
            injection: Vec::new(),
            paused: Paused::No,
            bundle: None,
            tanzu: TanzuPolicy::default(),
            allow_downgrade: false,
            chained_upgrades: false,
            allow_forced_update: false,
            allow_minor_rollback: false,
            restart_fargate: false,
            force_drain: Vec::new(),
            settings: StageSettings::default(),
            stages: BTreeMap::new(),
            freezes: Vec::new(),
            waves: Vec::new(),
            environments: BTreeMap::new(),
            clusters: BTreeMap::new(),
            ignore: Vec::new(),
            mirrors: Vec::new(),
            fetch_allow: Vec::new(),
            variables: BTreeMap::new(),
            provider_secrets: ProviderSecrets::Omit,
            upgraders: None,
            cilium: None,
            author: Author { name: "Stepgate".to_owned(), email: "stepgate@localhost".to_owned() },
            signing: None,
            flux: FluxPolicy {
                namespace: "flux-system".to_owned(),
                source: FluxSource { kind: "GitRepository".to_owned(), name: "flux-system".to_owned() },
                interval: Duration::from_secs(600),
                decryption: None,
            },
            backup: BackupPolicy::default(),
            forge: None,
            announce: AnnouncePolicy::default(),
            updates: None,
            groups: BTreeMap::new(),
            people: BTreeMap::new(),
        }
    }
}
