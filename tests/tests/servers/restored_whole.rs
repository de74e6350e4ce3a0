//! A management cluster that is gone, with everything that it managed: all of it goes on in an empty one, and nothing rolls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::ensure;
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster, read_backup};
use cluster::{BackupRequest, Cluster as _, ClusterReference, ManagementReference};
use jiff::Timestamp;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use simulator::{DesiredMachines, DesiredObject};
use tests::servers::manifests::{apply, list};
use tests::servers::{ApiServer, ApiServerOptions, ClusterApi, FleetRepository, Folder, Programs, isolated};
use tests::waiting::{PATIENCE, until_within};

use super::machines::{CLUSTER_KIND, MACHINE, is_true};
use super::restoring::linked;
use super::simulator::machines::MachineProvider;

const NAMESPACE: &str = "fleet";
/// The cluster that manages itself, and one that it manages.
const CLUSTERS: [&str; 2] = ["management", "other"];
const VERSION: &str = "v1.34.0";
const POLICY: &str = "apiVersion: stepgate.dev/v1alpha1\nkind: Policy\ndeploy: {branch: deploy}\n";

/// The objects of a cluster: a control plane and a worker group.
fn manifest(provider: &MachineProvider, cluster: &str) -> anyhow::Result<Vec<Value>> {
    let machines = |name: &str, replicas| DesiredMachines {
        namespace: NAMESPACE.to_owned(),
        name: name.to_owned(),
        replicas,
        version: VERSION.to_owned(),
        template: format!("{name}-1s"),
        bootstrap_template: None,
    };
    let group = format!("{cluster}-md");
    let mut objects =
        provider.manifest(cluster, &DesiredObject::ControlPlane { machines: machines(cluster, 1), kube_vip: None })?;
    let workers = DesiredObject::Workers { group: group.parse()?, machines: machines(&group, 2) };
    objects.extend(provider.manifest(cluster, &workers)?);
    for object in &mut objects {
        if object["kind"] == "Cluster" {
            object["metadata"]["annotations"] = json!({"stepgate.dev/management-cluster": "management"});
        }
    }
    Ok(objects)
}

/// The machines by their names, each with its node; none until all of them and their clusters are up.
async fn up(client: &Client) -> anyhow::Result<Option<BTreeMap<String, Value>>> {
    let clusters = list(client, CLUSTER_KIND, NAMESPACE).await?;
    let machines = list(client, MACHINE, NAMESPACE).await?;
    let all = clusters.iter().filter(|cluster| is_true(cluster, "Available")).count() == CLUSTERS.len()
        && machines.iter().filter(|machine| is_true(machine, "Ready")).count() == machines.len()
        && machines.len() == 3 * CLUSTERS.len();
    let node = |machine: &kube::api::DynamicObject| {
        (machine.name_any(), machine.data.pointer("/status/nodeRef/name").cloned().unwrap_or_default())
    };
    Ok(all.then(|| machines.iter().map(node).collect()))
}

/// What a backup holds of the cluster that manages itself, once it lies there.
async fn saved_of(server: &ApiServer, place: PathBuf) -> anyhow::Result<Vec<Value>> {
    let source = ConnectionSource::Kubeconfig { path: Some(server.kubeconfig()), context: None };
    let connection = Connection::open(&source).await?.with_requests_per_second(1000);
    let reference = ClusterReference {
        name: CLUSTERS[0].to_owned(),
        namespace: NAMESPACE.to_owned(),
        management: ManagementReference::Itself { is_presumed: false },
        recorded: None,
    };
    let cluster = KubernetesCluster::new(connection, reference, Some(CLUSTERS[0].to_owned()), place);
    let request = BackupRequest { rollout: "0123456789ab".parse()?, at: Timestamp::now(), keep: 5, keep_for: None };
    let backup = cluster.back_up(&request).await?.location;
    Ok(read_backup(Path::new(&backup), &[])?.objects)
}

