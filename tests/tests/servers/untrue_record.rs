//! A record says what runs: where the cluster runs something else it is refused, and forced it says
//! so.

use anyhow::ensure;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tests::servers::manifests::{apply, kind_in, objects};
use tests::servers::{isolated, service_account};

use super::identity::Fleet;

/// The image of a webhook, without the digest that the demo's bundle names.
const TAGGED: &str = "registry.example.com/cert-manager/cert-manager-webhook:v1.18.2-eks-a-80";

#[test]
fn what_runs_otherwise_is_not_recorded_unless_somebody_insists() {
    let name = "untrue_record::what_runs_otherwise_is_not_recorded_unless_somebody_insists";
    isolated(name, &["etcd", "kube-apiserver"], async |programs| {
        let fleet = Fleet::start()?;
        let server = fleet.server(&programs, "one").await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cert-manager"}});
        let other = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "cert-manager", "namespace": "cert-manager"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "a", "image": "example.com/cert-manager:v1.2.3"}]}}}});
        let client = server.client().await?;
        apply(&client, &[namespace, other]).await?;
        // One is of the tag that is recorded, and its pod reports another digest.
        let (labels, containers) = (json!({"c": "d"}), json!([{"name": "a", "image": TAGGED}]));
        let tagged = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "cert-manager-webhook", "namespace": "cert-manager"},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "webhook", "namespace": "cert-manager", "labels": labels, "annotations": {"kubernetes.io/config.mirror": "0"}},
            "spec": {"nodeName": "a", "containers": containers}});
        apply(&client, &[tagged, pod]).await?;
        let digest = format!("sha256:{}", "1".repeat(64));
        let reported = json!({"name": "a", "image": TAGGED, "imageID": format!("registry.example.com/a@{digest}"), "ready": true,
            "restartCount": 0, "state": {"running": {}}});
        let status = Patch::Merge(json!({"status": {"phase": "Running", "containerStatuses": [reported]}}));
        let pods = kind_in(&client, ("v1", "Pod"), "cert-manager").await?;
        pods.patch_status("webhook", &PatchParams::default(), &status).await?;

        for arguments in [&["adopt"][..], &["adopt", "--yes"]] {
            let output = fleet.run(&server.kubeconfig(), arguments)?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(output.status.code() == Some(2), "{said}");
            ensure!(said.contains("mgmt is not recorded: the record would say"), "{said}");
            ensure!(said.contains("--as-declared"), "{said}");
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            ensure!(
                told.contains("Deployment cert-manager/cert-manager: runs example.com/cert-manager:v1.2.3"),
                "{told}"
            );
            let runs = format!(
                "Deployment cert-manager/cert-manager-webhook: runs {TAGGED}@{digest}, the source branch says {TAGGED}@"
            );
            ensure!(told.contains(&runs), "{told}");
        }
        ensure!(fleet.repository.deployed("clusters/mgmt/rollout.yaml").is_err(), "something was recorded");

        fleet.said(&server.kubeconfig(), &["adopt", "--yes", "--as-declared"])?;
        let ledger = objects(&fleet.repository.deployed("clusters/mgmt/rollout.yaml")?)?;
        let told = ledger[0]["asDeclared"].to_string();
        ensure!(told.contains("example.com/cert-manager:v1.2.3"), "{told}");
        fleet.folder.done();
        Ok(())
    });
}

#[test]
fn what_may_not_be_read_is_unknown_and_named() {
    let name = "untrue_record::what_may_not_be_read_is_unknown_and_named";
    isolated(name, &["etcd", "kube-apiserver", "kube-controller-manager"], async |programs| {
        let fleet = Fleet::start()?;
        let server = fleet.server(&programs, "one").await?;
        let client = server.client().await?;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": "default"}});
        let role = |groups: &[&str], resources: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": ["get", "list"]});
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
            "rules": [role(&[""], &["namespaces", "nodes", "pods"]), role(&["apps"], &["daemonsets"]), role(&["apiextensions.k8s.io"], &["*"])]});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]});
        apply(&client, &[account, role, binding]).await?;
        let kubeconfig = service_account(&server, "default", "reader").await?;

        let output = fleet.run(&kubeconfig, &["adopt", "--yes"])?;
        let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.code() == Some(2), "{said}");
        ensure!(told.contains("unknown: Deployment: ") && !told.contains("unknown: DaemonSet"), "{told}");
        ensure!(told.contains("unknown: whether it had a record: could not list rollouts"), "{told}");
        ensure!(said.contains("whether the record would be true is not known"), "{said}");
        ensure!(fleet.repository.deployed("clusters/mgmt/rollout.yaml").is_err(), "something was recorded");

        fleet.said(&kubeconfig, &["adopt", "--yes", "--as-declared"])?;
        let ledger = objects(&fleet.repository.deployed("clusters/mgmt/rollout.yaml")?)?;
        ensure!(ledger[0]["asDeclared"].to_string().contains("unknown: Deployment: "), "{}", ledger[0]["asDeclared"]);
        fleet.folder.done();
        Ok(())
    });
}
