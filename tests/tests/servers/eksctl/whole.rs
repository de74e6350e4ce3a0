//! A whole minor and a rebuild of a cluster of EKS, from the pull requests of people to the announcements of its end.
//!
//! Real are the API server, the forge, the registry, Alertmanager, the mail server and Flux's notification-controller. EKS and
//! its kubelets are `mover.rs`, and two programs that answer as eksctl and aws do. Meanwhile the controller is killed, and what
//! goes wrong is named before it is mended.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tests::servers::manifests::apply;
use tests::servers::{Alertmanager, Flux, Gitea, MailServer, Process, Programs, isolated};
use tests::waiting::{LONG_PATIENCE, until, until_within};

use crate::alerts::{alert, listen};
use crate::announced::{ROUTES, id, sinks};
use crate::approved::merge_all;
use crate::killing::Kills;
use crate::silenced::living;

use super::applied::Applied;
use super::mover::{BROKEN, GONE, KUBE_PROXY, LEFT, carry_out_all};
use super::{CLUSTER, CONFIG, DEPLOYED, FILE, NEEDED, POLICY, Scene};

/// The commits of the deploy branch: the record, the minor, and the rebuild.
const COURSE: [&str; 11] = [
    "verify",
    "control-plane",
    "addons/coredns",
    "workers/istio-1-32",
    "workers/istio-1-31-gen2",
    "workers/ng-shared-1-32",
    "workers/ng-shared-1-31",
    "verify",
    "workers/istio-1-32-gen2",
    "workers/istio-1-32",
    "verify",
];

/// How many commits there are when the minor has come to its end.
const MINOR: usize = 8;

/// The longest time between two kills, in milliseconds.
const LONGEST: u64 = 4000;

/// What eksctl is told, each once.
const RUN: [&str; 8] = [
    "upgrade cluster ",
    "update addon ",
    "create nodegroup istio-1-32",
    "delete nodegroup istio-1-31-gen2",
    "create nodegroup ng-shared-1-32",
    "delete nodegroup ng-shared-1-31",
    "create nodegroup istio-1-32-gen2",
    "delete nodegroup istio-1-32",
];

/// What there is to hear of these commits of one rollout.
fn heard(stages: &[&str]) -> Vec<String> {
    let is_told = |stage: &&&str| **stage == "control-plane" || stage.starts_with("workers/");
    let told =
        stages.iter().filter(is_told).flat_map(|stage| [format!("{stage}/started/1"), format!("{stage}/done/1")]);
    std::iter::once("rollout/started/1".to_owned()).chain(told).chain(["rollout/done/1".to_owned()]).collect()
}

/// Those who are told.
struct Audience {
    mail: MailServer,
    alertmanager: Alertmanager,
    hooked: Arc<Mutex<Vec<Value>>>,
    alerted: Arc<Mutex<Vec<Value>>>,
    _notification: Process,
}

impl Audience {
    async fn start(programs: &Programs, scene: &mut Scene) -> anyhow::Result<Self> {
        let folder = scene.folder.path().to_owned();
        let (notification, events) = Flux::notification_alone(programs, &scene.server).await?;
        let mail = MailServer::start(programs, &folder.join("mail"))?;
        let alertmanager = Alertmanager::start(programs, &folder.join("alertmanager")).await?;
        let (hooked, hook) = listen().await?;
        let (alerted, address) = listen().await?;
        // Flux applies nothing of the cluster: it is told of the source alone.
        apply(&scene.client, &alert(&address, "GitRepository")).await?;
        sinks(&folder.join("sinks"), &hook, &events, &mail)?;
        let alerts = format!(
            "kind: alertmanager\naddress: {}\nstages: {{workers: [NodeNotReady], control-plane: [ApiDown]}}\n",
            alertmanager.address()
        );
        std::fs::write(folder.join("sinks/alerts.yaml"), alerts)?;
        scene.environment.insert("STEPGATE_SINKS", folder.join("sinks").into());
        scene.environment.insert("STEPGATE_ANNOUNCEMENTS", folder.join("announcements.json").into());
        Ok(Self { mail, alertmanager, hooked, alerted, _notification: notification })
    }

    /// Waits until alerts are silenced for these clusters.
    async fn silences(&self, what: &str, clusters: &[&str]) -> anyhow::Result<()> {
        let mut seen = Vec::new();
        let are_silenced = async || {
            seen = living(&self.alertmanager).await?;
            Ok(seen.iter().map(|(_, cluster, _)| cluster.as_str()).eq(clusters.iter().copied()).then_some(()))
        };
        until(what, are_silenced).await.with_context(|| format!("silences: {seen:?}"))
    }

    /// What the messages are known by that have arrived: one that is sent again is the same.
    fn mailed(&self) -> anyhow::Result<BTreeSet<String>> {
        let identifier = |message: &String| {
            let line = message.lines().find_map(|line| line.strip_prefix("Message-ID:").map(str::to_owned));
            line.with_context(|| message.clone())
        };
        self.mail.messages()?.iter().map(identifier).collect()
    }

