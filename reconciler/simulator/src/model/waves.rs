//! Waves of the model: what they say to a cluster, and what must never be seen of them.

use domain::{ClusterName, CommitId};
use policy::Wave;
use rollout::{
    Binds, Decision, Ledger, LedgerState, Reason, Standing, Turn, WaveConsent, WaveHold, WaveMember, WaveState, places,
    tolerated_failures, wave_state, wave_turn,
};

use super::defect::Defect;
use super::simulation::Simulation;
use super::violation::Violation;

/// A wave, and the clusters that belong to it.
#[derive(Debug, Clone)]
pub struct ModelWave {
    /// What is said of it.
    pub wave: Wave,
    /// Its clusters.
    pub clusters: Vec<ClusterName>,
}

/// What a controller has decided of a cluster, and at which commit of the source branch.
pub(super) type Decided = (CommitId, Decision);

/// What the waves say to a cluster, by what a controller has decided of all of them.
pub(super) fn hold<'a>(
    simulation: &Simulation,
    name: &ClusterName,
    defect: Option<Defect>,
    decided: impl Fn(&ClusterName) -> Option<&'a Decided>,
) -> Option<WaveHold> {
    let place = |waves: &[ModelWave]| waves.iter().position(|wave| wave.clusters.contains(name));
    let distorted =
        defect.and_then(|defect| Some(defect.distort_waves(simulation.waves(), place(simulation.waves())?)));
    let waves = distorted.as_deref().unwrap_or_else(|| simulation.waves());
    let own = place(waves)?;
    let members = |wave: &ModelWave| -> Vec<WaveMember> {
        let member = |cluster: &ClusterName| WaveMember {
            cluster: cluster.clone(),
            machines: None,
            standing: standing(simulation, cluster, decided(cluster)),
            plan: None,
            is_replanned: false,
        };
        wave.clusters.iter().map(member).collect()
    };
    for before in waves.get(..own).unwrap_or_default() {
        let state = wave_state(&before.wave, &members(before), &WaveConsent::default(), simulation.now());
        if state != WaveState::Done {
            let reason = Reason::new(format!("wave {} comes first: it is {}", before.wave.name, state.word()));
            let until = match state {
                WaveState::Soaking(until) => Some(until),
                _ => None,
            };
            return Some(WaveHold { reason, until, binds: Binds::BeforeMachines });
        }
    }
    let own = waves.get(own)?;
    wave_turn(&own.wave, &members(own), &WaveConsent::default(), name, simulation.now())
}

fn standing(simulation: &Simulation, name: &ClusterName, decided: Option<&Decided>) -> Standing {
    let source = simulation.source().map(|source| &source.id);
    let is_fresh = decided.is_some_and(|(at, _)| Some(at) == source);
    let ledger = simulation.deployed(name).and_then(|tree| tree.ledger.as_ref());
    match (running(ledger), decided) {
        (Some(ledger), Some((_, Decision::Held { stage }))) => {
            Standing::Failed { started: Some(ledger.started_at), why: format!("held at {stage}") }
        }
        (Some(ledger), _) => Standing::UnderWay { started: ledger.started_at, is_known: is_fresh },
        (None, _) if is_done(simulation, name) => {
            Standing::Done { started: ledger.map(|it| it.started_at), since: ledger.and_then(|it| it.finished_at) }
        }
        (None, Some((_, Decision::WaitsForTurn))) if is_fresh => Standing::Ahead(Turn::Ready),
        (None, Some(_)) if is_fresh => Standing::Ahead(Turn::NotReady),
        (None, _) => Standing::Ahead(Turn::Unknown),
    }
}

fn running(ledger: Option<&Ledger>) -> Option<&Ledger> {
    ledger.filter(|ledger| ledger.state == LedgerState::Running)
}

fn is_done(simulation: &Simulation, name: &ClusterName) -> bool {
    let deployed = simulation.deployed(name);
    let at_target = simulation.source().and_then(|source| source.wanted.get(name)) == deployed.map(|tree| &tree.parts);
    at_target && running(deployed.and_then(|tree| tree.ledger.as_ref())).is_none()
}

/// What must hold when a stage of a cluster is committed, whatever any controller remembers.
pub(super) fn check_commit(simulation: &Simulation, name: &ClusterName) -> Vec<Violation> {
    let waves = simulation.waves();
    let Some(place) = waves.iter().position(|wave| wave.clusters.contains(name)) else { return Vec::new() };
    let (Some(earlier), Some(ModelWave { wave, clusters })) = (waves.get(..place), waves.get(place)) else {
        return Vec::new();
    };
    let ledger = |cluster: &ClusterName| running(simulation.deployed(cluster).and_then(|tree| tree.ledger.as_ref()));
    let others = || clusters.iter().filter(|other| *other != name && ledger(other).is_some());
    let failed = others().filter(|other| simulation.is_held(other)).count();
    let own = ledger(name).map(|own| (own.started_at, name));
    let goes_before = |other: &&ClusterName| {
        let started = ledger(other).map(|known| (known.started_at, *other));
        !simulation.is_held(other) && own.is_none_or(|own| started.is_some_and(|started| started < own))
    };
    let busy = others().filter(goes_before).count();
    let left = earlier.iter().flat_map(|wave| &wave.clusters).find(|other| !is_done(simulation, other));
    let mut violations = Vec::new();
    let mut check = |holds: bool, what: String| {
        if !holds {
            violations.push(Violation::new("I12", format!("{name} of wave {}: {what}", wave.name)));
        }
    };
    let size = clusters.len();
    check(failed <= tolerated_failures(wave, size), format!("goes on although {failed} have failed"));
    check(busy < places(wave, size), format!("goes on beside {busy} others"));
    check(left.is_none(), format!("goes before {left:?}"));
    violations
}
