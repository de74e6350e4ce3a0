//! What stands between a program and a server, and is slow or fails as networks do.

use std::io::{Error, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::port::free_port;

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
    /// Connections end, and nobody listens: the machine itself refuses new ones.
    Closed,
    /// Connections are accepted and nothing comes through, not even later: those of this time stay as they are when it is over, and nobody is
    /// told.
    HalfOpen,
    /// What is sent arrives in pieces of so many bytes, with this pause after each.
    Trickling(usize, Duration),
    /// A connection ends when so many bytes have arrived this way.
    Cut(Way, usize),
}

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From whoever connects to the server: of a request that is cut, the server gets a part.
    Request,
    /// Back: the server has got the request, and its answer is cut.
    Answer,
}

/// A proxy on loopback that passes bytes on; it ends when dropped, and all its connections with it.
pub struct TcpProxy {
    port: u16,
    state: watch::Sender<State>,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<std::io::Result<()>>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    network: Network,
    /// The port of the server.
    server: u16,
    /// How often all connections were ended.
    ended: u32,
    /// How often all connections were left half open.
    lost: u32,
}

impl TcpProxy {
    /// A proxy of the server on this port of loopback.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(server: u16) -> anyhow::Result<Self> {
        // No connection that anybody makes has this port meanwhile, when nobody listens for a while.
        let port = free_port()?;
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let (state, seen) = watch::channel(State { network: Network::Sound, server, ended: 0, lost: 0 });
        let connections = Arc::<AtomicUsize>::default();
        let task = tokio::spawn(accept(listener, port, seen, Arc::clone(&connections)));
        Ok(Self { port, state, connections, task })
    }

    /// How many connections were made so far; those that the machine refused are not seen.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
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
            state.ended += u32::from(matches!(network, Network::Refusing | Network::Closed));
            state.lost += u32::from(network == Network::HalfOpen);
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

/// Accepts connections, and listens anew where nobody was to listen for a while.
async fn accept(
    mut listener: TcpListener,
    port: u16,
    mut seen: watch::Receiver<State>,
    made: Arc<AtomicUsize>,
) -> std::io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        if seen.borrow_and_update().network == Network::Closed {
            drop(listener);
            if seen.wait_for(|state| state.network != Network::Closed).await.is_err() {
                return Ok(());
            }
            listener = TcpListener::bind(("127.0.0.1", port)).await?;
        }
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            changed = seen.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return Ok(()),
            },
        };
        let Ok((near, _)) = accepted else { continue };
        made.fetch_add(1, Ordering::Relaxed);
        while connections.try_join_next().is_some() {}
        let State { network, server, .. } = *seen.borrow();
        if !matches!(network, Network::Refusing | Network::Closed) {
            connections.spawn(connect(near, server, seen.clone()));
        }
    }
}

/// One connection, for as long as it lasts.
async fn connect(near: TcpStream, server: u16, mut state: watch::Receiver<State>) {
    let State { ended, lost, network, .. } = *state.borrow();
    let (seen, mut looked) = (state.clone(), state.clone());
    let pass = async {
        let far = TcpStream::connect(("127.0.0.1", server)).await?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let (near, far) = (near.into_split(), far.into_split());
        let (asked, answered) = ((near.0, far.1), (far.0, near.1));
        let carried =
            async { tokio::try_join!(carry(asked, Way::Request, seen.clone()), carry(answered, Way::Answer, seen)) };
        let mut carried = pin!(carried);
        let is_lost = async {
            if network != Network::HalfOpen {
                let _ = looked.wait_for(|state| state.lost != lost).await;
            }
        };
        // Nobody reads or writes it any more, and nobody ends it.
        tokio::select! {
            biased;
            () = is_lost => std::future::pending().await,
            carried = &mut carried => carried.map(drop),
        }
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
    (mut from, mut to): (OwnedReadHalf, OwnedWriteHalf),
    way: Way,
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
        // Since the network cuts connections, for as long as it does.
        let mut arrived = 0;
        while let Some((sent, piece)) = pieces.recv().await {
            let network = state.wait_for(|state| state.network != Network::Silent).await.map(|state| state.network);
            match network {
                Ok(Network::Slow(delay)) => sleep_until(sent + delay).await,
                Ok(Network::Cut(cut, after)) if cut == way => {
                    let part = piece.len().min(after.saturating_sub(arrived));
                    to.write_all(piece.get(..part).unwrap_or_default()).await?;
                    arrived += part;
                    if arrived >= after {
                        return Err(Error::from(ErrorKind::ConnectionAborted));
                    }
                    continue;
                }
                _ => {}
            }
            arrived = 0;
            give_in_pieces(&mut to, &piece, &state).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(take, give).map(drop)
}

/// What is left of a piece goes at once as soon as the network does not let it trickle any more.
async fn give_in_pieces(to: &mut OwnedWriteHalf, piece: &[u8], state: &watch::Receiver<State>) -> std::io::Result<()> {
    let mut left = piece;
    while !left.is_empty() {
        let network = state.borrow().network;
        let Network::Trickling(bytes, pause) = network else { break };
        let (part, rest) = left.split_at(bytes.clamp(1, left.len()));
        to.write_all(part).await?;
        // The pause is what trickling means.
        tokio::time::sleep(pause).await;
        left = rest;
    }
    to.write_all(left).await
}

#[cfg(test)]
mod tests;
