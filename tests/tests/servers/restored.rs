//! `stepgate restore` on a management cluster that has lost objects, and into another one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use age::secrecy::ExposeSecret as _;
use age::x25519::Identity;
use anyhow::{Context as _, ensure};
use cluster::kubernetes::{BackupPlace, Connection, ConnectionSource, KubernetesCluster, read_backup};
use cluster::{BackupRequest, Cluster as _};
use jiff::Timestamp;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tests::servers::manifests::{apply, define, kind_in, list};
use tests::servers::{ApiServer, ApiServerOptions, FleetRepository, Folder, Programs, definition, isolated};

use super::machines::{CLASS_FILE, CLUSTER, CLUSTER_KIND, FILE, MACHINE, NAMESPACE, class, cluster};
use super::restoring::linked;

const NEEDED: &[&str] = &["etcd", "kube-apiserver", "cluster-api-in-memory"];
const CONTROL_PLANE: (&str, &str) = ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane");
const GROUP: (&str, &str) = ("cluster.x-k8s.io/v1beta2", "MachineDeployment");
const INFRASTRUCTURE: (&str, &str) = ("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachine");
const SECRET: (&str, &str) = ("v1", "Secret");
const KINDS: [(&str, &str); 6] = [CLUSTER_KIND, CONTROL_PLANE, GROUP, MACHINE, INFRASTRUCTURE, SECRET];

/// How many machines the cluster has.
const MACHINES: usize = 30;

const POLICY: &str = "apiVersion: stepgate.dev/v1alpha1\nkind: Policy\ndeploy: {branch: deploy}\n";

/// A fleet, its management cluster with Cluster API's kinds and nobody who acts on them, and a backup.
struct Fleet {
    folder: Folder,
    repository: FleetRepository,
    server: ApiServer,
    client: Client,
}

impl Fleet {
    async fn start(programs: &Programs) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let repository = FleetRepository::create(&folder.path().join("repository"))?;
        let (class, cluster) = (class(programs, "1s")?, cluster("v1.34.0"));
        let files = [("stepgate.yaml", POLICY), (CLASS_FILE, &class), (FILE, &cluster)];
        repository.push("Describe the fleet", &files)?;
        let server = started(programs, &folder.path().join("management")).await?;
        let client = server.client().await?;
        let fleet = Self { folder, repository, server, client };
        fleet.fill().await?;
        fleet.back_up(CLUSTER).await?;
        Ok(fleet)
    }

    /// A cluster with its machines, each linked to its owner.
    async fn fill(&self) -> anyhow::Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        apply(&self.client, &[namespace]).await?;
        let cluster = self.create(CLUSTER_KIND, CLUSTER, None, json!({"spec": {"clusterNetwork": {}}})).await?;
        let spec = json!({"spec": {"replicas": 3, "version": "v1.34.0"}});
        let control_plane = self.create(CONTROL_PLANE, "machines-cp", Some(&cluster), spec.clone()).await?;
        let group = self.create(GROUP, "machines-md", Some(&cluster), spec).await?;
        for number in 0..MACHINES {
            let owner = if number < 3 { &control_plane } else { &group };
            let name = format!("machines-{number}");
            let reference =
                json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": INFRASTRUCTURE.1, "name": name});
            let spec = json!({"spec": {"clusterName": CLUSTER, "infrastructureRef": reference}});
            let machine = self.create(MACHINE, &name, Some(owner), spec).await?;
            let spec = json!({"spec": {"providerID": format!("in-memory://{name}")}});
            self.create(INFRASTRUCTURE, &name, Some(&machine), spec).await?;
        }
        for purpose in ["ca", "kubeconfig"] {
            let data = json!({"data": {"value": "aHVudGVyMg=="}});
            self.create(SECRET, &format!("{CLUSTER}-{purpose}"), Some(&control_plane), data).await?;
        }
        // Of another cluster, which is nobody's business here.
        self.create(CLUSTER_KIND, "other", None, json!({"spec": {}})).await?;
        let spec = json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "other"}}, "spec": {"clusterName": "other"}});
        self.create(MACHINE, "other-0", None, spec).await.map(drop)
    }

    async fn create(
        &self,
        kind: (&str, &str),
        name: &str,
        owner: Option<&DynamicObject>,
        more: Value,
    ) -> anyhow::Result<DynamicObject> {
        let mut object =
            json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": name, "namespace": NAMESPACE}});
        if let Some(owner) = owner {
            let types = owner.types.clone().context("an owner without a type")?;
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": types.api_version, "kind": types.kind,
                "name": owner.name_any(), "uid": owner.uid(), "controller": true}]);
            object["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": CLUSTER});
        }
        for (field, value) in more.as_object().context("no fields")? {
            match (field.as_str(), value.as_object()) {
                ("metadata", Some(fields)) => {
                    fields.iter().for_each(|(name, value)| object["metadata"][name] = value.clone());
                }
                _ => object[field] = value.clone(),
            }
        }
        let api = kind_in(&self.client, kind, NAMESPACE).await?;
        Ok(api.create(&PostParams::default(), &serde_json::from_value(object)?).await?)
    }

    async fn back_up(&self, cluster: &str) -> anyhow::Result<PathBuf> {
        self.back_up_to(cluster, self.folder.path().join("backups").join(cluster)).await
    }

    async fn back_up_to(&self, cluster: &str, place: impl Into<BackupPlace>) -> anyhow::Result<PathBuf> {
        let source = ConnectionSource::Kubeconfig { path: Some(self.server.kubeconfig()), context: None };
        let connection = Connection::open(&source).await?.with_requests_per_second(1000);
        let cluster = KubernetesCluster::workload(connection, NAMESPACE, cluster, place);
        let request = BackupRequest { rollout: "0123456789ab".parse()?, at: Timestamp::now(), keep: 5, keep_for: None };
        Ok(PathBuf::from(cluster.back_up(&request).await?.location))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
        command
            .args(["restore", CLUSTER])
            .args(arguments)
            .args(["--as", "Ops <ops@example.com>", "--requests-per-second", "1000"])
            .env("STEPGATE_REPO", self.repository.bare())
            .env("STEPGATE_KUBECONFIG", self.server.kubeconfig())
            .env("STEPGATE_BACKUPS", self.folder.path().join("backups"));
        command
    }

    /// What it says, and its exit code.
    fn restore(&self, arguments: &[&str]) -> anyhow::Result<(String, i32)> {
        let Output { status, stdout, stderr } = self.command(arguments).output()?;
        let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        ensure!(!said.contains("aHVudGVyMg") && !said.contains("hunter2"), "a credential is told: {said}");
        Ok((said, status.code().unwrap_or(-1)))
    }

    /// Deletes every object of the cluster.
    async fn lose(&self) -> anyhow::Result<()> {
        for kind in KINDS {
            let api = kind_in(&self.client, kind, NAMESPACE).await?;
            for object in api.list(&ListParams::default()).await? {
                if object.name_any().starts_with(CLUSTER) {
                    api.delete(&object.name_any(), &DeleteParams::default()).await?;
                }
            }
        }
        Ok(())
    }
}

