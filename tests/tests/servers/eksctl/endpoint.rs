//! The endpoint of a cluster of EKS: a real API server behind it, whose version is what EKS says that it is.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tests::servers::ApiServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// What a request may have before its body.
const HEAD: usize = 64 << 10;

/// The endpoint; it ends when dropped.
pub struct Endpoint {
    kubeconfig: PathBuf,
    version: Arc<Mutex<String>>,
    task: JoinHandle<()>,
}

impl Endpoint {
    /// An endpoint of a server that says it is of this version.
    pub async fn start(server: &ApiServer, folder: &Path, version: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let kubeconfig = folder.join("eks.kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\n\
             users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
            listener.local_addr()?
        );
        std::fs::write(&kubeconfig, text)?;
        let identity = server.authority().client("admin", "system:masters")?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(server.authority().certificate().as_bytes())?)?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes())?],
            PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?,
        )?;
        let (connector, port) = (TlsConnector::from(Arc::new(config)), server.port());
        let version = Arc::new(Mutex::new(version.to_owned()));
        let said = Arc::clone(&version);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (connector, said) = (connector.clone(), Arc::clone(&said));
                // A connection that comes to nothing is asked for again.
                tokio::spawn(async move { serve(client, &connector, port, &said).await.ok() });
            }
        });
        Ok(Self { kubeconfig, version, task })
    }

    /// Leads to it.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The minor that it is of.
    pub fn minor(&self) -> String {
        let version = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        version.trim_start_matches('v').splitn(3, '.').take(2).collect::<Vec<_>>().join(".")
    }

    /// EKS has raised it.
    pub fn raise(&self, version: &str) {
        version.clone_into(&mut self.version.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One request, and the answer of the server or its version.
async fn serve(mut client: TcpStream, connector: &TlsConnector, port: u16, said: &Mutex<String>) -> anyhow::Result<()> {
    let mut head = Vec::new();
    let end = loop {
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        anyhow::ensure!(head.len() < HEAD && client.read_buf(&mut head).await? > 0, "no request");
    };
    if head.starts_with(b"GET /version") {
        let version = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let body = format!("{{\"major\":\"1\",\"minor\":\"0\",\"gitVersion\":\"{version}\"}}");
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        client.write_all(answer.as_bytes()).await?;
        return Ok(client.shutdown().await?);
    }
    // Each request has a connection of its own: none after the first is missed.
    let line = head.windows(2).position(|window| window == b"\r\n").filter(|line| *line <= end).context("no line")?;
    let server = TcpStream::connect(("127.0.0.1", port)).await?;
    let mut server = connector.connect(ServerName::try_from("127.0.0.1")?, server).await?;
    server.write_all(&head[..line]).await?;
    server.write_all(b"\r\nConnection: close").await?;
    server.write_all(&head[line..]).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
