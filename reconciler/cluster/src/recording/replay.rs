//! Gates on recordings: what `control-plane` and `workers/<group>` would have said at each moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::GroupName;
use jiff::{SignedDuration, Timestamp};
use policy::StagePolicy;
use rollout::{
    ControlPlaneExpectation, GateHistory, GateVerdict, KubeletVersions, MachineOrderRules, Observation, Reachability,
    StageName, WorkersExpectation, control_plane_gate, workers_gate,
};
use serde::Serialize;

use super::observation::RecordedClusters;
use super::sample::Sample;

/// A gap between two samples that breaks a streak of healthy reads.
const LONGEST_GAP: Duration = Duration::from_secs(3600);

/// What a gate says of one sample. The order is that of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateState {
    /// Everything expected holds.
    Pass,
    /// Not yet, or not known.
    Wait,
    /// It will not pass by waiting.
    Fail,
}

impl GateState {
    /// The word in JSON and in tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Wait => "wait",
            Self::Fail => "fail",
        }
    }
}

/// The verdict of one gate on one sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ReplayedGate {
    /// The verdict.
    pub verdict: GateState,
    /// Why; for a pass, what it rests on.
    pub reason: String,
}

/// The verdicts on one sample.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SampleVerdicts {
    /// Seconds since the recording began; 0 for a folder of dumped objects.
    pub t: f64,
    /// The gates by stage: `control-plane` and `workers/<group>`.
    pub gates: BTreeMap<String, ReplayedGate>,
}

/// A cluster in a recording: namespace and name.
type ClusterKey = (String, String);

/// Judges samples one after another.
///
/// The rules are those of a rollout, without a commit to be bound to: a gate passes when everything holds in two consecutive
/// samples. A kubelet's version is compared where it was recorded. Where a recording holds several clusters and none was chosen,
/// a gate passes when it does for every one of them, and the reason names the cluster that stands behind the verdict.
#[derive(Debug)]
pub struct GateReplay {
    version: String,
    only: Option<String>,
    stacked_etcd: Option<bool>,
    policy: StagePolicy,
    recorded: RecordedClusters,
    seen: BTreeMap<ClusterKey, BTreeSet<GroupName>>,
    histories: BTreeMap<(ClusterKey, StageName), GateHistory>,
}

impl GateReplay {
    /// A replay that expects `version`: `1.35`, `v1.35.0` or `v1.35.0-eks-1-35-4`, as far as it is known.
    #[must_use]
    pub fn new(version: impl Into<String>) -> Self {
        let policy =
            StagePolicy { soak: Duration::ZERO, maximum_age: LONGEST_GAP, minimum_reads: 2, ..StagePolicy::default() };
        Self {
            version: version.into(),
            only: None,
            stacked_etcd: None,
            policy,
            recorded: RecordedClusters::default(),
            seen: BTreeMap::new(),
            histories: BTreeMap::new(),
        }
    }

    /// Judges the cluster of this name alone.
    #[must_use]
    pub fn cluster(mut self, name: Option<String>) -> Self {
        self.only = name;
        self
    }

    /// Whether etcd runs on the control-plane machines. Without a word it does, unless an `EtcdadmCluster` of the cluster was seen.
    #[must_use]
    pub fn stacked_etcd(mut self, stacked: Option<bool>) -> Self {
        self.stacked_etcd = stacked;
        self
    }

    /// How long a gate must hold without a break before it passes; none by default.
    #[must_use]
    pub fn soak(mut self, soak: Duration) -> Self {
        self.policy.soak = soak;
        self
    }

    /// Names of all clusters seen so far, those that are not judged included.
    #[must_use]
    pub fn clusters(&self) -> BTreeSet<&str> {
        self.seen.keys().map(|(_, name)| name.as_str()).collect()
    }

    /// The verdicts on the next sample of a recording.
    pub fn judge(&mut self, sample: &Sample) -> SampleVerdicts {
        let observation = self.recorded.observe(sample);
        SampleVerdicts { t: sample.t, gates: self.judge_observation(&observation) }
    }

    /// The verdicts on dumped objects. A folder does not change between two reads, so one reading counts as two.
    pub fn judge_dump(&mut self, observation: &Observation) -> SampleVerdicts {
        self.judge_observation(observation);
        let mut again = observation.clone();
        again.read_at = later(observation.read_at, SignedDuration::from_secs(1));
        SampleVerdicts { t: 0.0, gates: self.judge_observation(&again) }
    }

