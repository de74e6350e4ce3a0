//! Clusters that are done: whether Flux is, too, and whether a Supervisor has begun something by itself.
//!
//! Nothing is decided here. Git says that nothing is left to be committed; where Flux fails at one of the cluster's own Kustomizations, that cluster is
//! said to be held, and to be done again once all of them are ready. Watches tell when that may be so: a cluster that rests costs no request.

use std::sync::Arc;

use cluster::{Cluster, Freshness, ObserveRequest};
use domain::ClusterName;
use jiff::{SignedDuration, Timestamp};
use overlays::ClusterSpec;
use policy::Apply;
use rollout::{
    Expectation, FluxReference, Observation, Reachability, Reason, TANZU_CLUSTER, TanzuPart, TanzuStanding,
    UnaskedRollout, unasked_rollout,
};

use crate::reconcile::Controller;
use crate::reconcile::clusters::cluster_timeout::ClusterTimeout;
use crate::reconcile::main_loop::report::ClusterOutcome;
use crate::reconcile::main_loop::single_pass::Work;
use crate::reconcile::planner::{ClusterView, FleetReading};

/// How long a reading counts, where nothing tells of changes.
const READ_AGAIN: SignedDuration = SignedDuration::from_secs(60);

/// How long watches are believed without a word: what they are to watch is told them again then.
const WATCH_AGAIN: SignedDuration = SignedDuration::from_secs(600);

/// What Flux makes of a cluster of which nothing is left to be committed.
pub(in crate::reconcile) enum Verdict {
    /// All is applied.
    Applied,
    /// Flux is at work, or says nothing certain.
    Behind(Reason),
    /// Flux has failed, or somebody has stopped it: it does not get there by itself.
    Failed(Reason),
}

/// What Flux makes of the cluster's own Kustomizations.
pub(in crate::reconcile) fn judge<'a>(
    name: &ClusterName,
    expected: impl IntoIterator<Item = (&'a str, &'a str)>,
    read: &Observation,
) -> Verdict {
    if let Some((known, hold)) = read.hold() {
        let object = format!("Kustomization {}/{}", known.namespace, known.name);
        let reason = Reason::on(object, format!("held by {} until {}: {}", hold.owner, hold.until, hold.reason));
        let help = format!("`stepgate resume {name} --yes` ends it before");
        return Verdict::Failed(reason.field("spec.suspend").help(help));
    }
    let Some(reason) = rollout::flux_health(read, expected) else { return Verdict::Applied };
    let reason = reason.and(Reason::new("nothing is left to be committed"));
    if read.flux.has_failed() { Verdict::Failed(reason) } else { Verdict::Behind(reason) }
}

/// What is looked at of a cluster that is done, and what was seen last.
#[derive(Clone, Debug)]
pub(in crate::reconcile) struct FinalHealth {
    kustomizations: Arc<[FluxReference]>,
    /// What tells of a rollout that nobody asked for: no watch does.
    supervised: Arc<[Expectation]>,
    /// Why Flux fails, where it does.
    failure: Option<Reason>,
    /// Whether that is what people wanted.
    is_held_by_people: bool,
    /// What its Supervisor does by itself.
    unasked: Option<UnaskedRollout>,
    /// Where a cluster of Tanzu stands.
    tanzu: Option<TanzuStanding>,
    /// When it is to be looked at again.
    due: Timestamp,
}

impl FinalHealth {
    fn request(&self, at: Timestamp) -> ObserveRequest {
        ObserveRequest {
            expectations: self.supervised.to_vec(),
            kustomizations: self.kustomizations.to_vec(),
            deployed: Arc::default(),
            freshness: Freshness::Fresh,
            at,
        }
    }

    /// Something has changed: it is looked at with the next pass.
    pub(in crate::reconcile) fn look_again(&mut self, now: Timestamp) {
        self.due = now;
    }

    /// When it is to be looked at again.
    pub(in crate::reconcile) fn due(&self) -> Timestamp {
        self.due
    }

