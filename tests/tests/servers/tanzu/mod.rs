//! Clusters of Tanzu in front of a Supervisor: one commit, and gates that follow what its controllers do, in every version of the interface.
//!
//! Both API servers are real. What the Supervisor's controllers would do, the tests do, a step at a time.

mod rendered;
mod supervisor;

use std::process::Command;

use anyhow::{Context as _, ensure};
use cluster::kubernetes::rollout_definition;
use serde_json::{Value, json};
use tests::servers::manifests::{apply, apply_as, define, kind_in, objects};
use tests::servers::{FleetRepository, Folder, Process, Programs, isolated};
use tests::waiting::until;

use supervisor::{Generation, NAME, Supervisor};

const NEEDED: &[&str] = &["etcd", "kube-apiserver"];
const FILE: &str = "tenants/depot.yaml";
const SYSTEM: &str = "stepgate-system";
const POLICY: &str = "\
apiVersion: stepgate.dev/v1alpha1
kind: Policy
apply: direct
soak: 0s
timeout: 30m
";

const VSPHERE_7: Generation = Generation {
    version: "v1alpha1",
    machines: "v1alpha3",
    infrastructure: ("infrastructure.cluster.vmware.com", "v1alpha3", "WCPMachine", "wcpmachines"),
    plus: "_",
};
const VSPHERE_7_U3: Generation = Generation { version: "v1alpha2", machines: "v1beta1", ..VSPHERE_7 };
const VSPHERE_8: Generation = Generation {
    version: "v1alpha3",
    machines: "v1beta1",
    infrastructure: ("vmware.infrastructure.cluster.x-k8s.io", "v1beta1", "VSphereMachine", "vspheremachines"),
    plus: "---",
};

struct Scene {
    folder: Folder,
    repository: FleetRepository,
    supervisor: Supervisor,
    old: &'static str,
}

impl Scene {
    /// A cluster of three machines of control plane and one of each pool that is well, and recorded.
    async fn start(
        programs: &Programs,
        generation: Generation,
        (old, new): (&'static str, &str),
        files: &[(&str, &str)],
        pools: &[&str],
    ) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let repository = FleetRepository::create(&folder.path().join("repository"))?;
        let supervisor = Supervisor::start(programs, folder.path(), generation).await?;
        supervisor.release(old, "v1.11.1").await?;
        supervisor.release(new, "v1.13.3").await?;
        for name in ["plane-a", "plane-b", "plane-c"] {
            supervisor.machine((name, None, old, "small")).await?;
        }
        for pool in pools {
            let (name, owner) = (format!("{pool}-a"), format!("{NAME}-{pool}-x7k2p"));
            supervisor.machine((&name, Some(&owner), old, "small")).await?;
        }
        let scene = Self { folder, repository, supervisor, old };
        let mut all = vec![("stepgate.yaml", POLICY)];
        all.extend(files);
        scene.repository.push("Describe the depot", &all)?;
        let (_, text) = files.first().context("no file")?;
        // Applied from git before, as whoever applies without Flux has it: nobody else owns its fields.
        apply_as(&scene.supervisor.client, "stepgate", &objects(text)?).await?;
        scene.says("running", old, "v1.11.1").await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}});
        apply(&scene.supervisor.client, &[namespace]).await?;
        define(&scene.supervisor.client, &[rollout_definition()?]).await?;
        let output = scene.command(&["adopt", "--yes", "--as-declared"]).output()?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        ensure!(said.contains("depot: recorded what the source branch says"), "{said}");
        Ok(scene)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
        command
            .args(arguments)
            .env("STEPGATE_REPO", self.repository.bare())
            .env("STEPGATE_KUBECONFIG", self.supervisor.server.kubeconfig())
            .env("STEPGATE_MANAGEMENT_CLUSTER", "supervisor")
            .env("STEPGATE_MIRROR", self.folder.path().join("mirror"))
            .env("STEPGATE_BACKUPS", self.folder.path().join("backups"));
        command
    }

    fn controller(&self) -> anyhow::Result<Process> {
        Process::start(self.folder.path(), "stepgate", self.command(&["run", "--listen", "off"]))
    }

    /// The status of a cluster whose add-ons are of a release: all that is managed of them with its CNI at this version.
    async fn says(&self, phase: &str, release: &str, cni: &str) -> anyhow::Result<()> {
        let build = release.split_once("-tkg").context("not a release")?.0;
        let dns = format!("dns-of-{build}");
        let status = if self.supervisor.generation.version == "v1alpha1" {
            let addon = |name: &str, version: &str| json!({"name": name, "status": "applied", "version": version});
            json!({"phase": phase, "version": self.old, "addons": {"cni": addon("antrea", cni), "csi": addon("pvcsi", release),
                "dns": addon("CoreDNS", &dns), "proxy": addon("kube-proxy", build), "psp": addon("defaultpsp", release),
                "cloudprovider": addon("vmware-guest-cluster", release),
                "authsvc": {"name": "authsvc", "status": "unmanaged", "version": ""}}})
        } else {
            let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let addon = |name: &str, kind: &str, version: &str| json!({"name": name, "type": kind, "version": version, "conditions": [condition("Provisioned", "True")]});
            let settled = if phase == "running" { "True" } else { "False" };
            json!({"phase": phase, "addons": [addon("antrea", "CNI", cni), addon("pvcsi", "CSI", release),
                addon("CoreDNS", "DNS", &dns)],
                // True all the while, as it is after the commit of a new release.
                "conditions": [condition("Ready", "True"), condition("AddonsReady", "True"),
                    condition("NodePoolsReady", settled)]})
        };
        self.supervisor.status(status).await
    }

    /// Where the cluster stands, as the controller shows it.
    async fn reasons(&self) -> anyhow::Result<String> {
        let rollouts = kind_in(&self.supervisor.client, ("stepgate.dev/v1alpha1", "Rollout"), SYSTEM).await?;
        let shown = rollouts.get_opt(NAME).await?;
        Ok(shown.map(|rollout| rollout.data["status"].to_string()).unwrap_or_default())
    }

    async fn waits_for(&self, text: &str) -> anyhow::Result<()> {
        let mut reasons = String::new();
        let said = async || {
            reasons = self.reasons().await?;
            Ok(reasons.contains(text).then_some(()))
        };
        let waited = until(&format!("the Rollout says {text:?}"), said).await;
        waited.with_context(|| format!("said instead: {reasons}"))
    }

    /// Waits until these stages are committed, and no other.
    async fn stages_are(&self, stages: &[&str]) -> anyhow::Result<()> {
        let committed = async || Ok((self.repository.stages()?.len() >= stages.len()).then_some(()));
        if let Err(error) = until(&format!("{stages:?} are committed"), committed).await {
            return Err(error.context(format!("{:?}: {}", self.repository.stages()?, self.reasons().await?)));
        }
        assert_eq!(self.repository.stages()?, stages);
        Ok(())
    }

    /// The machines of a part are replaced one by one, and its gate waits until the last of before is gone.
    async fn replace(
        &self,
        part: &str,
        count: usize,
        owner: Option<&str>,
        release: &str,
        class: &str,
    ) -> anyhow::Result<()> {
        for letter in ["a", "b", "c"].iter().take(count) {
            let (before, after) = (format!("{part}-{letter}"), format!("{part}-{letter}2"));
            self.supervisor.machine((&after, owner, release, class)).await?;
            self.waits_for(&before).await?;
            self.supervisor.remove(&before).await?;
        }
        Ok(())
    }
}

