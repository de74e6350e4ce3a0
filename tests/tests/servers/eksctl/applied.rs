//! A whole minor where Stepgate runs eksctl itself, killed on the way: a recording program stands in its place.
//!
//! It answers as eksctl does, notes down what it was told to do, and ends when the test lets it.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::json;
use tests::servers::manifests::kind_in;
use tests::servers::{Process, isolated};
use tests::waiting::until;

use super::{CLUSTER, CONFIG, FILE, NEEDED, POLICY, STAGES, Scene};

const PROGRAM: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
list() { awk "BEGIN{printf \"[\"} {printf \"%s{\\\"Name\\\":\\\"%s\\\",\\\"Status\\\":\\\"%s\\\"}\", (NR>1?\",\":\"\"), \$1, \$2} END{print \"]\"}" groups; }
case "$1 $2" in
  "version ") echo 0.215.0; exit ;;
  "get cluster") echo "[{\"Name\":\"shop\",\"Version\":\"$(cat version)\",\"Status\":\"ACTIVE\"}]"; exit ;;
  "get nodegroup") list; exit ;;
  "get addon") echo "[{\"Name\":\"coredns\",\"Version\":\"$(cat addon)\",\"Status\":\"ACTIVE\"}]"; exit ;;
esac
for word in "$@"; do case "$word" in *.yaml) file="$word" ;; esac; done
made=$(grep -o '[a-z-]*-1-32[a-z0-9-]*' "$file" /dev/null 2>/dev/null | head -1 | cut -d: -f2)
gone=$(echo "$*" | sed -n 's/.*--name \([^ ]*\).*/\1/p')
echo "$1 $2 $made$gone" >> ran
echo "2026-11-26 [i] $1 $2 with AKIAIOSFODNN7EXAMPLE"
while [ ! -e go ]; do sleep 0.1; done
rm go
case "$1 $2" in
  "upgrade cluster") echo 1.32 > version ;;
  "update addon") echo v1.11.4-eksbuild.2 > addon ;;
  "create nodegroup") echo "$made ACTIVE" >> groups ;;
  "delete nodegroup") grep -v -e "^$gone " groups > rest; mv rest groups ;;
esac
echo "2026-11-26 [ok] done"
"#;

/// The command line of AWS: it says what the test writes.
const AWS: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
case "$1 $2" in
  "--version ") echo "aws-cli/2.15.30 Python/3.11.8 Linux/6.1" ;;
  "eks list-nodegroups") awk 'BEGIN{printf "{\"nodegroups\":["} {printf "%s\"%s\"", (NR>1?",":""), $1} END{print "]}"}' groups ;;
  "eks describe-nodegroup") name=$(echo "$*" | sed 's/.*--nodegroup-name \([^ ]*\).*/\1/')
    echo "{\"nodegroup\":{\"nodegroupName\":\"$name\",\"status\":\"ACTIVE\",\"health\":{\"issues\":$(cat issues)}}}" ;;
  "eks describe-cluster") echo '{"cluster":{"version":"1.31","status":"ACTIVE","resourcesVpcConfig":{"subnetIds":["subnet-a"]}}}' ;;
  "ec2 describe-subnets") cat subnets ;;
  "ec2 describe-instance-types") echo '{"InstanceTypes":[{"InstanceType":"m5.large","NetworkInfo":
    {"MaximumNetworkInterfaces":3,"Ipv4AddressesPerInterface":10}}]}' ;;
  "eks list-updates") echo '{"updateIds":[]}' ;;
  "eks list-insights") cat insights ;;
  "eks describe-insight") echo '{"insight":{"id":"i","recommendation":"migrate helm"}}' ;;
  "cloudformation list-stacks") cat stacks ;;
  "autoscaling describe-auto-scaling-groups") echo '{"AutoScalingGroups":[]}' ;;
  *) echo "unknown: $*" >&2; exit 252 ;;
esac
"#;

/// What EKS says against the upgrade at first.
const INSIGHTS: &str = r#"{"insights":[{"id":"i","name":"Deprecated APIs removed in 1.32","category":"UPGRADE_READINESS",
  "kubernetesVersion":"1.32","insightStatus":{"status":"ERROR","reason":"requests were seen"}}]}"#;

/// What is to be run, in this order, and nothing twice.
const RUN: [&str; 6] = [
    "upgrade cluster ",
    "update addon ",
    "create nodegroup istio-1-32",
    "delete nodegroup istio-1-31-gen2",
    "create nodegroup ng-shared-1-32",
    "delete nodegroup ng-shared-1-31",
];