async fn started(programs: &Programs, folder: &Path) -> anyhow::Result<ApiServer> {
    let options = ApiServerOptions { controllers: true, ..ApiServerOptions::default() };
    ApiServer::start(programs, folder, options).await
}

#[test]
fn a_whole_management_cluster_goes_on_in_an_empty_one() {
    let name = "restored_whole::a_whole_management_cluster_goes_on_in_an_empty_one";
    let needed = ["etcd", "kube-apiserver", "kube-controller-manager"].into_iter().chain(ClusterApi::NEEDED);
    isolated(name, &needed.collect::<Vec<_>>(), async |programs| {
        let folder = Folder::new()?;
        let old = started(&programs, &folder.path().join("old")).await?;
        let provider = MachineProvider::start(&programs, &old).await?;
        let client = old.client().await?;
        apply(&client, &[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})]).await?;
        let repository = FleetRepository::create(&folder.path().join("repository"))?;
        let mut files = vec![("stepgate.yaml".to_owned(), POLICY.to_owned())];
        for cluster in CLUSTERS {
            let objects = manifest(&provider, cluster)?;
            apply(&client, &objects).await?;
            let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
            files.push((format!("clusters/{cluster}/cluster.yaml"), documents.join("\n---\n")));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        repository.push("Describe the fleet", &files)?;
        let machines = until_within("all machines are up", PATIENCE, async || up(&client).await).await?;
        let backups = folder.path().join("backups");
        let saved = saved_of(&old, backups.join(CLUSTERS[0])).await?;

        // It is gone, and nobody brings it back.
        let gone = old.kubeconfig();
        drop((provider, client));
        drop(old);
        let new = started(&programs, &folder.path().join("new")).await?;
        let mut managers = ClusterApi::start(&programs, &new).await?;
        let client = new.client().await?;
        apply(&client, &[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})]).await?;
        let restore = |more: &[&str]| -> anyhow::Result<(String, i32)> {
            let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
            command
                .args(["restore", CLUSTERS[0], "--source-is-gone", "--to"])
                .arg(new.kubeconfig())
                .args(more)
                .args(["--as", "Ops <ops@example.com>", "--requests-per-second", "1000"])
                .env("STEPGATE_REPO", repository.bare())
                .env("STEPGATE_KUBECONFIG", &gone)
                .env("STEPGATE_BACKUPS", &backups);
            let Output { status, stdout, stderr } = command.output()?;
            let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
            Ok((said, status.code().unwrap_or(-1)))
        };
        let (said, code) = restore(&[])?;
        ensure!(code == 0 && said.contains("missing") && said.contains("`--yes` restores"), "{said}");
        ensure!(list(&client, CLUSTER_KIND, NAMESPACE).await?.is_empty(), "a dry run wrote something");
        let (said, code) = restore(&["--yes"])?;
        let on_they_go = CLUSTERS.iter().all(|cluster| said.contains(&format!("Cluster {NAMESPACE}/{cluster}")));
        ensure!(code == 0 && on_they_go, "{said}");
        // Machines live in the memory of their provider: it looks for them anew, as it does after a restart.
        managers.infrastructure.kill()?;
        managers.infrastructure.restart()?;
        managers.wait_until_ready().await?;

        let again = until_within("all machines are up again", PATIENCE, async || up(&client).await).await?;
        assert_eq!(again, machines, "machines came or went");
        let clusters = list(&client, CLUSTER_KIND, NAMESPACE).await?;
        for cluster in &clusters {
            ensure!(cluster.data.pointer("/spec/paused").is_none(), "{} stands still", cluster.name_any());
            ensure!(!cluster.annotations().contains_key("stepgate.dev/restoring"), "a mark was left behind");
        }
        // Everything has the owners of before, by their names.
        let there = saved_of(&new, folder.path().join("after")).await?;
        let (before, after) = (linked(&saved)?, linked(&there)?);
        for (name, (_, _, owners)) in &before {
            assert_eq!(Some(owners), after.get(name).map(|(_, _, owners)| owners), "{name}");
        }
        folder.done();
        Ok(())
    });
}
