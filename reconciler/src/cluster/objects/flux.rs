//! Flux sources and Kustomizations.

use kube::core::DynamicObject;

use rollout::{CommitId, FluxKustomization, FluxSource, HelmRelease};
use serde_json::Value;

use super::fields::{annotation, conditions, flag, generation, list, name, namespace, number, text, time};
use super::pause::suspended_by;

/// A `GitRepository` or `OCIRepository`.
pub(crate) fn source(object: &DynamicObject) -> FluxSource {
    let data = &object.data;
    FluxSource {
        namespace: namespace(object),
        name: name(object),
        generation: generation(object),
        observed_generation: number(data, &["status", "observedGeneration"]),
        suspended: flag(data, &["spec", "suspend"]).unwrap_or_default(),
        ready: conditions(data, &["status", "conditions"]).remove("Ready"),
        artifact_revision: artifact_commit(data),
    }
}

/// A Kustomization.
pub(crate) fn kustomization(object: &DynamicObject) -> FluxKustomization {
    let data = &object.data;
    let suspended = flag(data, &["spec", "suspend"]).unwrap_or_default();
    FluxKustomization {
        namespace: namespace(object),
        name: name(object),
        source: text(data, &["spec", "sourceRef", "name"]),
        source_namespace: text(data, &["spec", "sourceRef", "namespace"]),
        generation: generation(object),
        observed_generation: number(data, &["status", "observedGeneration"]),
        suspended,
        reconcile_disabled: annotation(object, "kustomize.toolkit.fluxcd.io/reconcile") == Some("disabled"),
        suspended_by: suspended.then(|| suspended_by(object)).flatten(),
        ready: conditions(data, &["status", "conditions"]).remove("Ready"),
        last_applied_revision: text(data, &["status", "lastAppliedRevision"]).and_then(|revision| commit(&revision)),
        last_attempted_revision: text(data, &["status", "lastAttemptedRevision"])
            .and_then(|revision| commit(&revision)),
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

/// The commit of a source's artifact. An OCI artifact names its commit in the annotation that `flux push artifact` writes.
fn artifact_commit(data: &Value) -> Option<CommitId> {
    let revision = text(data, &["status", "artifact", "revision"])?;
    let from_git = text(data, &["status", "artifact", "metadata", "org.opencontainers.image.revision"]);
    from_git.and_then(|revision| commit(&revision)).or_else(|| commit(&revision))
}

/// The commit in a revision of Flux: `branch@sha1:<commit>` (or `sha256`), `sha1:<commit>` and, before Flux 2.0, `branch/<commit>`.
///
/// An OCI artifact's own digest, `tag@sha256:<digest>`, has the form of a SHA-256 commit; as no commit of the deploy branch is equal
/// to it, it can never be taken for one.
fn commit(revision: &str) -> Option<CommitId> {
    revision.rsplit(['/', ':', '@']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    #[test]
    fn an_artifact_from_a_registry_names_the_commit_it_was_made_of() {
        let read = source(&object(json!({
            "metadata": {"name": "fleet", "namespace": "flux-system", "generation": 1},
            "status": {"artifact": {"revision": format!("deploy@sha256:{}", "cd".repeat(32)),
                "metadata": {"org.opencontainers.image.revision": format!("deploy@sha1:{COMMIT}")}}}
        })));
        assert_eq!(read.artifact_revision.as_ref().map(CommitId::as_str), Some(COMMIT));
        assert_eq!((read.observed_generation, read.suspended), (None, false));
    }
}
