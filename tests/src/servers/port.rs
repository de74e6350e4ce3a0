//! Ports of servers that are told theirs on the command line.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::Context as _;

/// Below what kernels give to outgoing connections and to whoever asks for any port (from 32768), above the fixed ports of Cluster API's
/// managers, and beside those of its machines in memory (20000–24000).
const FIRST: u16 = 10_000;
const COUNT: u16 = 10_000;

/// How many were given by this process. It begins anywhere, because others may begin at the same time.
static GIVEN: AtomicU16 = AtomicU16::new(0);

/// A port on loopback that nobody listens on, and that is given to nobody else in this process.
///
/// # Errors
/// When there is none.
pub(super) fn free_port() -> anyhow::Result<u16> {
    let start = u16::try_from(std::process::id() % u32::from(COUNT))?.wrapping_mul(17);
    (0..COUNT)
        .map(|_| FIRST + start.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .context("no port between 10000 and 19999 is free")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_port_is_given_twice_and_none_that_is_in_use() {
        // Another process may take one in between.
        let listen = |_| TcpListener::bind(("127.0.0.1", free_port().unwrap())).ok();
        let used: Vec<TcpListener> = (0..100).filter_map(listen).take(20).collect();
        assert_eq!(used.len(), 20);
        let mut seen: BTreeSet<u16> = used.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        for _ in 0..200 {
            let port = free_port().unwrap();
            assert!(seen.insert(port), "{port} was given before");
            assert!((10_000..20_000).contains(&port));
        }
    }
}