/// The subnet of the cluster, with so many free addresses.
fn subnets(free: u32) -> String {
    format!(r#"{{"Subnets":[{{"SubnetId":"subnet-a","AvailableIpAddressCount":{free}}}]}}"#)
}

pub struct Applied {
    pub scene: Scene,
    digest: String,
    aws_digest: String,
}

/// As `sha256:…` of a file.
fn digest_of(path: &std::path::Path) -> anyhow::Result<String> {
    let printed = Command::new("sha256sum").arg(path).output()?;
    let printed = String::from_utf8(printed.stdout)?;
    Ok(format!("sha256:{}", printed.split(' ').next().context("sha256sum printed nothing")?))
}

impl Applied {
    pub fn new(scene: Scene) -> anyhow::Result<Self> {
        let mut applied = Self { scene, digest: String::new(), aws_digest: String::new() };
        std::fs::create_dir_all(applied.path(""))?;
        for (name, text) in [
            ("eksctl", PROGRAM),
            ("aws", AWS),
            ("issues", "[]"),
            ("insights", INSIGHTS),
            ("subnets", &subnets(3)),
            (
                "stacks",
                r#"{"StackSummaries":[{"StackName":"eksctl-shop-nodegroup-lost-1-30","StackStatus":"CREATE_COMPLETE"}]}"#,
            ),
            ("version", "1.31\n"),
            ("addon", "v1.11.3-eksbuild.1\n"),
            ("groups", "ng-shared-1-31 ACTIVE\nistio-1-31-gen2 ACTIVE\n"),
        ] {
            std::fs::write(applied.path(name), text)?;
        }
        for name in ["eksctl", "aws"] {
            std::fs::set_permissions(applied.path(name), std::fs::Permissions::from_mode(0o755))?;
        }
        applied.digest = digest_of(&applied.path("eksctl"))?;
        applied.aws_digest = digest_of(&applied.path("aws"))?;
        Ok(applied)
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.scene.folder.path().join("eksctl").join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.scene.command(arguments);
        command
            .env("STEPGATE_EKSCTL", self.path("eksctl"))
            .env("STEPGATE_EKSCTL_DIGEST", &self.digest)
            .env("STEPGATE_EKSCTL_VERSION", "0.215.0")
            .env("STEPGATE_EKSCTL_STATE", self.path("state"))
            .env("STEPGATE_AWS", self.path("aws"))
            .env("STEPGATE_AWS_DIGEST", &self.aws_digest)
            .env("STEPGATE_AWS_VERSION", "2.15.30");
        command
    }

    pub fn why(&self) -> anyhow::Result<String> {
        let output = self.command(&["why", CLUSTER]).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub fn ran(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("ran")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// AWS says nothing against an upgrade, and has room for it.
    pub fn allow(&self) -> anyhow::Result<()> {
        std::fs::write(self.path("insights"), r#"{"insights":[]}"#)?;
        std::fs::write(self.path("subnets"), subnets(200))?;
        Ok(std::fs::write(self.path("stacks"), r#"{"StackSummaries":[]}"#)?)
    }

    /// The command that was begun last comes to its end.
    pub async fn let_go(&self) -> anyhow::Result<()> {
        std::fs::write(self.path("go"), "")?;
        until("the command goes on", async || Ok((!self.path("go").exists()).then_some(()))).await
    }

    /// Waits until so many commands were begun, and nothing else.
    async fn has_run(&self, count: usize) -> anyhow::Result<()> {
        let begun = async || Ok((self.ran().len() >= count).then_some(()));
        if let Err(error) = until(&format!("{:?} is begun", &RUN[..count]), begun).await {
            return Err(error.context(format!("{:?}: {}", self.ran(), self.why()?)));
        }
        assert_eq!(self.ran(), RUN[..count]);
        Ok(())
    }

    /// Waits until `stepgate why` says this.
    pub async fn says(&self, wanted: &str) -> anyhow::Result<()> {
        let mut said = String::new();
        let says = async || {
            // Others go on meanwhile.
            let mut command = self.command(&["why", CLUSTER]);
            let output = tokio::task::spawn_blocking(move || command.output()).await??;
            said = String::from_utf8_lossy(&output.stdout).into_owned();
            Ok(said.contains(wanted).then_some(()))
        };
        until(&format!("`stepgate why` says {wanted:?}"), says).await.with_context(|| format!("said instead: {said}"))
    }

    /// Kills the controller while a command is at work, and starts it anew.
    async fn killed_on_the_way(&self, controller: &mut Process, count: usize) -> anyhow::Result<()> {
        self.has_run(count).await?;
        controller.kill()?;
        controller.restart()?;
        self.says("runs since").await?;
        let said = self.why()?;
        ensure!(!said.contains("AKIA"), "{said}");
        Ok(())
    }
}

#[test]
fn stepgate_runs_eksctl_once_a_stage_whenever_it_is_killed() {
    let name = "eksctl::applied::stepgate_runs_eksctl_once_a_stage_whenever_it_is_killed";
    isolated(name, NEEDED, async |programs| {
        let applied = Applied::new(Scene::start(&programs).await?)?;
        let scene = &applied.scene;
        let policy = POLICY.replace("apply: pipeline", "apply: eksctl\nrestartFargate: true");
        for (name, pod) in [("cart", "cart-1"), ("web", "web-1")] {
            scene.deployment(name).await?;
            scene.pod(name, pod, "fargate-1").await?;
        }
        scene.repository.push("Describe the shop", &[("stepgate.yaml", &policy), (FILE, CONFIG)])?;
        let said = scene.said(&["adopt", "--yes"])?;
        ensure!(said.contains("shop: recorded what the source branch says"), "{said}");
        let folder = scene.folder.path().to_owned();
        let mut controller = Process::start(&folder, "stepgate", applied.command(&["run", "--listen", "off"]))?;

        let next = CONFIG.replace("\"1.31\"", "\"1.32\"").replace("v1.11.3-eksbuild.1", "v1.11.4-eksbuild.2");
        scene.repository.push("Kubernetes 1.32", &[(FILE, &next)])?;
        // EKS itself says something against it: nothing is begun.
        applied.says("requests were seen").await?;
        ensure!(applied.why()?.contains("migrate helm"), "{}", applied.why()?);
        assert_eq!(applied.ran(), Vec::<String>::new());
        std::fs::write(applied.path("insights"), r#"{"insights":[]}"#)?;
        applied.says("the subnets of the cluster have 3 free addresses").await?;
        assert_eq!(applied.ran(), Vec::<String>::new());
        std::fs::write(applied.path("subnets"), subnets(200))?;

        let managed = |group: &str| json!({"alpha.eksctl.io/nodegroup-name": group});
        for stage in 1..=RUN.len() {
            applied.killed_on_the_way(&mut controller, stage).await?;
            // What EKS makes of it, before eksctl ends.
            match stage {
                1 => scene.endpoint.raise("v1.32.2-eks-2"),
                2 => scene.coredns("v1.11.4-eksbuild.2").await?,
                3 => {
                    let issue = r#"[{"code":"AsgInstanceLaunchFailures","message":"no capacity","resourceIds":[]}]"#;
                    std::fs::write(applied.path("issues"), issue)?;
                }
                4 => scene.delete("c").await?,
                5 => {
                    for node in ["e", "f"] {
                        scene.node(node, managed("ng-shared-1-32"), "v1.32.1-eks-1").await?;
                    }
                }
                _ => {
                    for node in ["a", "b"] {
                        scene.delete(node).await?;
                    }
                }
            }
            applied.let_go().await?;
            if stage == 3 {
                applied.says("AsgInstanceLaunchFailures: no capacity").await?;
                std::fs::write(applied.path("issues"), "[]")?;
                scene.node("d", managed("istio-1-32"), "v1.32.1-eks-1").await?;
            }
        }
        // What runs on Fargate is restarted one after another, each when the one before is ready on a new node.
        let deployments = kind_in(&scene.client, ("apps/v1", "Deployment"), "default").await?;
        let is_restarted = async |name: &str| -> anyhow::Result<bool> {
            let object = deployments.get(name).await?;
            let at = "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt";
            Ok(object.data.pointer(at).is_some())
        };
        for (name, next) in [("cart", Some("web")), ("web", None)] {
            let restarted = async || Ok(is_restarted(name).await?.then_some(()));
            until(&format!("{name} is restarted"), restarted)
                .await
                .with_context(|| applied.why().unwrap_or_default())?;
            let node = format!("fargate-{name}");
            scene.node(&node, json!({"eks.amazonaws.com/compute-type": "fargate"}), "v1.32.1-eks-1").await?;
            scene.pod(name, &format!("{name}-2"), &node).await?;
            scene.delete_pod(&format!("{name}-1")).await?;
            applied.says(&format!("Deployment default/{name}: is not ready on its new nodes of Fargate")).await?;
            if let Some(next) = next {
                ensure!(!is_restarted(next).await?, "{next} is restarted while {name} is not ready");
            }
            scene.rolled_out(name).await?;
        }
        scene.delete("fargate-1").await?;
        // The stack of a group that the cluster has no longer.
        applied.says("aws cloudformation delete-stack --stack-name eksctl-shop-nodegroup-lost-1-30").await?;
        std::fs::write(applied.path("stacks"), r#"{"StackSummaries":[]}"#)?;
        scene.stages_are(STAGES.len()).await?;
        assert_eq!(applied.ran(), RUN);
        // What became of each is in the ledger, without what is secret.
        let ledger = scene.repository.deployed("clusters/shop/rollout.yaml")?;
        ensure!(ledger.contains("EKS node group ng-shared-1-31"), "{ledger}");
        ensure!(ledger.contains("eksctl upgrade cluster") && !ledger.contains("AKIA"), "{ledger}");
        applied.scene.folder.done();
        Ok(())
    });
}
