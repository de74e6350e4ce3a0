//! `apply: direct` on a real API server: order, conflicts, deletion of what left git.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster};
use cluster::{
    ApplyReport, ApplyRequest, ApplyServer, ApplySet, Cluster as _, ClusterError, Freshness, ObserveRequest,
};
use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use rollout::FluxReference;
use rollout::{ConditionStatus, FluxKustomization};
use serde_json::json;
use tests::servers::{ApiServer, ApiServerOptions, Folder, Programs, isolated};

const NEEDED: &[&str] = &["etcd", "kube-apiserver"];

/// In the file the order is the opposite of the one that works.
const HOOKS: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: widgets}
webhooks:
- name: widgets.example.com
  sideEffects: None
  failurePolicy: Ignore
  admissionReviewVersions: [v1]
  clientConfig: {url: 'https://127.0.0.1:1/'}
  rules: [{apiGroups: [example.com], apiVersions: [v1], resources: [widgets], operations: [CREATE, UPDATE]}]
";
const WIDGET: &str = "
apiVersion: example.com/v1
kind: Widget
metadata: {name: first, namespace: widgets}
spec: {size: 1}
";
const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: widgets}
spec:
  replicas: 1
  selector: {matchLabels: {app: manager}}
  template:
    metadata: {labels: {app: manager}}
    spec: {serviceAccountName: manager, containers: [{name: manager, image: 'example.com/manager:v1'}]}
";
const ACCOUNT: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager, namespace: widgets}
";
const NAMESPACE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: widgets}
";
const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
";

struct Bench {
    server: ApiServer,
    client: Client,
    cluster: KubernetesCluster,
}

impl Bench {
    async fn start(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        let server = ApiServer::start(programs, folder, ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let cluster = restarted(&server).await?;
        Ok(Self { server, client, cluster })
    }

    async fn apply(&self, parts: &[&str]) -> Result<ApplyReport, ClusterError> {
        self.cluster.apply(&request(parts, &[]), Timestamp::now()).await
    }

    async fn get(&self, api_version: &str, kind: &str, place: (&str, &str)) -> anyhow::Result<Option<DynamicObject>> {
        Ok(self.api(api_version, kind, place.0).get_opt(place.1).await?)
    }

    fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        }
    }

    /// The revision of the store at which an object was last written.
    async fn written(&self, api_version: &str, kind: &str, place: (&str, &str)) -> anyhow::Result<u64> {
        let found = self.get(api_version, kind, place).await?.with_context(|| format!("{kind} {}", place.1))?;
        Ok(found.metadata.resource_version.context("no version")?.parse()?)
    }

    async fn kustomization(&self) -> anyhow::Result<FluxKustomization> {
        let (expectations, kustomizations) = (Vec::new(), Vec::new());
        let request = ObserveRequest {
            expectations,
            kustomizations,
            deployed: Arc::default(),
            freshness: Freshness::Fresh,
            at: Timestamp::now(),
        };
        self.cluster.observe(&request).await.flux.kustomizations.pop().context("nothing was applied")
    }
}

async fn restarted(server: &ApiServer) -> anyhow::Result<KubernetesCluster> {
    let source = ConnectionSource::Kubeconfig { path: Some(server.kubeconfig()), context: None };
    Ok(KubernetesCluster::management(Connection::open(&source).await?, server.folder().join("backups")))
}

fn request(parts: &[&str], delete_data: &[&str]) -> ApplyRequest {
    let files: Vec<(String, Arc<[u8]>)> = if parts.is_empty() {
        Vec::new()
    } else {
        vec![(String::from("clusters/prod/capi/all.yaml"), Arc::from(parts.join("---").into_bytes()))]
    };
    let set = ApplySet {
        kustomization: FluxReference { namespace: String::from("stepgate"), name: String::from("prod-capi") },
        server: ApplyServer::Management,
        prune: true,
        folder: String::from("clusters/prod/capi"),
        files,
    };
    ApplyRequest {
        cluster: "prod".parse().unwrap(),
        commit: "0123456789012345678901234567890123456789".parse().unwrap(),
        sets: vec![set],
        delete_data: delete_data.iter().map(|text| text.parse().unwrap()).collect(),
    }
}

const PLACES: [(&str, &str, (&str, &str)); 6] = [
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", ("", "widgets.example.com")),
    ("v1", "Namespace", ("", "widgets")),
    ("v1", "ServiceAccount", ("widgets", "manager")),
    ("example.com/v1", "Widget", ("widgets", "first")),
    ("apps/v1", "Deployment", ("widgets", "manager")),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", ("", "widgets")),
];

#[test]
fn what_others_need_is_applied_first_and_nothing_is_written_twice() {
    isolated(
        "direct_apply::what_others_need_is_applied_first_and_nothing_is_written_twice",
        NEEDED,
        async |programs| {
            let folder = Folder::new()?;
            let bench = Bench::start(&programs, folder.path()).await?;
            let parts = [HOOKS, WIDGET, DEPLOYMENT, ACCOUNT, NAMESPACE, DEFINITION];
            let report = bench.apply(&parts).await?;
            assert_eq!(
                report.applied,
                [
                    "CustomResourceDefinition widgets.example.com",
                    "Namespace widgets",
                    "ServiceAccount widgets/manager",
                    "Widget widgets/first",
                    "Deployment widgets/manager",
                    "ValidatingWebhookConfiguration widgets",
                ]
            );
            let applied = bench.kustomization().await?;
            assert_eq!(applied.ready.context("no condition")?.status, ConditionStatus::True);

            let inventory = ("v1", "ConfigMap", ("stepgate-system", "inventory-prod"));
            let written = async || {
                let mut written = Vec::new();
                for (api_version, kind, place) in PLACES.into_iter().chain([inventory]) {
                    written.push(bench.written(api_version, kind, place).await?);
                }
                anyhow::Ok(written)
            };
            let first = written().await?;
            assert!(first[..PLACES.len()].is_sorted(), "{first:?}");
            // The API server itself forgets who manages a Namespace without any field when it is applied for the second time.
            bench.apply(&parts).await?;
            let before = written().await?;
            assert_eq!((before[0], &before[2..]), (first[0], &first[2..]));
            // Another process finds everything as it should be.
            restarted(&bench.server).await?.apply(&request(&parts, &[]), Timestamp::now()).await?;
            assert_eq!(before, written().await?);
            folder.done();
            Ok(())
        },
    );
}

