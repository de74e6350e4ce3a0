//! Flux sources and Kustomizations.

use kube::core::DynamicObject;

use domain::CommitId;
use rollout::{Artifacts, FluxKustomization, FluxSource, HelmRelease, SourceKind};

use super::fields::{annotation, conditions, flag, generation, list, name, namespace, number, text, time};
use crate::objects::cluster_api::pause::{pause_lease, suspended_by};

/// A source of this kind.
pub(crate) fn source(object: &DynamicObject, kind: SourceKind) -> FluxSource {
    let data = &object.data;
    let artifact = text(data, &["status", "artifact", "revision"]);
    let is_of_registry = kind == SourceKind::OciRepository;
    FluxSource {
        artifact_revision: match &kind {
            SourceKind::GitRepository => artifact.as_deref().and_then(commit),
            // The revision of an artifact is its own digest. `flux push artifact` annotates it with the commit that it was made of.
            SourceKind::OciRepository => {
                text(data, &["status", "artifact", "metadata", ORIGIN]).as_deref().and_then(commit)
            }
            SourceKind::Other(_) => None,
        },
        artifact: artifact.filter(|_| is_of_registry),
        kind,
        namespace: namespace(object),
        name: name(object),
        generation: generation(object),
        observed_generation: number(data, &["status", "observedGeneration"]),
        suspended: flag(data, &["spec", "suspend"]).unwrap_or_default(),
        ready: conditions(data, &["status", "conditions"]).remove("Ready"),
    }
}

/// The annotation of an artifact that names the revision of the source it was made of: the OCI image specification's.
const ORIGIN: &str = "org.opencontainers.image.revision";

/// A Kustomization.
pub(crate) fn kustomization(object: &DynamicObject) -> FluxKustomization {
    let data = &object.data;
    let suspended = flag(data, &["spec", "suspend"]).unwrap_or_default();
    let source_kind: SourceKind = text(data, &["spec", "sourceRef", "kind"]).map(Into::into).unwrap_or_default();
    let revision = |field: &str| text(data, &["status", field]);
    let (applied, attempted) = (revision("lastAppliedRevision"), revision("lastAttemptedRevision"));
    let artifacts = match source_kind {
        SourceKind::OciRepository => Artifacts { applied: applied.clone(), attempted: attempted.clone() },
        SourceKind::GitRepository | SourceKind::Other(_) => Artifacts::default(),
    };
    let (last_applied_revision, last_attempted_revision) = match source_kind {
        SourceKind::GitRepository => (applied.as_deref().and_then(commit), attempted.as_deref().and_then(commit)),
        SourceKind::OciRepository => {
            let origin = revision("lastAppliedOriginRevision").as_deref().and_then(commit);
            (origin.clone(), origin.filter(|_| attempted == applied))
        }
        SourceKind::Other(_) => (None, None),
    };
    FluxKustomization {
        namespace: namespace(object),
        name: name(object),
        source_kind,
        source: text(data, &["spec", "sourceRef", "name"]),
        source_namespace: text(data, &["spec", "sourceRef", "namespace"]),
        generation: generation(object),
        observed_generation: number(data, &["status", "observedGeneration"]),
        suspended,
        reconcile_disabled: annotation(object, "kustomize.toolkit.fluxcd.io/reconcile") == Some("disabled"),
        suspended_by: suspended.then(|| suspended_by(object)).flatten(),
        hold: pause_lease(object).filter(|_| suspended).map(Into::into),
        ready: conditions(data, &["status", "conditions"]).remove("Ready"),
        last_applied_revision,
        last_attempted_revision,
        artifacts,
        ready_since: list(data, &["status", "conditions"])
            .iter()
            .find(|condition| text(condition, &["type"]).as_deref() == Some("Ready"))
            .and_then(|condition| time(condition, &["lastTransitionTime"])),
    }
}

/// A `HelmRelease`.
pub(crate) fn helm_release(object: &DynamicObject) -> HelmRelease {
    let data = &object.data;
    let suspended = flag(data, &["spec", "suspend"]).unwrap_or_default();
    HelmRelease {
        namespace: namespace(object),
        name: name(object),
        generation: generation(object),
        observed_generation: number(data, &["status", "observedGeneration"]),
        suspended,
        suspended_by: suspended.then(|| suspended_by(object)).flatten(),
        ready: conditions(data, &["status", "conditions"]).remove("Ready"),
    }
}