/// An API server with Cluster API's kinds, whose objects may hold anything.
async fn started(programs: &Programs, folder: &Path) -> anyhow::Result<ApiServer> {
    let server = ApiServer::start(programs, folder, ApiServerOptions::default()).await?;
    let definitions: Vec<Value> = KINDS
        .iter()
        .filter_map(|(api_version, kind)| {
            let (group, version) = api_version.split_once('/')?;
            Some(definition((group, version, kind, &format!("{}s", kind.to_lowercase())), "Namespaced"))
        })
        .collect();
    define(&server.client().await?, &definitions).await?;
    Ok(server)
}

/// Every object of the cluster that is there.
async fn there(client: &Client) -> anyhow::Result<Vec<Value>> {
    let mut found = Vec::new();
    for kind in KINDS {
        for object in list(client, kind, NAMESPACE).await? {
            if object.name_any().starts_with(CLUSTER) {
                let mut object = serde_json::to_value(object)?;
                object["apiVersion"] = json!(kind.0);
                object["kind"] = json!(kind.1);
                found.push(object);
            }
        }
    }
    Ok(found)
}

/// What was saved of the cluster is there, linked to owners that are there, and nothing stands still.
async fn assert_as_saved(client: &Client, backup: &Path) -> anyhow::Result<()> {
    let saved = read_backup(backup, &[])?.objects;
    let saved: Vec<Value> = saved
        .into_iter()
        .filter(|object| object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(CLUSTER)))
        .collect();
    let there = there(client).await?;
    assert_eq!(linked(&saved)?, linked(&there)?);
    let marked = there.iter().any(|object| object.pointer("/metadata/annotations/stepgate.dev~1restoring").is_some());
    ensure!(!marked, "a mark was left behind");
    Ok(())
}

