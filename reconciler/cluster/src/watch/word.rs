//! The last words of watched objects that somebody looks at: what gates read of them, so that nothing need be asked to know what to wait for.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use kube::core::{ApiResource, DynamicObject};
use rollout::{ConditionStatus, DaemonSet, Deployment, FluxKustomization, FluxSource, SourceKind};

use super::{Seen, topic};
use crate::client::kind::{DAEMON_SET, DEPLOYMENT, GIT_REPOSITORY, KUSTOMIZATION, Kind, OCI_REPOSITORY, POD};
use crate::objects;
use crate::objects::{OwnedPod, PodSelector};
use crate::read::observe::source_of;
use host::memory::bytes_of;
use rollout::FluxReference;

/// How Flux gets on with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Success {
    /// It is as it should be.
    Ready,
    /// It fails, or somebody has suspended it; the digest of what is said of that.
    Failed(u64),
}

/// The last word of an object.
#[derive(Debug)]
pub(super) enum Word {
    /// A Kustomization, with its source and the kind of that.
    Kustomization(FluxKustomization, Option<(FluxReference, SourceKind)>),
    /// A source.
    Source(FluxSource),
    /// A Deployment without its pods, and which those are.
    Deployment(Deployment, PodSelector),
    /// A `DaemonSet` without its pods, and which those are.
    DaemonSet(DaemonSet, PodSelector),
    /// A pod.
    Pod(OwnedPod),
}

impl Word {
    /// About how many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let held = match self {
            Self::Kustomization(kustomization, source) => {
                let source = source.as_ref().map_or(0, |(source, _)| source.namespace.len() + source.name.len() + 64);
                bytes_of(kustomization) + source
            }
            Self::Source(source) => bytes_of(source),
            Self::Deployment(deployment, pods) => bytes_of(deployment) + pods.bytes(),
            Self::DaemonSet(daemon_set, pods) => bytes_of(daemon_set) + pods.bytes(),
            Self::Pod(pod) => bytes_of(pod),
        };
        size_of::<Self>() + held
    }

    /// How Flux gets on with it, where that is certain.
    pub(super) fn success(&self) -> Option<Success> {
        let (ready, suspended, by) = match self {
            Self::Kustomization(known, _) => {
                (&known.ready, known.suspended || known.reconcile_disabled, known.suspended_by.as_deref())
            }
            Self::Source(known) => (&known.ready, known.suspended, None),
            Self::Deployment(..) | Self::DaemonSet(..) | Self::Pod(_) => return None,
        };
        let told = ready.as_ref().map(|ready| (ready.reason.as_str(), ready.message.as_str()));
        let failed = || {
            let mut hasher = DefaultHasher::new();
            (suspended, by, told).hash(&mut hasher);
            Success::Failed(hasher.finish())
        };
        match ready.as_ref() {
            _ if suspended => Some(failed()),
            Some(ready) if ready.has_failed() => Some(failed()),
            Some(ready) if ready.status == ConditionStatus::True => Some(Success::Ready),
            Some(_) | None => None,
        }
    }

    /// What this object says; none where it is of a kind whose words nobody asks for.
    pub(super) fn of(resource: &ApiResource, object: &DynamicObject) -> Option<Self> {
        let is = |kind: &Kind| (resource.group.as_str(), resource.kind.as_str()) == (kind.group, kind.kind);
        if is(&KUSTOMIZATION) {
            Some(Self::Kustomization(objects::kustomization(object), source_of(object)))
        } else if is(&GIT_REPOSITORY) || is(&OCI_REPOSITORY) {
            Some(Self::Source(objects::source(object, resource.kind.clone().into())))
        } else if is(&DEPLOYMENT) {
            Some(Self::Deployment(objects::deployment(object, &[]), PodSelector::of_deployment(object)))
        } else if is(&DAEMON_SET) {
            Some(Self::DaemonSet(objects::daemon_set(object, &[]), PodSelector::of_daemon_set(object)))
        } else if is(&POD) {
            Some(Self::Pod(OwnedPod::of(object)))
        } else {
            None
        }
    }
}

/// The last word of this object, in the preferred one of the versions that are watched.
pub(super) fn word<'a>(seen: &'a Seen, kind: &Kind, namespace: &str, name: &str) -> Option<&'a Word> {
    let key = (namespace.into(), name.into());
    let topics = kind.versions.iter().map(|version| topic(&kind.resource(version)));
    topics.filter_map(|topic| seen.get(&topic)?.get(&key)?.word.as_deref()).next()
}
