//! The API server that serves Stepgate is itself replaced, as where a management cluster upgrades its own control plane.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tests::servers::manifests::kind_in;
use tests::servers::settled::{CLUSTER, EKSA_CLUSTER, FakeEksAnywhere};
use tests::servers::{DemoCluster, Folder, Network, Process, Programs, Replica, Signer, isolated};
use tests::waiting::{LONG_PATIENCE, until_within};
use tokio::time::Instant;

const NEEDED: &[&str] = &["etcd", "kube-apiserver", "kube-controller-manager"];

const POLICY: (&str, &str) = (
    "stepgate.yaml",
    "apiVersion: stepgate.dev/v1alpha1\nkind: Policy\ndeploy: {branch: deploy}\nsoak: 1s\ntimeout: 30m\n",
);

/// The bump of Kubernetes alone, and the commits of the deploy branch: recorded, each stage, closed.
const BUMPED: &str = "clusters/mgmt/cluster.yaml";
const STAGES: [&str; 5] = ["verify", "bundle", "control-plane", "workers/md-0", "verify"];

/// How late a lagging server hears of what was written.
const LAG: Duration = Duration::from_millis(700);

/// How long nobody is at the address while it moves.
const OUTAGE: Duration = Duration::from_secs(20);

/// How soon Stepgate goes on, once the address is back. Watches tell at once, as a rule; what they
/// missed while nobody was there is found by a reading of everything, 30 s later at the latest.
const SOON: Duration = Duration::from_secs(45);

/// How long a single node is down.
const REBOOT: Duration = Duration::from_secs(180);

/// A management cluster in the midst of its control-plane stage, and the controller.
struct Scene {
    cluster: DemoCluster,
    controller: Process,
    /// The certificate authority that the controller's kubeconfig names.
    trusted: PathBuf,
}

