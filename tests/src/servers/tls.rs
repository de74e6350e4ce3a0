//! A TLS server of the tests, as `axum` serves it, and TLS in front of a server that speaks none.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificate::Identity;

/// What a server with this identity says of itself.
pub(super) fn server_config(identity: &Identity) -> anyhow::Result<ServerConfig> {
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).context("no certificate")?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).context("no key")?;
    Ok(ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?)
}

/// TLS in front of a server on loopback; it ends when dropped.
pub struct TlsFront {
    port: u16,
    task: JoinHandle<()>,
}

impl TlsFront {
    /// In front of the server on this port, as whoever the identity says.
    ///
    /// # Errors
    /// When it cannot listen, or the identity is none.
    pub async fn start(server: u16, identity: &Identity) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let acceptor = TlsAcceptor::from(Arc::new(server_config(identity)?));
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((near, _)) = listener.accept().await else { continue };
                while connections.try_join_next().is_some() {}
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    let mut near = acceptor.accept(near).await?;
                    let mut far = TcpStream::connect(("127.0.0.1", server)).await?;
                    tokio::io::copy_bidirectional(&mut near, &mut far).await
                });
            }
        });
        Ok(Self { port, task })
    }

    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connections that have agreed on their keys.
pub(super) struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl TlsListener {
    /// The connections that come to `listener`.
    pub(super) fn new(listener: TcpListener, config: ServerConfig) -> Self {
        Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            // A connection that comes to nothing is the other side's affair.
            if let Ok((stream, address)) = self.listener.accept().await
                && let Ok(stream) = self.acceptor.accept(stream).await
            {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
