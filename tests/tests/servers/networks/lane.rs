//! A fleet whose git server, API server and forge are behind proxies, by names of their own; and EKS, which carries out what is committed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use kube::Client;
use kube::api::{Patch, PatchParams};
use overlays::eksctl::addons;
use serde_json::json;
use tests::servers::gitea::{OWNER, Permission, REPOSITORY};
use tests::servers::manifests::{apply, kind_in};
use tests::servers::{
    ApiServer, ApiServerOptions, DEPLOY, DOMAIN, FleetRepository, Folder, GitServer, Gitea, Names, Network, Programs,
    TcpProxy, TlsFront,
};

use super::faults::Target;

pub const CLUSTER: &str = "shop";
pub const FILE: &str = "aws/shop.yaml";
const DEPLOYED: &str = "clusters/shop/cluster/shop.yaml";
const SYSTEM: &str = "kube-system";

/// The commits of the deploy branch: recorded, each add-on, closed.
pub const STAGES: [&str; 4] = ["verify", "addons/coredns", "addons/metrics-server", "verify"];

const POLICY: &str = "\
apiVersion: stepgate.dev/v1alpha1
kind: Policy
apply: pipeline
soak: 0s
timeout: 30m
";

/// The add-ons as they are recorded, and as they are to be.
const ADDONS: [(&str, &str, &str); 2] = [
    ("coredns", "v1.11.3-eksbuild.1", "v1.11.4-eksbuild.2"),
    ("metrics-server", "v0.7.1-eksbuild.1", "v0.7.2-eksbuild.3"),
];

/// How often EKS looks at the deploy branch.
const LOOK: Duration = Duration::from_millis(150);

fn config(is_next: bool) -> String {
    let addons =
        ADDONS.map(|(name, old, new)| format!("- {{name: {name}, version: {}}}\n", if is_next { new } else { old }));
    format!(
        "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {{name: shop, region: eu-west-1, version: \"1.36\"}}\n\
         addons:\n{}managedNodeGroups:\n- {{name: workers-1-36, minSize: 1}}\n",
        addons.concat()
    )
}

/// Where the repository lies.
pub enum Host {
    /// On git's own server, where nobody is asked.
    Plain { _server: GitServer },
    /// On a forge, where people merge what is proposed.
    Forge(Box<Gitea>),
}

/// The servers of one rollout after the other.
pub struct Lane {
    pub folder: Folder,
    pub host: Host,
    pub names: Names,
    /// In the order of [`Target`].
    pub proxies: [TcpProxy; 3],
    kubeconfig: PathBuf,
    client: Client,
    server: ApiServer,
    /// The forge's interface, which a token is sent to.
    _front: TlsFront,
}

/// One rollout: a repository of its own, in which the cluster is recorded.
pub struct Fleet {
    pub repository: FleetRepository,
    /// What the program keeps.
    pub folder: PathBuf,
    url: String,
}

impl Lane {
    pub async fn start(programs: &Programs, with_forge: bool) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let names = Names::start(folder.path()).await?;
        let server = ApiServer::start(programs, &folder.path().join("eks"), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let (host, port) = if with_forge {
            let gitea = Gitea::start(programs, folder.path()).await?;
            for name in ["stepgate", "alice"] {
                gitea.user(name, Permission::Write).await?;
            }
            let token = gitea.token("stepgate", &["write:repository", "write:issue"]).await?;
            std::fs::write(folder.path().join("forge-token"), token)?;
            let (_, user, password) = gitea.access("stepgate");
            let secret = folder.path().join("git-secret");
            std::fs::create_dir_all(&secret)?;
            std::fs::write(secret.join("username"), user)?;
            std::fs::write(secret.join("password"), password)?;
            let port = gitea.port();
            (Host::Forge(Box::new(gitea)), port)
        } else {
            let git = GitServer::start(folder.path()).await?;
            let port = git.port();
            (Host::Plain { _server: git }, port)
        };
        let front = TlsFront::start(port, &server.authority().server()?).await?;
        let proxies =
            [TcpProxy::start(port).await?, TcpProxy::start(server.port()).await?, TcpProxy::start(front.port()).await?];
        let [_, cluster, _] = &proxies;
        let url = format!("https://{}:{}", names.know(Target::Cluster.name())?, cluster.port());
        let kubeconfig = server.user_through("stepgate", "system:masters", &url)?;
        let lane = Self { folder, host, names, proxies, kubeconfig, client, server, _front: front };
        lane.furnish().await?;
        Ok(lane)
    }