/// The commit in a revision of Flux: `branch@sha1:<commit>` (or `sha256`), `sha1:<commit>` and, before Flux 2.0, `branch/<commit>`.
fn commit(revision: &str) -> Option<CommitId> {
    revision.rsplit(['/', ':', '@']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const COMMIT: &str = "0123456789012345678901234567890123456789";

    #[test]
    fn revisions_of_every_era_name_their_commit() {
        let sha256 = "ab".repeat(32);
        for (revision, expected) in [
            (format!("deploy@sha1:{COMMIT}"), Some(COMMIT)),
            (format!("feature/x@sha1:{COMMIT}"), Some(COMMIT)),
            (format!("sha1:{COMMIT}"), Some(COMMIT)),
            (format!("main/{COMMIT}"), Some(COMMIT)),
            (format!("deploy@sha256:{sha256}"), Some(sha256.as_str())),
            (String::from("deploy@sha1:"), None),
            (String::from("v1.2.3"), None),
            (String::new(), None),
        ] {
            assert_eq!(commit(&revision).as_ref().map(CommitId::as_str), expected, "{revision}");
        }
    }

    fn object(data: Value) -> DynamicObject {
        serde_json::from_value(data).unwrap()
    }

    #[test]
    fn a_kustomization_tells_what_it_applied_and_who_suspended_it() {
        let read = kustomization(&object(json!({
            "metadata": {"name": "capi", "namespace": "flux-system", "generation": 3, "managedFields": [
                {"manager": "stepgate", "operation": "Apply", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:path": {}}}},
                {"manager": "kubectl-edit", "operation": "Update", "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:spec": {"f:suspend": {}}}}]},
            "spec": {"suspend": true, "sourceRef": {"kind": "GitRepository", "name": "fleet"}},
            "status": {"observedGeneration": 3, "lastAppliedRevision": format!("deploy@sha1:{COMMIT}"),
                "conditions": [{"type": "Ready", "status": "False", "reason": "BuildFailed", "message": "no such file",
                    "lastTransitionTime": "2026-01-02T03:04:05Z"}]}
        })));
        assert_eq!(read.suspended_by.as_deref(), Some("kubectl-edit"));
        assert_eq!(read.source.as_deref(), Some("fleet"));
        assert_eq!(read.last_applied_revision.as_ref().map(CommitId::as_str), Some(COMMIT));
        assert_eq!(read.last_attempted_revision, None);
        assert_eq!(read.ready.map(|ready| ready.message).as_deref(), Some("no such file"));
        assert!(read.suspended && !read.reconcile_disabled && read.ready_since.is_some());
    }

    fn artifact(digest: &str) -> String {
        format!("deploy@sha256:{}", digest.repeat(32))
    }

    #[test]
    fn an_artifact_from_a_registry_names_the_commit_it_was_made_of() {
        let of = |metadata: Value, kind| {
            let status = json!({"artifact": {"revision": artifact("cd"), "metadata": metadata}});
            let metadata = json!({"name": "fleet", "namespace": "flux-system", "generation": 1});
            source(&object(json!({"metadata": metadata, "status": status})), kind)
        };
        let read = of(json!({ORIGIN: format!("deploy@sha1:{COMMIT}")}), SourceKind::OciRepository);
        assert_eq!(read.artifact_revision.as_ref().map(CommitId::as_str), Some(COMMIT));
        assert_eq!((read.observed_generation, read.suspended, read.artifact), (None, false, Some(artifact("cd"))));
        // Its digest has the form of a commit, and is none.
        assert_eq!(of(json!({}), SourceKind::OciRepository).artifact_revision, None);
        assert_eq!(of(json!({}), SourceKind::Other("Bucket".to_owned())).artifact_revision, None);
    }

    #[test]
    fn what_was_applied_from_a_registry_is_the_commit_that_the_artifact_was_made_of() {
        let of = |kind: &str, applied: &str, attempted: &str, origin: &str| {
            let status = json!({"lastAppliedRevision": artifact(applied), "lastAttemptedRevision": artifact(attempted),
                "lastAppliedOriginRevision": origin});
            let read = kustomization(&object(json!({"metadata": {"name": "capi", "namespace": "flux-system"},
                "spec": {"sourceRef": {"kind": kind, "name": "fleet"}}, "status": status})));
            [read.last_applied_revision, read.last_attempted_revision]
                .map(|commit| commit.map(|commit| commit.to_string()))
        };
        let (ours, origin) = (Some(COMMIT.to_owned()), format!("deploy@sha1:{COMMIT}"));
        assert_eq!(of("OCIRepository", "ab", "ab", &origin), [ours.clone(), ours.clone()]);
        assert_eq!(of("OCIRepository", "ab", "cd", &origin), [ours, None]);
        assert_eq!(of("OCIRepository", "ab", "ab", ""), [None, None]);
        assert_eq!(of("Bucket", "ab", "ab", &origin), [None, None]);
    }
}