    /// After this was seen. While Flux tries once more, what it said before counts.
    fn seen(mut self, name: &ClusterName, read: &Observation) -> Self {
        let expected = self.kustomizations.iter().map(|known| (known.namespace.as_str(), known.name.as_str()));
        match judge(name, expected, read) {
            Verdict::Applied => (self.failure, self.is_held_by_people) = (None, false),
            Verdict::Failed(reason) => (self.failure, self.is_held_by_people) = (Some(reason), read.hold().is_some()),
            Verdict::Behind(_) => {}
        }
        // What could not be read says nothing.
        if !self.supervised.is_empty() && ![TANZU_CLUSTER, "Machine"].iter().any(|kind| read.unread.contains_key(*kind))
        {
            self.unasked = unasked_rollout(read);
            self.tanzu = rollout::tanzu_standing(self.supervised.iter(), read);
        }
        self
    }

    /// What is broken, in a few words; what people hold is not.
    fn broken(&self) -> Option<String> {
        let has_failed = self.unasked.as_ref().is_some_and(|unasked| unasked.has_failed);
        let by_flux = self.failure.is_some() && !self.is_held_by_people;
        match (by_flux, has_failed) {
            (true, _) => Some("done, and Flux fails at it since".to_owned()),
            (false, true) => Some("done, and something nobody asked for has failed since".to_owned()),
            (false, false) => None,
        }
    }

    /// Where a cluster of Tanzu stands; none of others.
    pub(in crate::reconcile) fn tanzu(&self) -> Option<&TanzuStanding> {
        self.tanzu.as_ref()
    }

    /// Where the cluster stands.
    pub(in crate::reconcile) fn outcome(&self) -> ClusterOutcome {
        let unasked = self.unasked.as_ref();
        if let (None, Some(UnaskedRollout { reason, has_failed: false })) = (&self.failure, unasked) {
            return ClusterOutcome::Waiting { stage: None, reason: reason.clone(), until: None };
        }
        let failure = self.failure.as_ref().or_else(|| unasked.map(|unasked| &unasked.reason));
        let Some(reason) = failure.cloned() else { return ClusterOutcome::Done };
        let reasons = reason.into_lines();
        let help = reasons.iter().find_map(|reason| reason.help.clone());
        let help = help.unwrap_or_else(|| "look at what Flux says of it; it tries again by itself".to_owned());
        ClusterOutcome::Held { stage: None, reasons, help }
    }
}

impl Controller {
    /// What is to be said of a cluster that is done by git; none where Flux has to be asked first.
    pub(in crate::reconcile) fn at_the_end(
        &self,
        cluster: &ClusterSpec,
        name: &ClusterName,
        final_health: FinalHealth,
    ) -> Option<Work> {
        let now = self.clock.now();
        if now < final_health.due {
            return Some(Work::final_health(name.as_str(), &final_health));
        }
        if !final_health.supervised.is_empty() {
            return None;
        }
        let flux = self.known(cluster, name)?.told_of_flux(&final_health.request(now))?;
        let final_health = final_health.seen(name, &Observation { flux, ..Observation::empty(now) });
        Some(self.looked_at(name, FinalHealth { due: later(now, WATCH_AGAIN), ..final_health }))
    }

    /// The same, where Flux may be asked.
    pub(in crate::reconcile) async fn look_at_the_end(
        &self,
        cluster: &ClusterSpec,
        name: &ClusterName,
        final_health: FinalHealth,
        answering: &ClusterTimeout,
    ) -> Option<Work> {
        let known = self.known(cluster, name)?;
        let final_health = self.look(name, known.as_ref(), final_health, answering).await;
        Some(self.looked_at(name, final_health))
    }