async fn cluster_of(client: &Client) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(kind_in(client, CLUSTER_KIND, NAMESPACE).await?.get(CLUSTER).await?)?)
}

async fn patch(client: &Client, kind: (&str, &str), name: &str, patch: Value) -> anyhow::Result<()> {
    let api = kind_in(client, kind, NAMESPACE).await?;
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

#[test]
fn what_was_lost_is_made_anew_with_its_owners_and_goes_on() {
    let name = "restored::what_was_lost_is_made_anew_with_its_owners_and_goes_on";
    isolated(name, NEEDED, async |programs| {
        let fleet = Fleet::start(&programs).await?;
        let backup = fleet.folder.path().join("backups").join(CLUSTER).join("0123456789ab");
        let (said, code) = fleet.restore(&["--yes"])?;
        ensure!(code == 0 && said.contains("nothing was paused"), "{said}");

        fleet.lose().await?;
        let (said, code) = fleet.restore(&[])?;
        ensure!(code == 0 && said.contains("65 objects: 65 missing") && said.contains("`--yes` restores"), "{said}");
        ensure!(there(&fleet.client).await?.is_empty(), "a dry run wrote something");
        let (said, code) = fleet.restore(&["--yes"])?;
        ensure!(code == 0 && said.contains("65 made anew") && said.contains("Cluster fleet/machines"), "{said}");
        assert_as_saved(&fleet.client, &backup).await?;
        let (said, code) = fleet.restore(&[])?;
        ensure!(code == 0 && said.contains("65 same") && said.contains("nothing is to be restored"), "{said}");

        // What a person had paused before stays so, and what lost its owner gets it back.
        patch(&fleet.client, CLUSTER_KIND, CLUSTER, json!({"spec": {"paused": true}})).await?;
        let lost = json!({"metadata": {"ownerReferences": null, "labels": null}});
        patch(&fleet.client, MACHINE, "machines-7", lost).await?;
        let (said, code) = fleet.restore(&[])?;
        ensure!(code == 0 && said.contains("without label") && said.contains("owner MachineDeployment"), "{said}");
        let (said, code) = fleet.restore(&["--yes"])?;
        ensure!(code == 0 && said.contains("1 put back"), "{said}");
        assert_eq!(cluster_of(&fleet.client).await?["spec"]["paused"], json!(true));
        patch(&fleet.client, CLUSTER_KIND, CLUSTER, json!({"spec": {"paused": null}})).await?;
        assert_as_saved(&fleet.client, &backup).await?;
        fleet.folder.done();
        Ok(())
    });
}

#[test]
fn owners_that_no_backup_holds_are_linked_anew_or_left_out() {
    let name = "restored::owners_that_no_backup_holds_are_linked_anew_or_left_out";
    isolated(name, NEEDED, async |programs| {
        let fleet = Fleet::start(&programs).await?;
        let config = ("v1", "ConfigMap");
        for (place, owner) in [("machines-a", "kept"), ("machines-b", "gone")] {
            let owner = fleet.create(config, owner, None, json!({})).await?;
            let link = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(), "uid": owner.uid()}]);
            let labels = json!({"cluster.x-k8s.io/cluster-name": CLUSTER});
            let more = json!({"metadata": {"ownerReferences": link, "labels": labels}, "spec": {}});
            fleet.create(INFRASTRUCTURE, place, None, more).await?;
        }
        fleet.back_up(CLUSTER).await?;
        let owners = kind_in(&fleet.client, config, NAMESPACE).await?;
        let owned = kind_in(&fleet.client, INFRASTRUCTURE, NAMESPACE).await?;
        for name in ["kept", "gone"] {
            owners.delete(name, &DeleteParams::default()).await?;
        }
        for name in ["machines-a", "machines-b"] {
            owned.delete(name, &DeleteParams::default()).await?;
        }
        let made = fleet.create(config, "kept", None, json!({})).await?;
        let (said, code) = fleet.restore(&["--yes"])?;
        let remark = "DevMachine fleet/machines-b loses its owner ConfigMap gone, which is neither saved nor there";
        ensure!(code == 0 && said.contains("2 made anew") && said.contains(remark), "{said}");
        let linked = owned.get("machines-a").await?.metadata.owner_references.unwrap_or_default();
        assert_eq!(linked.iter().map(|owner| Some(owner.uid.clone())).collect::<Vec<_>>(), [made.uid()]);
        assert_eq!(owned.get("machines-b").await?.metadata.owner_references, None);
        fleet.folder.done();
        Ok(())
    });
}

