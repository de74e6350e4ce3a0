//! Gates: whether the effect of a commit is there, healthy and stable.
//!
//! Architecture Invariant: a gate passes only for its own commit, on objects whose status was computed from their current generation, on running
//! images of the rendered digest, over at least two confirmed reads.

mod eks;
mod eks_anywhere;
mod etcd;
mod extension;
mod findings;
mod flux;
mod health;
mod in_place;
mod machines;
mod replay;
mod tanzu;
mod workload;

use jiff::{SignedDuration, Timestamp};

use crate::deploy::Landing;
use crate::expectation::Expectation;
use crate::history::{GateHistory, GateKey, Streak};
use crate::identity::ClusterIdentity;
use crate::observation::{FluxKustomization, Observation, Reachability};
use crate::stage::StageId;
use crate::verdict::{Binding, Evidence, GateVerdict, Reason};
use domain::RolloutId;
use policy::StagePolicy;

pub(crate) use etcd::no_way_back;
use findings::Findings;
pub use health::drain::kept_nodes;
pub(crate) use health::leftovers;
use health::{checks, drain, sidecars};
pub(crate) use machines::control_plane::is_same_host;
pub(crate) use machines::order::is_outdated;
pub use machines::order::{MachineOrder, MarkChange, MarkKind, RunningOrder, machine_order};
use machines::{control_plane, workers};
pub use replay::{control_plane_gate, workers_gate};
pub use tanzu::attempts::used_up;
pub use tanzu::{UnaskedRollout, unasked_rollout};
use tanzu::{addons, rendered};
pub(crate) use tanzu::{attempts, secrets};

/// How far a reading may lie ahead of the clock before the clocks count as skewed.
const TOLERATED_SKEW: SignedDuration = SignedDuration::from_secs(5);

/// The least time between two readings of machines of which the second confirms the first: Cluster API's objects have been seen settled for
/// about a second while they were not.
const BETWEEN_READS_OF_MACHINES: SignedDuration = SignedDuration::from_secs(1);

/// The same for everything else, whose status names the generation that it was computed from: the second reading only has to be another one.
const BETWEEN_READS: SignedDuration = SignedDuration::from_millis(1);

/// The gate of one stage.
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// Which one that is, as its ledger records it; none before it is recorded.
    pub identity: Option<&'a ClusterIdentity>,
    /// The stage.
    pub stage: &'a StageId,
    /// The rollout, which a backup has to name.
    pub rollout: &'a RolloutId,
    /// What has to hold.
    pub expectations: &'a [Expectation],
    /// The commit whose effect is judged; none before the first commit, and for recordings.
    pub binding: Option<&'a Binding>,
    /// The policy in force.
    pub policy: &'a StagePolicy,
}