    /// What Flux makes of a cluster of which nothing is left to be committed; none where nobody can say.
    pub(in crate::reconcile) async fn end(
        &self,
        reading: &FleetReading,
        view: &Arc<ClusterView>,
        answering: &ClusterTimeout,
    ) -> Option<FinalHealth> {
        let cluster = self.handle(reading, view);
        let by_flux = reading.fleet.policy.apply == Apply::Flux;
        let supervised = supervised(view);
        if (!by_flux && supervised.is_empty()) || !self.clusters.can_be_asked() {
            cluster.rest(&[]);
            return None;
        }
        let known = self.memory(&view.name).final_health;
        let (failure, is_held_by_people, unasked) =
            known.map(|known| (known.failure, known.is_held_by_people, known.unasked)).unwrap_or_default();
        let kustomizations = if by_flux { view.flux_references() } else { Vec::new() };
        let final_health = FinalHealth {
            kustomizations: kustomizations.into(),
            supervised: supervised.into(),
            failure,
            is_held_by_people,
            unasked,
            tanzu: None,
            due: self.clock.now(),
        };
        Some(self.look(&view.name, cluster.as_ref(), final_health, answering).await)
    }

    async fn look(
        &self,
        name: &ClusterName,
        cluster: &dyn Cluster,
        final_health: FinalHealth,
        answering: &ClusterTimeout,
    ) -> FinalHealth {
        cluster.rest(&final_health.kustomizations);
        let now = self.clock.now();
        let request = final_health.request(now);
        let told = if final_health.supervised.is_empty() { cluster.told_of_flux(&request) } else { None };
        if let Some(flux) = told {
            let final_health = final_health.seen(name, &Observation { flux, ..Observation::empty(now) });
            return FinalHealth { due: later(now, WATCH_AGAIN), ..final_health };
        }
        // A pass that goes on without clusters that take long does not ask those that are done: watches tell of them in a moment.
        if answering.has_an_end() && final_health.supervised.is_empty() {
            return FinalHealth { due: later(now, WATCH_AGAIN), ..final_health };
        }
        let read = cluster.observe(&request).await;
        // What cannot be read, or is of another cluster, says nothing.
        let counts = read.reachable == Reachability::Reachable && read.identity.proven().is_some();
        let final_health = if counts { final_health.seen(name, &read) } else { final_health };
        FinalHealth { due: later(self.clock.now(), READ_AGAIN), ..final_health }
    }

    /// What the others of its wave are told of a cluster that is done.
    pub(in crate::reconcile) fn stands_afterwards(&self, name: &ClusterName, final_health: &FinalHealth) {
        self.standings().note_health(name, final_health.broken(), self.clock.now());
    }

    /// The cluster as it was reached last.
    fn known(&self, cluster: &ClusterSpec, name: &ClusterName) -> Option<Arc<dyn Cluster>> {
        let reference = self.memory(name).reference?;
        Some(self.clusters.referred(cluster, &reference))
    }

    fn looked_at(&self, name: &ClusterName, final_health: FinalHealth) -> Work {
        self.stands_afterwards(name, &final_health);
        let work = Work::final_health(name.as_str(), &final_health);
        self.remember(name, |memory| memory.final_health = Some(final_health));
        work
    }
}

/// What is read of a cluster of Tanzu that is done: it tells of a rollout that a Supervisor has begun by itself, and where it stands. Nothing of
/// other clusters.
pub(in crate::reconcile) fn supervised(view: &ClusterView) -> Vec<Expectation> {
    let expectations = view.plan.stages.iter().flat_map(|stage| &stage.expectations);
    let is_settled = |expectation: &&Expectation| matches!(expectation, Expectation::Tanzu(expected) if expected.part == TanzuPart::Settled);
    let is_lasting = |expectation: &&Expectation| matches!(expectation, Expectation::Secrets(_));
    let is_of_addons = |expectation: &&Expectation| matches!(expectation, Expectation::AddonsApplied(_));
    let rendered = expectations.clone().filter(is_lasting).take(1);
    let addons = rendered.clone().next().and(expectations.clone().find(is_of_addons));
    expectations.filter(is_settled).take(1).chain(rendered).chain(addons).cloned().collect()
}

fn later(now: Timestamp, after: SignedDuration) -> Timestamp {
    now.checked_add(after).unwrap_or(Timestamp::MAX)
}
