//! An external etcd of real members behind real objects: what its controller does
//! (`aws/etcdadm-controller`), step by step at a test's word.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster};
use cluster::{Cluster as _, Freshness, ObserveRequest};
use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Config, ResourceExt as _};
use policy::CheckName;
use rollout::check::{self, CheckOutcome};
use rollout::{ChecksExpectation, EtcdAct, EtcdExpectation, Expectation, MembersHeard, Observation, OldMembers};
use serde_json::{Value, json};
use tests::servers::manifests::{apply, list, objects};
use tests::servers::{ApiServer, ApiServerOptions, Authority, Folder, Identity, Process, Programs};
use tests::waiting::until;

use crate::installed::install;
use crate::machines::CLUSTER_KIND;

/// How long a member has for an answer.
const ANSWER: Duration = Duration::from_secs(5);

pub const NEEDED: &[&str] = &["etcd", "kube-apiserver"];
pub const NAMESPACE: &str = "eksa-system";
pub const ETCD: &str = "shop-etcd";
pub const CLUSTER: &str = "shop";
pub const ETCDADM: (&str, &str) = ("etcdcluster.cluster.x-k8s.io/v1beta1", "EtcdadmCluster");
const MACHINE: (&str, &str) = ("cluster.x-k8s.io/v1beta2", "Machine");
pub const CONTROL_PLANE: (&str, &str) = ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane");
const PAUSED: &str = "cluster.x-k8s.io/paused";
const UPGRADING: &str = "etcdcluster.cluster.x-k8s.io/upgrading";
/// The template whose machines never come up.
pub const BROKEN: &str = "etcd-broken";
const INFRASTRUCTURE: (&str, &str) = ("infrastructure.cluster.x-k8s.io/v1beta1", "TestMachine");

/// One machine with its member.
pub struct Member {
    address: Ipv4Addr,
    owned: bool,
    template: String,
    pub process: Option<Process>,
}

pub struct Bench {
    folder: PathBuf,
    programs: Programs,
    /// The servers, where they are its own.
    own: Option<(Folder, ApiServer)>,
    client: Client,
    cluster: KubernetesCluster,
    authority: Authority,
    identity: Identity,
    /// By the names of their machines.
    pub members: BTreeMap<String, Member>,
    /// How many machines there have been.
    made: u8,
    template: String,
    /// How many bytes a member may hold; etcd's own default where none is given.
    quota: Option<u64>,
}

impl Bench {
    /// Three members that are well.
    pub async fn start(programs: Programs) -> anyhow::Result<Self> {
        Self::start_with(programs, None).await
    }