#[test]
fn what_a_resource_set_applies_is_saved_and_made_anew() {
    let name = "restored::what_a_resource_set_applies_is_saved_and_made_anew";
    isolated(name, NEEDED, async |programs| {
        let fleet = Fleet::start(&programs).await?;
        let (group, version) = ("addons.cluster.x-k8s.io", "v1beta2");
        let kinds = ["ClusterResourceSet", "ClusterResourceSetBinding"];
        let definitions = kinds.map(|kind| {
            let plural = format!("{}s", kind.to_lowercase());
            definition((group, version, kind, &plural), "Namespaced")
        });
        define(&fleet.client, &definitions).await?;
        let api_version = format!("{group}/{version}");
        let [set, binding] = kinds.map(|kind| (api_version.as_str(), kind));
        let config_map = ("v1", "ConfigMap");
        let resources = json!([{"kind": "ConfigMap", "name": "cni"}, {"kind": "Secret", "name": "token"}]);
        let owner = fleet.create(set, "cni", None, json!({"spec": {"resources": resources}})).await?;
        fleet.create(binding, CLUSTER, Some(&owner), json!({"spec": {"clusterName": CLUSTER}})).await?;
        fleet.create(config_map, "cni", None, json!({"data": {"cni.yaml": "kind: Namespace"}})).await?;
        fleet.create(config_map, "of-others", None, json!({"data": {"a": "b"}})).await?;
        fleet.create(SECRET, "token", None, json!({"data": {"value": "aHVudGVyMg=="}})).await?;
        fleet.back_up(CLUSTER).await?;
        let lost =
            [(set, "cni"), (binding, CLUSTER), (config_map, "cni"), (config_map, "of-others"), (SECRET, "token")];
        for (kind, name) in lost {
            kind_in(&fleet.client, kind, NAMESPACE).await?.delete(name, &DeleteParams::default()).await?;
        }
        let (said, code) = fleet.restore(&["--yes"])?;
        ensure!(code == 0 && said.contains("4 made anew"), "{said}");
        let config_maps = kind_in(&fleet.client, config_map, NAMESPACE).await?;
        assert_eq!(config_maps.get("cni").await?.data["data"]["cni.yaml"], "kind: Namespace");
        ensure!(config_maps.get_opt("of-others").await?.is_none(), "a ConfigMap of others was saved");
        let secret = kind_in(&fleet.client, SECRET, NAMESPACE).await?.get("token").await?;
        assert_eq!(secret.data["data"]["value"], "aHVudGVyMg==");
        let set = kind_in(&fleet.client, set, NAMESPACE).await?.get("cni").await?;
        ensure!(set.annotations().is_empty(), "it stands still: {set:?}");
        fleet.folder.done();
        Ok(())
    });
}

#[test]
fn what_is_newer_than_the_backup_is_only_overwritten_by_name() {
    let name = "restored::what_is_newer_than_the_backup_is_only_overwritten_by_name";
    isolated(name, NEEDED, async |programs| {
        let fleet = Fleet::start(&programs).await?;
        let backup = fleet.folder.path().join("backups").join(CLUSTER).join("0123456789ab");
        let machine = kind_in(&fleet.client, MACHINE, NAMESPACE).await?;
        machine.delete("machines-9", &DeleteParams::default()).await?;
        patch(&fleet.client, GROUP, "machines-md", json!({"spec": {"replicas": 4}})).await?;
        patch(&fleet.client, SECRET, "machines-ca", json!({"data": {"value": "bmV3"}})).await?;
        for arguments in [&[][..], &["--yes"]] {
            let (said, code) = fleet.restore(arguments)?;
            ensure!(code == 3 && said.contains("generation 2, 1 in the backup: spec.replicas"), "{code}: {said}");
            ensure!(
                said.contains("Secret fleet/machines-ca is newer (written after the backup: data.value)"),
                "{said}"
            );
            ensure!(said.contains("missing") && said.contains("--overwrite-newer"), "{said}");
        }
        ensure!(machine.get_opt("machines-9").await?.is_none(), "something was written");
        assert_eq!(cluster_of(&fleet.client).await?["spec"].get("paused"), None);
        let (said, code) = fleet.restore(&["--overwrite-newer", "--yes"])?;
        ensure!(code == 0 && said.contains("1 made anew, 3 put back"), "{said}");
        assert_as_saved(&fleet.client, &backup).await?;
        // One that was made anew by somebody else says something else than the backup.
        machine.delete("machines-9", &DeleteParams::default()).await?;
        fleet
            .create(MACHINE, "machines-9", None, json!({"spec": {"clusterName": CLUSTER, "version": "v1.35.0"}}))
            .await?;
        let (said, code) = fleet.restore(&[])?;
        ensure!(code == 3 && said.contains("newer") && said.contains("made at"), "{said}");
        fleet.folder.done();
        Ok(())
    });
}

