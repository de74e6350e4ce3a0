//! Every metric, in one struct. Labels have few values: none grows with commits, objects or texts, and `cluster` ends at a limit.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use rollout::{StageId, StageName};

use crate::reconcile::{ClusterOutcome, ReconcileReport};

/// Clusters that have series of their own; those beyond count in the sums only.
const MOST_CLUSTERS: usize = 2000;

/// Upper bounds of how long stages take, in seconds: a minute to a week.
const STAGE_BUCKETS: [f64; 10] =
    [60.0, 300.0, 900.0, 1800.0, 3600.0, 10_800.0, 21_600.0, 86_400.0, 259_200.0, 604_800.0];

type Seconds = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PassResult {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Cluster {
    cluster: String,
    state: &'static str,
    stage: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ClusterName {
    cluster: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Wave {
    wave: String,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Stage {
    stage: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Commit {
    stage: &'static str,
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Announcement {
    sink: String,
    result: &'static str,
}

/// The metrics of this process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    passes: Family<PassResult, Counter>,
    pass_duration: Histogram,
    last_pass: Seconds,
    clusters: Family<State, Gauge>,
    cluster: Family<Cluster, Gauge>,
    stage_since: Family<ClusterName, Seconds>,
    waits_for_people: Family<ClusterName, Gauge>,
    waves: Family<Wave, Gauge>,
    commits: Family<Commit, Counter>,
    stage_duration: Family<Stage, Histogram>,
    leads: Gauge,
    announcements: Family<Announcement, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("stepgate");
        let metrics = Self {
            passes: Family::default(),
            pass_duration: Histogram::new([0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0]),
            last_pass: Seconds::default(),
            clusters: Family::default(),
            cluster: Family::default(),
            stage_since: Family::default(),
            waits_for_people: Family::default(),
            waves: Family::default(),
            commits: Family::default(),
            stage_duration: Family::new_with_constructor(|| Histogram::new(STAGE_BUCKETS)),
            leads: Gauge::default(),
            announcements: Family::default(),
            registry: Registry::default(),
        };
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The program", version);
        registry.register(
            "passes",
            "ReconcileLoop over the fleet, by whether the fleet could be read",
            metrics.passes.clone(),
        );
        let duration = metrics.pass_duration.clone();
        registry.register_with_unit("pass_duration", "How long passes took", Unit::Seconds, duration);
        let last = metrics.last_pass.clone();
        registry.register_with_unit("last_pass_timestamp", "When the last pass ended, Unix time", Unit::Seconds, last);
        registry.register("clusters", "Clusters by state", metrics.clusters.clone());
        registry.register("cluster_state", "1 for the state and stage of each cluster", metrics.cluster.clone());
        let since = metrics.stage_since.clone();
        registry.register_with_unit(
            "stage_since_timestamp",
            "When the newest stage of each running rollout was committed, Unix time",
            Unit::Seconds,
            since,
        );
        let asked = metrics.waits_for_people.clone();
        registry.register("waits_for_people", "1 for each cluster whose next commit people are asked for", asked);
        registry.register("wave_state", "1 for the state of each wave", metrics.waves.clone());
        let stage_duration = metrics.stage_duration.clone();
        registry.register_with_unit(
            "stage_duration",
            "From the commit of a stage to the one that follows: gate, soak, windows and approvals",
            Unit::Seconds,
            stage_duration,
        );
        registry.register("stage_commits", "Commits on the deploy branch", metrics.commits.clone());
        registry.register("leads", "1 while this process holds the Lease, or needs none", metrics.leads.clone());
        let told = metrics.announcements.clone();
        registry.register("announcements", "Announcements by sink, and what came of them", told);
        Self { registry, ..metrics }
    }
}

impl Metrics {
    /// A pass ended at `at` (Unix time in seconds); none where the fleet could not be read.
    pub fn passed(&self, pass: Option<&ReconcileReport>, duration: Duration, at: f64) {
        let result = if pass.is_some() { "success" } else { "failure" };
        self.passes.get_or_create(&PassResult { result }).inc();
        self.pass_duration.observe(duration.as_secs_f64());
        let Some(pass) = pass else { return };
        self.last_pass.set(at);
        for state in ClusterOutcome::WORDS {
            let count = pass.clusters.iter().filter(|cluster| cluster.outcome.word() == state).count();
            self.clusters.get_or_create(&State { state }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        // Of clusters that moved on, or are gone, nothing stays.
        self.cluster.clear();
        self.stage_since.clear();
        self.waits_for_people.clear();
        self.waves.clear();
        for progress in pass.waves.iter().take(MOST_CLUSTERS) {
            let labels = Wave { wave: progress.wave.name.clone(), state: progress.state.word() };
            self.waves.get_or_create(&labels).set(1);
        }
        for cluster in pass.clusters.iter().take(MOST_CLUSTERS) {
            let stage = cluster.outcome.stage().map_or("", stage_word);
            let labels = Cluster { cluster: cluster.cluster.clone(), state: cluster.outcome.word(), stage };
            self.cluster.get_or_create(&labels).set(1);
            let name = ClusterName { cluster: cluster.cluster.clone() };
            if let Some(since) = cluster.stage_since {
                self.stage_since.get_or_create(&name).set(since.as_duration().as_secs_f64());
            }
            if cluster.proposed.is_some() {
                self.waits_for_people.get_or_create(&name).set(1);
            }
        }
    }

    /// A pass pushed what it says: to be called once for each pass that is not one seen before.
    pub fn committed(&self, pass: &ReconcileReport) {
        for commit in pass.clusters.iter().flat_map(|cluster| &cluster.committed) {
            let kind = if commit.reverted { "revert" } else { "commit" };
            self.commits.get_or_create(&Commit { stage: stage_word(&commit.stage), kind }).inc();
            if let Some(closed) = &commit.follows {
                let stage = Stage { stage: stage_word(&closed.stage) };
                self.stage_duration.get_or_create(&stage).observe(closed.took.as_secs_f64());
            }
        }
    }

    /// Whether this process works, or stands by.
    pub fn leads(&self, leads: bool) {
        self.leads.set(i64::from(leads));
    }

    /// Something came of an announcement: `told`, `later`, `refused` or `dropped`.
    pub fn announced(&self, sink: &str, result: &'static str) {
        self.announcements.get_or_create(&Announcement { sink: sink.to_owned(), result }).inc();
    }

    /// All metrics in the text format of `OpenMetrics`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a text does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// The stage without what people name: worker groups and versions have no limit.
fn stage_word(stage: &StageId) -> &'static str {
    match &stage.name {
        StageName::Preflight => "preflight",
        StageName::Backup => "backup",
        StageName::Bundle => "bundle",
        StageName::CertManager => "cert-manager",
        StageName::Capi => "capi",
        StageName::EksA => "eks-a",
        StageName::CiliumPreflight => "cilium-preflight",
        StageName::Cilium => "cilium",
        StageName::Flux => "flux",
        StageName::Etcd => "etcd",
        StageName::ControlPlane => "control-plane",
        StageName::Addons | StageName::Addon(_) => "addons",
        StageName::Workers(_) => "workers",
        StageName::Templates => "templates",
        StageName::Fargate => "fargate",
        StageName::Leftovers => "leftovers",
        StageName::Verify => "verify",
    }
}

#[cfg(test)]
mod tests {
    use planning::progress::WaveProgress;
    use rollout::{Reason, WaveState};

    use super::*;
    use jiff::SignedDuration;

    use crate::reconcile::{ClosedStage, ClusterPass, CommittedStage};

    #[test]
    fn states_are_counted_and_what_was_before_is_forgotten() {
        let metrics = Metrics::default();
        let stage: StageId = "workers/md-0".parse().unwrap();
        let waiting = ClusterOutcome::Waiting { stage: Some(stage.clone()), reason: Reason::new("a"), until: None };
        let mut pass = ReconcileReport {
            clusters: vec![ClusterPass::new("one", waiting), ClusterPass::new("two", ClusterOutcome::Done)],
            waves: vec![WaveProgress {
                wave: policy::Wave::named("canary"),
                state: WaveState::Stopped(Reason::new("a")),
                members: Vec::new(),
            }],
        };
        pass.clusters[0].committed.push(CommittedStage {
            stage,
            commit: "0".repeat(40).parse().unwrap(),
            reverted: false,
            evidence: Vec::new(),
            follows: Some(ClosedStage { stage: StageName::ControlPlane.into(), took: SignedDuration::from_mins(20) }),
        });
        pass.clusters[0].stage_since = Some("1970-01-01T01:00:00Z".parse().unwrap());
        pass.clusters[0].proposed = Some("stepgate/one".parse().unwrap());
        metrics.passed(Some(&pass), Duration::from_millis(20), 1.5);
        metrics.committed(&pass);
        let text = metrics.text();
        for expected in [
            "stepgate_cluster_state{cluster=\"one\",state=\"waiting\",stage=\"workers\"} 1",
            "stepgate_cluster_state{cluster=\"two\",state=\"done\",stage=\"\"} 1",
            "stepgate_clusters{state=\"held\"} 0",
            "stepgate_stage_commits_total{stage=\"workers\",kind=\"commit\"} 1",
            "stepgate_stage_duration_seconds_bucket{le=\"900.0\",stage=\"control-plane\"} 0",
            "stepgate_stage_duration_seconds_bucket{le=\"1800.0\",stage=\"control-plane\"} 1",
            "stepgate_stage_since_timestamp_seconds{cluster=\"one\"} 3600.0",
            "stepgate_waits_for_people{cluster=\"one\"} 1",
            "stepgate_wave_state{wave=\"canary\",state=\"stopped\"} 1",
            "stepgate_passes_total{result=\"success\"} 1",
            "stepgate_last_pass_timestamp_seconds 1.5",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        metrics.passed(
            Some(&ReconcileReport {
                clusters: vec![ClusterPass::new("one", ClusterOutcome::Done)],
                ..ReconcileReport::default()
            }),
            Duration::ZERO,
            2.0,
        );
        metrics.passed(None, Duration::ZERO, 3.0);
        let text = metrics.text();
        assert!(
            !text.contains("stepgate_waits_for_people{")
                && !text.contains("stepgate_wave_state{")
                && !text.contains("stage_since_timestamp_seconds{"),
            "{text}"
        );
        assert!(!text.contains("cluster=\"two\"") && !text.contains("workers\"} 1\n# "), "{text}");
        assert!(text.contains("stepgate_passes_total{result=\"failure\"} 1"), "{text}");
        assert!(text.contains("stepgate_last_pass_timestamp_seconds 2.0"), "{text}");
    }

    #[test]
    fn a_fleet_without_end_has_series_with_an_end() {
        let metrics = Metrics::default();
        let clusters =
            (0..3 * MOST_CLUSTERS).map(|index| ClusterPass::new(&format!("c{index}"), ClusterOutcome::Done)).collect();
        metrics.passed(Some(&ReconcileReport { clusters, ..ReconcileReport::default() }), Duration::ZERO, 0.0);
        let text = metrics.text();
        assert_eq!(text.matches("stepgate_cluster_state{").count(), MOST_CLUSTERS);
        assert!(text.contains(&format!("stepgate_clusters{{state=\"done\"}} {}", 3 * MOST_CLUSTERS)), "end");
    }
}
