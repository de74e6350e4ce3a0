//! One more API server of a cluster, with an etcd member of its own.

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::time::Instant;

use super::port::free_port;
use super::process::Process;
use super::programs::Programs;
use super::tcp_proxy::TcpProxy;
use crate::servers::kubernetes::api_server::{ApiServer, command};

/// Who signs the serving certificate of an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signer {
    /// The authority that the cluster was made with.
    Present,
    /// The one that comes next.
    Next,
}

/// An API server that joined others; it ends when dropped, its etcd member with the others of the cluster.
pub struct Replica {
    port: u16,
    member: String,
    /// `kube-apiserver`.
    pub server: Process,
    /// What is between it and its etcd member.
    pub link: TcpProxy,
}

impl Replica {
    /// The port of the server.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl ApiServer {
    /// Starts one more API server of the same cluster with a new etcd member, and waits until it is ready.
    ///
    /// # Errors
    /// When etcd refuses the member, or one of them does not become ready.
    pub async fn join(&mut self, programs: &Programs, signer: Signer) -> anyhow::Result<Replica> {
        let member = self.etcd.add().await?;
        let (member, etcd_port) = (member.name().to_owned(), member.client_port());
        let (port, name) = (free_port()?, format!("kube-apiserver-{member}"));
        let authority = match signer {
            Signer::Present => self.authority(),
            Signer::Next => self.address()?.1,
        };
        authority.server()?.write(&self.folder().join("certificates"), &name)?;
        let link = TcpProxy::start(etcd_port).await?;
        let mut command = command(programs, self.folder(), &name, port, link.port());
        // The servers have one address here, by which they would take each other for themselves.
        command.arg("--endpoint-reconciler-type=none");
        let server = Process::start(self.folder(), &name, command)?;
        let mut replica = Replica { port, member, server, link };
        let client = self.client_at(port).await?;
        let ready = async || match axum::http::Request::get("/readyz").body(Vec::new()) {
            Ok(request) => client.request_text(request).await.is_ok(),
            Err(_) => false,
        };
        replica.server.wait_until(ready).await?;
        Ok(replica)
    }

    /// Removes the first server and the etcd member it was started with: both are killed.
    ///
    /// # Errors
    /// When etcd refuses.
    pub async fn leave(&mut self) -> anyhow::Result<()> {
        let first = self.etcd.members().first().map(|member| member.name().to_owned()).unwrap_or_default();
        self.etcd.remove(&first).await?;
        self.server.kill()
    }

    /// Removes another server and its etcd member: both are killed.
    ///
    /// # Errors
    /// When etcd refuses.
    pub async fn remove(&mut self, mut replica: Replica) -> anyhow::Result<()> {
        self.etcd.remove(&replica.member).await?;
        replica.server.kill()
    }

    /// The address leads to the server on a port from now on, and connections to the one of before end; the moment of it.
    ///
    /// # Errors
    /// When it was not started with an address that can be moved.
    pub fn lead_to(&self, port: u16) -> anyhow::Result<Instant> {
        self.address()?.0.lead_to(port);
        Ok(Instant::now())
    }

    /// A client of the administrator at one of the servers, whichever the address leads to.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub async fn client_at(&self, port: u16) -> anyhow::Result<Client> {
        let (name, url) = (format!("admin-at-{port}"), format!("https://127.0.0.1:{port}"));
        let kubeconfig = Kubeconfig::read_from(self.user_through(&name, "system:masters", &url)?)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }
}