impl Scene {
    async fn start(programs: &Programs, folder: &Folder) -> anyhow::Result<Self> {
        let program = || Ok(Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests")));
        let state = folder.path().join("management");
        let cluster = DemoCluster::start(programs, folder.path(), &state, &[POLICY], program, true).await?;
        cluster.settle().await?;
        cluster.flux.applied(&cluster.repository.head()?, None).await?;

        let trusted = folder.path().join("authority.crt");
        std::fs::write(&trusted, cluster.server.authority().certificate())?;
        let mut kubeconfig: Value = serde_json::from_slice(&std::fs::read(cluster.server.kubeconfig())?)?;
        kubeconfig["clusters"][0]["cluster"]["certificate-authority"] = trusted.to_string_lossy().into();
        let path = folder.path().join("stepgate.kubeconfig");
        std::fs::write(&path, kubeconfig.to_string())?;
        let mut command = cluster.stepgate(&path, &["run", "--log-level", "info,stepgate=debug"])?;
        command.env("STEPGATE_INTERVAL", "2");
        let controller = Process::start(folder.path(), "stepgate", command)?;
        Ok(Self { cluster, controller, trusted })
    }

    /// Pushes the bump and waits until the control plane's change is on the deploy branch.
    async fn begin(&self) -> anyhow::Result<()> {
        let is_bumped = |(path, _): &&(String, String)| path == BUMPED;
        let (path, text) = self.cluster.bump.iter().find(is_bumped).context("no bump of Kubernetes")?;
        self.cluster.repository.push("Take the next minor", &[(path.as_str(), text.as_str())])?;
        self.committed("control-plane").await?;
        let cluster = kind_in(&self.cluster.client, EKSA_CLUSTER, "default").await?;
        let is_applied = async || {
            let version = cluster.get(CLUSTER).await?.data.pointer("/spec/kubernetesVersion").cloned();
            Ok((version == Some("1.34".into())).then_some(()))
        };
        until_within("the change is applied", LONG_PATIENCE, is_applied).await
    }

    async fn committed(&self, stage: &str) -> anyhow::Result<()> {
        let is_last = async || {
            let stages = self.cluster.repository.stages()?;
            Ok((stages.len() > 1 && stages.last().is_some_and(|last| last == stage)).then_some(()))
        };
        self.controller.until_within(&format!("commit of {stage}"), LONG_PATIENCE, is_last).await
    }

    /// No other stage was committed since the control plane's.
    fn assert_waits(&self, when: &str) -> anyhow::Result<()> {
        let stages = self.cluster.repository.stages()?;
        ensure!(stages.last().is_some_and(|last| last == "control-plane"), "{when}: {stages:?}");
        Ok(())
    }

    /// The machines were replaced, as whoever reads the server on `port` sees.
    async fn roll(&mut self, port: u16) -> anyhow::Result<()> {
        let client = self.cluster.server.client_at(port).await?;
        self.cluster.eks_anywhere = FakeEksAnywhere::rolling(&client);
        let node = kube::Api::<k8s_openapi::api::core::v1::Node>::all(client);
        let is_new = async || {
            let info = node.get("mgmt-cp-2").await?.status.and_then(|status| status.node_info);
            Ok(info.filter(|info| info.kubelet_version.starts_with("v1.34.")).map(drop))
        };
        until_within("the machines are new", LONG_PATIENCE, is_new).await
    }

    /// The rollout ends, and each stage was committed once.
    async fn end(self) -> anyhow::Result<()> {
        let closed = async || Ok((self.cluster.repository.stages()?.len() >= STAGES.len()).then_some(()));
        self.controller.until_within("the rollout is closed", LONG_PATIENCE, closed).await?;
        assert_eq!(self.cluster.repository.stages()?, STAGES);
        Ok(())
    }
}

/// The server that the address leads to while `old` is replaced by `new`: killed with its etcd member, not drained.
async fn replace(scene: &mut Scene, programs: &Programs, old: Option<Replica>) -> anyhow::Result<Replica> {
    let new = scene.cluster.server.join(programs, Signer::Next).await?;
    match old {
        Some(old) => scene.cluster.server.remove(old).await?,
        None => scene.cluster.server.leave().await?,
    }
    scene.assert_waits("a server was replaced")?;
    Ok(new)
}

#[test]
fn servers_members_address_and_authority_change_under_a_rollout() {
    let name = "replaced::servers_members_address_and_authority_change_under_a_rollout";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let mut scene = Scene::start(&programs, &folder).await?;
        // Three servers on three members; the address is at the last one, which is replaced last.
        let second = scene.cluster.server.join(&programs, Signer::Present).await?;
        let holder = scene.cluster.server.join(&programs, Signer::Present).await?;
        scene.cluster.server.lead_to(holder.port())?;
        let flux = scene.cluster.flux.follow();
        scene.begin().await?;

        // The next authority is trusted beside the present one before any server shows a certificate of it.
        let authorities =
            [scene.cluster.server.authority().certificate(), scene.cluster.server.address()?.1.certificate()];
        std::fs::write(&scene.trusted, authorities.concat())?;
        let first_new = replace(&mut scene, &programs, None).await?;
        let _second_new = replace(&mut scene, &programs, Some(second)).await?;
        // What is read lags behind what was written.
        holder.link.is(Network::Slow(LAG));
        let last_new = scene.cluster.server.join(&programs, Signer::Next).await?;

        // The address moves once. Meanwhile everything of the stage has come about, and nobody could see it.
        scene.cluster.server.address()?.0.is(Network::Refusing);
        scene.cluster.server.remove(holder).await?;
        let gone = Instant::now();
        scene.roll(last_new.port()).await?;
        std::fs::write(&scene.trusted, &authorities[1])?;
        tokio::time::sleep_until(gone + OUTAGE).await;
        scene.assert_waits("nobody is at the address")?;
        scene.cluster.server.address()?.0.is(Network::Sound);
        let back = scene.cluster.server.lead_to(first_new.port())?;
        scene.committed("workers/md-0").await?;
        println!("went on {:?} after the address was back", back.elapsed());
        ensure!(back.elapsed() <= SOON, "went on after {:?}", back.elapsed());
        scene.end().await?;
        drop(flux);
        folder.done();
        Ok(())
    });
}

#[test]
fn a_single_node_that_is_down_for_three_minutes_is_waited_for() {
    let name = "replaced::a_single_node_that_is_down_for_three_minutes_is_waited_for";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let mut scene = Scene::start(&programs, &folder).await?;
        let flux = scene.cluster.flux.follow();
        scene.begin().await?;
        // Its last act is what the stage waits for, and nobody could see it.
        scene.cluster.server.address()?.0.is(Network::Refusing);
        let port = scene.cluster.server.port();
        scene.roll(port).await?;
        let member = scene.cluster.server.etcd.members_mut().first_mut().context("no member")?;
        member.process.kill()?;
        scene.cluster.server.server.kill()?;
        tokio::time::sleep(REBOOT).await;
        scene.assert_waits("the node is down")?;
        let member = scene.cluster.server.etcd.members_mut().first_mut().context("no member")?;
        member.process.restart()?;
        scene.cluster.server.server.restart()?;
        scene.cluster.server.address()?.0.is(Network::Sound);
        scene.cluster.server.wait_until_ready().await?;
        let back = Instant::now();
        scene.committed("workers/md-0").await?;
        println!("went on {:?} after the node was back", back.elapsed());
        ensure!(back.elapsed() <= SOON, "went on after {:?}", back.elapsed());
        scene.end().await?;
        drop(flux);
        folder.done();
        Ok(())
    });
}