    /// Everything was told to everybody, in order, and nothing twice.
    async fn has_heard(&self, expected: &[Vec<String>]) -> anyhow::Result<()> {
        let count: usize = expected.iter().map(Vec::len).sum();
        let ours = || {
            let alerted = self.alerted.lock().unwrap();
            alerted.iter().filter(|event| event["reportingController"] == "stepgate").cloned().collect::<Vec<_>>()
        };
        let all = async || {
            let ids: BTreeSet<String> = self.hooked.lock().unwrap().iter().map(|event| id(event).to_owned()).collect();
            let is_told = ids.len() >= count && self.mailed()?.len() >= count && ours().len() >= count;
            Ok(is_told.then_some(()))
        };
        until_within("everything is told", LONG_PATIENCE, all).await.with_context(|| {
            let hooked = self.hooked.lock().unwrap();
            let hooked: Vec<&str> = hooked.iter().map(id).collect();
            format!("{count} are to be told; {hooked:?}, {:?} and {} alerts were", self.mailed(), ours().len())
        })?;
        let hooked = self.hooked.lock().unwrap().clone();
        let mut known: BTreeMap<&str, &Value> = BTreeMap::new();
        let mut rollouts: Vec<(&str, Vec<String>)> = Vec::new();
        for event in &hooked {
            // What is sent again has the same name, and says the same.
            if let Some(before) = known.insert(id(event), event) {
                ensure!(before == event, "told otherwise: {event}");
                continue;
            }
            let mut words = id(event).splitn(3, '/');
            let (Some(CLUSTER), Some(rollout), Some(rest)) = (words.next(), words.next(), words.next()) else {
                bail!("of what is {event}?");
            };
            match rollouts.iter_mut().find(|(known, _)| *known == rollout) {
                Some((_, told)) => told.push(rest.to_owned()),
                None => rollouts.push((rollout, vec![rest.to_owned()])),
            }
        }
        let told: Vec<Vec<String>> = rollouts.into_iter().map(|(_, told)| told).collect();
        ensure!(told == expected, "{told:#?}");
        // Flux drops what it has had before.
        let ours = ours();
        ensure!(ours.len() == count, "{ours:#?}");
        let different = self.mailed()?;
        ensure!(different.len() == count, "{different:?}");
        Ok(())
    }
}

#[test]
fn a_whole_minor_is_approved_carried_out_and_announced_whatever_goes_wrong() {
    let name = "eksctl::whole::a_whole_minor_is_approved_carried_out_and_announced_whatever_goes_wrong";
    let audience = [Alertmanager::NEEDED, MailServer::NEEDED, Flux::NOTIFICATION];
    let needed: Vec<&str> = NEEDED.iter().chain(Gitea::NEEDED).copied().chain(audience).collect();
    isolated(name, &needed, async |programs| {
        let (mut scene, gitea) = Scene::on_forge(&programs).await?;
        let audience = Audience::start(&programs, &mut scene).await?;
        let applied = Applied::new(scene)?;
        applied.allow()?;
        let scene = &applied.scene;
        scene.kube_proxy(None).await?;
        let forge = json!({"kind": "gitea", "url": gitea.url(), "repository": "platform/fleet"});
        let policy = POLICY.replace("apply: pipeline", "apply: eksctl\napproval: stage");
        let policy = format!("{policy}forge: {forge}\n{ROUTES}");
        scene.repository.push("Describe the shop", &[("stepgate.yaml", &policy), (FILE, CONFIG)])?;
        let said = scene.said(&["adopt", "--yes"])?;
        ensure!(said.contains("shop: recorded what the source branch says"), "{said}");
        // Until Gitea has taken in the first push, there is nothing to ask for.
        let has_pulls = async || Ok(gitea.read("pulls?state=open&limit=50").await.ok());
        until("the forge has taken in the first push", has_pulls).await?;
        let pulls = COURSE.iter().filter(|stage| **stage != "verify").count();
        let people = async { tokio::try_join!(merge_all(&gitea, pulls), course(&applied, &audience)) };
        tokio::select! {
            ended = people => drop(ended?),
            ended = carry_out_all(&applied) => match ended? {},
        }
        is_recorded(scene, &gitea).await?;
        assert_eq!(applied.ran(), RUN);
        applied.scene.folder.done();
        Ok(())
    });
}