const STAGES: [&str; 5] = ["verify", "addons", "control-plane", "workers/workers", "verify"];

#[test]
fn a_hint_of_v1alpha1_is_rolled_out_by_phase_and_add_ons() {
    let name = "tanzu::a_hint_of_v1alpha1_is_rolled_out_by_phase_and_add_ons";
    isolated(name, NEEDED, async |programs| {
        let (old, new) = ("v1.20.8+vmware.1-tkg.2", "v1.21.6+vmware.1-tkg.1");
        let cluster = "apiVersion: run.tanzu.vmware.com/v1alpha1\nkind: TanzuKubernetesCluster\nmetadata: {name: depot, namespace: \
                       tenants}\nspec:\n  distribution:\n    version: v1.20 # the minor\n  topology:\n    controlPlane: {count: 3, \
                       class: small, storageClass: gold}\n    workers: {count: 1, class: small, storageClass: gold}\n";
        let release = |version: &str| {
            format!(
                "---\napiVersion: run.tanzu.vmware.com/v1alpha1\nkind: TanzuKubernetesRelease\nmetadata: {{name: {}}}\nspec: \
                 {{version: {version}}}\n",
                version.replacen('+', "---", 1)
            )
        };
        let releases = release(old) + &release(new);
        let files = [(FILE, cluster), ("supervisor.yaml", releases.as_str())];
        let scene = Scene::start(&programs, VSPHERE_7, (old, new), &files, &["workers"]).await?;
        ensure!(
            scene.repository.deployed("clusters/depot/cluster/depot.yaml")?.contains(&format!("fullVersion: {old}"))
        );
        let controller = scene.controller()?;

        scene.repository.push("Raise the minor", &[(FILE, &cluster.replace("v1.20 #", "v1.21 #"))])?;
        scene.stages_are(&STAGES[..2]).await?;
        scene.waits_for("add-on antrea is at v1.11.1, v1.13.3 expected").await?;
        let distribution = &scene.supervisor.specification().await?["distribution"];
        assert_eq!(*distribution, json!({"version": "v1.21", "fullVersion": new}));
        // Whoever starts anew asks the same gate.
        drop(controller);
        let _controller = scene.controller()?;
        scene.waits_for("add-on antrea is at v1.11.1, v1.13.3 expected").await?;
        scene.says("updating", new, "v1.13.3").await?;

        scene.stages_are(&STAGES[..3]).await?;
        scene.replace("plane", 3, None, new, "small").await?;
        scene.stages_are(&STAGES[..4]).await?;
        let owner = "depot-workers-m4q9z";
        scene.replace("workers", 1, Some(owner), new, "small").await?;
        scene.waits_for("another update is in progress").await?;
        scene.says("running", new, "v1.13.3").await?;
        scene.stages_are(&STAGES).await?;

        // Its Supervisor is updated, and rolls the cluster by itself.
        scene.says("updating", new, "v1.13.3").await?;
        scene.waits_for("a rollout that nobody asked for").await?;
        scene.folder.done();
        Ok(())
    });
}