    fn judge_observation(&mut self, observation: &Observation) -> BTreeMap<String, ReplayedGate> {
        self.remember(observation);
        let clusters: Vec<_> = self
            .seen
            .iter()
            .filter(|((_, name), _)| self.only.as_ref().is_none_or(|only| only == name))
            .map(|(cluster, groups)| (cluster.clone(), groups.clone()))
            .collect();
        let mut gates = BTreeMap::new();
        if clusters.is_empty() {
            gates.insert(StageName::ControlPlane.to_string(), nothing(observation));
        }
        let several = clusters.len() > 1;
        for (cluster, groups) in clusters {
            for stage in [StageName::ControlPlane].into_iter().chain(groups.into_iter().map(StageName::Workers)) {
                let mut gate = self.judge_gate(&cluster, &stage, observation);
                if several {
                    gate.reason = format!("cluster {}: {}", cluster.1, gate.reason);
                }
                let worst = gates.entry(stage.to_string()).or_insert_with(|| gate.clone());
                if gate.verdict > worst.verdict {
                    *worst = gate;
                }
            }
        }
        gates
    }

    fn remember(&mut self, observation: &Observation) {
        let mut cluster =
            |namespace: &String, name: &String| self.seen.entry((namespace.clone(), name.clone())).or_default().len();
        for known in &observation.clusters {
            cluster(&known.namespace, &known.name);
        }
        for known in &observation.control_planes {
            cluster(&known.namespace, &known.cluster);
        }
        for known in &observation.machine_deployments {
            let groups = self.seen.entry((known.namespace.clone(), known.cluster.clone())).or_default();
            groups.extend(known.group.clone());
        }
        for known in &observation.machine_pools {
            let groups = self.seen.entry((known.namespace.clone(), known.cluster.clone())).or_default();
            groups.extend(known.group.clone());
        }
    }

    fn judge_gate(&mut self, cluster: &ClusterKey, stage: &StageName, observation: &Observation) -> ReplayedGate {
        let (namespace, name) = cluster.clone();
        let key = (cluster.clone(), stage.clone());
        let history = self.histories.remove(&key).unwrap_or_default();
        let kubelet_versions = KubeletVersions::WhenReported;
        let version = self.version.clone();
        let (verdict, history) = match stage {
            StageName::Workers(group) => {
                let version = if names_no_version(cluster, group, observation) { String::new() } else { version };
                let expectation = WorkersExpectation {
                    namespace,
                    cluster: name,
                    group: group.clone(),
                    version,
                    replicas: None,
                    infrastructure_template: None,
                    bootstrap_template: None,
                    kubelet_versions,
                };
                workers_gate(&expectation, observation, &self.policy, &history)
            }
            _ => {
                let external =
                    || observation.etcd_clusters.iter().any(|etcd| etcd.namespace == namespace && etcd.cluster == name);
                let stacked_etcd = self.stacked_etcd.unwrap_or_else(|| !external());
                let expectation = ControlPlaneExpectation {
                    namespace,
                    cluster: name,
                    version,
                    replicas: None,
                    infrastructure_template: None,
                    stacked_etcd,
                    kubelet_versions,
                    kube_vip: None,
                    order: MachineOrderRules::default(),
                    gate: policy::ControlPlaneGate::Whole,
                };
                control_plane_gate(&expectation, observation, &self.policy, &history)
            }
        };
        self.histories.insert(key, history);
        replayed(verdict)
    }
}

/// Whether a worker group is of `MachinePool`s that leave its version to their infrastructure. A
/// recording may have lost the version of a `MachineDeployment`: that opens no gate.
fn names_no_version((namespace, name): &ClusterKey, group: &GroupName, observation: &Observation) -> bool {
    let is_its = |in_namespace: &String, cluster: &String, of: &Option<GroupName>| {
        in_namespace == namespace && cluster == name && of.as_ref() == Some(group)
    };
    if observation.machine_deployments.iter().any(|it| is_its(&it.namespace, &it.cluster, &it.group)) {
        return false;
    }
    let pools = observation.machine_pools.iter();
    let pools = pools.filter(|it| is_its(&it.namespace, &it.cluster, &it.group)).map(|it| &it.spec_version);
    let mut versions = pools.peekable();
    versions.peek().is_some() && versions.all(Option::is_none)
}

fn replayed(verdict: GateVerdict) -> ReplayedGate {
    match verdict {
        GateVerdict::Pass { evidence } => {
            let facts: Vec<String> =
                evidence.facts.iter().map(|fact| format!("{}: {}", fact.object, fact.seen)).collect();
            // How long it has held is left out: the reason stays the same while nothing changes.
            let reason = facts.join("; ");
            ReplayedGate { verdict: GateState::Pass, reason }
        }
        GateVerdict::Wait { reason, .. } => ReplayedGate { verdict: GateState::Wait, reason: reason.to_string() },
        GateVerdict::Fail { reasons } => {
            let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
            ReplayedGate { verdict: GateState::Fail, reason: reasons.join("; ") }
        }
    }
}

fn nothing(observation: &Observation) -> ReplayedGate {
    let reason = match &observation.reachable {
        Reachability::Unreachable { reason } => format!("the cluster cannot be reached: {reason}"),
        Reachability::Reachable => String::from("no Cluster and no control plane found"),
    };
    ReplayedGate { verdict: GateState::Wait, reason }
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(time)
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