/// The minor and the rebuild, with what goes wrong on the way.
async fn course(applied: &Applied, audience: &Audience) -> anyhow::Result<()> {
    let scene = &applied.scene;
    let mut controller = Process::start(scene.folder.path(), "stepgate", applied.command(&["run", "--listen", "off"]))?;
    let watching = scene.folder.path().join("announcements.json");
    until("announcements have begun", async || Ok(watching.exists().then_some(()))).await?;
    let mut kills = Kills::new(&scene.repository, COURSE.len())?.at_most_after(LONGEST);
    let next = CONFIG.replace("\"1.31\"", "\"1.32\"").replace("v1.11.3-eksbuild.1", "v1.11.4-eksbuild.2");
    scene.repository.push("Kubernetes 1.32", &[(FILE, &next)])?;

    kills.until(&mut controller, 4).await.with_context(|| told(applied))?;
    // The new node cannot pull an image that each node needs.
    let node = format!("{BROKEN}-0");
    applied.says(&format!("Pod kube-system/kube-proxy-{node}")).await?;
    applied.says(&format!("kube-proxy waits: ImagePullBackOff ({KUBE_PROXY}:{GONE})")).await?;
    kills.catch_up(&mut controller).await?;
    // What keeps the old one comes before it is to go.
    scene.pod("web", "web-1", "c").await?;
    scene.budget("web").await?;
    scene.kube_proxy(None).await?;

    kills.until(&mut controller, 5).await.with_context(|| told(applied))?;
    applied.says("Pod default/web-1 of Deployment default/web: its eviction from Node c is refused").await?;
    applied.says("by PodDisruptionBudget default/web").await?;
    applied.says("kubectl scale deployment web -n default --replicas=2").await?;
    kills.catch_up(&mut controller).await?;
    audience.silences("the alerts of this cluster are silenced, once", &[CLUSTER]).await?;
    scene.let_one_go("web").await?;

    kills.until(&mut controller, 6).await.with_context(|| told(applied))?;
    // Meanwhile somebody wants the new group of gateways with another type of machine.
    let rebuilt = next.replace("istio-1-31-gen2, minSize: 1", "istio-1-32-gen2, minSize: 1, instanceType: m5.large");
    scene.repository.push("Larger gateways", &[(FILE, &rebuilt)])?;

    kills.until(&mut controller, 7).await.with_context(|| told(applied))?;
    applied.says("is of Fargate at v1.31.4-eks-1").await?;
    scene.delete("fargate-1").await?;
    applied.says(&format!("eksctl delete nodegroup --cluster {CLUSTER} --name {LEFT} --drain")).await?;
    ensure!(scene.repository.stages()?.len() == 7, "{:?}", scene.repository.stages()?);
    let groups = std::fs::read_to_string(applied.path("groups"))?;
    std::fs::write(applied.path("groups"), groups.replace(&format!("{LEFT} ACTIVE\n"), ""))?;
    scene.delete(LEFT).await?;

    kills.until(&mut controller, COURSE.len()).await.with_context(|| told(applied))?;
    kills.finish(&mut controller).await?;
    assert_eq!(scene.repository.stages()?, COURSE);
    audience.has_heard(&[heard(&COURSE[1..MINOR]), heard(&COURSE[MINOR..])]).await?;
    audience.silences("no alert is silenced any more", &[]).await
}

fn told(applied: &Applied) -> String {
    let why = applied.why().unwrap_or_default();
    format!("{:?} were committed, {:?} were run: {why}", applied.scene.repository.stages(), applied.ran())
}

/// A pull request for each stage, and in the ledger of each rollout who approved it and what eksctl said.
async fn is_recorded(scene: &Scene, gitea: &Gitea) -> anyhow::Result<()> {
    let stages = COURSE.iter().filter(|stage| **stage != "verify").count();
    let pulls = gitea.read("pulls?state=all&limit=50").await?;
    let pulls = pulls.as_array().context("a list")?;
    ensure!(pulls.len() == stages && pulls.iter().all(|pull| pull["merged"] == true), "{pulls:#?}");
    let git = |arguments: &[&str]| -> anyhow::Result<String> {
        let output = Command::new("git").arg("-C").arg(scene.repository.bare()).args(arguments).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let commits = git(&["log", "--reverse", "--format=%H", "deploy"])?;
    let history = scene.repository.history()?;
    let closing = commits.lines().zip(history).filter(|(_, stage)| stage.as_deref() == Some("verify"));
    let closing: Vec<&str> = closing.map(|(commit, _)| commit).collect();
    for (commit, of_rollout) in closing.iter().skip(1).zip([&COURSE[1..MINOR], &COURSE[MINOR..]]) {
        let ledger = git(&["show", &format!("{commit}:clusters/{CLUSTER}/rollout.yaml")])?;
        ensure!(ledger.matches("by: alice (http").count() == of_rollout.len() - 1, "{ledger}");
        for stage in &of_rollout[..of_rollout.len() - 1] {
            ensure!(ledger.contains(&format!("stage: {stage}\n")), "{stage}: {ledger}");
        }
        ensure!(ledger.contains("eksctl delete nodegroup") && !ledger.contains("AKIA"), "{ledger}");
    }
    let deployed = scene.repository.deployed(DEPLOYED)?;
    for group in ["istio-1-32-gen2", "ng-shared-1-32"] {
        ensure!(deployed.contains(&format!("name: {group}")), "{deployed}");
    }
    ensure!(!deployed.contains("-1-31"), "{deployed}");
    Ok(())
}
