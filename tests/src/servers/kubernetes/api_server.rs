//! A Kubernetes API server with its etcd and, where wanted, the controllers of workloads.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::servers::certificate::{Authority, Identity};
use crate::servers::kubernetes::etcd::Etcd;
use crate::servers::port::free_port;
use crate::servers::process::Process;
use crate::servers::programs::Programs;
use crate::servers::tcp_proxy::TcpProxy;

/// What an API server is started with.
#[derive(Debug, Clone, Copy, Default)]
pub struct ApiServerOptions {
    /// Whether the controller manager runs: Deployments make `ReplicaSets`, these make Pods.
    pub controllers: bool,
    /// Whether clients reach the server at an address that can lead to another one ([`ApiServer::join`]). They trust a second authority then.
    pub movable: bool,
    /// Whether APIs are served that are off by default.
    pub every_api: bool,
}

/// A running API server, with all that belongs to it; everything ends when dropped.
pub struct ApiServer {
    folder: PathBuf,
    port: u16,
    authority: Authority,
    address: Option<(TcpProxy, Authority)>,
    /// `kube-apiserver`.
    pub server: Process,
    /// Its etcd.
    pub etcd: Etcd,
    /// `kube-controller-manager`.
    pub controllers: Option<Process>,
}

impl ApiServer {
    /// Starts the programs below `folder` and waits until they are ready.
    ///
    /// # Errors
    /// When one of them does not start; with the end of its log.
    pub async fn start(programs: &Programs, folder: &Path, options: ApiServerOptions) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let authority = Authority::new()?;
        let certificates = folder.join("certificates");
        authority.client("service-accounts", "keys")?.write(&certificates, "service-accounts")?;
        let mut trusted = authority.certificate();
        let port = free_port()?;
        let address = if options.movable { Some((TcpProxy::start(port).await?, Authority::new()?)) } else { None };
        if let Some((_, next)) = &address {
            trusted.push_str(&next.certificate());
        }
        std::fs::write(certificates.join("authority.crt"), trusted)?;
        let audit = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
        std::fs::write(folder.join("audit-policy.yaml"), audit)?;

