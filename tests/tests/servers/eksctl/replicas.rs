//! Eight processes of which one leads: at each stage the leader is stopped or killed, another goes on within a term of the lease, and
//! nothing that a stopped one had in mind happens twice.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tests::servers::manifests::kind_in;
use tests::servers::{Clocks, Process, Skew, isolated};
use tests::waiting::until;

use super::{CONFIG, FILE, NEEDED, POLICY, STAGES, Scene};

/// Eight whose clocks agree.
const RIGHT: [Skew; 8] = [Skew::Right; 8];

/// Where the lease is.
const NAMESPACE: &str = "default";

/// The term of the lease.
const TERM: Duration = Duration::from_secs(5);

/// Whoever leads renews its Lease before a third of the term is over, so that nobody follows in less than the rest of it; a fast clock makes that
/// shorter, and so does a leader that is busy.
const SOONEST: Duration = Duration::from_millis(1500);

pub struct Replicas<'s> {
    scene: &'s Scene,
    processes: Vec<Process>,
}

impl<'s> Replicas<'s> {
    /// As many as there are clocks.
    pub fn start(scene: &'s Scene, clocks: &[Skew]) -> anyhow::Result<Self> {
        let seconds = TERM.as_secs().to_string();
        let library = clocks.iter().any(|skew| *skew != Skew::Right).then(Clocks::start).transpose()?;
        let start = |(number, skew): (usize, &Skew)| {
            let name = format!("replica-{number}");
            let election = ["run", "--listen", "off", "--leader-election", "--lease-duration", &seconds];
            let identity = ["--namespace", NAMESPACE, "--identity", &name];
            let mut command = scene.command(&[&election[..], &identity].concat());
            if let Some(library) = &library {
                library.set(&mut command, *skew);
            }
            Process::start(scene.folder.path(), &name, command)
        };
        let processes = clocks.iter().enumerate().map(start).collect::<anyhow::Result<Vec<Process>>>()?;
        Ok(Self { scene, processes })
    }

    /// How often the lease went from one to another.
    pub async fn transitions(&self) -> anyhow::Result<u64> {
        let leases = kind_in(&self.scene.client, ("coordination.k8s.io/v1", "Lease"), NAMESPACE).await?;
        let lease = leases.get("stepgate").await?;
        lease.data.pointer("/spec/leaseTransitions").and_then(Value::as_u64).context("no number of transitions")
    }

    /// All others stand still until this one leads.
    pub async fn let_lead(&self, number: usize) -> anyhow::Result<()> {
        let others = || self.processes.iter().enumerate().filter(|(other, _)| *other != number);
        self.process(number)?.resume()?;
        others().try_for_each(|(_, process)| process.stall())?;
        let leads = async || Ok((self.leader(None).await? == number).then_some(()));
        until(&format!("replica {number} leads"), leads).await?;
        others().try_for_each(|(_, process)| process.resume())
    }

    /// Who holds the lease, once somebody does who is not `other`.
    pub async fn leader(&self, other: Option<usize>) -> anyhow::Result<usize> {
        let leases = kind_in(&self.scene.client, ("coordination.k8s.io/v1", "Lease"), NAMESPACE).await?;
        let holds = async || {
            let lease = leases.get_opt("stepgate").await?;
            let holder = lease.as_ref().and_then(|lease| lease.data.pointer("/spec/holderIdentity"));
            let number = holder.and_then(Value::as_str).and_then(|name| name.strip_prefix("replica-"));
            Ok(number.and_then(|number| number.parse().ok()).filter(|number| Some(*number) != other))
        };
        until("somebody holds the lease", holds).await
    }

    /// Stops who leads; the next one leads soon.
    pub async fn stop_leader(&self) -> anyhow::Result<usize> {
        let leader = self.leader(None).await?;
        self.process(leader)?.stall()?;
        let stopped = Instant::now();
        let next = self.leader(Some(leader)).await?;
        let taken = stopped.elapsed();
        println!("replica {leader} is stopped, and {next} leads after {taken:?}");
        // On a busy machine the others come to look late; that they look is what is shown.
        ensure!(taken < TERM * 6, "nobody led for {taken:?}");
        ensure!(taken >= SOONEST, "{next} led after {taken:?}, while {leader} could still believe that it does");
        Ok(leader)
    }

    pub fn process(&self, number: usize) -> anyhow::Result<&Process> {
        self.processes.get(number).with_context(|| format!("there is no replica {number}"))
    }
}

#[test]
fn eight_replicas_commit_each_stage_once_though_their_leaders_are_stopped_and_killed() {
    let name = "eksctl::replicas::eight_replicas_commit_each_stage_once_though_their_leaders_are_stopped_and_killed";
    isolated(name, NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        scene.repository.push("Describe the shop", &[("stepgate.yaml", POLICY), (FILE, CONFIG)])?;
        let said = scene.said(&["adopt", "--yes"])?;
        ensure!(said.contains("shop: recorded what the source branch says"), "{said}");
        let mut replicas = Replicas::start(&scene, &RIGHT)?;
        replicas.leader(None).await?;
        let next = CONFIG.replace("\"1.31\"", "\"1.32\"").replace("v1.11.3-eksbuild.1", "v1.11.4-eksbuild.2");
        scene.repository.push("Kubernetes 1.32", &[(FILE, &next)])?;

        let managed = |group: &str| json!({"alpha.eksctl.io/nodegroup-name": group});
        let mut stopped = Vec::new();
        for committed in 2..STAGES.len() {
            scene.stages_are(committed).await?;
            // One is killed, the others are stopped. Those of before go on now, each with what it was about to do.
            if committed == 5 {
                let leader = replicas.leader(None).await?;
                let process = replicas.processes.get_mut(leader).context("there is no such replica")?;
                process.kill()?;
                replicas.leader(Some(leader)).await?;
                replicas.processes.get_mut(leader).context("there is no such replica")?.restart()?;
            } else {
                stopped.push(replicas.stop_leader().await?);
            }
            match committed {
                2 => scene.endpoint.raise("v1.32.2-eks-2"),
                3 => scene.coredns("v1.11.4-eksbuild.2").await?,
                4 => scene.node("d", managed("istio-1-32"), "v1.32.1-eks-1").await?,
                5 => scene.delete("c").await?,
                6 => {
                    for node in ["e", "f"] {
                        scene.node(node, managed("ng-shared-1-32"), "v1.32.1-eks-1").await?;
                    }
                }
                _ => {
                    for node in ["a", "b", "fargate-1"] {
                        scene.delete(node).await?;
                    }
                }
            }
            // Two are left standing at most: each has been stopped for longer than its term by then.
            if stopped.len() > 2 {
                replicas.process(stopped.remove(0))?.resume()?;
            }
        }
        scene.stages_are(STAGES.len()).await?;
        let head = scene.repository.head()?;
        for number in stopped {
            let process = replicas.process(number)?;
            process.resume()?;
            let stands_by = async || Ok(process.last_lines().contains("standing by").then_some(()));
            until(&format!("replica {number} sees that another leads"), stands_by).await?;
        }
        ensure!(scene.repository.head()? == head, "committed after the end: {:?}", scene.repository.history()?);
        assert_eq!(scene.repository.stages()?, STAGES);
        scene.folder.done();
        Ok(())
    });
}