impl Gate<'_> {
    /// The key under which the history remembers this gate.
    #[must_use]
    pub fn key(&self) -> GateKey {
        GateKey { stage: self.stage.clone(), commit: self.binding.map(|binding| binding.commit.clone()) }
    }

    /// What this single reading settles, if everything expected holds in it: the value that [`GateHistory::record`] takes.
    #[must_use]
    pub fn held(&self, observation: &Observation, now: Timestamp) -> Option<String> {
        let findings = self.findings(observation, now);
        findings.holds().then(|| findings.settled())
    }

    /// Whether another backup is to be taken: there is none that counts.
    pub(crate) fn wants_backup(&self, observation: &Observation) -> bool {
        self.expectations.iter().any(|expectation| match expectation {
            Expectation::BackupTaken { maximum_age } => {
                health::backup_problem(self.rollout, *maximum_age, observation).is_some()
            }
            _ => false,
        })
    }

    /// Whether a reading can be relied on, whatever it says.
    pub(crate) fn is_trustworthy(&self, observation: &Observation, now: Timestamp) -> bool {
        let mut findings = Findings::default();
        self.check_reading(observation, now, &mut findings);
        findings.holds()
    }

    /// Whether Flux has applied this gate's commit, by a reading that can be relied on; whether what it applied is healthy is
    /// not asked.
    pub(crate) fn is_applied(&self, observation: &Observation, now: Timestamp) -> bool {
        let has_applied = |namespace: &str, name: &String| {
            let mut known = observation.flux.kustomizations.iter();
            let found = known.find(|known| known.namespace == namespace && &known.name == name);
            self.binding.is_some_and(|binding| found.is_some_and(|known| flux::has_applied(known, binding)))
        };
        let by_flux = self.expectations.iter().all(|expectation| match expectation {
            Expectation::Flux { namespace, kustomizations } => {
                kustomizations.iter().all(|name| has_applied(namespace, name))
            }
            _ => true,
        });
        by_flux && self.is_trustworthy(observation, now)
    }

    /// What Flux refuses of this gate's commit in a reading that can be relied on.
    pub(crate) fn refused(&self, observation: &Observation, now: Timestamp) -> Option<Reason> {
        let is_expected = |known: &&FluxKustomization| {
            self.expectations.iter().any(|expectation| match expectation {
                Expectation::Flux { namespace, kustomizations } => {
                    known.namespace == *namespace && kustomizations.contains(&known.name)
                }
                _ => false,
            })
        };
        let known = observation.flux.kustomizations.iter().filter(is_expected);
        let refused = known.filter_map(|known| flux::refused(known, self.binding));
        refused.reduce(Reason::and).filter(|_| self.is_trustworthy(observation, now))
    }

    /// The verdict on the last reading, without asking for soak and consecutive reads: for stages that passed with both before.
    #[must_use]
    pub fn evaluate_once(&self, observation: &Observation, now: Timestamp) -> GateVerdict {
        let findings = self.findings(observation, now);
        let streak =
            Streak { since: observation.read_at, last: observation.read_at, reads: 1, settled: findings.settled() };
        match findings.into_verdict() {
            Ok((facts, revision)) => self.pass(observation, &streak, facts, revision),
            Err(verdict) => *verdict,
        }
    }

    /// The verdict: everything expected holds, for the soak and for at least two consecutive reads, this one included.
    ///
    /// A wait that lasts longer than the policy's timeout, counted from the commit, is a failure.
    #[must_use]
    pub fn evaluate(&self, observation: Option<&Observation>, history: &GateHistory, now: Timestamp) -> GateVerdict {
        let Some(observation) = observation else {
            return wait(Reason::new("the cluster was not read yet"));
        };
        let findings = self.findings(observation, now);
        let proves = findings.proves();
        let settled = findings.settled();
        let (facts, revision) = match findings.into_verdict() {
            Ok(held) => held,
            Err(verdict) if proves => return self.fail_after_timeout(*verdict, observation),
            // An unknown state is no failure: nothing is undone because an API server was away.
            Err(verdict) => return *verdict,
        };
        // From here on only time is missing: no deadline cuts off what is healthy.
        let reads_needed = self.policy.minimum_reads.max(2);
        let streak = history
            .streak(&self.key())
            .filter(|streak| streak.last == observation.read_at && streak.settled == settled);
        let soak = SignedDuration::try_from(self.policy.soak).unwrap_or(SignedDuration::MAX);
        // Only a second reading is missing: it comes when the soak ends, not at the next leisurely look.
        let confirmed = |since: Timestamp, last: Timestamp| {
            let between = self.between_reads();
            Some(since.checked_add(soak.max(between)).ok()?.max(last.checked_add(between).ok()?))
        };
        let Some(streak) = streak else {
            let message = format!("healthy in one read, {reads_needed} consecutive reads are needed");
            return GateVerdict::Wait {
                reason: Reason::new(message),
                until: confirmed(observation.read_at, observation.read_at),
            };
        };
        if streak.reads < reads_needed {
            let message = format!("healthy in {} of {reads_needed} consecutive reads", streak.reads);
            return GateVerdict::Wait { reason: Reason::new(message), until: confirmed(streak.since, streak.last) };
        }
        let held = streak.last.duration_since(streak.since);
        if held < soak {
            let until = streak.since.checked_add(soak).ok();
            let message = format!("healthy for {} of {} s of soak", held.as_secs(), soak.as_secs());
            return GateVerdict::Wait { reason: Reason::new(message), until };
        }
        if self.binding.is_some() && held < self.between_reads() {
            // Readings that another gate asked for may follow each other faster; those of a recording are as far apart as they were made.
            let until = streak.since.checked_add(self.between_reads()).ok();
            let message = format!("healthy in {} reads of the same moment", streak.reads);
            return GateVerdict::Wait { reason: Reason::new(message), until };
        }
        let facts = facts.into_iter().chain(history.facts(&self.key())).collect();
        self.pass(observation, streak, facts, revision)
    }

    fn pass(
        &self,
        observation: &Observation,
        streak: &Streak,
        facts: Vec<crate::verdict::Fact>,
        applied_revision: Option<domain::CommitId>,
    ) -> GateVerdict {
        GateVerdict::Pass {
            evidence: Evidence {
                commit: self.binding.map(|binding| binding.commit.clone()),
                applied_revision,
                identity: observation.identity.proven().cloned().map(Box::new),
                observed_at: observation.read_at,
                held_since: streak.since,
                reads: streak.reads,
                facts,
            },
        }
    }

    /// A reading from before the deadline does not tell what is there at the deadline: another one is due then.
    fn fail_after_timeout(&self, verdict: GateVerdict, observation: &Observation) -> GateVerdict {
        let Some(deadline) = self.deadline() else { return verdict };
        match verdict {
            GateVerdict::Wait { reason, until: None } if observation.read_at >= deadline => {
                let timeout = Reason::new(format!("not finished {} s after its commit", self.policy.timeout.as_secs()))
                    .help("see the reasons beside this one; the rollout goes on by itself once they are gone");
                GateVerdict::Fail { reasons: reason.and(timeout).into_lines() }
            }
            GateVerdict::Wait { reason, until: None } => GateVerdict::Wait { reason, until: Some(deadline) },
            verdict => verdict,
        }
    }

    fn between_reads(&self) -> SignedDuration {
        let of_machines = self.expectations.iter().any(Expectation::is_of_machines);
        if of_machines { BETWEEN_READS_OF_MACHINES } else { BETWEEN_READS }
    }

    /// When it has taken too long; none where it is not known when its commit landed.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let timeout = SignedDuration::try_from(self.policy.timeout).ok()?;
        let binding = self.binding.filter(|binding| binding.landing != Landing::Unknown)?;
        binding.committed_at.checked_add(timeout).ok()
    }

    fn findings(&self, observation: &Observation, now: Timestamp) -> Findings {
        let mut findings = Findings::default();
        self.check_reading(observation, now, &mut findings);
        if findings.waits() {
            // A reading that proves nothing is not looked into: its objects would only add noise to the reason.
            findings.proves_nothing();
            return findings;
        }
        if self.binding.is_some() && !self.stage.is_without_commit() && !crate::plan::is_bound(self.expectations) {
            findings.wait(
                Reason::new("no expectation ties this gate to its commit")
                    .help("render a Flux Kustomization for the component"),
            );
        }
        extension::check_taken(observation, &mut findings);
        for expectation in self.expectations {
            self.check(expectation, observation, &mut findings);
        }
        if self.expectations.iter().any(Expectation::moves_pods) {
            let committed_at = self.binding.map(|binding| binding.committed_at);
            drain::check(observation, committed_at, &mut findings);
            in_place::check(observation, committed_at, &mut findings);
            in_place::check_rivals(observation, &mut findings);
        }
        findings
    }

    /// Fail closed: a reading that is unreachable, unconfirmed, stale, from the future or from before the commit proves nothing.
    fn check_reading(&self, observation: &Observation, now: Timestamp, findings: &mut Findings) {
        if let Reachability::Unreachable { reason } = &observation.reachable {
            let help = "`kubectl get --raw /readyz` with its kubeconfig tells whether its API server answers; of a workload cluster Stepgate takes \
                        the kubeconfig out of a Secret beside its Cluster object: `kubectl get secrets -A --field-selector \
                        type=cluster.x-k8s.io/secret`; the management cluster is named by --kubeconfig (STEPGATE_KUBECONFIG)";
            findings.wait(Reason::new(format!("the cluster cannot be reached: {reason}")).help(help));
            return;
        }
        match observation.identity.of(self.cluster, self.identity) {
            // Two reads of which the second confirms the first are of one cluster.
            Ok(identity) => findings.settle(identity.uid.as_deref().unwrap_or(&identity.endpoint)),
            Err(reason) => {
                findings.wait(reason);
                return;
            }
        }
        let age = now.duration_since(observation.read_at);
        let maximum_age = SignedDuration::try_from(self.policy.maximum_age).unwrap_or(SignedDuration::MAX);
        if age < -TOLERATED_SKEW {
            let message = format!("the reading is {} s ahead of the clock", -age.as_secs());
            findings.wait(
                Reason::new(message).field("readAt").help("synchronise the clocks of the controller and the cluster"),
            );
        } else if age > maximum_age {
            let message =
                format!("the reading is {} s old, at most {} s are allowed", age.as_secs(), maximum_age.as_secs());
            findings.wait(Reason::new(message).field("readAt"));
        } else if !observation.confirmed {
            findings.wait(Reason::new("the reading comes from a watch and is not confirmed by a fresh one"));
        }
        if let Some(binding) = self.binding {
            if binding.committed_at.duration_since(now) > TOLERATED_SKEW {
                let message = format!("commit {} is dated after the clock", binding.commit);
                findings
                    .wait(Reason::new(message).field("committedAt").help("synchronise the clocks of the controllers"));
            } else if observation.read_at <= binding.committed_at {
                findings
                    .wait(Reason::new(format!("the reading is from before commit {}", binding.commit)).field("readAt"));
            }
        }
    }

    fn check(&self, expectation: &Expectation, observation: &Observation, findings: &mut Findings) {
        let committed_at = self.binding.map(|binding| binding.committed_at);
        match expectation {
            Expectation::ClusterHealthy { cluster } => health::check_cluster(cluster.as_deref(), observation, findings),
            Expectation::Surveyed => health::check_survey(observation, findings),
            Expectation::SidecarsRead { .. } => sidecars::check_read(observation, findings),
            Expectation::Checks(expectation) => checks::check(expectation, observation, findings),
            Expectation::BackupTaken { maximum_age } => {
                health::check_backup(self.rollout, *maximum_age, observation, findings);
            }
            Expectation::Object { object } => extension::check_object(object, observation, findings),
            Expectation::Absent { object } => extension::check_absent(object, observation, findings),
            Expectation::Deployment { namespace, name, images } => {
                workload::check_deployment(namespace, name, images, observation, findings);
            }
            Expectation::DaemonSet { namespace, name, images } => {
                workload::check_daemon_set(namespace, name, images, observation, findings);
            }
            Expectation::CustomResourceDefinition { name, served, storage } => {
                extension::check_definition(name, served, storage, observation, findings);
            }
            Expectation::Webhook { name } => extension::check_webhook(name, committed_at, observation, findings),
            Expectation::Flux { namespace, kustomizations } => {
                flux::check(namespace, kustomizations, self.binding, observation, findings);
            }
            Expectation::HelmRelease { namespace, name } => {
                flux::check_release(namespace, name, observation, findings);
            }
            Expectation::EksaCluster(expectation) => eks_anywhere::check(expectation, observation, findings),
            Expectation::Etcd(expectation) => etcd::check(expectation, observation, findings),
            Expectation::ControlPlane(expectation) => control_plane::check(expectation, observation, findings),
            Expectation::Workers(expectation) => workers::check(expectation, observation, findings),
            Expectation::WorkersGone { namespace, cluster, group } => {
                workers::check_gone(namespace, cluster, group, observation, findings);
            }
            Expectation::Eks(expectation) => eks::check(expectation, observation, findings),
            Expectation::Tanzu(expectation) => tanzu::check(expectation, observation, findings),
            Expectation::Secrets(expectation) => secrets::check(expectation, observation, findings),
            Expectation::RenderedSettled { namespace, cluster } => {
                rendered::check_settled((namespace, cluster), observation, findings);
            }
            Expectation::Attempts(expectation) => {
                let (rollout, stage) = (self.rollout, self.stage);
                let trying =
                    attempts::Trying { cluster: self.cluster, expectation, rollout, stage, since: committed_at };
                attempts::check(trying, observation, findings);
            }
            Expectation::AddonsApplied(expectation) => {
                addons::check_applied(expectation, self.binding, observation, findings);
            }
            Expectation::PodsOnNewNodes { namespace, name, release } => {
                addons::check_pods((namespace, name), release, observation, findings);
            }
            Expectation::Verified(expectation) => health::check_verified(expectation, observation, findings),
        }
    }
}

/// What is amiss with Flux' objects, whatever they have applied; none where they are settled. `expected` are those that have to be there.
#[must_use]
pub fn flux_health<'a>(
    observation: &Observation,
    expected: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Option<Reason> {
    let mut findings = Findings::default();
    flux::check_health(observation, &mut findings);
    flux::check_present(expected, observation, &mut findings);
    match *findings.into_verdict().err()? {
        GateVerdict::Pass { .. } => None,
        GateVerdict::Wait { reason, .. } => Some(reason),
        GateVerdict::Fail { reasons } => reasons.into_iter().reduce(Reason::and),
    }
}

fn wait(reason: Reason) -> GateVerdict {
    GateVerdict::Wait { reason, until: None }
}
