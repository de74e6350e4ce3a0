//! What is done: backups, applies.

use std::sync::Arc;

use domain::CommitId;
use fake_api_server::ServedKind;

use super::*;
use crate::client::server::{Answer, Asked};
use crate::kubernetes::{Backup, read_backup};
use crate::{ApplyRequest, ApplyServer, ApplySet, BackupRequest};
use rollout::FluxReference;

fn taken() -> Expectation {
    Expectation::BackupTaken { maximum_age: std::time::Duration::from_secs(24 * 60 * 60) }
}

#[tokio::test]
async fn a_backup_is_written_read_back_and_found_again() {
    let secrets = [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "prod-kubeconfig", "namespace": "eksa-system"}}),
    ];
    let server = ApiServer::start(
        settled().object("/api/v1/namespaces/eksa-system/secrets/prod-kubeconfig", secrets[0].clone()),
    )
    .await;
    let folder = tempfile::tempdir().unwrap();
    let at = "2026-03-01T12:00:00Z".parse().unwrap();
    let cluster = KubernetesCluster::management(server.connection(), folder.path().to_owned());
    let backup = |at| BackupRequest { rollout: "0123456789ab".parse().unwrap(), at, keep: 5, keep_for: None };
    let report = cluster.back_up(&backup(at)).await.unwrap();
    // One Cluster, one control plane, two machines, one Secret: the kinds that this server lists.
    assert_eq!((report.objects, report.read_back, report.taken_at), (5, true, at));
    let Backup { header, objects } = read_backup(Path::new(&report.location), &[]).unwrap();
    assert_eq!((&header.report, objects.len()), (&report, 5));
    assert!(objects.iter().any(|object| object["metadata"]["ownerReferences"][0]["kind"] == "MachineSet"));
    // Without their types they could not be restored.
    assert!(objects.iter().all(|object| object["kind"].is_string() && object["apiVersion"].is_string()), "{objects:?}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(Path::new(&report.location)), 0o700);
        assert_eq!(mode(&Path::new(&report.location).join("secrets.json")), 0o600);
    }

    let restarted = KubernetesCluster::management(server.connection(), folder.path().to_owned());
    let observation = restarted.observe(&request(vec![taken()])).await;
    assert_eq!(observation.backup.as_ref(), Some(&report));
    // Taken again, it replaces the first.
    let again = cluster.back_up(&backup("2026-03-01T13:00:00Z".parse().unwrap())).await.unwrap();
    assert!(again.taken_at > report.taken_at);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    std::fs::remove_file(Path::new(&report.location).join("machines.cluster.x-k8s.io.json")).unwrap();
    assert!(
        read_backup(Path::new(&report.location), &[]).unwrap_err().to_string().contains("5 objects expected, 3 found")
    );
    let restarted = KubernetesCluster::management(server.connection(), folder.path().to_owned());
    assert_eq!(restarted.observe(&request(vec![taken()])).await.backup, None);
}