#[test]
fn a_restore_that_is_killed_goes_on_to_the_same_end() {
    let name = "restored::a_restore_that_is_killed_goes_on_to_the_same_end";
    isolated(name, NEEDED, async |programs| {
        let fleet = Fleet::start(&programs).await?;
        let backup = fleet.folder.path().join("backups").join(CLUSTER).join("0123456789ab");
        fleet.lose().await?;
        for wanted in [1, 2, 9, 23, 40, 58, 64] {
            let mut command = fleet.command(&["--yes"]);
            let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            tests::waiting::until("so many objects are there", async || {
                let ended = process.try_wait()?.is_some();
                Ok((ended || there(&fleet.client).await?.len() >= wanted).then_some(()))
            })
            .await?;
            process.kill()?;
            let was_killed = !process.wait()?.success();
            let cluster = cluster_of(&fleet.client).await?;
            if was_killed && there(&fleet.client).await?.len() < 65 {
                // Half of it there is nothing that anybody may act on.
                assert_eq!(cluster["spec"]["paused"], json!(true), "{cluster}");
                let (said, _) = fleet.restore(&[])?;
                ensure!(said.contains("paused: Cluster fleet/machines since") && said.contains("by Ops"), "{said}");
            }
        }
        let (said, code) = fleet.restore(&["--yes"])?;
        ensure!(code == 0, "{said}");
        assert_as_saved(&fleet.client, &backup).await?;
        fleet.folder.done();
        Ok(())
    });
}

#[test]
fn a_backup_that_cannot_be_used_is_refused_before_anything_is_written() {
    let name = "restored::a_backup_that_cannot_be_used_is_refused_before_anything_is_written";
    isolated(name, NEEDED, async |programs| {
        let fleet = Fleet::start(&programs).await?;
        let backup = fleet.folder.path().join("backups").join(CLUSTER).join("0123456789ab");
        let other = fleet.back_up("other").await?.display().to_string();
        fleet.lose().await?;
        let header = std::fs::read_to_string(backup.join("backup.json"))?;
        let file = backup.join("machines.cluster.x-k8s.io.json");
        let machines = std::fs::read_to_string(&file)?;
        let refused = |arguments: &[&str], expected: &str| {
            let (said, code) = fleet.restore(arguments)?;
            ensure!(code == 2 && said.contains(expected), "{expected}: {code}: {said}");
            Ok(())
        };
        let from = backup.display().to_string();
        refused(&["--yes", "--from", &other], "is of cluster fleet/other, and fleet/machines is to be restored")?;
        refused(&["--yes", "--from", "/nowhere"], "could not read backup /nowhere")?;
        std::fs::write(&file, &machines[..machines.len() / 2])?;
        refused(&["--yes", "--from", &from], "does not have the digest that backup.json states")?;
        refused(&["--yes"], "there is no whole backup of cluster machines below")?;
        std::fs::write(&file, &machines)?;
        std::fs::write(backup.join("backup.json"), header.replace("\"format\": 2", "\"format\": 7"))?;
        refused(&["--yes", "--from", "0123456789ab"], "is of format 7, and this program reads formats 1 and 2")?;
        std::fs::write(backup.join("backup.json"), &header[..header.len() - 9])?;
        refused(&["--yes", "--from", &from], "not JSON of a backup at line")?;
        ensure!(there(&fleet.client).await?.is_empty(), "something was written");
        // Taken in another management cluster, it is not of this one.
        std::fs::write(backup.join("backup.json"), &header)?;
        let elsewhere = started(&programs, &fleet.folder.path().join("elsewhere")).await?;
        let kubeconfig = elsewhere.kubeconfig().display().to_string();
        refused(&["--yes", "--kubeconfig", &kubeconfig], "was taken in another management cluster")?;
        fleet.folder.done();
        Ok(())
    });
}

