//! etcd, whose members come and go.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::servers::port::free_port;
use crate::servers::process::{Process, answers};
use crate::servers::programs::Programs;
use crate::waiting::until;

/// Said where no member is healthy, as while they choose a leader.
const NOBODY: &str = "no member of etcd is healthy";

/// One member.
pub struct EtcdMember {
    name: String,
    client_port: u16,
    peer_port: u16,
    /// Its process.
    pub process: Process,
}

impl EtcdMember {
    /// The member's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port that clients reach it at.
    #[must_use]
    pub fn client_port(&self) -> u16 {
        self.client_port
    }

    /// Whether it says of itself that it is healthy, which it does as long as it takes part in a quorum.
    pub async fn is_healthy(&self) -> bool {
        answers(self.client_port, "/health").await
    }
}

/// An etcd cluster; its members end when dropped.
pub struct Etcd {
    folder: PathBuf,
    program: PathBuf,
    members: Vec<EtcdMember>,
    /// How many members there were ever.
    made: usize,
}

impl Etcd {
    /// Starts the first member below `folder`.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        let mut started =
            Self { folder: folder.to_owned(), program: programs.path("etcd"), members: Vec::new(), made: 0 };
        let (client_port, peer_port) = (free_port()?, free_port()?);
        started.launch(client_port, peer_port)?;
        Ok(started)
    }

    /// The members, the oldest first.
    #[must_use]
    pub fn members(&self) -> &[EtcdMember] {
        &self.members
    }

    /// The same, to be killed or stalled.
    pub fn members_mut(&mut self) -> &mut [EtcdMember] {
        &mut self.members
    }

    /// Adds a member and waits until it is healthy. It has no vote before it has caught up, so that the others never wait for it.
    ///
    /// # Errors
    /// When the others refuse it, or it does not become healthy; with the end of its log.
    pub async fn add(&mut self) -> anyhow::Result<&EtcdMember> {
        let (client_port, peer_port) = (free_port()?, free_port()?);
        let member = json!({"peerURLs": [format!("http://127.0.0.1:{peer_port}")], "isLearner": true});
        // Members take no other one before they have been connected with each other for some seconds.
        let added = async || self.ask_until("member/add", &member, "unhealthy cluster").await;
        let added = until("etcd takes a member", added).await?;
        self.launch(client_port, peer_port)?;
        let promoted =
            async || self.ask_until("member/promote", &json!({"ID": added.pointer("/member/ID")}), "learner").await;
        until("the member has caught up", promoted).await?;
        let member = self.members.last_mut().context("no member")?;
        member.process.wait_until(async || answers(client_port, "/health").await).await?;
        Ok(member)
    }

    /// Removes a member from the list of members and kills its process.
    ///
    /// # Errors
    /// When there is no such member, or the others refuse.
    pub async fn remove(&mut self, name: &str) -> anyhow::Result<()> {
        ensure!(self.members.iter().any(|member| member.name == name), "no member {name}");
        let others = |member: &&EtcdMember| member.name != name || self.members.len() == 1;
        let is_off = async || {
            let listed = match self.ask_of(others, "member/list", &json!({})).await {
                // They may be choosing another leader.
                Err(error) if error.to_string().contains(NOBODY) => return Ok(None),
                answer => members_of(&answer?),
            };
            let Some(member) = listed.iter().find(|member| member.get("name") == Some(&name.into())) else {
                return Ok(Some(()));
            };
            // Others are asked: whoever is removed may stop before it has answered.
            match self.ask_of(others, "member/remove", &json!({"ID": member.get("ID")})).await {
                Err(error) if error.to_string().contains(NOBODY) => Ok(None),
                answer => answer.map(|_| Some(())),
            }
        };
        until("the member is off the list", is_off).await?;
        // Dropped with its process.
        self.members.retain(|member| member.name != name);
        Ok(())
    }

    /// The members as etcd lists them.
    ///
    /// # Errors
    /// When no member answers.
    pub async fn listed(&self) -> anyhow::Result<Vec<Value>> {
        Ok(members_of(&self.ask("member/list", &json!({})).await?))
    }

    /// The answer; none while it is refused with this word.
    async fn ask_until(&self, what: &str, body: &Value, not_yet: &str) -> anyhow::Result<Option<Value>> {
        match self.ask(what, body).await {
            Err(error) if error.to_string().contains(not_yet) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Asks the first member that answers.
    async fn ask(&self, what: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask_of(|_| true, what, body).await
    }

    /// Asks the first of these members that answers.
    async fn ask_of(&self, asked: impl Fn(&&EtcdMember) -> bool, what: &str, body: &Value) -> anyhow::Result<Value> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        for member in self.members.iter().filter(asked) {
            if !member.is_healthy().await {
                continue;
            }
            let url = format!("http://127.0.0.1:{}/v3/cluster/{what}", member.client_port);
            let answer = reqwest::Client::new().post(url).body(body.to_string()).send().await?;
            let (status, text) = (answer.status(), answer.text().await?);
            ensure!(status.is_success(), "etcd {what}: {status}: {text}");
            return Ok(serde_json::from_str(&text)?);
        }
        anyhow::bail!(NOBODY)
    }

    /// Starts a member beside those that there are.
    fn launch(&mut self, client_port: u16, peer_port: u16) -> anyhow::Result<()> {
        let name = format!("member-{}", self.made);
        let (client, peer) = (format!("http://127.0.0.1:{client_port}"), format!("http://127.0.0.1:{peer_port}"));
        let state = if self.members.is_empty() { "new" } else { "existing" };
        let mut cluster = format!("{name}={peer}");
        for member in &self.members {
            write!(cluster, ",{}=http://127.0.0.1:{}", member.name, member.peer_port)?;
        }
        let mut command = Command::new(&self.program);
        command
            .arg(format!("--name={name}"))
            .arg(format!("--data-dir={}", self.folder.join(&name).display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={cluster}"))
            .arg(format!("--initial-cluster-state={state}"))
            // What is tested survives the death of processes; nothing here survives that of the machine.
            .arg("--unsafe-no-fsync");
        let process = Process::start(&self.folder, &format!("etcd-{name}"), command)?;
        self.members.push(EtcdMember { name, client_port, peer_port, process });
        self.made += 1;
        Ok(())
    }
}

/// The members that an answer lists.
fn members_of(answer: &Value) -> Vec<Value> {
    answer.get("members").and_then(Value::as_array).cloned().unwrap_or_default()
}