    pub fn proxy(&self, target: Target) -> &TcpProxy {
        let [git, cluster, forge] = &self.proxies;
        match target {
            Target::Git => git,
            Target::Cluster => cluster,
            Target::Forge => forge,
        }
    }

    /// The targets that there are.
    pub fn targets(&self) -> &'static [Target] {
        match self.host {
            Host::Plain { .. } => &[Target::Git, Target::Cluster],
            Host::Forge(_) => &[Target::Git, Target::Cluster, Target::Forge],
        }
    }

    fn address(&self, target: Target) -> anyhow::Result<String> {
        let scheme = if target == Target::Forge { "https" } else { "http" };
        Ok(format!("{scheme}://{}:{}", self.names.know(target.name())?, self.proxy(target).port()))
    }

    /// One ready node.
    async fn furnish(&self) -> anyhow::Result<()> {
        let labels = json!({"alpha.eksctl.io/nodegroup-name": "workers-1-36"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": labels}});
        apply(&self.client, &[node]).await?;
        let info = json!({"kubeletVersion": "v1.36.1-eks-1", "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "",
            "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "linux", "osImage": "", "systemUUID": ""});
        let status = json!({"status": {"nodeInfo": info,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}]}});
        let nodes = kube::Api::<k8s_openapi::api::core::v1::Node>::all(self.client.clone());
        nodes.patch_status("a", &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// An add-on at a version, rolled out.
    async fn addon(&self, name: &str, version: &str) -> anyhow::Result<()> {
        let labels = json!({"k8s-app": name});
        let image = format!("602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/{name}:{version}");
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": SYSTEM},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": name, "image": image}]}}}});
        apply(&self.client, &[deployment]).await?;
        let deployments = kind_in(&self.client, ("apps/v1", "Deployment"), SYSTEM).await?;
        let generation = deployments.get(name).await?.metadata.generation;
        let status = json!({"status": {"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1,
            "readyReplicas": 1, "availableReplicas": 1}});
        deployments.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// What EKS and a pipeline do: carry out whatever is committed, and never end by themselves.
    pub async fn carry_out(&self, fleet: &Fleet) -> anyhow::Result<std::convert::Infallible> {
        let mut done = None;
        loop {
            let head = fleet.head()?;
            if done.as_ref() != Some(&head) {
                self.bring_about(fleet).await?;
                done = Some(head);
            }
            // Controllers that are stood in for take a moment too.
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn bring_about(&self, fleet: &Fleet) -> anyhow::Result<()> {
        let text = fleet.repository.deployed(DEPLOYED)?;
        let nodes = overlays::objects_of(text.as_bytes());
        let [config] = nodes.as_slice() else { anyhow::bail!("{} objects", nodes.len()) };
        for (name, version) in addons(config) {
            self.addon(name, &version.unwrap_or_default()).await?;
        }
        Ok(())
    }

    /// A repository in which the cluster is recorded, and a person has just pushed the next versions.
    pub async fn fleet(&self, name: &str) -> anyhow::Result<Fleet> {
        let folder = self.folder.path().join(name);
        let (repository, path) = match &self.host {
            Host::Plain { .. } => {
                let repository = FleetRepository::create(&folder)?;
                git(&repository.bare(), &["config", "http.receivepack", "true"])?;
                (repository, format!("{name}/fleet.git"))
            }
            Host::Forge(gitea) => {
                gitea.renew().await?;
                for name in ["stepgate", "alice"] {
                    gitea.permit(name, Permission::Write).await?;
                }
                let repository = FleetRepository::cloned(&folder, &gitea.bare(), &gitea.clone_url("alice"))?;
                (repository, format!("{OWNER}/{REPOSITORY}.git"))
            }
        };
        let url = format!("{}/{path}", self.address(Target::Git)?);
        let fleet = Fleet { repository, folder, url };
        for (name, old, _) in ADDONS {
            self.addon(name, old).await?;
        }
        fleet.repository.push("Describe the shop", &[("stepgate.yaml", &self.policy()?), (FILE, &config(false))])?;
        let output = self.command(&fleet, &["adopt", "--yes"]).output()?;
        ensure!(output.status.success(), "stepgate adopt: {}", String::from_utf8_lossy(&output.stderr));
        fleet.repository.push("Take the next versions", &[(FILE, &config(true))])?;
        Ok(fleet)
    }

    fn policy(&self) -> anyhow::Result<String> {
        if matches!(self.host, Host::Plain { .. }) {
            return Ok(POLICY.to_owned());
        }
        let url = self.address(Target::Forge)?;
        Ok(format!("{POLICY}approval: stage\nforge: {{kind: gitea, url: '{url}', repository: {OWNER}/{REPOSITORY}}}\n"))
    }

    /// The program on this rollout.
    pub fn command(&self, fleet: &Fleet, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
        command
            .args(arguments)
            .env("STEPGATE_REPO", &fleet.url)
            .env("STEPGATE_KUBECONFIG", &self.kubeconfig)
            .env("STEPGATE_MANAGEMENT_CLUSTER", CLUSTER)
            .env("STEPGATE_BACKUPS", fleet.folder.join("backups"))
            .env("STEPGATE_MIRROR", fleet.folder.join("mirror"))
            .env("XDG_CACHE_HOME", fleet.folder.join("cache"))
            .env("SSL_CERT_FILE", self.server.folder().join("certificates/authority.crt"))
            .env("HOME", &fleet.folder);
        if matches!(self.host, Host::Forge(_)) {
            command
                .env("STEPGATE_GIT_SECRET", self.folder.path().join("git-secret"))
                .env("STEPGATE_FORGE_TOKEN_FILE", self.folder.path().join("forge-token"))
                .env("STEPGATE_FORGE_HOSTS", format!("{}.{}", Target::Forge.name(), DOMAIN));
        }
        command
    }

    /// What nobody may be told.
    pub fn secrets(&self) -> anyhow::Result<Vec<String>> {
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join(name)).context(name.to_owned());
        match self.host {
            Host::Plain { .. } => Ok(Vec::new()),
            Host::Forge(_) => Ok(vec![read("forge-token")?, read("git-secret/password")?]),
        }
    }

    /// Nothing is wrong with any network any more.
    pub fn mend(&self) -> anyhow::Result<()> {
        for target in self.targets() {
            self.names.know(target.name())?;
            self.proxy(*target).is(Network::Sound);
        }
        Ok(())
    }

    /// Nothing is wrong any more, and nothing is left of connections of before.
    pub fn end_connections(&self) -> anyhow::Result<()> {
        self.proxies.iter().for_each(TcpProxy::cut);
        self.mend()
    }
}

impl Fleet {
    /// The commit that the deploy branch holds.
    pub fn head(&self) -> anyhow::Result<String> {
        let repository = git2::Repository::open_bare(self.repository.bare())?;
        let reference = repository.find_reference(&format!("refs/heads/{DEPLOY}"))?;
        Ok(reference.target().context("a branch that is none")?.to_string())
    }

    /// How many commits of Stepgate there are.
    pub fn commits(&self) -> anyhow::Result<usize> {
        Ok(self.repository.stages()?.len())
    }
}

pub fn git(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {said}", arguments.join(" "));
    Ok(format!("{}{said}", String::from_utf8(output.stdout)?))
}
