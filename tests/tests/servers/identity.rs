//! The program reads the cluster that it judges: two API servers, one fleet, and a kubeconfig that leads to the wrong one.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::kubernetes::{Connection, ConnectionSource};
use cluster::{Freshness, ObserveRequest};
use domain::RepoPath;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Api;
use kube::api::PostParams;
use overlays::{ClusterSpec, MemoryFiles, read_fleet};
use rollout::{Expectation, Identification};
use serde_json::{Value, json};
use stepgate::reconcile::clusters::access::{Clusters as _, KubernetesClusters};
use tests::servers::manifests::{apply, define, objects};
use tests::servers::{ApiServer, ApiServerOptions, FleetRepository, Folder, definition, demo_fleet, isolated};

use super::scene::POLICY;

const CLUSTER: &str = "mgmt";
const BUNDLE: &str = "bundles/bundles-80.yaml";

/// A fleet whose management cluster may be reached at any of several servers.
pub struct Fleet {
    pub folder: Folder,
    pub repository: FleetRepository,
    bundle: String,
}

impl Fleet {
    pub fn start() -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let mut fleet = demo_fleet(folder.path())?;
        let bundle = fleet.remove(BUNDLE).context("no bundle")?;
        let repository = FleetRepository::create(&folder.path().join("repository"))?;
        let specification = "clusters/mgmt/cluster.yaml";
        let files = [
            ("stepgate.yaml", POLICY),
            (BUNDLE, bundle.as_str()),
            (specification, fleet.get(specification).context("no cluster")?),
        ];
        repository.push("Describe the fleet", &files)?;
        Ok(Self { folder, repository, bundle })
    }

    pub async fn server(&self, programs: &tests::servers::Programs, name: &str) -> anyhow::Result<ApiServer> {
        ApiServer::start(programs, &self.folder.path().join(name), ApiServerOptions::default()).await
    }

    pub fn run(&self, kubeconfig: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
        command
            .args(arguments)
            .env("STEPGATE_REPO", self.repository.bare())
            .env("STEPGATE_KUBECONFIG", kubeconfig)
            .env("STEPGATE_MIRROR", self.folder.path().join("mirror"))
            .env("STEPGATE_BACKUPS", self.folder.path().join("backups"));
        Ok(command.output()?)
    }

    /// What a verb prints, on both channels.
    pub fn said(&self, kubeconfig: &Path, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run(kubeconfig, arguments)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (said, noted) = (text(&output.stdout), text(&output.stderr));
        ensure!(output.status.success(), "{arguments:?}: {said}{noted}");
        Ok(format!("{said}{noted}"))
    }

    /// What a pass leaves the cluster waiting for.
    fn waits_for(&self, kubeconfig: &Path, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run(kubeconfig, &[&["run", "--once", "-o", "json"], arguments].concat())?;
        let report: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let cluster = &report["clusters"][0];
        ensure!(cluster["state"] == "waiting" && cluster["committed"] == serde_json::json!([]), "{report}");
        Ok(format!("{} {}", cluster["message"], cluster["help"]))
    }

    /// The UID that the ledger records.
    fn recorded(&self) -> anyhow::Result<Option<String>> {
        let ledger = objects(&self.repository.deployed("clusters/mgmt/rollout.yaml")?)?.pop().context("no ledger")?;
        Ok(ledger["identity"]["uid"].as_str().map(str::to_owned))
    }
}

async fn uid(server: &ApiServer) -> anyhow::Result<Option<String>> {
    let api = Api::<Namespace>::all(server.client().await?);
    Ok(api.get("kube-system").await?.metadata.uid)
}

