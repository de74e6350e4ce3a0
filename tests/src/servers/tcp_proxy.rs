//! What stands between a program and a server, and is slow or fails as networks do.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Most bytes in one piece.
const PIECE: usize = 64 * 1024;

/// Pieces on their way in one direction of a connection.
const UNDER_WAY: usize = 256;

/// How the network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// What is sent arrives at once.
    Sound,
    /// What is sent arrives so much later, in either direction.
    Slow(Duration),
    /// Nothing arrives, and nobody is told. What was sent arrives later, as of a network that loses packets: they are sent again.
    Silent,
    /// Connections end, and so does each new one.
    Refusing,
}

/// A proxy on loopback that passes bytes on; it ends when dropped, and all its connections with it.
pub struct TcpProxy {
    port: u16,
    state: watch::Sender<State>,
    task: JoinHandle<()>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    network: Network,
    /// The port of the server.
    server: u16,
    /// How often all connections were ended.
    ended: u32,
}

impl TcpProxy {
    /// A proxy of the server on this port of loopback.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(server: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (state, seen) = watch::channel(State { network: Network::Sound, server, ended: 0 });
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((near, _)) = listener.accept().await else { continue };
                while connections.try_join_next().is_some() {}
                let State { network, server, .. } = *seen.borrow();
                if network != Network::Refusing {
                    connections.spawn(connect(near, server, seen.clone()));
                }
            }
        });
        Ok(Self { port, state, task })
    }

    /// Its address, as that of a server of Kubernetes.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// From now on the network is so.
    pub fn is(&self, network: Network) {
        self.state.send_modify(|state| {
            state.network = network;
            state.ended += u32::from(network == Network::Refusing);
        });
    }

    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leads to the server on this port from now on. Connections to the one of before end.
    pub fn lead_to(&self, server: u16) {
        self.state.send_modify(|state| {
            state.server = server;
            state.ended += 1;
        });
    }

    /// Ends all connections. New ones can be made.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.ended += 1);
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One connection, for as long as it lasts.
async fn connect(near: TcpStream, server: u16, mut state: watch::Receiver<State>) {
    let ended = state.borrow().ended;
    let seen = state.clone();
    let pass = async move {
        let far = TcpStream::connect(("127.0.0.1", server)).await?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let (near, far) = (near.into_split(), far.into_split());
        tokio::try_join!(carry(near.0, far.1, seen.clone()), carry(far.0, near.1, seen))
    };
    let cut = async move {
        let _ = state.wait_for(|state| state.ended != ended).await;
    };
    // However it ends, both sides see that it has.
    tokio::select! {
        _ = pass => {}
        () = cut => {}
    }
}

/// One direction of a connection.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
) -> std::io::Result<()> {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let take = async move {
        loop {
            let mut piece = Vec::with_capacity(PIECE);
            // Whoever gives up on the other side ends this one.
            if from.read_buf(&mut piece).await? == 0 || sender.send((Instant::now(), piece)).await.is_err() {
                return Ok(());
            }
        }
    };
    let give = async move {
        while let Some((sent, piece)) = pieces.recv().await {
            let network = state.wait_for(|state| state.network != Network::Silent).await.map(|state| state.network);
            if let Ok(Network::Slow(delay)) = network {
                sleep_until(sent + delay).await;
            }
            to.write_all(&piece).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(take, give).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(150);

    /// A proxy of a server that says what it hears.
    async fn proxy() -> TcpProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let (mut read, mut write) = socket.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        TcpProxy::start(port).await.unwrap()
    }

    async fn said(socket: &mut TcpStream, word: &[u8]) -> std::io::Result<()> {
        socket.write_all(word).await?;
        heard(socket, word).await
    }

    async fn heard(socket: &mut TcpStream, word: &[u8]) -> std::io::Result<()> {
        let mut heard = vec![0; word.len()];
        tokio::time::timeout(crate::waiting::PATIENCE, socket.read_exact(&mut heard)).await??;
        assert_eq!(heard, word);
        Ok(())
    }

    #[tokio::test]
    async fn bytes_arrive_as_the_network_is() {
        let proxy = proxy().await;
        let connected = async || TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
        let mut socket = connected().await;
        said(&mut socket, b"sound").await.unwrap();

        proxy.is(Network::Slow(SHORT));
        let start = Instant::now();
        said(&mut socket, b"slow").await.unwrap();
        assert!(start.elapsed() >= 2 * SHORT, "{:?}", start.elapsed());

        proxy.is(Network::Silent);
        socket.write_all(b"silent").await.unwrap();
        assert!(tokio::time::timeout(SHORT, socket.read_u8()).await.is_err());
        proxy.is(Network::Sound);
        heard(&mut socket, b"silent").await.unwrap();

        proxy.cut();
        said(&mut socket, b"cut").await.unwrap_err();
        let mut socket = connected().await;
        said(&mut socket, b"new").await.unwrap();

        proxy.is(Network::Refusing);
        said(&mut socket, b"ended").await.unwrap_err();
        said(&mut connected().await, b"refused").await.unwrap_err();
        proxy.is(Network::Sound);
        said(&mut connected().await, b"sound").await.unwrap();
    }
}