#[test]
fn a_field_of_somebody_else_stops_the_apply_before_anything_is_written() {
    isolated(
        "direct_apply::a_field_of_somebody_else_stops_the_apply_before_anything_is_written",
        NEEDED,
        async |programs| {
            let folder = Folder::new()?;
            let bench = Bench::start(&programs, folder.path()).await?;
            bench.apply(&[NAMESPACE, ACCOUNT, DEPLOYMENT]).await?;
            let replicas = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5}});
            let person = PatchParams { field_manager: Some(String::from("kubectl-edit")), ..PatchParams::default() };
            bench.api("apps/v1", "Deployment", "widgets").patch("manager", &person, &Patch::Merge(replicas)).await?;
            let before = bench.written("v1", "ServiceAccount", ("widgets", "manager")).await?;

            let account = ACCOUNT.replace("metadata: {", "metadata: {labels: {changed: 'yes'}, ");
            let error = bench.apply(&[NAMESPACE, &account, DEPLOYMENT]).await.unwrap_err().to_string();
            for expected in [
                "clusters/prod/capi/all.yaml:",
                "Deployment widgets/manager",
                ".spec.replicas is owned by kubectl-edit",
            ] {
                assert!(error.contains(expected), "{error}");
            }
            assert_eq!(bench.written("v1", "ServiceAccount", ("widgets", "manager")).await?, before);
            let applied = bench.kustomization().await?;
            assert_eq!(applied.last_applied_revision, None);
            let ready = applied.ready.context("no condition")?;
            assert!(ready.status == ConditionStatus::False && ready.message.contains("kubectl-edit"), "{ready:?}");

            // The other one's value, taken into git, is no conflict.
            bench.apply(&[NAMESPACE, &account, &DEPLOYMENT.replace("replicas: 1", "replicas: 5")]).await?;
            assert!(bench.written("v1", "ServiceAccount", ("widgets", "manager")).await? > before);
            folder.done();
            Ok(())
        },
    );
}

#[test]
fn what_left_git_is_deleted_and_what_holds_data_only_by_consent() {
    isolated("direct_apply::what_left_git_is_deleted_and_what_holds_data_only_by_consent", NEEDED, async |programs| {
        let folder = Folder::new()?;
        let mut bench = Bench::start(&programs, folder.path()).await?;
        let claim = "\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: widgets}\n\
            spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";
        bench.apply(&[DEFINITION, NAMESPACE, ACCOUNT, DEPLOYMENT, HOOKS, claim]).await?;
        bench.apply(&[DEFINITION, NAMESPACE, ACCOUNT, DEPLOYMENT, HOOKS, claim, WIDGET]).await?;

        // A new process knows what the one before applied. Of two that left git, one was made anew by somebody else.
        bench.cluster = restarted(&bench.server).await?;
        bench.api("v1", "ServiceAccount", "widgets").delete("manager", &DeleteParams::default()).await?;
        let theirs = serde_json::from_value(
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "manager"}}),
        )?;
        bench.api("v1", "ServiceAccount", "widgets").create(&PostParams::default(), &theirs).await?;
        let config = "\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: left}\n";
        let report = bench.apply(&[config]).await?;
        assert_eq!(
            report.deleted,
            ["ValidatingWebhookConfiguration widgets", "Deployment widgets/manager", "Widget widgets/first"]
        );
        let kept: Vec<_> = report.kept.iter().map(|kept| kept.object.as_str()).collect();
        assert_eq!(
            kept,
            ["PersistentVolumeClaim widgets/data", "Namespace widgets", "CustomResourceDefinition widgets.example.com"]
        );
        assert!(report.kept[0].reason.contains("`deleteData: [PersistentVolumeClaim/widgets/data]`"), "{report:?}");
        assert!(bench.get("v1", "ServiceAccount", ("widgets", "manager")).await?.is_some());
        assert!(bench.get("v1", "PersistentVolumeClaim", ("widgets", "data")).await?.is_some());
        let empty = bench.apply(&[]).await?;
        assert_eq!((empty.deleted.as_slice(), empty.kept.len()), (&[String::from("ConfigMap default/left")][..], 3));

        // What stays is not forgotten: a consent of later deletes it.
        let consent = ["CustomResourceDefinition/*.example.com", "PersistentVolumeClaim/widgets/*"];
        let report = bench.cluster.apply(&request(&[], &consent), Timestamp::now()).await?;
        assert_eq!(
            report.deleted,
            ["PersistentVolumeClaim widgets/data", "CustomResourceDefinition widgets.example.com"]
        );
        assert_eq!(report.kept.len(), 1);
        assert!(
            bench
                .get("apiextensions.k8s.io/v1", "CustomResourceDefinition", ("", "widgets.example.com"))
                .await?
                .is_none_or(|found| found.metadata.deletion_timestamp.is_some())
        );
        folder.done();
        Ok(())
    });
}