#[test]
fn an_encrypted_backup_is_restored_with_its_identity_alone() {
    let name = "restored::an_encrypted_backup_is_restored_with_its_identity_alone";
    isolated(name, NEEDED, async |programs| {
        let fleet = Fleet::start(&programs).await?;
        let plain = fleet.folder.path().join("backups").join(CLUSTER).join("0123456789ab");
        let saved = fleet.folder.path().join("plain");
        std::fs::rename(&plain, &saved)?;
        let key = Identity::generate();
        let place = BackupPlace {
            folder: fleet.folder.path().join("backups").join(CLUSTER),
            recipients: vec![key.to_public().to_string().parse().map_err(anyhow::Error::msg)?],
            ..BackupPlace::default()
        };
        fleet.back_up_to(CLUSTER, place).await?;
        fleet.lose().await?;
        let file = fleet.folder.path().join("backup.key");
        std::fs::write(&file, format!("# of the operator\n{}\n", key.to_string().expose_secret()))?;
        let other = fleet.folder.path().join("other.key");
        std::fs::write(&other, format!("{}\n", Identity::generate().to_string().expose_secret()))?;
        let (file, other) = (file.display().to_string(), other.display().to_string());
        for arguments in [&["--yes"][..], &["--yes", "--identity", &other]] {
            let (said, code) = fleet.restore(arguments)?;
            ensure!(code == 2 && said.contains(&format!("is encrypted to {}", key.to_public())), "{said}");
        }
        ensure!(there(&fleet.client).await?.is_empty(), "something was written");
        let (said, code) = fleet.restore(&["--yes", "--identity", &file])?;
        ensure!(code == 0 && said.contains("65 made anew"), "{said}");
        assert_as_saved(&fleet.client, &saved).await?;
        fleet.folder.done();
        Ok(())
    });
}

#[test]
fn a_cluster_moves_to_another_management_cluster_as_it_is() {
    let name = "restored::a_cluster_moves_to_another_management_cluster_as_it_is";
    isolated(name, NEEDED, async |programs| {
        let fleet = Fleet::start(&programs).await?;
        let backup = fleet.folder.path().join("backups").join(CLUSTER).join("0123456789ab");
        let target = started(&programs, &fleet.folder.path().join("target")).await?;
        let (client, to) = (target.client().await?, target.kubeconfig().display().to_string());
        for (arguments, expected) in [
            (&["--from", "0123456789ab"][..], "still manages cluster machines"),
            (&["--source-is-gone"], "answers and has cluster machines"),
        ] {
            let (said, code) = fleet.restore(&[&["--to", &to, "--yes"], arguments].concat())?;
            ensure!(code == 2 && said.contains(expected), "{said}");
        }
        let (said, code) = fleet.restore(&["--to", &to])?;
        ensure!(code == 0 && said.contains("65 missing"), "{said}");
        ensure!(there(&client).await?.is_empty(), "a dry run wrote something");
        assert_eq!(cluster_of(&fleet.client).await?["spec"].get("paused"), None);

        let (said, code) = fleet.restore(&["--to", &to, "--yes"])?;
        ensure!(code == 0 && said.contains("65 made anew") && said.contains("stay there, paused"), "{said}");
        assert_as_saved(&client, &backup).await?;
        ensure!(list(&client, CLUSTER_KIND, NAMESPACE).await?.len() == 1, "another cluster was moved");
        let left = cluster_of(&fleet.client).await?;
        assert_eq!(left["spec"]["paused"], json!(true));
        ensure!(left.to_string().contains("it is moved to"), "{left}");
        // There it never goes on, whatever is restored there.
        let (said, code) = fleet.restore(&["--yes"])?;
        ensure!(code == 3 && said.contains("in the way: Cluster fleet/machines was moved to https://"), "{said}");
        assert_eq!(cluster_of(&fleet.client).await?["spec"]["paused"], json!(true));
        let here = fleet.server.kubeconfig().display().to_string();
        let (said, code) = fleet.restore(&["--to", &here, "--yes"])?;
        ensure!(code == 2 && said.contains("leave --to out"), "{said}");

        // An old one that does not answer may go on by itself: somebody has to say that it never will.
        let old = fleet.server.kubeconfig().display().to_string();
        drop(fleet.server);
        let fleet = Fleet { server: target, ..fleet };
        let (said, code) = fleet.restore(&["--to", &to, "--kubeconfig", &old])?;
        ensure!(code == 2 && said.contains("is gone is not known") && said.contains("--source-is-gone"), "{said}");
        let (said, code) = fleet.restore(&["--to", &to, "--kubeconfig", &old, "--source-is-gone"])?;
        ensure!(code == 0 && said.contains("nothing is to be restored"), "{said}");
        fleet.folder.done();
        Ok(())
    });
}