        let etcd = Etcd::start(programs, folder)?;
        let etcd_port = etcd.members().first().context("no member")?.client_port();
        authority.server()?.write(&certificates, "server")?;
        let mut server = command(programs, folder, "server", port, etcd_port);
        if options.every_api {
            server.args(["--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true"]);
        }
        let server = Process::start(folder, "kube-apiserver", server)?;
        let mut started = Self { folder: folder.to_owned(), port, authority, address, server, etcd, controllers: None };
        started.user("admin", "system:masters")?;
        started.wait_until_ready().await?;
        if options.controllers {
            started.controllers = Some(started.start_controllers(programs)?);
        }
        Ok(started)
    }

    /// Waits until the server says that it is ready.
    ///
    /// # Errors
    /// When it does not become ready; with the end of its log.
    pub async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let client = self.client().await?;
        let ready = async || {
            let request = axum::http::Request::get("/readyz").body(Vec::new());
            match request {
                Ok(request) => client.request_text(request).await.is_ok(),
                Err(_) => false,
            }
        };
        self.server.wait_until(ready).await
    }

    /// The kubeconfig of the administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }

    /// The administrator's kubeconfig with the credentials in it, as Cluster API keeps those of
    /// clusters in Secrets.
    ///
    /// # Errors
    /// When the certificates cannot be read.
    pub fn portable_kubeconfig(&self) -> anyhow::Result<String> {
        let read = |name: &str| {
            let path = self.folder.join("certificates").join(name);
            let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
            anyhow::Ok(STANDARD.encode(bytes))
        };
        let cluster = json!({"server": self.url(), "certificate-authority-data": read("authority.crt")?});
        let user = json!({"client-certificate-data": read("admin.crt")?, "client-key-data": read("admin.key")?});
        let document = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": cluster}], "users": [{"name": "a", "user": user}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]});
        Ok(document.to_string())
    }

    /// Writes the kubeconfig of a user who is in a group, and returns its path.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn user(&self, user: &str, group: &str) -> anyhow::Result<PathBuf> {
        self.write_kubeconfig(user, &self.authority.client(user, group)?, &self.url())
    }

    /// The same, of a user who goes through something in between, at `url`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn user_through(&self, user: &str, group: &str, url: &str) -> anyhow::Result<PathBuf> {
        self.write_kubeconfig(user, &self.authority.client(user, group)?, url)
    }

    /// A client of the administrator.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub async fn client(&self) -> anyhow::Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        // A second provider in the tree would make rustls panic.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)?)
    }

    /// The port of the server.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address that clients reach it at.
    #[must_use]
    pub fn url(&self) -> String {
        self.address.as_ref().map_or_else(|| format!("https://127.0.0.1:{}", self.port), |(proxy, _)| proxy.url())
    }

    /// The address that can lead to another server, and the authority that comes next.
    ///
    /// # Errors
    /// When it was not started so.
    pub fn address(&self) -> anyhow::Result<(&TcpProxy, &Authority)> {
        self.address.as_ref().map(|(proxy, next)| (proxy, next)).context("its address cannot be moved")
    }

    /// The authority that its certificates are from.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The folder of logs and state.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The audit log: every request, in each of its stages, as metadata.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn audit(&self) -> anyhow::Result<Vec<Value>> {
        let path = self.folder.join("audit.log");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        // The last line may be in the making.
        let whole = text.rfind('\n').and_then(|end| text.get(..end)).unwrap_or_default();
        Ok(whole.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    }

    fn write_kubeconfig(&self, name: &str, identity: &Identity, url: &str) -> anyhow::Result<PathBuf> {
        let (certificate, key) = identity.write(&self.folder.join("certificates"), name)?;
        let document = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": "tests", "cluster": {
                "server": url,
                "certificate-authority": self.folder.join("certificates/authority.crt"),
            }}],
            "users": [{"name": name, "user": {"client-certificate": certificate, "client-key": key}}],
            "contexts": [{"name": name, "context": {"cluster": "tests", "user": name}}],
        });
        let path = self.folder.join(format!("{name}.kubeconfig"));
        std::fs::write(&path, document.to_string()).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    fn start_controllers(&self, programs: &Programs) -> anyhow::Result<Process> {
        let kubeconfig = self.kubeconfig();
        let certificate = |name: &str| self.folder.join("certificates").join(name);
        let mut command = Command::new(programs.path("kube-controller-manager"));
        for flag in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
            command.arg(format!("--{flag}={}", kubeconfig.display()));
        }
        command
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={}", free_port()?))
            .arg(format!("--service-account-private-key-file={}", certificate("service-accounts.key").display()))
            .arg(format!("--root-ca-file={}", certificate("authority.crt").display()))
            // Without it namespaces never finish deleting.
            .arg("--use-service-account-credentials")
            // On a busy machine signs of life come late: no Node is lost by that.
            .arg("--node-monitor-grace-period=24h")
            .args(["--leader-elect=false", "--controllers=*,-nodeipam,-cloud-node-lifecycle"]);
        Process::start(&self.folder, "kube-controller-manager", command)
    }
}

/// An API server with the serving certificate of this name, in front of the etcd on a port.
pub(in crate::servers) fn command(
    programs: &Programs,
    folder: &Path,
    certificate: &str,
    port: u16,
    etcd: u16,
) -> Command {
    let certificates = folder.join("certificates");
    let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    let mut command = Command::new(programs.path("kube-apiserver"));
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg(format!("--secure-port={port}"))
        .arg(file("tls-cert-file", &certificates.join(format!("{certificate}.crt"))))
        .arg(file("tls-private-key-file", &certificates.join(format!("{certificate}.key"))))
        .arg(file("client-ca-file", &certificates.join("authority.crt")))
        .arg(file("service-account-key-file", &certificates.join("service-accounts.crt")))
        .arg(file("service-account-signing-key-file", &certificates.join("service-accounts.key")))
        .args(["--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=RBAC"])
        .args(["--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged"])
        .arg(file("audit-policy-file", &folder.join("audit-policy.yaml")))
        .arg(file("audit-log-path", &folder.join("audit.log")));
    command
}
