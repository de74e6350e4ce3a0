//! Violations of Flux, and of a reading itself.

use rollout::{Artifacts, ConditionStatus, Reachability, SourceKind};

use super::Violation;
use crate::healthy::*;

pub const FLUX: &[Violation] = &[
    ("unreachable", |o| o.reachable = Reachability::Unreachable { reason: "refused".into() }, "refused"),
    ("unconfirmed", |o| o.confirmed = false, "not confirmed"),
    ("stale", |o| o.read_at = second(-1000), "old"),
    ("from the future", |o| o.read_at = second(30), "ahead of the clock"),
    ("before the commit", |o| o.read_at = second(-60), "before commit"),
    ("kustomizations not read", |o| drop(o.unread.insert("Kustomization".into(), "forbidden".into())), "forbidden"),
    ("machines not read", |o| drop(o.unread.insert("Machine".into(), "forbidden".into())), "forbidden"),
    ("nodes not read", |o| drop(o.unread.insert("Node".into(), "forbidden".into())), "forbidden"),
    ("source suspended", |o| o.flux.sources[0].suspended = true, "suspended"),
    ("source gone", |o| o.flux.sources.clear(), "not found"),
    ("source not ready", |o| o.flux.sources[0].ready.as_mut().unwrap().status = ConditionStatus::False, "Ready"),
    ("source stale", |o| o.flux.sources[0].observed_generation = Some(1), "stale"),
    ("source behind", |o| o.flux.sources[0].artifact_revision = Some(commit('a')), "does not contain"),
    (
        "source that names no commit",
        |o| o.flux.kustomizations[0].source_kind = SourceKind::Other("Bucket".into()),
        "Bucket flux-system/fleet: names no commit",
    ),
    (
        "source of another kind of the same name",
        |o| o.flux.kustomizations[0].source_kind = SourceKind::OciRepository,
        "OCIRepository flux-system/fleet: not found",
    ),
    (
        "artifact that names no commit",
        |o| {
            let source = &mut o.flux.sources[0];
            source.kind = SourceKind::OciRepository;
            (source.artifact, source.artifact_revision) = (Some("latest@sha256:00".into()), None);
            o.flux.kustomizations[0].source_kind = SourceKind::OciRepository;
        },
        "org.opencontainers.image.revision",
    ),
    (
        "another artifact being tried",
        |o| {
            o.flux.kustomizations[0].artifacts =
                Artifacts { applied: Some("latest@sha256:00".into()), attempted: Some("latest@sha256:11".into()) };
        },
        "latest@sha256:11 is being tried",
    ),
    ("kustomization gone", |o| o.flux.kustomizations.clear(), "not found"),
    ("kustomization suspended", |o| o.flux.kustomizations[0].suspended = true, "suspended"),
    ("kustomization disabled", |o| o.flux.kustomizations[0].reconcile_disabled = true, "disabled"),
    ("kustomization stale", |o| o.flux.kustomizations[0].observed_generation = Some(1), "stale"),
    ("kustomization without generation", |o| o.flux.kustomizations[0].observed_generation = None, "not set"),
    (
        "kustomization not ready",
        |o| o.flux.kustomizations[0].ready.as_mut().unwrap().status = ConditionStatus::Unknown,
        "Ready",
    ),
    ("kustomization without condition", |o| o.flux.kustomizations[0].ready = None, "not reported"),
    (
        "ready of an earlier generation",
        |o| o.flux.kustomizations[0].ready.as_mut().unwrap().observed_generation = Some(1),
        "generation 1",
    ),
    ("the revision before", |o| o.flux.kustomizations[0].last_applied_revision = Some(commit('a')), "does not contain"),
    ("no revision", |o| o.flux.kustomizations[0].last_applied_revision = None, "not set"),
    ("being tried", |o| o.flux.kustomizations[0].last_attempted_revision = Some(commit('b')), "being tried"),
];