#[test]
fn a_cluster_that_was_made_anew_waits_until_it_is_recorded_anew() {
    let name = "identity::a_cluster_that_was_made_anew_waits_until_it_is_recorded_anew";
    isolated(name, &["etcd", "kube-apiserver"], async |programs| {
        let fleet = Fleet::start()?;
        let (one, another) = (fleet.server(&programs, "one").await?, fleet.server(&programs, "another").await?);
        let said = fleet.said(&one.kubeconfig(), &["adopt", "--yes"])?;
        ensure!(!said.contains("not proven"), "{said}");
        assert_eq!(fleet.recorded()?, uid(&one).await?);

        // A bump: where the recorded cluster answers, something else is missing; where another one does, that it is another one.
        let bump = fleet.bundle.replace("v1.18.2+552744a", "v1.18.2+0123456");
        fleet.repository.push("Take cert-manager as it was built again", &[(BUNDLE, &bump)])?;
        let waits = fleet.waits_for(&one.kubeconfig(), &[])?;
        ensure!(!waits.contains("another cluster") && !waits.contains("not proven"), "{waits}");
        for named in [&[][..], &["--management-cluster", CLUSTER]] {
            let waits = fleet.waits_for(&another.kubeconfig(), named)?;
            let uid = uid(&another).await?.context("no uid")?;
            ensure!(waits.contains("another cluster answers") && waits.contains(&uid), "{waits}");
            ensure!(waits.contains("stepgate adopt mgmt --replace-identity --yes"), "{waits}");
        }
        // Whom the operator names otherwise.
        let waits = fleet.waits_for(&one.kubeconfig(), &["--management-cluster", "elsewhere"])?;
        ensure!(waits.contains("named as cluster elsewhere, and not as mgmt"), "{waits}");

        // The way out that was said.
        let said = fleet.said(&another.kubeconfig(), &["adopt", CLUSTER, "--replace-identity"])?;
        ensure!(said.contains("would be recorded as") && said.contains("`--yes` does it"), "{said}");
        assert_eq!(fleet.recorded()?, uid(&one).await?);
        fleet.said(&another.kubeconfig(), &["adopt", CLUSTER, "--replace-identity", "--yes"])?;
        assert_eq!(fleet.recorded()?, uid(&another).await?);
        let waits = fleet.waits_for(&another.kubeconfig(), &[])?;
        ensure!(!waits.contains("another cluster") && !waits.contains("not proven"), "{waits}");
        let waits = fleet.waits_for(&one.kubeconfig(), &[])?;
        ensure!(waits.contains("another cluster answers"), "{waits}");
        fleet.folder.done();
        Ok(())
    });
}

#[test]
fn a_cluster_that_was_adopted_unreached_is_read_where_no_other_may_be_meant() {
    let name = "identity::a_cluster_that_was_adopted_unreached_is_read_where_no_other_may_be_meant";
    isolated(name, &["etcd", "kube-apiserver"], async |programs| {
        let fleet = Fleet::start()?;
        let server = fleet.server(&programs, "one").await?;
        let nowhere = fleet.folder.path().join("nowhere");
        let kubeconfig = std::fs::read_to_string(server.kubeconfig())?;
        std::fs::write(&nowhere, kubeconfig.replace(&server.url(), "https://127.0.0.1:1"))?;
        let refused = fleet.run(&nowhere, &["adopt", "--yes"])?;
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        ensure!(refused.status.code() == Some(2) && told.contains("the cluster does not answer"), "{told}");
        let said = fleet.said(&nowhere, &["adopt", "--yes", "--as-declared"])?;
        ensure!(said.contains("not proven") && said.contains("recorded with the next commit"), "{said}");
        assert_eq!(fleet.recorded()?, None);

        let bump = fleet.bundle.replace("v1.18.2+552744a", "v1.18.2+0123456");
        fleet.repository.push("Take cert-manager as it was built again", &[(BUNDLE, &bump)])?;
        let waits = fleet.waits_for(&server.kubeconfig(), &[])?;
        ensure!(!waits.contains("not proven"), "{waits}");
        // Another one that manages itself: either may be the one that answers.
        let other = demo_fleet(fleet.folder.path())?.remove("clusters/mgmt/cluster.yaml").context("no cluster")?;
        fleet.repository.push("Add a cluster", &[("clusters/other/cluster.yaml", &other.replace("mgmt", "other"))])?;
        let waits = fleet.waits_for(&server.kubeconfig(), &[])?;
        ensure!(waits.contains("not proven") && waits.contains("--management-cluster mgmt"), "{waits}");
        let waits = fleet.waits_for(&server.kubeconfig(), &["--management-cluster", CLUSTER])?;
        ensure!(!waits.contains("not proven"), "{waits}");
        fleet.folder.done();
        Ok(())
    });
}

/// The nodes that were read, and the UID of their cluster, or why it is not proven.
type Seen = (Vec<String>, Result<Option<String>, String>);

