//! Flux: a source that is fetched now and then, and Kustomizations applied in the order of `dependsOn`.

use std::{sync::Arc, time::Duration};

use domain::CommitId;
use rollout::{Condition, ConditionStatus, FluxKustomization, FluxSource};

use super::{Event, State};
use crate::{
    clock::Moment,
    desired::{DesiredKustomization, DesiredObject, DesiredState},
    fault::Fault,
};

/// `spec.interval` of the source.
const FETCH_INTERVAL: Duration = Duration::from_secs(60);
/// kustomize-controller's `--requeue-dependency`.
const DEPENDENCY_INTERVAL: Duration = Duration::from_secs(5);
/// `spec.retryInterval` of a Kustomization.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// `spec.timeout` of a Kustomization: how long `wait` waits.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(300);

/// A commit on the deploy branch and when it was pushed.
#[derive(Debug, Clone)]
pub(super) struct Pushed {
    pub(super) at: Moment,
    pub(super) id: CommitId,
    pub(super) desired: Arc<DesiredState>,
}

#[derive(Debug, Clone)]
pub(super) struct Kustomization {
    /// What it said when it was last read from the artifact.
    pub(super) spec: DesiredKustomization,
    pub(super) deleted: bool,
    /// The revision whose objects were applied and whose health is waited for, and since when.
    waiting: Option<(CommitId, Moment)>,
    /// A turn is planned for this moment; an event of another moment is out of date.
    due: Option<Moment>,
    pub(super) published: FluxKustomization,
}

#[derive(Debug, Clone)]
pub(super) struct Flux {
    /// The deploy branch, oldest first.
    pub(super) branch: Vec<Pushed>,
    pub(super) source: FluxSource,
    /// What the source's artifact holds.
    artifact: Option<Arc<DesiredState>>,
    pub(super) kustomizations: Vec<Kustomization>,
}

impl Flux {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        let source = FluxSource {
            kind: rollout::SourceKind::default(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            generation: 1,
            observed_generation: Some(1),
            suspended: false,
            ready: None,
            artifact_revision: None,
            artifact: None,
        };
        Self { branch: Vec::new(), source, artifact: None, kustomizations: Vec::new() }
    }
}

fn ready(status: ConditionStatus, reason: &str, message: String, generation: i64) -> Option<Condition> {
    Some(Condition { status, reason: reason.to_owned(), message, observed_generation: Some(generation) })
}

impl State {
    /// The source looks at the branch, and plans its next look.
    pub(super) fn fetch(&mut self) {
        let next = FETCH_INTERVAL + self.random.between(Duration::ZERO, Duration::from_secs(3));
        self.plan_in(next, Event::Fetch);
        if self.is_active(Fault::SourceError) {
            let message =
                "failed to checkout and determine revision: unable to clone: dial tcp: connect: connection refused"
                    .to_owned();
            self.flux.source.ready =
                ready(ConditionStatus::False, "GitOperationFailed", message, self.flux.source.generation);
            return;
        }
        let new = self.head().filter(|head| self.flux.source.artifact_revision.as_ref() != Some(&head.id));
        let Some(new) = new else { return self.take_head() };
        let message = format!("building artifact: new upstream revision 'deploy@sha1:{}'", new.id);
        self.flux.source.ready = ready(ConditionStatus::Unknown, "Progressing", message, self.flux.source.generation);
        let stored_in = self.random.between(Duration::from_millis(100), Duration::from_millis(600));
        self.plan_in(stored_in, Event::Stored);
    }

    /// The newest commit that is pushed by now.
    fn head(&self) -> Option<&Pushed> {
        self.flux.branch.iter().rev().find(|pushed| pushed.at <= self.now)
    }

    /// Takes the newest commit as the source's artifact.
    pub(super) fn take_head(&mut self) {
        let Some(head) = self.head().cloned() else { return };
        let message = format!("stored artifact for revision 'deploy@sha1:{}'", head.id);
        self.flux.source.ready = ready(ConditionStatus::True, "Succeeded", message, self.flux.source.generation);
        if self.flux.source.artifact_revision.as_ref() == Some(&head.id) {
            return;
        }
        self.flux.source.artifact_revision = Some(head.id);
        self.flux.artifact = Some(Arc::clone(&head.desired));
        self.read_kustomizations(&head.desired);
        for index in 0..self.flux.kustomizations.len() {
            let starts_in = self.random.between(Duration::from_millis(200), Duration::from_millis(1500));
            self.plan_kustomization(index, starts_in);
        }
    }