fn later(version: &str, release: &str, pools: &str) -> String {
    format!(
        "apiVersion: run.tanzu.vmware.com/{version}\nkind: TanzuKubernetesCluster\nmetadata: {{name: depot, namespace: \
         tenants}}\nspec:\n  topology:\n    controlPlane:\n      replicas: 3\n      vmClass: small\n      storageClass: gold\n      \
         tkr: {{reference: {{name: {release}}}}}\n    nodePools:\n{pools}"
    )
}

/// The pool names no release of its own, and gets that of the control plane by the same commit.
#[test]
fn a_release_of_v1alpha2_is_named_in_every_pool() {
    let name = "tanzu::a_release_of_v1alpha2_is_named_in_every_pool";
    isolated(name, NEEDED, async |programs| {
        let (old, new) = ("v1.22.9+vmware.1-tkg.1", "v1.23.8+vmware.2-tkg.2");
        let pool = "    - name: workers\n      replicas: 1\n      vmClass: small\n      storageClass: gold\n";
        let cluster = later("v1alpha2", "v1.22.9---vmware.1-tkg.1", pool);
        let scene = Scene::start(&programs, VSPHERE_7_U3, (old, new), &[(FILE, &cluster)], &["workers"]).await?;
        let controller = scene.controller()?;
        scene.repository.push(
            "Raise the release",
            &[(FILE, &cluster.replace("v1.22.9---vmware.1-tkg.1", "v1.23.8---vmware.2-tkg.2"))],
        )?;
        scene.stages_are(&STAGES[..2]).await?;
        scene.waits_for("add-on antrea is at v1.11.1, v1.13.3 expected").await?;
        let topology = scene.supervisor.specification().await?["topology"].clone();
        for part in [&topology["controlPlane"], &topology["nodePools"][0]] {
            assert_eq!(part["tkr"]["reference"]["name"], Value::from("v1.23.8---vmware.2-tkg.2"));
        }
        scene.says("updating", new, "v1.13.3").await?;
        scene.stages_are(&STAGES[..3]).await?;
        drop(controller);
        let _controller = scene.controller()?;
        scene.replace("plane", 3, None, new, "small").await?;
        scene.stages_are(&STAGES[..4]).await?;
        scene.replace("workers", 1, Some("depot-workers-m4q9z"), new, "small").await?;
        scene.waits_for("updating: another update is in progress").await?;
        scene.says("running", new, "v1.13.3").await?;
        scene.stages_are(&STAGES).await?;
        scene.folder.done();
        Ok(())
    });
}

/// A change of class touches its pool alone, and is proven by machines alone: every word of the cluster is true already.
#[test]
fn a_class_of_v1alpha3_rolls_its_pool_alone() {
    let name = "tanzu::a_class_of_v1alpha3_rolls_its_pool_alone";
    isolated(name, NEEDED, async |programs| {
        let release = "v1.27.11+vmware.1-fips.1-tkg.2";
        let pools = "    - {name: steady, replicas: 1, vmClass: small, storageClass: gold}\n    - {name: steady-gpu, replicas: 1, \
                     vmClass: small, storageClass: gold}\n";
        let cluster = later("v1alpha3", "v1.27.11---vmware.1-fips.1-tkg.2", pools);
        let releases = (release, "v1.28.4+vmware.1-tkg.1");
        let pools = ["steady", "steady-gpu"];
        let scene = Scene::start(&programs, VSPHERE_8, releases, &[(FILE, &cluster)], &pools).await?;
        let _controller = scene.controller()?;
        let next =
            cluster.replace("steady-gpu, replicas: 1, vmClass: small", "steady-gpu, replicas: 1, vmClass: large");
        scene.repository.push("Larger machines", &[(FILE, &next)])?;
        let stages = ["verify", "workers/steady-gpu", "verify"];
        scene.stages_are(&stages[..2]).await?;
        scene.waits_for("spec.className: small, large expected").await?;
        scene.replace("steady-gpu", 1, Some("depot-steady-gpu-9zz"), release, "large").await?;
        scene.stages_are(&stages).await?;
        scene.folder.done();
        Ok(())
    });
}