/// The specification of the Cluster API cluster `prod`, with these annotations.
fn specification(annotations: &str) -> ClusterSpec {
    let text = format!(
        "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {{name: prod, namespace: default, annotations: {{{annotations}}}}}\n\
         spec: {{topology: {{version: v1.36.0, classRef: {{name: c}}}}}}\n"
    );
    let path = RepoPath::new("clusters/prod/cluster.yaml").unwrap();
    let files: MemoryFiles = [(path, text.into_bytes())].into_iter().collect();
    read_fleet(&files).cluster("prod").unwrap().clone()
}

#[test]
fn a_corrected_specification_is_read_elsewhere_by_the_same_process() {
    let name = "identity::a_corrected_specification_is_read_elsewhere_by_the_same_process";
    isolated(name, &["etcd", "kube-apiserver"], async |programs| {
        let folder = Folder::new()?;
        let start = async |name: &str| -> anyhow::Result<ApiServer> {
            let server = ApiServer::start(&programs, &folder.path().join(name), ApiServerOptions::default()).await?;
            let node = serde_json::from_value::<Node>(json!({"metadata": {"name": name}}))?;
            Api::all(server.client().await?).create(&PostParams::default(), &node).await?;
            Ok(server)
        };
        let (management, workload) = (start("outside").await?, start("inside").await?);
        let client = management.client().await?;
        let kind = ("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters");
        define(&client, &[definition(kind, "Namespaced")]).await?;
        let cluster = |port: u16| {
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "prod", "namespace": "default"},
            "spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": port}}})
        };
        let read = |path: &str| {
            std::fs::read(workload.folder().join("certificates").join(path)).map(|bytes| STANDARD.encode(bytes))
        };
        let kubeconfig = workload.portable_kubeconfig()?;
        let secret = |name: &str, data: Value| {
            json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("prod-{name}"), "namespace": "default"}, "data": data})
        };
        let secrets = [
            secret("kubeconfig", json!({"value": STANDARD.encode(&kubeconfig)})),
            secret("ca", json!({"tls.crt": read("authority.crt")?})),
        ];
        apply(&client, &[&secrets[..], &[cluster(workload.port())]].concat()).await?;

        let source = ConnectionSource::Kubeconfig { path: Some(management.kubeconfig()), context: None };
        let clusters = KubernetesClusters::new(Connection::open(&source).await?, folder.path().join("backups"))
            .connected_to(Some("hub".to_owned()));
        let observe = async |annotations: &str| -> anyhow::Result<Seen> {
            let request = ObserveRequest {
                expectations: vec![Expectation::ClusterHealthy { cluster: Some("prod".to_owned()) }],
                kustomizations: Vec::new(),
                deployed: Arc::default(),
                freshness: Freshness::Fresh,
                at: Timestamp::now(),
            };
            let seen = clusters.cluster(&specification(annotations)).observe(&request).await;
            let identity = match seen.identity {
                Identification::Proven { identity } => Ok(identity.uid),
                Identification::Unproven { reason, .. } => Err(reason),
            };
            Ok((seen.nodes.into_iter().map(|node| node.name).collect(), identity))
        };
        // It is said to manage itself, and it does not.
        let (_, identity) = observe("stepgate.dev/management-cluster: prod").await?;
        ensure!(identity.as_ref().is_err_and(|reason| reason.contains("named as cluster hub")), "{identity:?}");
        // Said to be managed by the cluster that is there, or by nobody in particular, it is read on its own server.
        for annotations in ["stepgate.dev/management-cluster: hub", ""] {
            assert_eq!(observe(annotations).await?, (vec!["inside".to_owned()], Ok(uid(&workload).await?)));
        }
        let (_, identity) = observe("stepgate.dev/management-cluster: elsewhere").await?;
        ensure!(identity.as_ref().is_err_and(|reason| reason.contains("and not as elsewhere")), "{identity:?}");

        // The Cluster moves elsewhere, and an authority that is not the cluster's own vouches for the server.
        apply(&client, &[cluster(1)]).await?;
        let (_, identity) = observe("").await?;
        ensure!(identity.as_ref().is_err_and(|reason| reason.contains("says 127.0.0.1:1")), "{identity:?}");
        let other = std::fs::read(management.folder().join("certificates/authority.crt"))?;
        apply(&client, &[cluster(workload.port()), secret("ca", json!({"tls.crt": STANDARD.encode(other)}))]).await?;
        let (_, identity) = observe("").await?;
        ensure!(identity.as_ref().is_err_and(|reason| reason.contains("prod-ca holds sha256:")), "{identity:?}");
        folder.done();
        Ok(())
    });
}