    /// Kustomizations come, change and go with the artifact.
    pub(super) fn read_kustomizations(&mut self, desired: &DesiredState) {
        let suspended = self.is_active(Fault::FluxSuspended);
        for wanted in &desired.kustomizations {
            let known = self.flux.kustomizations.iter_mut().find(|known| {
                !known.deleted && known.spec.namespace == wanted.namespace && known.spec.name == wanted.name
            });
            if let Some(known) = known {
                let same = known.spec.path == wanted.path
                    && known.spec.depends_on == wanted.depends_on
                    && known.spec.wait == wanted.wait;
                if !same {
                    known.published.generation += 1;
                }
                let objects = std::mem::take(&mut known.spec.objects);
                known.spec = DesiredKustomization { objects, ..without_objects(wanted) };
            } else {
                let published = FluxKustomization {
                    namespace: wanted.namespace.clone(),
                    name: wanted.name.clone(),
                    source: Some(self.flux.source.name.clone()),
                    source_kind: rollout::SourceKind::default(),
                    source_namespace: Some(self.flux.source.namespace.clone()),
                    generation: 1,
                    observed_generation: None,
                    suspended,
                    reconcile_disabled: false,
                    suspended_by: suspended.then(|| "flux".to_owned()),
                    hold: None,
                    ready: None,
                    last_applied_revision: None,
                    last_attempted_revision: None,
                    artifacts: rollout::Artifacts::default(),
                    ready_since: None,
                };
                self.flux.kustomizations.push(Kustomization {
                    spec: without_objects(wanted),
                    deleted: false,
                    waiting: None,
                    due: None,
                    published,
                });
            }
        }
        let gone: Vec<usize> = self
            .flux
            .kustomizations
            .iter()
            .enumerate()
            .filter(|(_, known)| !known.deleted)
            .filter(|(_, known)| {
                !desired
                    .kustomizations
                    .iter()
                    .any(|wanted| wanted.namespace == known.spec.namespace && wanted.name == known.spec.name)
            })
            .map(|(index, _)| index)
            .collect();
        for index in gone {
            let Some(known) = self.flux.kustomizations.get_mut(index) else { continue };
            known.deleted = true;
            let (name, objects) = (known.spec.name.clone(), std::mem::take(&mut known.spec.objects));
            self.prune(&name, &objects, &[]);
        }
    }

    pub(super) fn plan_kustomization(&mut self, index: usize, delay: Duration) {
        let due = self.now + delay;
        if let Some(kustomization) = self.flux.kustomizations.get_mut(index) {
            kustomization.due = Some(due);
            self.schedule.plan(due, Event::Kustomization(index));
        }
    }

    /// One turn of the kustomize-controller for one Kustomization.
    pub(super) fn reconcile_kustomization(&mut self, index: usize) {
        let now = self.now;
        let refuses = self.is_active(Fault::FluxError);
        let artifact = self.flux.artifact.clone();
        let revision = self.flux.source.artifact_revision.clone();
        let Some(kustomization) = self.flux.kustomizations.get_mut(index) else { return };
        if kustomization.deleted || kustomization.due != Some(now) {
            return;
        }
        kustomization.due = None;
        if kustomization.published.suspended {
            // Its conditions stay as they were.
            kustomization.published.observed_generation = Some(kustomization.published.generation);
            return;
        }
        let (Some(artifact), Some(revision)) = (artifact, revision) else { return };
        kustomization.published.observed_generation = Some(kustomization.published.generation);
        let spec = kustomization.spec.clone();
        let wanted = artifact
            .kustomizations
            .iter()
            .find(|wanted| wanted.namespace == spec.namespace && wanted.name == spec.name);
        let Some(wanted) = wanted else { return };
        // Already applied, and only its health is waited for.
        if let Some((applied, since)) = kustomization.waiting.clone()
            && applied == revision
        {
            self.check_health(index, applied, since);
            return;
        }
        if kustomization.published.last_applied_revision.as_ref() == Some(&revision) && spec.objects == wanted.objects {
            if let Some(ready) = &mut kustomization.published.ready {
                ready.observed_generation = Some(kustomization.published.generation);
            }
            return;
        }
        if let Some(blocking) = self.blocking_dependency(&spec, &revision) {
            let message = format!("dependency '{}/{blocking}' is not ready", spec.namespace);
            self.publish_ready(index, ConditionStatus::False, "DependencyNotReady", message);
            self.plan_kustomization(index, DEPENDENCY_INTERVAL);
            return;
        }
        let attempted =
            self.flux.kustomizations.get(index).and_then(|known| known.published.last_attempted_revision.clone());
        if attempted.as_ref() != Some(&revision) {
            if let Some(kustomization) = self.flux.kustomizations.get_mut(index) {
                kustomization.published.last_attempted_revision = Some(revision);
            }
            let message = "Reconciliation in progress".to_owned();
            self.publish_ready(index, ConditionStatus::Unknown, "Progressing", message);
            let applies_in = self.random.between(Duration::from_millis(200), Duration::from_millis(1200));
            self.plan_kustomization(index, applies_in);
            return;
        }
        // A fault of the API server concerns what is really to be written.
        let changed = spec.objects != wanted.objects;
        let refusal = self.refused_definition(&wanted.objects).or_else(|| {
            (refuses && changed).then(|| {
                format!("{}: dry-run failed (Invalid): admission webhook denied the request: the simulated API server refuses this change", spec.path)
            })
        });
        if let Some(message) = refusal {
            self.publish_ready(index, ConditionStatus::False, "ReconciliationFailed", message);
            self.plan_kustomization(index, RETRY_INTERVAL);
            return;
        }
        if changed {
            for object in &wanted.objects {
                if !spec.objects.contains(object) {
                    self.apply(object, &spec.name);
                }
            }
            self.prune(&spec.name, &spec.objects, &wanted.objects);
        }
        if let Some(kustomization) = self.flux.kustomizations.get_mut(index) {
            kustomization.spec.objects.clone_from(&wanted.objects);
            kustomization.waiting = None;
        }
        if spec.wait {
            if let Some(kustomization) = self.flux.kustomizations.get_mut(index) {
                kustomization.waiting =
                    kustomization.published.last_attempted_revision.clone().map(|revision| (revision, now));
            }
            self.plan_kustomization(index, Duration::from_secs(1));
        } else {
            self.applied(index);
        }
    }