    /// The same, each with room for so many bytes.
    pub async fn start_with(programs: Programs, quota: Option<u64>) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let server =
            ApiServer::start(&programs, &folder.path().join("management"), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        apply(&client, &definitions()?).await?;
        apply(&client, &[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})]).await?;
        let mut bench = Self::beside(programs, folder.path(), &server).await?;
        // What Stepgate does here it may do as it is installed.
        let connection = install(&server, &client).await?;
        bench.cluster = KubernetesCluster::management(connection, folder.path().join("backups"));
        (bench.own, bench.quota) = (Some((folder, server)), quota);
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": CLUSTER, "namespace": NAMESPACE}, "spec": {}});
        apply(&bench.client, &[cluster]).await?;
        bench.specify("etcd-1", "3.7.1").await?;
        bench.first().await?;
        Ok(bench)
    }

    /// Everything went well: nothing of it is kept.
    pub fn done(self) {
        let Self { own, members, .. } = self;
        // Nobody writes there any more.
        drop(members);
        if let Some((folder, server)) = own {
            drop(server);
            folder.done();
        }
    }

    /// Without members and objects, on a server that serves the kinds of etcd's controller; its
    /// files go below `folder`.
    pub async fn beside(programs: Programs, folder: &Path, server: &ApiServer) -> anyhow::Result<Self> {
        let client = server.client().await?;
        let authority = Authority::new()?;
        let identity = authority.client("shop-kube-apiserver-etcd-client", "system:masters")?;
        let source = ConnectionSource::Kubeconfig { path: Some(server.kubeconfig()), context: None };
        let connection = Connection::open(&source).await?;
        let cluster = KubernetesCluster::management(connection, folder.join("backups"));
        let bench = Self {
            folder: folder.to_owned(),
            programs,
            own: None,
            client,
            cluster,
            authority,
            identity,
            members: BTreeMap::new(),
            made: 0,
            template: "etcd-1".to_owned(),
            quota: None,
        };
        bench.keep_secrets().await?;
        Ok(bench)
    }

    /// Three members that are well, of what is specified.
    pub async fn first(&mut self) -> anyhow::Result<()> {
        let first: Vec<String> = (0..3).map(|_| self.machine()).collect::<anyhow::Result<_>>()?;
        let initial = self.peers(&first);
        for name in &first {
            self.run(name, &initial, "new")?;
        }
        for name in first {
            self.publish(&name).await?;
            self.healthy(&name).await?;
        }
        self.status(true).await
    }

    /// What Stepgate asks members with.
    pub async fn keep_secrets(&self) -> anyhow::Result<()> {
        let secret = |purpose: &str, data: Value| {
            json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
                "metadata": {"name": format!("{CLUSTER}-{purpose}"), "namespace": NAMESPACE}, "data": data})
        };
        let encoded = |text: &str| STANDARD.encode(text);
        let client = json!({"tls.crt": encoded(&self.identity.certificate), "tls.key": encoded(&self.identity.key)});
        let authority = json!({"tls.crt": encoded(&self.authority.certificate())});
        apply(&self.client, &[secret("apiserver-etcd-client", client), secret("etcd", authority)]).await
    }

    pub async fn lose_secrets(&self) -> anyhow::Result<()> {
        self.api(("v1", "Secret")).delete("shop-apiserver-etcd-client", &DeleteParams::default()).await?;
        Ok(())
    }

    /// Somebody wants members of this template and version.
    pub async fn specify(&mut self, template: &str, version: &str) -> anyhow::Result<()> {
        self.template = template.to_owned();
        let etcd = json!({"apiVersion": ETCDADM.0, "kind": ETCDADM.1,
            "metadata": {"name": ETCD, "namespace": NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": CLUSTER}},
            "spec": {"replicas": 3, "infrastructureTemplate": {"kind": "TestMachineTemplate", "name": template},
                "etcdadmConfigSpec": {"cloudInitConfig": {"version": version}}}});
        apply(&self.client, &[etcd]).await?;
        Ok(())
    }

    /// The controller's word: whether all its members are well.
    pub async fn status(&self, ready: bool) -> anyhow::Result<()> {
        let generation = self.api(ETCDADM).get(ETCD).await?.metadata.generation;
        self.status_of(generation, ready).await
    }

    /// The same, of the generation that was looked at: what is specified meanwhile was not.
    async fn status_of(&self, generation: Option<i64>, ready: bool) -> anyhow::Result<()> {
        let owned = self.members.values().filter(|member| member.owned && member.template == self.template);
        let owned: Vec<String> = owned.map(|member| format!("https://{}:2379", member.address)).collect();
        let condition = |status: bool| if status { "True" } else { "False" };
        let status = json!({"status": {"observedGeneration": generation, "ready": ready, "creationComplete": true,
            "replicas": owned.len(), "endpoints": owned.join(","),
            "conditions": [{"type": "EtcdMachinesSpecUpToDate", "status": condition(ready)}]}});
        self.api(ETCDADM).patch_status(ETCD, &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok(())
    }

    /// A machine more, with the next address.
    pub fn machine(&mut self) -> anyhow::Result<String> {
        self.made += 1;
        let name = format!("{ETCD}-{}", self.made);
        let address = Ipv4Addr::new(127, 0, 1, self.made);
        let certificates = self.folder.join("certificates");
        self.authority.member_at(IpAddr::V4(address))?.write(&certificates, &name)?;
        std::fs::write(certificates.join("authority.crt"), self.authority.certificate())?;
        let member = Member { address, owned: true, template: self.template.clone(), process: None };
        self.members.insert(name.clone(), member);
        Ok(name)
    }

    /// The Machine as the API server has it: made from its template, and with an address once it
    /// has one.
    pub async fn publish(&self, name: &str) -> anyhow::Result<()> {
        let member = self.members.get(name).context("no such machine")?;
        let labels = json!({"cluster.x-k8s.io/cluster-name": CLUSTER, "cluster.x-k8s.io/etcd-cluster": ETCD});
        let uid = self.api(ETCDADM).get(ETCD).await?.metadata.uid;
        let owner = json!([{"apiVersion": ETCDADM.0, "kind": ETCDADM.1, "name": ETCD, "uid": uid, "controller": true}]);
        let infrastructure = json!({"apiVersion": INFRASTRUCTURE.0, "kind": INFRASTRUCTURE.1,
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels,
                "annotations": {"cluster.x-k8s.io/cloned-from-name": member.template}}, "spec": {}});
        let machine = json!({"apiVersion": MACHINE.0, "kind": MACHINE.1,
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": owner},
            "spec": {"clusterName": CLUSTER, "bootstrap": {"dataSecretName": name}, "infrastructureRef":
                {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": INFRASTRUCTURE.1, "name": name}}});
        apply(&self.client, &[infrastructure, machine]).await?;
        let address = json!({"type": "ExternalIP", "address": member.address.to_string()});
        let status = json!({"status": {"addresses": [address]}});
        self.api(MACHINE).patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok(())
    }

    /// An old machine is no longer owned, so that Cluster API gives it to its Cluster; its member
    /// stays one.
    pub async fn disown(&mut self, name: &str) -> anyhow::Result<()> {
        self.members.get_mut(name).context("no such machine")?.owned = false;
        let uid = self.api(CLUSTER_KIND).get(CLUSTER).await?.metadata.uid;
        let owner = json!([{"apiVersion": CLUSTER_KIND.0, "kind": CLUSTER_KIND.1, "name": CLUSTER, "uid": uid}]);
        let given = json!({"metadata": {"ownerReferences": owner}});
        self.api(MACHINE).patch(name, &PatchParams::default(), &Patch::Merge(&given)).await?;
        Ok(())
    }

    /// The controller knows an old machine as its own again.
    pub fn own(&mut self, name: &str) -> anyhow::Result<()> {
        self.members.get_mut(name).context("no such machine")?.owned = true;
        Ok(())
    }

    /// A new machine joins: it is a member from then on, and runs where it is to.
    pub async fn join(&mut self, runs: bool) -> anyhow::Result<String> {
        let before: Vec<String> = self.members.keys().cloned().collect();
        let name = self.machine()?;
        let peer = format!("http://{}:2380", self.members.get(&name).context("no such machine")?.address);
        self.ask("/v3/cluster/member/add", &json!({"peerURLs": [peer]})).await?;
        self.publish(&name).await?;
        if runs {
            let all: Vec<String> = before.into_iter().chain([name.clone()]).collect();
            let initial = self.peers(&all);
            self.run(&name, &initial, "existing")?;
            self.healthy(&name).await?;
        }
        Ok(name)
    }

    /// A machine goes, its member first where that is asked for.
    pub async fn remove(&mut self, name: &str, member_too: bool) -> anyhow::Result<()> {
        if member_too {
            let listed = self.ask("/v3/cluster/member/list", &json!({})).await?;
            let address = self.members.get(name).context("no such machine")?.address.to_string();
            let members = listed.get("members").and_then(Value::as_array).cloned().unwrap_or_default();
            let is_it =
                |member: &&Value| member.get("peerURLs").is_some_and(|urls| urls.to_string().contains(&address));
            let id = members.iter().find(is_it).and_then(|member| member.get("ID")).context("no such member")?;
            // Whoever is removed ends, and answers nobody any more; who is asked for it may not answer either, once it is done.
            let _process = self.members.get_mut(name).and_then(|member| member.process.take());
            let body = json!({"ID": id});
            until("etcd lets the member go", async || {
                let asked = self.ask("/v3/cluster/member/remove", &body);
                let _ = tokio::time::timeout(ANSWER, asked).await;
                let listed = tokio::time::timeout(ANSWER, self.ask("/v3/cluster/member/list", &json!({}))).await;
                let is_listed =
                    |list: &Value| list.get("members").is_some_and(|members| members.to_string().contains(&address));
                Ok(listed.ok().and_then(Result::ok).filter(|list| !is_listed(list)).map(drop))
            })
            .await?;
        }
        self.api(MACHINE).delete(name, &DeleteParams::default()).await?;
        self.members.remove(name);
        Ok(())
    }

    pub fn kill(&mut self, name: &str) -> anyhow::Result<()> {
        self.members.get_mut(name).and_then(|member| member.process.as_mut()).context("it does not run")?.kill()
    }

    /// Writes until etcd takes no more.
    pub async fn fill(&self) -> anyhow::Result<()> {
        let value = STANDARD.encode(vec![b'x'; 512 << 10]);
        for key in 0..64 {
            let body = json!({"key": STANDARD.encode(format!("filler-{key}")), "value": value});
            // What is refused for want of room is sent again and again by the client.
            let asked = tokio::time::timeout(ANSWER, self.ask("/v3/kv/put", &body)).await;
            if !asked.is_ok_and(|answer| answer.is_ok()) {
                return Ok(());
            }
        }
        anyhow::bail!("it takes whatever is written")
    }

    fn peers(&self, names: &[String]) -> String {
        let peer = |name: &String| Some(format!("{name}=http://{}:2380", self.members.get(name)?.address));
        names.iter().filter_map(peer).collect::<Vec<_>>().join(",")
    }

    fn run(&mut self, name: &str, initial: &str, state: &str) -> anyhow::Result<()> {
        let folder = self.folder.as_path();
        let certificates = folder.join("certificates");
        let member = self.members.get_mut(name).context("no such machine")?;
        let (client, peer) = (format!("https://{}:2379", member.address), format!("http://{}:2380", member.address));
        let mut command = Command::new(self.programs.path("etcd"));
        command
            .arg(format!("--name={name}"))
            .arg(format!("--data-dir={}", folder.join(name).display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={initial}"))
            .arg(format!("--initial-cluster-state={state}"))
            .arg(format!("--cert-file={}", certificates.join(format!("{name}.crt")).display()))
            .arg(format!("--key-file={}", certificates.join(format!("{name}.key")).display()))
            .arg(format!("--trusted-ca-file={}", certificates.join("authority.crt").display()))
            .args(["--client-cert-auth", "--unsafe-no-fsync"])
            .args(self.quota.map(|quota| format!("--quota-backend-bytes={quota}")));
        member.process = Some(Process::start(folder, name, command)?);
        Ok(())
    }

    /// Waits until a member has caught up: it serves what a majority has agreed on.
    pub async fn healthy(&self, name: &str) -> anyhow::Result<()> {
        let address = self.members.get(name).context("no such machine")?.address;
        until(&format!("member {name} is healthy"), async || {
            let client = self.client_of(address)?;
            let request = axum::http::Request::get("/health").body(Vec::new())?;
            let answer = client.request_text(request).await.unwrap_or_default();
            Ok(answer.contains("\"health\":\"true\"").then_some(()))
        })
        .await
    }

    /// One of the members that run, asked for something.
    async fn ask(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let mut last = anyhow::anyhow!("no member runs");
        for member in self.members.values().filter(|member| member.process.is_some()) {
            let request = axum::http::Request::post(path).body(body.to_string().into_bytes())?;
            match self.client_of(member.address)?.request_text(request).await {
                Ok(answer) => return Ok(serde_json::from_str(&answer)?),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    fn client_of(&self, address: Ipv4Addr) -> anyhow::Result<Client> {
        let mut config = Config::new(format!("https://{address}:2379").parse()?);
        let pem = self.authority.certificate();
        let der = STANDARD.decode(pem.lines().filter(|line| !line.starts_with("-----")).collect::<String>())?;
        config.root_cert = Some(vec![der]);
        config.auth_info.client_certificate_data = Some(STANDARD.encode(&self.identity.certificate));
        config.auth_info.client_key_data = Some(STANDARD.encode(&self.identity.key).into());
        Ok(Client::try_from(config)?)
    }

    fn api(&self, (api_version, kind): (&str, &str)) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    /// Does what its controller does by itself, until this is dropped: replaces members one by one
    /// where another template is wanted, and lets old ones go once the control plane has moved to
    /// `version`. Members of template [`BROKEN`] never start.
    pub async fn follow(&mut self, version: &str) -> anyhow::Result<()> {
        loop {
            let etcd = self.api(ETCDADM).get(ETCD).await?;
            if !etcd.annotations().contains_key(PAUSED) {
                let wanted = etcd.data.pointer("/spec/infrastructureTemplate/name").and_then(Value::as_str);
                self.template = wanted.context("no template")?.to_owned();
                self.turn(&etcd, version).await?;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn turn(&mut self, etcd: &DynamicObject, version: &str) -> anyhow::Result<()> {
        self.know_machines().await?;
        let is_broken = self.members.values().any(|member| member.owned && member.process.is_none());
        let next = self.members.iter().find(|(_, member)| member.owned && member.template != self.template);
        let next = next.filter(|_| !is_broken).map(|(name, _)| name.clone());
        if let Some(name) = next {
            self.disown(&name).await?;
            self.status_of(etcd.metadata.generation, false).await?;
            self.join(self.template != BROKEN).await?;
            return Ok(());
        }
        self.status_of(etcd.metadata.generation, !is_broken).await?;
        if !is_broken && etcd.annotations().contains_key(UPGRADING) {
            let done = json!({"metadata": {"annotations": {UPGRADING: null}}});
            self.api(ETCDADM).patch(ETCD, &PatchParams::default(), &Patch::Merge(&done)).await?;
        }
        self.let_old_go(version).await
    }

    /// Which machines there are, and whose: others than its controller may have changed that.
    async fn know_machines(&mut self) -> anyhow::Result<()> {
        let machines = list(&self.client, MACHINE, NAMESPACE).await?;
        let is_owned = |machine: &DynamicObject| machine.owner_references().iter().any(|owner| owner.kind == ETCDADM.1);
        let owned: BTreeMap<String, bool> =
            machines.iter().map(|machine| (machine.name_any(), is_owned(machine))).collect();
        self.members.retain(|name, _| owned.contains_key(name));
        for (name, member) in &mut self.members {
            member.owned = owned.get(name).copied().unwrap_or_default();
        }
        Ok(())
    }

    async fn let_old_go(&mut self, version: &str) -> anyhow::Result<()> {
        let is_old = |(name, member): (&String, &Member)| (!member.owned).then(|| name.clone());
        let old: Vec<String> = self.members.iter().filter_map(is_old).collect();
        if old.is_empty() || !self.has_moved(version).await? {
            return Ok(());
        }
        for name in old {
            self.remove(&name, true).await?;
        }
        Ok(())
    }

    async fn has_moved(&self, version: &str) -> anyhow::Result<bool> {
        let known = self.api(CONTROL_PLANE).get(CLUSTER).await?;
        let field = |path: &str| known.data.pointer(path);
        let replicas = field("/spec/replicas");
        let is_whole = |count: &str| field(&format!("/status/{count}")) == replicas;
        Ok(field("/status/observedGeneration") == Some(&json!(known.metadata.generation))
            && field("/status/version") == Some(&json!(version))
            && ["replicas", "upToDateReplicas", "readyReplicas"].into_iter().all(is_whole))
    }

    /// What Stepgate does.
    pub async fn act(&self, act: &EtcdAct) -> anyhow::Result<()> {
        Ok(self.cluster.act_on_etcd(act, Timestamp::now()).await?)
    }

    /// What Stepgate reads.
    pub async fn read(&self) -> Observation {
        self.reading(expected(OldMembers::MayStay)).await
    }

    /// What the checks say of the etcd before a rollout.
    pub async fn checked(&self) -> anyhow::Result<CheckOutcome> {
        let expectation = ChecksExpectation {
            cluster: Some((NAMESPACE.to_owned(), CLUSTER.to_owned())),
            ..ChecksExpectation::default()
        };
        let seen = self.reading(Expectation::Checks(expectation.clone())).await;
        let outcomes = check::outcomes(&expectation, &seen);
        outcomes.into_iter().find(|outcome| outcome.check == CheckName::Etcd).context("no such check")
    }

    async fn reading(&self, expectation: Expectation) -> Observation {
        let request = ObserveRequest {
            expectations: vec![expectation],
            kustomizations: Vec::new(),
            deployed: Arc::default(),
            freshness: Freshness::Fresh,
            at: Timestamp::now(),
        };
        self.cluster.observe(&request).await
    }
}

pub fn expected(old_members: OldMembers) -> Expectation {
    Expectation::Etcd(EtcdExpectation {
        namespace: NAMESPACE.to_owned(),
        name: ETCD.to_owned(),
        replicas: 3,
        members: MembersHeard::Required,
        old_members,
        ..EtcdExpectation::default()
    })
}

/// The kinds around an external etcd.
pub fn definitions() -> anyhow::Result<Vec<Value>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/etcdadm/definitions.yaml");
    objects(&std::fs::read_to_string(path)?)
}