#[tokio::test]
async fn a_backup_of_nothing_or_of_half_is_no_backup() {
    let folder = tempfile::tempdir().unwrap();
    for (script, expected) in [
        (served(), "there are none on"),
        (
            settled().on(&format!("GET {CAPI}/machines"), Answer::Error(403, "no")),
            "could not list machines for a backup",
        ),
    ] {
        let server = ApiServer::start(script).await;
        let cluster = KubernetesCluster::management(server.connection(), folder.path().to_owned());
        let at = "2026-03-01T12:00:00Z".parse().unwrap();
        let backup = BackupRequest { rollout: "0123456789ab".parse().unwrap(), at, keep: 5, keep_for: None };
        let error = cluster.back_up(&backup).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let seen = cluster.observe(&request(vec![taken()])).await;
        let failure = seen.backup_failure.unwrap();
        assert_eq!((failure.rollout, failure.at, failure.volume_full), (backup.rollout, at, false));
        assert!(failure.message.contains(expected), "{}", failure.message);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

pub(super) const MANIFESTS: &str = "\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: capi-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager, namespace: capi-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: capi-system}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters.cluster.x-k8s.io}
";

pub(super) fn apply_request(text: &str) -> ApplyRequest {
    let set = ApplySet {
        kustomization: FluxReference { namespace: String::from("flux-system"), name: String::from("prod-capi") },
        server: ApplyServer::Management,
        prune: true,
        folder: String::from("capi"),
        files: vec![(String::from("capi/manifest.yaml"), Arc::from(text.as_bytes()))],
    };
    ApplyRequest {
        cluster: "prod".parse().unwrap(),
        commit: COMMIT.parse().unwrap(),
        sets: vec![set],
        delete_data: Vec::new(),
    }
}

const DEFINITIONS: &str = "apiextensions.k8s.io/v1";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const HOOKS: &str = "validatingwebhookconfigurations";

pub(super) fn applying() -> Script {
    let established = json!({"metadata": {"name": "clusters.cluster.x-k8s.io"}, "status": {"conditions": [{"type": "Established", "status": "True"}]}});
    served()
        .object("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusters.cluster.x-k8s.io", established)
        .object("/api/v1/namespaces/stepgate-system", json!({"metadata": {"name": "stepgate-system"}}))
        .keeps(ServedKind::built_in("v1", "ConfigMap", "configmaps"))
        .keeps(ServedKind::built_in("v1", "Namespace", "namespaces").cluster_wide())
        .keeps(ServedKind::built_in("v1", "ServiceAccount", "serviceaccounts"))
        .keeps(ServedKind::built_in("apps/v1", "Deployment", "deployments"))
        .keeps(
            ServedKind::built_in(DEFINITIONS, "CustomResourceDefinition", "customresourcedefinitions").cluster_wide(),
        )
        .keeps(ServedKind::built_in(ADMISSION, "ValidatingWebhookConfiguration", HOOKS).cluster_wide())
}

#[tokio::test]
async fn manifests_are_applied_in_the_order_of_what_needs_what() {
    let server = ApiServer::start(applying()).await;
    let cluster = KubernetesCluster::management(server.connection(), PathBuf::new());
    let at = "2026-03-01T12:00:00Z".parse().unwrap();
    let report = cluster.apply(&apply_request(MANIFESTS), at).await.unwrap();
    assert_eq!(
        report.applied,
        [
            "CustomResourceDefinition clusters.cluster.x-k8s.io",
            "Namespace capi-system",
            "ServiceAccount capi-system/manager",
            "Deployment capi-system/manager",
            "ValidatingWebhookConfiguration hooks",
        ]
    );
    for asked in server.asked().iter().filter(|asked| asked.method == "PATCH") {
        assert!(asked.query.contains("fieldManager=stepgate") && !asked.query.contains("force"), "{asked:?}");
    }
    // The next observation reports the apply in the place of the Kustomization.
    let observation = cluster.observe(&request(Vec::new())).await;
    let applied = &observation.flux.kustomizations[0];
    assert_eq!(
        (applied.name.as_str(), applied.last_applied_revision.as_ref().map(CommitId::as_str)),
        ("prod-capi", Some(COMMIT))
    );
}

#[tokio::test]
async fn a_conflict_names_the_other_writer_and_stops_the_apply() {
    let conflict = Answer::Error(
        409,
        "Apply failed with 1 conflict: conflict with \"kubectl-edit\" using apps/v1: .spec.replicas",
    );
    let script = applying().on("PATCH /apis/apps/v1/namespaces/capi-system/deployments/manager", conflict);
    let server = ApiServer::start(script).await;
    let cluster = KubernetesCluster::management(server.connection(), PathBuf::new());
    let error = cluster
        .apply(&apply_request(MANIFESTS), "2026-03-01T12:00:00Z".parse().unwrap())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("capi/manifest.yaml:5: could not apply Deployment capi-system/manager"), "{error}");
    assert!(error.contains("kubectl-edit") && error.contains("does not force"), "{error}");
    let is_applied = |asked: &Asked| asked.method == "PATCH" && !asked.query.contains("dryRun");
    let applied: Vec<_> = server.asked().into_iter().filter(is_applied).map(|asked| asked.path).collect();
    assert!(applied.iter().all(|path| !path.contains("admissionregistration")), "{applied:?}");
    let observation = cluster.observe(&request(Vec::new())).await;
    assert_eq!(observation.flux.kustomizations[0].last_applied_revision, None);
    assert!(observation.flux.kustomizations[0].ready.as_ref().unwrap().message.contains("kubectl-edit"));
}

#[tokio::test]
async fn bad_manifests_send_nothing() {
    let server = ApiServer::start(applying()).await;
    let cluster = KubernetesCluster::management(server.connection(), PathBuf::new());
    let at = "2026-03-01T12:00:00Z".parse().unwrap();
    let before = server.lines().len();
    for (text, expected) in [
        ("kind: [", "capi/manifest.yaml:"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nkind: ConfigMap\n",
            "capi/manifest.yaml:5:1: the object has no",
        ),
        ("apiVersion: v1\nkind: ConfigMap\n", "no `metadata.name`"),
    ] {
        let error = cluster.apply(&apply_request(text), at).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(server.lines().len(), before);
}