    fn blocking_dependency(&self, spec: &DesiredKustomization, revision: &CommitId) -> Option<String> {
        let satisfied = |name: &String| {
            self.flux.kustomizations.iter().any(|known| {
                !known.deleted
                    && known.spec.namespace == spec.namespace
                    && known.spec.name == *name
                    && known.published.last_applied_revision.as_ref() == Some(revision)
                    && known.published.ready.as_ref().is_some_and(|ready| ready.status == ConditionStatus::True)
            })
        };
        spec.depends_on.iter().find(|name| !satisfied(name)).cloned()
    }

    fn check_health(&mut self, index: usize, _applied: CommitId, since: Moment) {
        let Some(kustomization) = self.flux.kustomizations.get(index) else { return };
        let unhealthy = kustomization.spec.objects.iter().find_map(|object| self.unsettled(object));
        match unhealthy {
            None => {
                if let Some(kustomization) = self.flux.kustomizations.get_mut(index) {
                    kustomization.waiting = None;
                }
                self.applied(index);
            }
            Some(object) if self.now.since(since) >= HEALTH_TIMEOUT => {
                let message = format!(
                    "health check failed after {HEALTH_TIMEOUT:?}: timeout waiting for: [{object} status: 'InProgress']"
                );
                self.publish_ready(index, ConditionStatus::False, "HealthCheckFailed", message);
                self.plan_kustomization(index, RETRY_INTERVAL);
            }
            Some(_) => self.plan_kustomization(index, Duration::from_secs(2)),
        }
    }

    fn applied(&mut self, index: usize) {
        let Some(kustomization) = self.flux.kustomizations.get_mut(index) else { return };
        let Some(revision) = kustomization.published.last_attempted_revision.clone() else { return };
        let message = format!("Applied revision: deploy@sha1:{revision}");
        kustomization.published.last_applied_revision = Some(revision);
        self.publish_ready(index, ConditionStatus::True, "ReconciliationSucceeded", message);
        // A newer artifact may have come meanwhile.
        self.plan_kustomization(index, Duration::from_secs(1));
    }

    fn publish_ready(&mut self, index: usize, status: ConditionStatus, reason: &str, message: String) {
        let now = self.now;
        let Some(kustomization) = self.flux.kustomizations.get_mut(index) else { return };
        let published = &mut kustomization.published;
        if published.ready.as_ref().map(|ready| ready.status) != Some(status) {
            published.ready_since = Some(now.timestamp());
        }
        published.ready = ready(status, reason, message, published.generation);
    }

    /// A person suspends, or resumes, every Kustomization.
    pub(super) fn suspend_kustomizations(&mut self, suspended: bool) {
        for index in 0..self.flux.kustomizations.len() {
            if let Some(kustomization) = self.flux.kustomizations.get_mut(index) {
                kustomization.published.suspended = suspended;
                kustomization.published.suspended_by = suspended.then(|| "flux".to_owned());
                kustomization.published.generation += 1;
            }
            self.plan_kustomization(index, Duration::from_secs(1));
        }
    }

    /// Brings everything on the branch into the cluster at once, as if it had been there for long.
    pub(super) fn install_head(&mut self) {
        self.take_head();
        for index in 0..self.flux.kustomizations.len() {
            let Some(artifact) = self.flux.artifact.clone() else { return };
            let Some(kustomization) = self.flux.kustomizations.get_mut(index) else { continue };
            let (namespace, name) = (kustomization.spec.namespace.clone(), kustomization.spec.name.clone());
            let Some(wanted) =
                artifact.kustomizations.iter().find(|wanted| wanted.namespace == namespace && wanted.name == name)
            else {
                continue;
            };
            kustomization.spec.objects.clone_from(&wanted.objects);
            kustomization.due = None;
            kustomization.published.observed_generation = Some(kustomization.published.generation);
            kustomization.published.last_attempted_revision.clone_from(&self.flux.source.artifact_revision);
            for object in &wanted.objects {
                self.install(object, &name);
            }
            self.applied(index);
        }
    }
}

fn without_objects(kustomization: &DesiredKustomization) -> DesiredKustomization {
    DesiredKustomization {
        namespace: kustomization.namespace.clone(),
        name: kustomization.name.clone(),
        path: kustomization.path.clone(),
        depends_on: kustomization.depends_on.clone(),
        wait: kustomization.wait,
        objects: Vec::<DesiredObject>::new(),
    }
}
